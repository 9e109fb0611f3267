"""Rounding of weights by what it does to a layer's outputs on the photos.

Of rows x that a layer reads, on levels, H is the mean of x xT. Weights w on a row of levels q err by (w - q)T H (w - q)
in the mean square. They are rounded one after the other, and what one errs is made up for by those that are not rounded
yet: with U the upper Cholesky factor of the inverse of H, rounding weight j errs by e = (w_j - q_j) / U_jj, and the
weights behind it become w - e U_j, which is their best answer in closed form. After Frantar et al., "GPTQ: Accurate
Post-Training Quantization for Generative Pre-trained Transformers", 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..graph.ir import Graph, Node
from ..graph.ops.image_ops import window_taps
from .calibrate import Progress, outputs_of
from .levels import MOST, Levels
from .notes import Notes
from .photos import Arrays
from .places import Places

ROUNDINGS = ("nearest", "learned")
RUN = 1024  # weights of an output that make up for each other; those of longer rows do so in runs of this length
BLOCK = 64  # of them, whose errors reach those behind the block together
DAMPING = 0.01  # of H's mean diagonal, added to it: rows that the photos do not have may come
PLACES = 128  # of an image, spread evenly, whose rows count
MAX_BYTES = 256 << 20  # of all H that are summed in one pass over the photos


def rounded(
    graph: Graph,
    found: Places,
    levels: Mapping[str, Levels],
    scales: Mapping[str, np.ndarray],
    frames: Sequence[Arrays],
    progress: Progress,
    notes: Notes,
) -> dict[str, np.ndarray]:
    """Of every layer, by its name: weights on levels, shaped as they were, float32. ``scales``: one for each output."""
    made: dict[str, np.ndarray] = {}
    for number, layers in enumerate(_passes(graph, found.layers)):
        weights = {node.name: graph.constants[node.inputs[1]] for node in layers}

        def quanta(layers: list[Node] = layers, weights: dict[str, np.ndarray] = weights) -> dict[str, np.ndarray]:
            means = second_moments(graph, layers, lambda node: levels[found.share[node.inputs[0]]], frames, progress)
            return {
                node.name: learned(weights[node.name], scales[node.name], means[node.name]).ravel() for node in layers
            }

        sizes = {name: weight.size for name, weight in weights.items()}
        for name, vector in notes.vectors(f"rounding, {number}", sizes, quanta).items():
            shape = weights[name].shape
            whole = np.clip(vector, -MOST, MOST).astype(np.float32).reshape(shape)
            made[name] = whole * scales[name].reshape(-1, *(1,) * (len(shape) - 1))
    return made


def _passes(graph: Graph, layers: Sequence[Node]) -> Iterator[list[Node]]:
    """The layers, as many at a time as there is memory for their H."""
    waiting: list[Node] = []
    held = 0
    for node in layers:
        size = 8 * sum(
            _groups(node) * (last - first) ** 2 for first, last in _runs(graph.constants[node.inputs[1]][0].size)
        )
        if waiting and held + size > MAX_BYTES:
            yield waiting
            waiting, held = [], 0
        waiting.append(node)
        held += size
    if waiting:
        yield waiting


def _groups(node: Node) -> int:
    return node.attrs.get("groups", 1)


def _runs(length: int) -> list[tuple[int, int]]:
    """Where runs of a row begin and end, as equal in length as they can be."""
    ends = np.linspace(0, length, -(-length // RUN) + 1).astype(int).tolist()
    return list(zip(ends[:-1], ends[1:], strict=True))


def second_moments(
    graph: Graph, layers: Sequence[Node], of: Callable[[Node], Levels], frames: Sequence[Arrays], progress: Progress
) -> dict[str, list[np.ndarray]]:
    """H of each layer, (groups, length, length) for each run of its rows, of what floats give it, on levels."""
    entered = {tensor.name for tensor in graph.inputs}
    watched = {node.inputs[0]: graph.tensors[node.inputs[0]] for node in layers if node.inputs[0] not in entered}
    outputs = tuple(watched.values()) or graph.outputs
    totals: dict[str, list[np.ndarray]] = {}
    run = outputs_of(replace(graph, outputs=outputs), frames, "rounding", progress)
    for frame, read in zip(frames, run, strict=True):
        for node in layers:
            name = node.inputs[0]
            x = rows(graph, node, frame[name] if name in entered else read[name])
            x = of(node)(x.astype(np.float64))
            parts = [x[:, :, first:last] for first, last in _runs(x.shape[2])]
            products = [part.swapaxes(1, 2) @ part / (x.shape[1] * len(frames)) for part in parts]
            if node.name in totals:
                for total, product in zip(totals[node.name], products, strict=True):
                    total += product
            else:
                totals[node.name] = products
    return totals


def rows(graph: Graph, node: Node, x: np.ndarray) -> np.ndarray:
    """What a layer's outputs are products of, (groups, places, weights of an output); of an image some places."""
    weight = graph.constants[node.inputs[1]]
    if node.op == "fc":
        return x.reshape(1, -1, weight.shape[1])
    groups, out_hw = _groups(node), graph.tensors[node.output].shape[2:]
    at = np.unique(np.linspace(0, out_hw[0] * out_hw[1] - 1, PLACES).round().astype(int))
    taps = [
        pixels.reshape(len(x), x.shape[1], -1)[:, :, at]
        for _, _, pixels in window_taps(x, out_hw, weight.shape[2:], node.attrs, 0)
    ]
    every = np.stack(taps, -1).reshape(len(x), groups, -1, len(at), len(taps))  # image, group, channel, place, tap
    return every.transpose(1, 0, 3, 2, 4).reshape(groups, len(x) * len(at), -1)


def learned(weight: np.ndarray, scales: np.ndarray, moments: Sequence[np.ndarray]) -> np.ndarray:
    """Weights in quanta of their scales, whole numbers in float64. ``moments``: H for each run of their rows."""
    groups = len(moments[0])
    per_output = scales.reshape(-1, *(1,) * (weight.ndim - 1)).astype(np.float64)
    quanta = (weight / per_output).reshape(groups, len(weight) // groups, -1)
    parts = [
        _pushed(quanta[:, :, first:last], mean)
        for (first, last), mean in zip(_runs(quanta.shape[2]), moments, strict=True)
    ]
    return np.concatenate(parts, 2).reshape(weight.shape)


def _pushed(quanta: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(groups, outputs, weights) rounded, the error of each pushed onto those behind it."""
    left, length = quanta.copy(), quanta.shape[2]
    diagonal = np.einsum("gii->gi", mean).mean(1)
    damping = DAMPING * np.where(diagonal > 0, diagonal, 1)
    factor = np.linalg.cholesky(np.linalg.inv(mean + damping[:, None, None] * np.eye(length))).swapaxes(1, 2)
    made = np.empty_like(left)
    for first in range(0, length, BLOCK):
        last = min(first + BLOCK, length)
        errors = np.empty((*left.shape[:2], last - first))
        for j in range(first, last):
            made[:, :, j] = np.clip(np.rint(left[:, :, j]), -MOST, MOST)
            error = (left[:, :, j] - made[:, :, j]) / factor[:, j, j, None]
            left[:, :, j:last] -= error[:, :, None] * factor[:, None, j, j:last]
            errors[:, :, j - first] = error
        left[:, :, last:] -= errors @ factor[:, first:last, last:]
    return made
