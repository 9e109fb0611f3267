"""Groups of commands: one that loads a command when it is used, and one with a default command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

DEFAULT = "model"  # the sub-command that is meant where another word stands in place of one


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


class DefaultGroup(click.Group):
    """A group in which ``pipeall GROUP WORD`` is short for ``pipeall GROUP model WORD``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = (*self.commands, *ctx.help_option_names)
        missing = not args and not ctx.resilient_parsing  # while a word is completed, nothing is missing yet
        if missing or (args and args[0] not in names):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Those of the short form, then the sub-commands."""
        self.commands[DEFAULT].format_options(ctx, formatter)
        formatter.write_paragraph()
        others = ((name, command.help.splitlines()[0]) for name, command in self.commands.items() if name != DEFAULT)
        write_commands(formatter, "Commands", others)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        argument, *_ = self.commands[DEFAULT].params
        return [*super().shell_complete(ctx, incomplete), *argument.shell_complete(ctx, incomplete)]


def write_commands(formatter: click.HelpFormatter, title: str, commands: Iterable[tuple[str, str]]) -> None:
    formatter.write(f"{title}:\n")
    for name, first in commands:
        formatter.write(f"  {name:<9} {first}\n")
