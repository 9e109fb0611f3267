"""How groups list their commands: the first line of each, whole, under a title."""

from __future__ import annotations

from collections.abc import Iterable

import click


def write_commands(formatter: click.HelpFormatter, title: str, commands: Iterable[click.Command]) -> None:
    formatter.write(f"{title}:\n")
    for command in commands:
        first, *_ = command.help.splitlines()
        formatter.write(f"  {command.name:<9} {first}\n")
