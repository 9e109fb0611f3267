"""Calibration data, checked and held in memory, and passes over it: what tensors hold, by how much layers err."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import ArgumentError
from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Node
from ..graph.ops import attributes
from ..picture import Picture
from ..pipeline.engine import Engine
from ..progress import Progress
from .config import Resolved
from .histogram import HistogramObserver
from .quantizable import FREE, logits

Arrays = dict[str, np.ndarray]


def samples_of(
    graph: Graph, samples: Iterable[np.ndarray | Mapping[str, np.ndarray]], input: Picture | None
) -> list[Arrays]:
    """The inputs of a network by name, for each sample.

    Raises ArgumentError where there is no sample, or one has another shape or type than the network reads, or values
    that are not finite.
    """
    if input is not None:
        arrays = _of_pictures(graph, samples, input)
    else:
        arrays = [_checked(graph, sample, number) for number, sample in enumerate(samples, 1)]
    if not arrays:
        raise ArgumentError("samples: expected some to calibrate with, got none")
    return arrays


def _checked(graph: Graph, sample: np.ndarray | Mapping[str, np.ndarray], number: int) -> Arrays:
    if not isinstance(sample, Mapping):
        if len(graph.inputs) != 1:
            names, got = ", ".join(tensor.name for tensor in graph.inputs), type(sample).__name__
            raise ArgumentError(f"sample {number}: expected arrays by name for the inputs {names}, got {got}")
        sample = {graph.inputs[0].name: sample}
    arrays = {}
    for tensor in graph.inputs:
        array = sample.get(tensor.name)
        if not isinstance(array, np.ndarray) or array.shape != tensor.shape or array.dtype != tensor.dtype:
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            expected = f"{tensor.dtype} {tensor.shape} for {tensor.name!r}"
            raise ArgumentError(f"sample {number}: expected {expected}, got {got}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ArgumentError(f"sample {number}: expected finite values for {tensor.name!r}, got NaN or infinity")
        arrays[tensor.name] = array
    return arrays


def _of_pictures(graph: Graph, pictures: Iterable[np.ndarray], input: Picture) -> list[Arrays]:
    """By the step that a pipeline would begin with: a network of it alone."""
    (tensor,) = graph.inputs if len(graph.inputs) == 1 else (None,)
    if tensor is None:
        raise ArgumentError(f"{graph.name}: expected one input for pictures, got {len(graph.inputs)}")
    copied = replace(tensor, name=f"{tensor.name}/copy")
    node = Node(copied.name, "reshape", (tensor.name,), copied.name, attributes("reshape", shape=tensor.shape))
    tensors = {tensor.name: tensor, copied.name: copied}
    copy = Graph(graph.name, (node,), tensors, {}, (tensor,), (copied,))
    with Engine(copy, input=input) as engine:
        return [{tensor.name: np.array(engine(picture))} for picture in pictures]


def more_pictures(graph: Graph, samples: list[Arrays], enough: int) -> list[Arrays]:
    """A detector's samples. Where there are fewer than enough: these, the same from right to left, and all of them at
    half the size, four to a picture, so that there are small objects too."""
    if len(samples) >= enough:
        return samples
    (tensor,) = graph.inputs
    height = 2 if tensor.shape[1] <= 3 else 1  # the axis: (1, channels, H, W) or (1, H, W, channels)
    every = [sample[tensor.name] for sample in samples]
    every += [np.flip(x, height + 1).copy() for x in every]
    count = len(every) // 4
    every += [_four(every[first::count][:4], height) for first in range(count)]
    return [{tensor.name: x} for x in every]


def _four(pictures: Sequence[np.ndarray], height: int) -> np.ndarray:
    """A picture of four at half the size; a last row or column of an odd number is 0."""
    made = np.zeros_like(pictures[0])
    rows, columns = (size // 2 for size in made.shape[height : height + 2])
    views = [np.moveaxis(x, (height, height + 1), (0, 1)) for x in (made, *pictures)]
    for number, x in enumerate(views[1:]):
        corners = [x[i : 2 * rows : 2, j : 2 * columns : 2] for i in (0, 1) for j in (0, 1)]
        top, left = number // 2 * rows, number % 2 * columns
        views[0][top : top + rows, left : left + columns] = np.mean(corners, 0)
    return made


def outputs_of(graph: Graph, samples: Sequence[Arrays], what: str, progress: Progress) -> Iterator[Arrays]:
    """A graph's outputs by name, for each sample."""
    with Engine(graph) as engine:
        for done, sample in enumerate(samples):
            progress(what, done, len(samples))
            outputs = engine(sample)
            yield outputs if isinstance(outputs, dict) else {graph.outputs[0].name: outputs}
    progress(what, len(samples), len(samples))


