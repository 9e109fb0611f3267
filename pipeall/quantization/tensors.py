"""A method of choosing levels for each tensor: the one by which the answers err less, others staying as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .calibrate import Progress
from .levels import METHODS, Levels
from .notes import Notes
from .places import decisive
from .recipe import Recipe

ALIKE = 0.02  # scales that differ by less, of the larger, are not tried


def tensor_by_tensor(
    start: Recipe,
    error: Callable[[Recipe], float],
    check: Callable[[Recipe], float],
    progress: Progress,
    notes: Notes,
) -> Recipe:
    """The recipe with other methods for some tensors, in the order of the network, wherever one lowers both errors.

    error  of the answers by a recipe
    check  the same on other photos: of many trials some lower an error by chance
    """
    found = start.places()
    whole = decisive(start.graph, found)
    free = [(stand_in, names) for stand_in, names in found.sources.items() if stand_in not in whole]
    best, least = start, notes.number("error of one method", lambda: error(start))
    least_checked = notes.number("error of one method, checked", lambda: check(start))
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
            off = notes.number(part, lambda choice=choice: error(choice))
            if off >= least:
                continue
            checked = notes.number(f"{part}, checked", lambda choice=choice: check(choice))
            if checked < least_checked:
                best, least, least_checked = choice, off, checked
    progress("tensors", len(free), len(free))
    return best


def _alike(one: Levels, other: Levels) -> bool:
    return one.low == other.low and abs(one.scale - other.scale) < ALIKE * max(one.scale, other.scale)
