"""What commands print beside tables: one JSON document, names for people, and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..pipeline.devices.component import Component
from .tables import plain

MODES = {"alone": "alone", "peak": "Peak", "parallel": "Parallel", "pipe-all": "Pipe-All"}  # in JSON: in text


def print_json(kind: str, **content: Any) -> None:
    """One document, with its format such as "pipeall.plan/1" first."""
    click.echo(json.dumps({"format": f"pipeall.{kind}/1", **content}, indent=1, allow_nan=False))


def print_json_line(kind: str, **content: Any) -> None:
    """The same in one line, where a command prints many."""
    click.echo(json.dumps({"format": f"pipeall.{kind}/1", **content}, allow_nan=False))


def shape_text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def component_text(component: Component) -> str:
    """The component's name, marked where a CPU plays the GPU."""
    return f"{component.name} (CPU stand-in)" if component.stand_in else component.name


class _Described(ProgressColumn):
    """What a task is called: names come out of files."""

    def render(self, task: Task) -> Text:
        return Text(plain(task.description))


def progress(quiet: bool = False) -> Progress:
    """A bar with a time estimate on stderr; silent unless that is a terminal, or where it shall be ``quiet``."""
    return Progress(
        _Described(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,  # to stderr
        disable=quiet or not sys.stderr.isatty(),  # a console may be told to take any file for a terminal
    )
