"""Runs over the calibration photos: what tensors hold, and by how much layers err in the mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..graph.ir import Graph, Node
from ..pipeline.engine import Engine
from .levels import Levels
from .observe import Observed
from .photos import Arrays
from .places import Places, ends
from .sheet import FREE, Sheet

Progress = Callable[[str, int, int], None]  # what is done, how much of it, of how much


def outputs_of(graph: Graph, frames: Sequence[Arrays], what: str, progress: Progress) -> Iterator[Arrays]:
    """A graph's outputs by name, frame by frame."""
    with Engine(graph) as engine:
        for done, frame in enumerate(frames):
            progress(what, done, len(frames))
            found = engine(frame)
            yield found if isinstance(found, dict) else {graph.outputs[0].name: found}
    progress(what, len(frames), len(frames))


def at_ends(graph: Graph) -> Graph:
    """The network with its answers as outputs, ahead of a softmax."""
    return replace(graph, outputs=tuple(graph.tensors[name] for name in ends(graph)))


def observed(graph: Graph, names: Iterable[str], frames: Sequence[Arrays], progress: Progress) -> dict[str, Observed]:
    """What each of these tensors holds."""
    seen = {name: Observed(name) for name in names}
    entered = {tensor.name for tensor in graph.inputs}
    watched = replace(graph, outputs=tuple(graph.tensors[name] for name in seen if name not in entered))
    for frame, outputs in zip(frames, outputs_of(watched, frames, "values", progress), strict=True):
        for name in seen:
            seen[name].add(frame[name] if name in entered else outputs[name])
    return seen


def reaches(graph: Graph, names: Sequence[str], frames: Sequence[Arrays], progress: Progress) -> dict[str, np.ndarray]:
    """The largest size of each channel of these images."""
    watched = replace(graph, outputs=tuple(graph.tensors[name] for name in names))
    found = {name: np.zeros(graph.tensors[name].shape[1]) for name in names}
    for outputs in outputs_of(watched, frames, "channels", progress):
        for name in names:
            found[name] = np.maximum(found[name], np.abs(outputs[name]).max((0, 2, 3)))
    return found


def mean_errors(
    graph: Graph,
    found: Places,
    levels: dict[str, Levels],
    weights: dict[str, np.ndarray],
    frames: Sequence[Arrays],
    progress: Progress,
) -> dict[str, np.ndarray]:
    """By how much each output of each layer is too large in the mean over places and photos, by the layer's name.

    The layer reads what the network computes in floats, put on levels, and has its ``weights``; what it errs alone.
    """
    sheet = Sheet(graph)
    layers = {node.output for node in found.layers}
    errors = {}
    for node in graph.nodes:
        if node.output not in layers:
            sheet.copy(node)
            continue
        x, weight, bias = node.inputs
        free = {**node.attrs, **FREE}
        y = sheet.add(node.op, f"{node.output}/sum", node.inputs, **free)
        sheet.add("clip", f"{node.output}/clip", [y], node.output, lo=node.attrs["lo"], hi=node.attrs["hi"])
        own = levels[found.share[x]]
        on_levels = sheet.add("fakequant", f"{node.output}/x", [x], scale=own.scale, low=float(own.low))
        integers = sheet.constant(f"{weight}/levels", weights[weight])
        z = sheet.add(node.op, f"{node.output}/integers", [on_levels, integers, bias], **free)
        error = sheet.add("sub", f"{node.output}/error", [z, y])
        rank = len(sheet.tensors[error].shape)
        axes = tuple(axis for axis in range(rank) if axis != channel_axis(node, rank))
        errors[node.name] = sheet.add("reduce", f"{node.output}/mean", [error], how="mean", axes=axes, keepdims=False)
    probe = sheet.graph(list(errors.values()))
    totals = {name: np.zeros(probe.tensors[output].shape) for name, output in errors.items()}
    for outputs in outputs_of(probe, frames, "errors", progress):
        for name, output in errors.items():
            totals[name] += outputs[output]
    return {name: total / len(frames) for name, total in totals.items()}


def channel_axis(node: Node, rank: int) -> int:
    """The axis of a layer's result that counts its outputs."""
    return 1 if node.op == "conv" else rank - 1
