"""A group of commands, one of which is meant where none is named."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from .groups import write_commands
from .options import Command

DEFAULT = "model"  # the sub-command that is meant where another word stands in place of one


class DefaultGroup(click.Group):
    """A group in which ``pipeall GROUP WORD`` is short for ``pipeall GROUP model WORD``."""

    command_class = Command

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
