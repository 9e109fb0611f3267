"""What quantizing a network chose, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..files import write_json
from ..graph.ir import Graph
from ..graph.ops import macs
from .compare import Comparison
from .config import QuantConfig
from .sensitivity import LayerTimes


@dataclass(frozen=True)
class LayerRow:
    """A layer with weights. Figures that were not measured are None.

    Attributes
    ----------
    floats : bool
        Whether it computes with floats in the quantized network.
    error : float or None
        Of the network's outputs where this layer alone is quantized.
    floats_ms, quantized_ms : float or None
        Of the layer and its activation in both networks.
    """

    name: str
    op: str
    macs: int
    floats: bool
    error: float | None
    floats_ms: float | None
    quantized_ms: float | None

    @property
    def gain(self) -> float | None:
        """How many times as fast it is in the quantized network."""
        return self.floats_ms / self.quantized_ms if self.floats_ms and self.quantized_ms else None


@dataclass(frozen=True)
class TensorRow:
    """Tensors that share their quantization parameters.

    Attributes
    ----------
    least, greatest : float
        Of their values on the samples.
    method : str
        Of calibration; "after activation": by the values behind the activation that reads the tensor.
    scale : float
    low : int
        The least integer; the real value is an integer times ``scale``.
    """

    names: tuple[str, ...]
    least: float
    greatest: float
    method: str
    scale: float
    low: int


@dataclass(frozen=True)
class Report:
    """What was chosen for a network, and what it costs.

    Attributes
    ----------
    method : str
        Of calibration, but for tensors that have one of their own.
    rounding : str
        Of weights: nearest or gptq.
    equalized : bool
        Whether channels were.
    samples : int
        How many it was calibrated with, and compared on.
    error : float
        Relative error of the outputs; ``errors`` has each output's.
    agreement : float or None
        Share of classes (of samples), boxes or pixels that are the same in both networks; ``agreement_of`` says which.
        None where there are none.
    integer_macs : float
        Share of the multiply-accumulates that are of integers.
    floats_ms, quantized_ms : float
        Of a frame in both networks, on this machine's first CPU.
    """

    network: str
    method: str
    rounding: str
    equalized: bool
    samples: int
    error: float
    errors: dict[str, float]
    agreement: float | None
    agreement_of: str | None
    integer_macs: float
    floats_ms: float
    quantized_ms: float
    layers: tuple[LayerRow, ...]
    tensors: tuple[TensorRow, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: str | Path) -> None:
        """Writes JSON. Raises ArgumentError where that cannot be."""
        write_json(path, "quantization", self.to_dict())


def report_of(
    graph: Graph,
    config: QuantConfig,
    comparison: Comparison,
    agreement_of: str | None,
    errors: Mapping[str, float],
    frame_ms: tuple[float, float],
    by_layer: LayerTimes | None,
    samples: int,
) -> Report:
    """``graph`` is the network as it was given: layers are called by its names."""
    floats, quantized = (by_layer.floats, by_layer.quantized) if by_layer else ({}, {})
    resolved = config.resolve()
    integer = {node.name for node in resolved.quantizable.layers}
    layers = []
    for node in graph.nodes:
        if count := macs(node, graph):
            figures = (measured.get(node.name) for measured in (errors, floats, quantized))
            layers.append(LayerRow(node.name, node.op, count, node.name not in integer, *figures))
    tensors = []
    for root, names in resolved.quantizable.sources.items():
        histograms, params = [config.histograms[name] for name in names], resolved.qparams[root]
        least, greatest = min(each.low for each in histograms), max(each.high for each in histograms)
        tensors.append(TensorRow(names, least, greatest, resolved.methods[root], params.scale, params.low))
    total = sum(row.macs for row in layers)
    share = sum(row.macs for row in layers if not row.floats) / total if total else 0.0
    return Report(
        graph.name, config.method, "gptq" if config.gptq_weights else "nearest", config.equalized, samples,
        comparison.error, comparison.errors, comparison.agreement, agreement_of, share, *frame_ms, tuple(layers),
        tuple(tensors),
    )  # fmt: skip
