"""Layers of a pruned network fitted to what the dense one gives behind their activations.

A layer gives clip(M x, low, high) of what it reads in the pruned network, x, and the dense one clip(W z, low, high) of
its own z. An output that both clip alike is right, however far both are beyond the bound. So an output's error is its
distance from W z where that is within the bounds, and else how far it is from being clipped too. The mean square of
these errors, with the term that holds weights (``blocks.Moments.damped``), is convex in M. Its least is approached in
steps of least squares, in each of which outputs that are right are asked to stay where they are.

Layers that lose nothing are fitted too, where many rows speak for each weight: they make up for what those ahead lost.
After Zhang et al., "Accelerating Very Deep Convolutional Networks for Classification and Detection", 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from ..graph.ir import Graph, Node
from ..quantization.calibrate import Arrays
from ..quantization.gptq import PIXELS
from .blocks import fitted, matrix_of, panels, pixels_of, removal
from .moments import moments, read_by

STEPS = 8
ROWS = 16  # for each weight of an output, so that a layer that loses nothing is fitted


def is_fitted(graph: Graph, node: Node, samples: int) -> bool:
    """Whether a layer that loses no weights is fitted by so many samples."""
    if node.op not in ("conv", "fc") or not {*node.inputs[1:3]} <= graph.constants.keys():
        return False
    weight = graph.constants[node.inputs[1]]
    pixels = pixels_of(graph, node)
    rows = samples * (min(pixels, PIXELS) if node.op == "conv" else pixels)
    return weight.dtype == np.float32 and rows >= ROWS * weight[0].size


def refitted(dense: Graph, pruned: Graph, node: Node, samples: Sequence[Arrays], zeros: float) -> np.ndarray:
    """A layer's weights with its bias as the last column, (filters, channels + 1), at least so many of them zeros."""
    z, x = (
        np.concatenate([read[node.name] for read in read_by(graph, [node], samples)], 1) for graph in (dense, pruned)
    )
    matrix = matrix_of(dense, node)
    if zeros == 0 and np.array_equal(z, x):
        return matrix
    bounds = (-inf, inf) if len(node.inputs) > 3 else (node.attrs.get("lo", -inf), node.attrs.get("hi", inf))
    return np.concatenate(
        [_fitted(*group, zeros, bounds) for group in zip(np.split(matrix, len(x)), z, x, strict=True)]
    )


def _fitted(matrix: np.ndarray, z: np.ndarray, x: np.ndarray, zeros: float, bounds: tuple[float, float]) -> np.ndarray:
    damped = moments(z, x).damped
    kept = removal(matrix, damped).kept(zeros) if zeros else np.ones((len([*panels(matrix)]), x.shape[1] - 1), bool)
    return clipped(matrix, fitted(matrix, damped, kept), z, x, kept, bounds)


def clipped(
    matrix: np.ndarray, made: np.ndarray, z: np.ndarray, x: np.ndarray, kept: np.ndarray, bounds: tuple[float, float]
) -> np.ndarray:
    """``made``, zeros where a panel does not keep a channel, after ``STEPS`` steps. None of them adds to the error.

    matrix  of the dense network, which reads ``z``: (rows, channels + 1); the pruned one reads ``x``
    """
    low, high = bounds
    if bounds == (-inf, inf):
        return made
    made, target = made.copy(), z @ matrix.T.astype(np.float32)
    own = moments(x, x)
    held = own.damped.own - own.own
    columns = [np.append(np.flatnonzero(stays), matrix.shape[1] - 1) for stays in kept]
    inverses = [np.linalg.inv((own.own + held)[np.ix_(at, at)]) for at in columns]
    for _ in range(STEPS):
        given = x @ made.T.astype(np.float32)
        asked = np.where(target <= low, np.minimum(given, low), target)
        asked = np.where(target >= high, np.maximum(given, high), asked)
        wanted = (asked.T @ x).astype(np.float64) / len(x) + matrix @ held
        for rows, share, at, inverse in zip(panels(made), panels(wanted), columns, inverses, strict=True):
            rows[:, at] = share[:, at] @ inverse
    return made