def with_logits(graph: Graph) -> Graph:
    """The network with its answers ahead of a softmax or a choice as outputs, and its own outputs behind them."""
    names = dict.fromkeys((*logits(graph), *(tensor.name for tensor in graph.outputs)))
    return replace(graph, outputs=tuple(graph.tensors[name] for name in names))


def histograms_of(
    graph: Graph, names: Iterable[str], samples: Sequence[Arrays], progress: Progress
) -> dict[str, HistogramObserver]:
    """The values of each of these tensors."""
    histograms = {name: HistogramObserver(name) for name in names}
    inputs = {tensor.name for tensor in graph.inputs}
    watched = replace(graph, outputs=tuple(graph.tensors[name] for name in histograms if name not in inputs))
    for sample, outputs in zip(samples, outputs_of(watched, samples, "values", progress), strict=True):
        for name, histogram in histograms.items():
            histogram.add(sample[name] if name in inputs else outputs[name])
    return histograms


def channel_maxima(
    graph: Graph, names: Sequence[str], samples: Sequence[Arrays], progress: Progress, beyond: float = 0.0
) -> dict[str, np.ndarray]:
    """The largest absolute value of each channel of these images; at least as many standard deviations above the mean
    of the samples' own as ``beyond`` says."""
    watched = replace(graph, outputs=tuple(graph.tensors[name] for name in names))
    peaks: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for outputs in outputs_of(watched, samples, "channels", progress):
        for name in names:
            peaks[name].append(np.abs(outputs[name]).max((0, 2, 3)).astype(np.float64))
    return {
        name: np.maximum(np.max(each, 0), np.mean(each, 0) + beyond * np.std(each, 0)) for name, each in peaks.items()
    }


def mean_errors(resolved: Resolved, samples: Sequence[Arrays], progress: Progress) -> dict[str, np.ndarray]:
    """The mean error of each output of each layer over pixels and samples, by the layer's name.

    A layer reads the quantized values of the network of floats and has integer weights: the error is its own.
    """
    graph = resolved.graph
    if not resolved.quantizable.layers:
        return {}
    builder = GraphBuilder(graph)
    layers = {node.output for node in resolved.quantizable.layers}
    errors = {}
    for node in graph.nodes:
        if node.output not in layers:
            builder.copy(node)
            continue
        x, weight, bias = node.inputs
        free = {**node.attrs, **FREE}
        y = builder.add(node.op, f"{node.output}/sum", node.inputs, **free)
        builder.add("clip", f"{node.output}/clip", [y], node.output, lo=node.attrs["lo"], hi=node.attrs["hi"])
        params = resolved.input_params(node)
        quantized = builder.add("fakequant", f"{node.output}/x", [x], scale=params.scale, low=float(params.low))
        integers = builder.constant(f"{weight}/levels", resolved.weights[node.name][0])
        z = builder.add(node.op, f"{node.output}/integers", [quantized, integers, bias], **free)
        error = builder.add("sub", f"{node.output}/error", [z, y])
        rank = len(builder.tensors[error].shape)
        axes = tuple(axis for axis in range(rank) if axis != _channel_axis(node, rank))
        errors[node.name] = builder.add("reduce", f"{node.output}/mean", [error], how="mean", axes=axes, keepdims=False)
    probe = builder.graph(list(errors.values()))
    totals = {name: np.zeros(probe.tensors[output].shape) for name, output in errors.items()}
    for outputs in outputs_of(probe, samples, "errors", progress):
        for name, output in errors.items():
            totals[name] += outputs[output]
    return {name: total / len(samples) for name, total in totals.items()}


def _channel_axis(node: Node, rank: int) -> int:
    """The axis of a layer's result that counts its outputs."""
    return 1 if node.op == "conv" else rank - 1
