"""A network and what its tensors hold: all that quantised networks of it are made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from ..files import naming
from ..graph.ir import Graph, Node
from ..graph.passes.rewrite import rewrite
from ..graph.pointwise import UNARY
from .assemble import integer_weights, quantised
from .calibrate import Progress, mean_errors, observed, reaches
from .equalise import Channels, equalised
from .levels import METHODS, Levels, mse
from .notes import Notes
from .observe import Observed
from .photos import Arrays
from .places import Places, decisive, only_reader, places
from .rounding import rounded

BEHIND = "mse behind"  # the activation that alone reads a tensor


@dataclass(frozen=True)
class Recipe:
    """What is chosen for a network, and what it is chosen by.

    graph    of floats, without residuals in its convolutions
    seen     what every tensor holds that may be put on levels
    method   of choosing levels, a key of ``METHODS``
    own      methods of tensors that have others, by the names of those that share levels
    kept     names of the nodes that compute with floats
    learned  weights on levels, by the layer's name: of others the nearest are taken
    shifts   by how much layers are too large in the mean, by name: taken from their biases
    stretched  whether its channels were equalised
    known    levels that were chosen already: of recipes that differ in what is kept alone, they are the same
    """

    graph: Graph
    seen: dict[str, Observed]
    stretched: bool
    method: str = "minmax"
    own: dict[tuple[str, ...], str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    learned: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    shifts: dict[str, np.ndarray] = field(default_factory=dict)
    known: dict[tuple[str, tuple[str, ...]], Levels] = field(default_factory=dict, repr=False)

    def places(self) -> Places:
        return places(self.graph, self.kept)

    def levels(self, found: Places) -> dict[str, Levels]:
        """By stand-in. What leaves the network or goes into a softmax is not clipped; what an activation alone reads is
        put where that makes the least error of it."""
        chosen = {}
        for stand_in, how in self.methods(found).items():
            names = found.sources[stand_in]
            if (how, names) not in self.known:
                self.known[how, names] = self._levels(names, how)
            chosen[stand_in] = self.known[how, names]
        return chosen

    def methods(self, found: Places) -> dict[str, str]:
        """By stand-in, a key of ``METHODS`` or ``BEHIND``."""
        whole, chosen = decisive(self.graph, found), {}
        for stand_in, names in found.sources.items():
            usual = BEHIND if self._activation(names) else self.method
            chosen[stand_in] = "minmax" if stand_in in whole else self.own.get(names, usual)
        return chosen

    def _activation(self, names: tuple[str, ...]) -> Node | None:
        return only_reader(self.graph, names[0]) if len(names) == 1 else None

    def _levels(self, names: tuple[str, ...], how: str) -> Levels:
        seen = deepcopy(self.seen[names[0]])
        for name in names[1:]:
            seen.merge(self.seen[name])
        activation = self._activation(names)
        if how != BEHIND or activation is None:
            return METHODS[how](seen)
        entry, attrs = UNARY[activation.op], activation.attrs
        values = [np.float64(attrs[name]) for name in entry.parameters]
        return mse(seen, lambda x: entry.compute(x, *values))

    def errors(self, frames: Sequence[Arrays], progress: Progress) -> dict[str, np.ndarray]:
        """By how much its layers are too large in the mean."""
        found = self.places()
        levels = self.levels(found)
        weights = integer_weights(self.graph, found, levels, self.learned)
        by_constant = {node.inputs[1]: weights[node.name][0] for node in found.layers}
        return mean_errors(self.graph, found, levels, by_constant, frames, progress) if found.layers else {}

    def rounded(self, frames: Sequence[Arrays], progress: Progress, notes: Notes) -> dict[str, np.ndarray]:
        """Its weights on levels, by the layer's name, rounded by what that does to the layer's outputs."""
        found = self.places()
        levels = self.levels(found)
        scales = {name: scales for name, (_, scales) in integer_weights(self.graph, found, levels).items()}
        return rounded(self.graph, found, levels, scales, frames, progress, notes)

    def made(self) -> Graph:
        """The quantised network."""
        found = self.places()
        levels = self.levels(found)
        weights = integer_weights(self.graph, found, levels, self.learned)
        return rewrite(quantised(self.graph, found, levels, weights, self.shifts))


def recipe(
    graph: Graph, frames: Sequence[Arrays], stretch: bool, progress: Progress, notes: Notes | None = None
) -> Recipe | None:
    """A network and what its tensors hold; equalised where ``stretch``, and None where there is nothing to equalise."""
    notes = notes or Notes()
    if stretch:
        pairs = Channels(graph).pairs()
        if not pairs:
            return None
        sizes = {node.output: graph.tensors[node.output].shape[1] for node, _ in pairs}
        reach = notes.vectors("channels", sizes, lambda: reaches(graph, list(sizes), frames, progress))
        graph = equalised(graph, pairs, reach)
    part = "values, equalised" if stretch else "values"
    return Recipe(graph, values(graph, places(graph).put, frames, part, progress, notes), stretch)


def values(
    graph: Graph, names: Collection[str], frames: Sequence[Arrays], part: str, progress: Progress, notes: Notes
) -> dict[str, Observed]:
    """What these tensors hold, as a part of the notes."""
    sizes = {name: Observed.size(len(frames)) for name in names}

    def vectors() -> dict[str, np.ndarray]:
        return {name: seen.vector for name, seen in observed(graph, names, frames, progress).items()}

    found = notes.vectors(part, sizes, vectors)
    with naming(str(notes.path)):
        return {name: Observed.of(name, vector) for name, vector in found.items()}
