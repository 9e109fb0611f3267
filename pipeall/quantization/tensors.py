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


Error = Callable[[Recipe], float]


def tensor_by_tensor(start: Recipe, error: Error, glance: Error, progress: Progress, notes: Notes) -> Recipe:
    """The recipe with other methods for some tensors, in the order of the network, wherever one lowers the error.

    error   of the answers by a recipe
    glance  the same on a few photos: what raises it there is not tried on more
    """
    found = start.places()
    whole = decisive(start.graph, found)
    free = [(stand_in, names) for stand_in, names in found.sources.items() if stand_in not in whole]
    best, least = start, notes.number("error of one method", lambda: error(start))
    few = notes.number("error of one method at a glance", lambda: glance(start))
    for done, (stand_in, names) in enumerate(free):
        progress("tensors", done, len(free))
        tried = [best.levels(found)[stand_in]]
        for method in METHODS:
            choice = replace(best, own={**best.own, names: method})
            levels = choice.levels(found)[stand_in]
            if any(_alike(levels, other) for other in tried):
                continue
            tried.append(levels)
            part = f"error of {names[0]} by {method}"
            seen = notes.number(f"{part} at a glance", lambda choice=choice: glance(choice))
            if seen < few and (off := notes.number(part, lambda choice=choice: error(choice))) < least:
                best, least, few = choice, off, seen
    progress("tensors", len(free), len(free))
    return best


def _alike(one: Levels, other: Levels) -> bool:
    return one.low == other.low and abs(one.scale - other.scale) < ALIKE * max(one.scale, other.scale)
