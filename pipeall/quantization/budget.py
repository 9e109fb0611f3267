"""Which layers stay floats: each layer's cost in accuracy, and the fewest that keep a network within a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from ..errors import ArgumentError
from ..graph.ir import Graph
from .calibrate import Progress, at_ends, outputs_of
from .compare import Compared, compare
from .notes import Notes
from .photos import Arrays
from .places import integer_nodes, units
from .recipe import Recipe


def sensitivities(
    recipe: Recipe, reference: Graph, frames: Sequence[Arrays], progress: Progress, notes: Notes
) -> dict[str, float]:
    """By layer, the error of the answers where it and its activations alone compute with integers."""
    layers = {node.name: units(recipe.graph)[node.name] for node in recipe.places().layers}
    recipe, reference = replace(recipe, graph=at_ends(recipe.graph)), at_ends(reference)
    every = frozenset(integer_nodes(recipe.graph))

    @cache
    def expected() -> list[Arrays]:
        return list(outputs_of(reference, frames, "reference", progress))

    def error(unit: frozenset[str]) -> float:
        alone = replace(recipe, kept=every - unit).made()
        return compare(reference, expected(), outputs_of(alone, frames, "", _silent)).error

    errors = {}
    for done, (name, unit) in enumerate(layers.items()):
        progress("layers", done, len(layers))
        errors[name] = notes.number(f"cost of {name}", lambda unit=unit: error(unit))
    progress("layers", len(layers), len(layers))
    return errors


def within(recipe: Recipe, errors: dict[str, float], max_drop: float, compared: Callable[[Recipe], Compared]) -> Recipe:
    """The recipe with the fewest layers in floats, the costliest first, that loses at most ``max_drop``.

    It is looked for by halving: more layers in floats are taken to lose less. Raises ArgumentError where all layers in
    floats lose more.
    """
    order, unit = sorted(errors, key=errors.__getitem__, reverse=True), units(recipe.graph)

    def kept(count: int) -> Recipe:
        return replace(recipe, kept=recipe.kept.union(*(unit[name] for name in order[:count])))

    least, most = 0, len(order)
    drop = compared(kept(most)).drop
    if drop > max_drop:
        raise ArgumentError(
            f"max_drop: expected {drop:.4g} at least, which all layers in floats lose, got {max_drop:g}"
        )
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if compared(kept(middle)).drop <= max_drop else (middle, most)
    return kept(most)


def _silent(what: str, done: int, total: int) -> None:
    pass
