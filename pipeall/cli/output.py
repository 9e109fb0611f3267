"""What commands print: tables and text, or one JSON document; progress on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..pipeline.devices.component import Component

MODES = {"alone": "alone", "peak": "Peak", "parallel": "Parallel", "pipe-all": "Pipe-All"}  # in JSON: in text
LONG = 300  # rows of a table
WIDE = 10_000  # columns of a file or a pipe: nothing is wrapped there

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def _in_folder(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Said at once, not after minutes of measuring."""
    if value is not None and not (value and Path(value).parent.is_dir()):
        raise click.BadParameter(f"expected a file in a folder that exists, got {value!r}", context, option)
    return value


def _finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """A range lets NaN and infinity through."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}", context, option)
    return value


def file_option(*names: str, help: str) -> Callable:
    """The name of a file to write."""
    return click.option(*names, metavar="FILE", callback=_in_folder, help=help)


class Bytes(click.ParamType):
    """A size of memory: "8GB" is 8 x 10^9, "8GiB" 8 x 2^30 bytes."""

    name = "size"
    UNITS = {
        "b": 1,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "tb": 1e12,
        "kib": 2**10,
        "mib": 2**20,
        "gib": 2**30,
        "tib": 2**40,
    }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", str(value).strip().lower())
        if not found or found[2] not in self.UNITS or not float(found[1]):
            self.fail(f"expected a size such as 8GB, 512MB or 4GiB, got {value!r}", param, ctx)
        return float(found[1]) * self.UNITS[found[2]]


def positive_option(*names: str, help: str, default: float | None = None) -> Callable:
    """A finite number above 0."""
    above = click.FloatRange(min=0, min_open=True)
    shown = default is not None
    return click.option(*names, type=above, callback=_finite, default=default, show_default=shown, help=help)


def print_json(kind: str, **content: Any) -> None:
    """One document, with its format such as "pipeall.run/1" first."""
    click.echo(json.dumps({"format": f"pipeall.{kind}/1", **content}, indent=1, allow_nan=False))


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table under a title. None is shown as "-"; columns whose heading starts with ">" are set to the right."""
    rows = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    if len(rows) > LONG:
        _print_plain(title, headings, rows)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        right = heading.startswith(">")
        table.add_column(heading.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else WIDE
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    console.print(title, soft_wrap=True)
    console.print(table)
    console.print()


def _print_plain(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The same without folding long lines: rich takes a millisecond for each row."""
    names = [heading.removeprefix(">") for heading in headings]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    align = [str.rjust if heading.startswith(">") else str.ljust for heading in headings]
    click.echo(title)
    for row in (names, ["─" * width for width in widths], *rows):
        click.echo("   ".join(a(cell, width) for a, cell, width in zip(align, row, widths, strict=True)).rstrip())
    click.echo()


def shape_text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def component_text(component: Component) -> str:
    """The component's name, marked where a CPU plays the GPU."""
    return f"{component.name} (CPU stand-in)" if component.stand_in else component.name


def progress() -> Progress:
    """A bar with a time estimate on stderr; silent unless that is a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
        disable=not sys.stderr.isatty(),  # a console may be told to take any file for a terminal
    )
