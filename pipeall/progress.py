"""Progress of long work: a function that it calls with the name of the work, the amount done, and the whole amount."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], object]


def silent(what: str, done: int, total: int) -> None:
    """Says nothing."""
