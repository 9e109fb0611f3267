"""What quantising a network chose, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..files import write_json
from ..graph.ir import Graph
from ..graph.ops import macs
from .compare import Compared
from .gain import Times
from .recipe import Recipe


@dataclass(frozen=True)
class LayerRow:
    """A layer with weights.

    floats        whether it computes with them in the quantised network
    error         of the network's outputs where it alone is quantised
    floats_ms     it takes with its activation in the network of floats
    quantised_ms  the same in the quantised network
    The last three are None where they were not measured.
    """

    name: str
    op: str
    macs: int
    floats: bool
    error: float | None
    floats_ms: float | None
    quantised_ms: float | None

    @property
    def gain(self) -> float | None:
        """How many times as fast it is in the quantised network."""
        return self.floats_ms / self.quantised_ms if self.floats_ms and self.quantised_ms else None


@dataclass(frozen=True)
class TensorRow:
    """Tensors that share levels: what they held, by which method the levels were chosen ("mse behind": by the error
    behind the activation that reads the tensor), and their scale and least integer."""

    names: tuple[str, ...]
    least: float
    greatest: float
    method: str
    scale: float
    low: int


@dataclass(frozen=True)
class Report:
    """Of one network.

    method        by which levels were chosen, but for tensors that have one of their own
    rounding      of weights: nearest or learned
    equalised     whether channels were
    photos        how many it was calibrated with, and compared on
    error         relative error of the outputs; errors has each
    agreement     share of what is the same in both networks; None for networks that have none of it, or the photos
    judged        what that is a share of: classes (of photos), boxes or pixels; None likewise
    integer_macs  share of the multiply-accumulates that are of integers
    floats_ms, quantised_ms  of the whole networks, a frame on this machine's first CPU
    """

    network: str
    method: str
    rounding: str
    equalised: bool
    photos: int
    error: float
    errors: dict[str, float]
    agreement: float | None
    judged: str | None
    integer_macs: float
    floats_ms: float
    quantised_ms: float
    layers: tuple[LayerRow, ...]
    tensors: tuple[TensorRow, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: str | Path) -> None:
        """Writes JSON. Raises ArgumentError where that cannot be."""
        write_json(path, "quantization", self.to_dict())


def report_of(
    graph: Graph,
    chosen: Recipe,
    found: Compared,
    judged: str | None,
    costs: Mapping[str, float],
    took: tuple[float, float],
    by_layer: Times | None,
    photos: int,
) -> Report:
    """``graph``: as it was given, by whose names layers are called."""
    floats, quantised = (by_layer.floats, by_layer.quantised) if by_layer else ({}, {})
    places = chosen.places()
    integer = {node.name for node in places.layers}
    layers = []
    for node in graph.nodes:
        if count := macs(node, graph):
            figures = (measured.get(node.name) for measured in (costs, floats, quantised))
            layers.append(LayerRow(node.name, node.op, count, node.name not in integer, *figures))
    levels, methods = chosen.levels(places), chosen.methods(places)
    tensors = []
    for stand_in, names in places.sources.items():
        least, greatest = (
            f(getattr(chosen.seen[name], end) for name in names) for f, end in ((min, "low"), (max, "high"))
        )
        tensors.append(
            TensorRow(names, least, greatest, methods[stand_in], levels[stand_in].scale, levels[stand_in].low)
        )
    total = sum(row.macs for row in layers)
    share = sum(row.macs for row in layers if not row.floats) / total if total else 0.0
    return Report(
        graph.name, chosen.method, "learned" if chosen.learned else "nearest", chosen.stretched, photos,
        found.error, found.errors, found.agreement, judged, share, *took, tuple(layers), tuple(tensors),
    )  # fmt: skip
