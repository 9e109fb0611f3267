"""How long work says how far it is: a function that it calls with what it does, how much is done, how much there is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], object]


def silent(what: str, done: int, total: int) -> None:
    """Says nothing."""
