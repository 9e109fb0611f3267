"""A run of measurements on calibration data. A run that was interrupted goes on from its journal."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..files import naming
from ..graph.ir import Graph
from ..graph.passes.int8 import to_int8
from ..journal import Journal
from ..pipeline.boards.board import Board
from ..pipeline.lease import leased
from ..progress import Progress, silent
from .calibrate import Arrays, channel_maxima, histograms_of, mean_errors, outputs_of
from .compare import Agreement, Comparison, compare, float_outputs
from .config import QuantConfig, Resolved
from .gptq import memory_passes, quanta_of, scaled
from .histogram import HistogramObserver
from .quantizable import logits

CORRECTED = 4  # biases are corrected on every fourth sample where configurations are compared
NUMBER = np.dtype("<f8")
Vectors = dict[str, np.ndarray]  # float64, by name


class Reference:
    """A network of floats (``with_logits``) with its answers to some samples, computed when they are first asked for.

    names      of the outputs whose errors count
    agreement  how the network's own outputs are compared; None: by no more than that
    """

    def __init__(
        self,
        graph: Graph,
        samples: Sequence[Arrays],
        agreement: Agreement | None = None,
        progress: Progress = silent,
    ):
        self.graph, self.samples, self.agreement, self.progress = graph, samples, agreement, progress
        self.names = [name for name in logits(graph) if graph.tensors[name].dtype == "float32"]

    @cached_property
    def answers(self) -> list[Arrays]:
        return list(outputs_of(self.graph, self.samples, "reference", self.progress))

    def busiest(self, count: int) -> Reference:
        """The same by the samples with the most boxes, weighed by scores."""
        scores = [self.agreement.differ(y, y).scores for y in self.answers]
        chosen = sorted(range(len(scores)), key=scores.__getitem__)[-count:]
        return Reference(self.graph, [self.samples[i] for i in chosen], self.agreement, self.progress)

    def compared(self, outputs: Iterable[Arrays], every: int = 1) -> Comparison:
        """With another network's outputs for every so many samples."""
        return compare(self.names, self.answers[::every], outputs, self.agreement)


