"""GPTQ: weights are rounded by the effect on a layer's outputs.

A layer reads quantized rows x; H is the mean of x xT. Rounding weights w to q errs by (w - q)T H (w - q) in the mean
square. Weights are rounded one after the other, and those not rounded yet make up for the error. With U the upper
Cholesky factor of the inverse of H, rounding weight j errs by e = (w_j - q_j) / U_jj, and the weights behind it become
w - e U_j, the best answer in closed form. After Frantar et al., "GPTQ: Accurate Post-Training Quantization for
Generative Pre-trained Transformers", 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..graph.ir import Graph, Node
from ..graph.ops.image_ops import window_taps
from ..progress import Progress
from .calibrate import Arrays, outputs_of
from .config import Resolved
from .qparams import MOST, QuantParams

ROUNDINGS = ("auto", "nearest", "gptq")
RUN = 1024  # weights of an output that make up for each other; longer rows are cut into runs
BLOCK = 64  # weights whose errors reach those behind the block together
DAMPING = 0.01  # of H's mean diagonal, added to it, for rows that the samples do not have
PIXELS = 128  # of an image, spread evenly, whose rows count
MAX_BYTES = 256 << 20  # of all H that are summed in one pass over the samples


def memory_passes(graph: Graph, layers: Sequence[Node]) -> Iterator[list[Node]]:
    """The layers, as many at a time as there is memory for their H."""
    waiting: list[Node] = []
    total = 0
    for node in layers:
        size = 8 * sum(
            _groups(node) * (last - first) ** 2 for first, last in _runs(graph.constants[node.inputs[1]][0].size)
        )
        if waiting and total + size > MAX_BYTES:
            yield waiting
            waiting, total = [], 0
        waiting.append(node)
        total += size
    if waiting:
        yield waiting


def _groups(node: Node) -> int:
    return node.attrs.get("groups", 1)


def _runs(length: int) -> list[tuple[int, int]]:
    """Where runs of a row begin and end, as equal in length as they can be."""
    ends = np.linspace(0, length, -(-length // RUN) + 1).astype(int).tolist()
    return list(zip(ends[:-1], ends[1:], strict=True))


def quanta_of(
    resolved: Resolved, layers: Sequence[Node], samples: Sequence[Arrays], progress: Progress
) -> dict[str, np.ndarray]:
    """The weights of these layers in quanta of their scales, whole numbers in a row, by the layer's name."""
    moments = second_moments(resolved.graph, layers, resolved.input_params, samples, progress)
    weights = {node.name: resolved.graph.constants[node.inputs[1]] for node in layers}
    return {name: rounded(weight, resolved.weights[name][1], moments[name]).ravel() for name, weight in weights.items()}


def scaled(resolved: Resolved, node: Node, quanta: np.ndarray) -> np.ndarray:
    """The weights of a layer out of its quanta, which are not trusted: float32 in the shape of the layer's weights."""
    shape = resolved.graph.constants[node.inputs[1]].shape
    whole = np.clip(quanta, -MOST, MOST).astype(np.float32).reshape(shape)
    return whole * resolved.weights[node.name][1].reshape(-1, *(1,) * (len(shape) - 1))


def second_moments(
    graph: Graph,
    layers: Sequence[Node],
    input_params: Callable[[Node], QuantParams],
    samples: Sequence[Arrays],
    progress: Progress,
) -> dict[str, list[np.ndarray]]:
    """H of each layer, (groups, length, length) for each run of its rows; it reads quantized values of the floats."""
    inputs = {tensor.name for tensor in graph.inputs}
    watched = {node.inputs[0]: graph.tensors[node.inputs[0]] for node in layers if node.inputs[0] not in inputs}
    outputs = tuple(watched.values()) or graph.outputs
    totals: dict[str, list[np.ndarray]] = {}
    run = outputs_of(replace(graph, outputs=outputs), samples, "rounding", progress)
    for sample, read in zip(samples, run, strict=True):
        for node in layers:
            name = node.inputs[0]
            x = rows(graph, node, sample[name] if name in inputs else read[name])
            x = input_params(node)(x.astype(np.float64))
            parts = [x[:, :, first:last] for first, last in _runs(x.shape[2])]
            products = [part.swapaxes(1, 2) @ part / (x.shape[1] * len(samples)) for part in parts]
            if node.name in totals:
                for total, product in zip(totals[node.name], products, strict=True):
                    total += product
            else:
                totals[node.name] = products
    return totals


def rows(graph: Graph, node: Node, x: np.ndarray) -> np.ndarray:
    """What a layer's outputs are products of, (groups, pixels, weights of an output); of an image some pixels."""
    weight = graph.constants[node.inputs[1]]
    if node.op == "fc":
        return x.reshape(1, -1, weight.shape[1])
    groups, out_hw = _groups(node), graph.tensors[node.output].shape[2:]
    at = np.unique(np.linspace(0, out_hw[0] * out_hw[1] - 1, PIXELS).round().astype(int))
    taps = [
        pixels.reshape(len(x), x.shape[1], -1)[:, :, at]
        for _, _, pixels in window_taps(x, out_hw, weight.shape[2:], node.attrs, 0)
    ]
    every = np.stack(taps, -1).reshape(len(x), groups, -1, len(at), len(taps))  # image, group, channel, pixel, tap
    return every.transpose(1, 0, 3, 2, 4).reshape(groups, len(x) * len(at), -1)


def rounded(weight: np.ndarray, scales: np.ndarray, moments: Sequence[np.ndarray]) -> np.ndarray:
    """Weights in quanta of their scales, whole numbers in float64. ``moments``: H for each run of their rows."""
    groups = len(moments[0])
    per_output = scales.reshape(-1, *(1,) * (weight.ndim - 1)).astype(np.float64)
    quanta = (weight / per_output).reshape(groups, len(weight) // groups, -1)
    parts = [
        _rounded_in_turn(quanta[:, :, first:last], mean)
        for (first, last), mean in zip(_runs(quanta.shape[2]), moments, strict=True)
    ]
    return np.concatenate(parts, 2).reshape(weight.shape)


def _rounded_in_turn(quanta: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(groups, outputs, weights) rounded, the error of each passed on to those behind it."""
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
