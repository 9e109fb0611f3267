"""A group whose commands are loaded when they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Lazy(NamedTuple):
    """A command that is not loaded yet: its module below ``pipeall.cli`` and the first line of its help."""

    module: str
    help: str

    def load(self) -> click.Command:
        """The function ``x`` of the module ``x_command``."""
        name = self.module.rpartition(".")[2].removesuffix("_command")
        return getattr(import_module(f"pipeall.cli.{self.module}"), name)


class LazyGroup(click.Group):
    """Loads a command when it is called, so that help and completion import nothing heavy."""

    def __init__(self, *names: Any, titles: Mapping[str, Mapping[str, Lazy]], **more: Any):
        """``titles``: the commands under each title of the help."""
        super().__init__(*names, **more)
        self.titles = titles
        self.lazy = {name: lazy for commands in titles.values() for name, lazy in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(dict.fromkeys([*self.lazy, *self.commands]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.lazy and cmd_name not in self.commands:
            from .options import check_values

            self.add_command(check_values(self.lazy[cmd_name].load()), cmd_name)
        return self.commands.get(cmd_name)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        for title, commands in self.titles.items():
            write_commands(formatter, title, ((name, lazy.help) for name, lazy in commands.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self.lazy[name].help if name in self.lazy else None) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)


def write_commands(formatter: click.HelpFormatter, title: str, commands: Iterable[tuple[str, str]]) -> None:
    formatter.write(f"{title}:\n")
    for name, first in commands:
        formatter.write(f"  {name:<9} {first}\n")
