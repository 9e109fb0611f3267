"""What commands print beside tables: one JSON document, names for people, and progress on stderr."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

from ..pipeline.devices.device import Component
from .tables import plain

EVERY_S = 10.0  # between two lines of progress where there is no terminal


def print_json(kind: str, **content: Any) -> None:
    """One document, with its format such as "pipeall.plan/1" first."""
    click.echo(json.dumps({"format": f"pipeall.{kind}/1", **content}, indent=1, allow_nan=False))


def print_json_line(kind: str, **content: Any) -> None:
    """The same in one line, where a command prints many."""
    click.echo(json_line(kind, **content))


def json_line(kind: str, **content: Any) -> str:
    """A line of JSON, its format first."""
    return json.dumps({"format": f"pipeall.{kind}/1", **content}, allow_nan=False)


def tell(error: str) -> None:
    """Reports an error after which work goes on."""
    click.echo(f"error: {plain(error)}", err=True)


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
    """A bar with a time estimate, or a line every ``EVERY_S`` where there is no terminal; or ``quiet``. It goes to
    stderr, so that it is no part of what --json prints."""
    if not quiet and not sys.stderr.isatty():  # a console may be told to take any file for a terminal
        return ProgressLines()
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
        redirect_stdout=False,  # to stderr
        disable=quiet,
    )


@contextmanager
def tracked(bar: Progress, name: str) -> Iterator[Callable[[str, int, int], None]]:
    """A task of the bar while long work goes on: called with what is done, how much of it is, and how much there is."""
    task = bar.add_task(name, total=None)
    try:
        yield lambda text, done, total: bar.update(task, description=f"{name}: {text}", completed=done, total=total)
    finally:
        bar.remove_task(task)


def counted(bar: Progress) -> Callable[[str, int, int], None]:
    """A task of the bar for each thing that long work does: called with what is done, how much of how much."""
    tasks: dict[str, Any] = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total)
        bar.update(tasks[what], completed=done, total=total)

    return show


class ProgressLines(Progress):
    """For logs: each ``EVERY_S`` a line on stderr with what is under way, how much of it is done, and what is left."""

    def __init__(self) -> None:
        super().__init__(disable=True)  # no bar, but tasks are counted
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._report, name="pipeall-progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _report(self) -> None:
        begin = time.monotonic()
        while not self._ended.wait(EVERY_S):
            if text := "; ".join(_task_text(task) for task in self.tasks if task.visible and not task.finished):
                click.echo(f"{time.monotonic() - begin:.0f} s: {text}", err=True)


def _task_text(task: Task) -> str:
    if not task.total:
        return task.description
    left = "" if task.time_remaining is None else f", {task.time_remaining:.0f} s left"
    return f"{task.description} {task.completed:g}/{task.total:g}{left}"
