"""Slices: parts of a network as files of their own, for tools that compile for a device ahead of time.

A slice is what a stage computes, between real numbers or, where a quantized tensor crosses, between the integers
themselves. A tensor that only passes through the stage is none of its business: whoever runs the slice copies it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate, combinations, islice
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import ArgumentError
from ...files import JsonReader, naming, read_json
from ...graph.ir import Graph, Tensor
from ...graph.ops import macs
from ...graph.partition import subgraph
from ...graph.passes.dequantize import on_levels

MANIFEST = "manifest.json"
KIND = "slices"  # of the manifest's format
PARTS = 6  # of a network: slices begin and end where the fewest bytes cross in each


def slice_of(part: Graph) -> Graph:
    """A sub-graph as it is written: a network of what it reads and what it makes, in the model's layout."""
    made = {node.output for node in part.nodes}
    read = {name for node in part.nodes for name in node.inputs}
    inputs = tuple(tensor for tensor in part.inputs if tensor.name in read)
    leaving = {tensor.name: tensor for tensor in (*part.leaving, *part.leaves) if tensor.name in made}
    alone = {"receives": False, "transmits": False, "leaves": (), "lengths": {}}
    return on_levels(replace(part, inputs=inputs, outputs=tuple(leaving.values()), **alone))


def ranges_worth_having(graph: Graph) -> list[tuple[int, int]]:
    """Groups [first, last) that a device might be given: all between the two ends of the network and, in each sixth of
    its multiply-accumulates, the cut that the fewest bytes cross."""
    done = [*accumulate(sum(macs(node, graph) for node in group.nodes) for group in graph.groups)]
    ends = [bisect_left(done, done[-1] * part / PARTS) for part in range(PARTS + 1)]
    places = {0, len(graph.groups)}
    for first, last in zip(ends, ends[1:], strict=False):
        places |= {min(graph.cuts[first:last], key=lambda cut: cut.nbytes).index} if graph.cuts[first:last] else set()
    return list(combinations(sorted(places), 2))


class Slice(NamedTuple):
    """A slice on disk: groups [first, last) of a network, its file, and what it reads and makes, in this order."""

    first: int
    last: int
    file: Path
    weights: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Slices(NamedTuple):
    """The slices of a network in a folder, as its manifest says."""

    network: str
    groups: int
    slices: tuple[Slice, ...]

    @classmethod
    def load(cls, folder: str | Path) -> Slices:
        """Those of a folder that ``write_slices`` has filled. Raises ArgumentError naming the file and the entry."""
        path = Path(folder) / MANIFEST
        with naming(path):
            reader = JsonReader(read_json(path, KIND), str(path))
            groups = int(reader.number("groups", 1))
            slices = tuple(cls._slice(row, path, groups) for row in reader.rows("slices"))
            return cls(reader.word("network"), groups, slices)

    @staticmethod
    def _slice(row: JsonReader, path: Path, groups: int) -> Slice:
        first, last = row.sizes("groups", 2)
        if not 1 <= first <= last <= groups:
            raise row.fail("groups", f"numbers of groups from 1 to {groups}")
        file = row.word("file")
        if Path(file).name != file:
            raise row.fail("file", "a file beside the manifest")
        names = ([tensor.word("name") for tensor in row.rows(end)] for end in ("inputs", "outputs"))
        return Slice(first - 1, last, path.parent / file, row.word("weights"), *map(tuple, names))

    def ranges(self, graph: Graph, ready: Callable[[Slice], bool]) -> Iterator[tuple[int, int]]:
        """The groups [first, last) of a network that each slice computes which is ``ready``."""
        group_of = {node.output: place for place, group in enumerate(graph.groups) for node in group.nodes}
        for one in filter(ready, self.slices):
            if not group_of.keys() >= set(one.outputs):
                continue
            last = 1 + max(group_of[name] for name in one.outputs)
            behind = 1 + max((group_of.get(name, -1) for name in one.inputs), default=-1)
            parts = ((first, last) for first in range(behind, last))
            found = (ends for ends in parts if self.find(subgraph(graph, *ends), lambda other, one=one: other == one))
            yield from islice(found, 1)

    def find(self, part: Graph, ready: Callable[[Slice], bool] = lambda one: True) -> Slice | None:
        """The one that computes a sub-graph: it has the same inputs and outputs, in any order, and weights. None where
        none is that is ``ready``."""
        wanted = slice_of(part)
        ends = [{tensor.name for tensor in tensors} for tensors in (wanted.inputs, wanted.outputs)]
        alike = [one for one in self.slices if [set(one.inputs), set(one.outputs)] == ends and ready(one)]
        weights = weights_digest(wanted) if alike else None
        return next((one for one in alike if one.weights == weights), None)


def weights_digest(part: Graph) -> str:
    """Of the weights that a slice computes with: another of the same shapes, trained anew, is not mistaken for it."""
    from hashlib import sha256  # OpenSSL, for those alone who have slices

    digest = sha256()
    for name in sorted({name for node in part.nodes for name in node.inputs} & part.constants.keys()):
        array = part.constants[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:32]


def entry(graph: Graph, first: int, last: int, file: str) -> dict[str, Any]:
    """What a manifest says of a slice; groups count from 1."""
    part = subgraph(graph, first, last)
    made = slice_of(part)
    crossing = {tensor.name for tensor in part.outputs}
    return {
        "file": file,
        "groups": [first + 1, last],
        "weights": weights_digest(made),
        "inputs": [described(part.tensors[tensor.name]) for tensor in made.inputs],
        "outputs": [described(part.tensors[tensor.name]) for tensor in made.outputs],
        "passes": [tensor.name for tensor in part.inputs if tensor.name in crossing],
    }


def described(tensor: Tensor) -> dict[str, Any]:
    """A tensor at the border of a slice: its layout is that of the file."""
    about: dict[str, Any] = {"name": tensor.name, "shape": list(tensor.shape), "type": tensor.dtype}
    about["layout"] = "NCHW" if len(tensor.shape) == 4 else "row-major"
    if tensor.quantization:
        scale, zero = tensor.quantization.single
        about |= {"scale": scale, "zero_point": zero}
    return about


def checked_ranges(graph: Graph, ranges: Any) -> list[tuple[int, int]]:
    """Ranges of groups of a network, each once. Raises ArgumentError for others."""
    groups = len(graph.groups)
    for one in ranges:
        fits = isinstance(one, (tuple, list)) and len(one) == 2 and all(type(place) is int for place in one)
        if not fits or not 0 <= one[0] < one[1] <= groups:
            raise ArgumentError(f"ranges: expected pairs of cuts from 0 to {groups}, the first less, got {one!r:.80}")
    return list(dict.fromkeys(map(tuple, ranges)))