class CalibrationRun:
    """Everything that is measured on samples. Results are kept in the journal in the order they are measured.

    What a run measures next follows from what it measured before. So one that goes on reads the same results back.
    """

    def __init__(self, samples: Sequence[Arrays], progress: Progress = silent, journal: Journal | None = None):
        self.samples, self.progress, self.journal = samples, progress, journal
        self._done = 0  # entries of the journal that were asked for

    def histograms(self, graph: Graph, names: Sequence[str]) -> dict[str, HistogramObserver]:
        """The values of these tensors in all samples."""

        def measure() -> Vectors:
            histograms = histograms_of(graph, names, self.samples, self.progress)
            return {name: histogram.vector for name, histogram in histograms.items()}

        sizes = dict.fromkeys(names, HistogramObserver.size(len(self.samples)))
        vectors = self._recorded("histograms", sizes, measure)
        with naming(str(self.journal and self.journal.path)):
            return {name: HistogramObserver.of(name, vector) for name, vector in vectors.items()}

    def channel_maxima(self, graph: Graph, names: Sequence[str], beyond: float = 0.0) -> Vectors:
        """The largest absolute value of each channel of these images in all samples, or what lies ``beyond``."""
        sizes = {name: graph.tensors[name].shape[1] for name in names}
        measure = partial(channel_maxima, graph, names, self.samples, self.progress, beyond)
        return self._recorded("channel maxima", sizes, measure)

    def bias_corrections(self, resolved: Resolved, samples: Sequence[Arrays]) -> Vectors:
        """The mean error of each output of the layers, by name."""
        layers = resolved.quantizable.layers
        sizes = {node.name: len(resolved.graph.constants[node.inputs[1]]) for node in layers}
        return self._recorded("bias corrections", sizes, partial(mean_errors, resolved, samples, self.progress))

    def gptq_weights(self, resolved: Resolved, samples: Sequence[Arrays]) -> Vectors:
        """The weights of the layers, rounded by GPTQ, by name."""
        weights: Vectors = {}
        for layers in memory_passes(resolved.graph, resolved.quantizable.layers):
            sizes = {node.name: resolved.graph.constants[node.inputs[1]].size for node in layers}
            quanta = self._recorded("gptq", sizes, partial(quanta_of, resolved, layers, samples, self.progress))
            weights |= {node.name: scaled(resolved, node, quanta[node.name]) for node in layers}
        return weights

    def loss(self, config: QuantConfig, reference: Reference, every: int = 1, corrected: bool = False) -> float:
        """What the answers lose, on every so many samples; ``corrected``: with biases corrected on some of them."""

        def measure() -> float:
            resolved = config.resolve()
            some = reference.samples[::CORRECTED]
            corrections = mean_errors(resolved, some, self.progress) if corrected else None
            network, progress = to_int8(resolved.build(corrections)), self.progress if every == 1 else silent
            outputs = outputs_of(network, reference.samples[::every], "integers", progress)
            return reference.compared(outputs, every).loss

        return self._number("loss", measure)

    def box_difference(self, graph: Graph, reference: Reference) -> float:
        """By how much the boxes of a quantized network differ (``Difference.share``). Where there are none in either
        network, the error of the answers."""

        def measure() -> float:
            outputs = outputs_of(to_int8(graph), reference.samples, "", silent)
            comparison = reference.compared(outputs)
            return comparison.boxes.share if comparison.boxes.scores else comparison.error

        return self._number("boxes", measure)

    def emulated_error(self, config: QuantConfig, reference: Reference) -> float:
        """The error of the answers, with integers emulated in floats."""

        def measure() -> float:
            outputs = outputs_of(config.resolve().build(), reference.samples, "", silent)
            return reference.compared(outputs).error

        return self._number("error", measure)

    def comparison(
        self, config: QuantConfig, graph: Graph, samples: Sequence[Arrays], agreement: Agreement | None
    ) -> Comparison:
        """The answers of the quantized network beside the answers of the floats."""

        def measure() -> Vectors:
            floats = outputs_of(graph, samples, "floats", self.progress)
            quantized = outputs_of(config.resolve().build(), samples, "integers", self.progress)
            board = Board.detect()
            with leased(board, [board.default_component], f"{graph.name} beside its integers"):
                return {"": compare(float_outputs(graph), floats, quantized, agreement).vector}

        vectors = self._recorded("comparison", {"": Comparison.size(graph)}, measure)
        return Comparison.of(graph, vectors[""])

    def _number(self, what: str, measure: Callable[[], float]) -> float:
        return float(self._recorded(what, {"": 1}, lambda: {"": np.array([measure()])})[""][0])

    def _recorded(
        self, what: str, sizes: Mapping[str, int], measure: Callable[[], Mapping[str, np.ndarray]]
    ) -> Vectors:
        """The journal's next entry, or what is measured now and becomes its next entry."""
        if self.journal is None:
            return dict(measure())
        if self._done == len(self.journal.entries):
            vectors = dict(measure())
            self.journal.add({"what": what, "values": {name: _packed(vector) for name, vector in vectors.items()}})
            self._done += 1
            return vectors
        entry = self.journal.entries[self._done]
        values = entry.get("values")
        try:
            if entry.get("what") != what or not isinstance(values, dict) or values.keys() != sizes.keys():
                raise ValueError
            vectors = {name: _unpacked(values[name], size) for name, size in sizes.items()}
        except (TypeError, ValueError, zlib.error):
            raise self.journal.damaged(self._done, f"{what} of {len(sizes)} vectors") from None
        self._done += 1
        return vectors


def open_journal(path: str | Path, graph: Graph, samples: Sequence[Arrays], options: Mapping[str, Any]) -> Journal:
    """The journal of a run. Raises ArgumentError for a file that is damaged or belongs to another run."""
    nodes = [(node.name, node.op, node.inputs, node.output, dict(node.attrs)) for node in graph.nodes]
    network = sha256(repr((graph.name, graph.inputs, graph.outputs, nodes)).encode())
    _update(network, graph.constants)
    data = sha256()
    for arrays in samples:
        _update(data, arrays)
    about = {"version": __version__, "network": network.hexdigest(), "samples": data.hexdigest(), **options}
    return Journal(path, "quantization-journal", about)


def _update(digest: Any, arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)


def _packed(vector: np.ndarray) -> str:
    return b64encode(zlib.compress(vector.astype(NUMBER).tobytes(), 1)).decode()


def _unpacked(text: str, size: int) -> np.ndarray:
    """Raises TypeError, ValueError or zlib.error for what is not a vector of this size; no more is unpacked."""
    content = zlib.decompressobj().decompress(b64decode(text, validate=True), size * NUMBER.itemsize + 1)
    if len(content) != size * NUMBER.itemsize:
        raise ValueError
    return np.frombuffer(content, NUMBER).astype(np.float64)
