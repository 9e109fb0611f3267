"""What a device has that runs files which a tool makes of slices: ranges to plan with, and the files of a stage."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...errors import DeviceError
from ...graph.ir import Graph
from ...steps import Lowered
from ..planning.ranges import Range, Ranges
from .network_parts import Part, network_parts
from .network_slices import Slice, Slices


class SliceFiles:
    """The slices in folders that have a file beside them as the tool makes it: of the same name, with ``suffix``.

    Raises ArgumentError naming a manifest that cannot be read, and its entry.
    """

    def __init__(self, folders: Sequence[Path], suffix: str):
        self.where, self.suffix = os.pathsep.join(map(str, folders)), suffix
        self._known = [Slices.load(folder) for folder in folders]

    def file(self, one: Slice) -> Path:
        return one.file.with_suffix(self.suffix)

    def ranges(self, graph: Graph) -> Ranges | None:
        """What stages of a network may be; None where each group has a file: any."""
        found = self._ranges(graph)
        if found >= {(group, group + 1) for group in range(len(graph.groups))}:
            return None
        return Ranges.of(found, self.where)

    def of(self, lowered: Lowered, by_group: bool = False) -> list[tuple[Part, Slice | None]]:
        """What a stage computes, and the slice of each; None where a part only copies.

        As few as there are; ``by_group``: one of each group where all have one, so that groups can be timed. Raises
        DeviceError naming the first node that no file computes.
        """
        graph = lowered.source[0]
        groups = network_parts(lowered, by_group=True)
        few = [network_parts(lowered, at=cuts) for cuts in self._fewest(graph)]
        found = []
        for parts in [groups, *few] if by_group else [*few, groups]:
            found = [self._find(part) for part in parts]
            if all(one or not part.graph.nodes for part, one in zip(parts, found, strict=True)):
                return list(zip(parts, found, strict=True))
        name = next(part.name for part, one in zip(parts, found, strict=True) if part.graph.nodes and not one)
        raise DeviceError(f"{name}: expected a {self.suffix} file of its slice in {self.where}, got none")

    def _find(self, part: Part) -> Slice | None:
        if not part.graph.nodes:
            return None
        found = (known.find(part.graph, self._ready) for known in self._known)
        return next(filter(None, found), None)

    def _ready(self, one: Slice) -> bool:
        return self.file(one).exists()

    def _ranges(self, graph: Graph) -> set[Range]:
        return {ends for known in self._known for ends in known.ranges(graph, self._ready)}

    def _fewest(self, graph: Graph) -> list[list[int]]:
        """The cuts between the fewest files that are all groups one after the other; empty where there are none."""
        ways: dict[int, list[int]] = {0: [0]}
        every = sorted(self._ranges(graph))
        for first, last in every:
            if first in ways and len(ways[first]) < len(ways.get(last, range(len(graph.groups) + 2))):
                ways[last] = [*ways[first], last]
        return [ways[len(graph.groups)][1:-1]] if len(graph.groups) in ways else []
