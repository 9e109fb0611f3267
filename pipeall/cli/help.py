"""How groups list their commands: the first line of each, whole, under a title."""

from __future__ import annotations

from collections.abc import Iterable

import click


def write_commands(formatter: click.HelpFormatter, title: str, commands: Iterable[click.Command]) -> None:
    formatter.write(f"{title}:\n")
    for command in commands:
        formatter.write(f"  {command.name:<9} {(command.help or '').partition(chr(10))[0]}\n")
