"""A method of choosing levels for each tensor: the one by which the answers err least, others staying as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .calibrate import Progress
from .levels import METHODS, Levels
from .notes import Notes
from .places import decisive
from .recipe import Recipe

ALIKE = 0.02  # scales that differ by less, of the larger, are not tried


def tensor_by_tensor(start: Recipe, error: Callable[[Recipe], float], progress: Progress, notes: Notes) -> Recipe:
    """The recipe with other methods for some tensors, in the order of the network, wherever one lowers the error.

    error  of the answers by a recipe
    """
    found = start.places()
    whole = decisive(start.graph, found)
    free = [(stand_in, names) for stand_in, names in found.sources.items() if stand_in not in whole]
    best, least = start, notes.number("error of one method", lambda: error(start))
    for done, (stand_in, names) in enumerate(free):
        progress("tensors", done, len(free))
        tried = [best.levels(found)[stand_in]]
        for method in METHODS:
            choice = replace(best, own={**best.own, names: method})
            levels = choice.levels(found)[stand_in]
            if any(_alike(levels, other) for other in tried):
                continue
            tried.append(levels)
            off = notes.number(f"error of {names[0]} by {method}", lambda choice=choice: error(choice))
            if off < least:
                best, least = choice, off
    progress("tensors", len(free), len(free))
    return best


def _alike(one: Levels, other: Levels) -> bool:
    return one.low == other.low and abs(one.scale - other.scale) < ALIKE * max(one.scale, other.scale)
