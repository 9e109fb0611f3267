"""Blocks of a layer's weights that become zeros, chosen and made up for by least squares.

A layer reads x, with a 1 behind it for the bias. Its weights W become M, where blocks of PANEL filters and one channel
are zeros, and E|M x - W z|^2 is least; x is what the pruned network gives it, z what the dense one does. The filters of
a panel keep the same channels S, so that M_S = W E[z xT]_S (E[x xT]_SS)^-1.

Which channels a panel keeps is chosen in rounds, as an optimal brain surgeon does: channels R leave that add least to
the error, w_R ((H^-1)_RR)^-1 w_RT with H = E[x xT] for the filters w of the panel, and the others make up for them.
After Hassibi and Stork, "Second Order Derivatives for Network Pruning", 1993, and Frantar and Alistarh, "Optimal Brain
Compression", 2022.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Node

PANEL = 8  # filters that have their zeros in common, as the sparse GEMM reads them
ROUNDS = 32  # in which a panel's channels leave
DAMPING = 0.01  # of the mean square of a channel, by which weights are held to those of the dense network


def layers_of(graph: Graph) -> list[Node]:
    """The layers that a sparse GEMM may compute: products of several pixels or rows with weights of floats."""
    return [node for node in graph.nodes if _is_product(graph, node)]


def _is_product(graph: Graph, node: Node) -> bool:
    weight = graph.constants.get(node.inputs[1]) if node.op in ("conv", "fc") else None
    if weight is None or weight.dtype != np.float32 or len(weight) < PANEL or pixels_of(graph, node) < 2:
        return False
    pointwise = node.op == "fc" or (weight.shape[2:] == (1, 1) and node.attrs["groups"] == 1)
    return pointwise and node.inputs[2] in graph.constants and not any(node.attrs.get("pads", ()))


def pixels_of(graph: Graph, node: Node) -> int:
    """Outputs of each filter."""
    return prod(graph.tensors[node.output].shape) // len(graph.constants[node.inputs[1]])


def matrix_of(graph: Graph, node: Node) -> np.ndarray:
    """A layer's weights with its bias as the last column: (filters, channels + 1), float64."""
    weight, bias = (graph.constants[name].astype(np.float64) for name in node.inputs[1:3])
    return np.column_stack((weight.reshape(len(weight), -1), bias))


def with_matrices(graph: Graph, matrices: Mapping[str, np.ndarray]) -> Graph:
    """The graph with other weights and biases for some layers, by name. What another node reads too stays for it."""
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        if node.name not in matrices:
            builder.copy(node)
            continue
        x, weight, bias, *rest = node.inputs
        matrix = matrices[node.name].astype(np.float32)
        names = [name if readers[name] == 1 else builder.fresh(name) for name in (weight, bias)]
        builder.constants[names[0]] = matrix[:, :-1].reshape(graph.constants[weight].shape)
        builder.constants[names[1]] = matrix[:, -1]
        builder.copy(node, inputs=(x, *names, *rest))
    return builder.graph([tensor.name for tensor in graph.outputs])


@dataclass
class Moments:
    """Mean products of what a layer reads, with a 1 behind it: (channels + 1, channels + 1) both.

    own    E[x xT], of what the pruned network gives it
    cross  E[z xT], with what the dense network does
    """

    own: np.ndarray
    cross: np.ndarray

    @property
    def damped(self) -> Moments:
        """With the term that holds weights to those of the dense network, so that ``own`` has an inverse."""
        mean = np.diag(self.own)[:-1].mean()
        held = DAMPING * (mean if mean > 0 else 1.0) * np.eye(len(self.own))
        held[-1, -1] = 0
        return Moments(self.own + held, self.cross + held)


@dataclass(frozen=True)
class Removal:
    """In which order the channels of each panel leave.

    order   (panels, channels)
    errors  what each adds to the error, by weight that leaves with it: (panels, channels). It is at least that of the
            channel before, so the cheapest blocks of a layer are the first of each panel
    sizes   weights of a block: (panels, channels)
    """

    order: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray

    def ascending(self) -> tuple[np.ndarray, np.ndarray]:
        """Errors by weight, and weights, of all blocks as they leave."""
        order = self._cheapest()
        return self.errors.ravel()[order], self.sizes.ravel()[order]

    def kept(self, zeros: float) -> np.ndarray:
        """Whether a channel stays in a panel when at least so many weights have left: (panels, channels), bool."""
        order = self._cheapest()
        count = np.searchsorted(self.sizes.ravel()[order].cumsum(), zeros) + 1 if zeros > 0 else 0
        panel, place = np.unravel_index(order[:count], self.errors.shape)
        kept = np.ones(self.order.shape, bool)
        kept[panel, self.order[panel, place]] = False
        return kept

    def _cheapest(self) -> np.ndarray:
        return np.argsort(self.errors, axis=None, kind="stable")


def panels(matrix: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of a layer's matrix, PANEL at a time."""
    return (matrix[first : first + PANEL] for first in range(0, len(matrix), PANEL))


def removal(matrix: np.ndarray, moments: Moments) -> Removal:
    """The order by the least error each time; ``moments`` damped."""
    inverse = np.linalg.inv(moments.own)
    dense = matrix @ moments.cross @ inverse
    made = [_leaving(rows, inverse) for rows in panels(dense)]
    order, errors = (np.array(arrays) for arrays in zip(*made, strict=True))
    filters = np.array([[len(rows)] for rows in panels(dense)])
    return Removal(order, errors / filters, np.broadcast_to(filters, order.shape))


def _leaving(rows: np.ndarray, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of one panel. What left has zeros in its rows and in the inverse."""
    rows, inverse, channels = rows.copy(), inverse.copy(), len(inverse) - 1
    left, order, errors = np.ones(channels, bool), [], []
    while left.any():
        alone = np.full(channels, np.inf)
        np.divide(np.square(rows[:, :-1]).sum(0), np.diag(inverse)[:-1], out=alone, where=left)
        out = np.argsort(alone, kind="stable")[: min(max(1, channels // ROUNDS), left.sum())]
        weights, inner = rows[:, out], np.linalg.inv(inverse[np.ix_(out, out)])
        error = (weights @ inner * weights).sum()
        passed_on = inner @ inverse[out]
        inverse -= inverse[:, out] @ passed_on
        rows -= weights @ passed_on
        left[out] = False
        order.append(out)
        errors.append(np.full(len(out), error / len(out)))
    return np.concatenate(order), np.maximum.accumulate(np.concatenate(errors))


def fitted(matrix: np.ndarray, moments: Moments, kept: np.ndarray) -> np.ndarray:
    """The matrix with zeros where a panel does not keep a channel, and least squares elsewhere; ``moments`` damped."""
    target = matrix @ moments.cross
    made = np.zeros_like(matrix)
    for new, wanted, stays in zip(panels(made), panels(target), kept, strict=True):
        at = np.append(np.flatnonzero(stays), matrix.shape[1] - 1)
        new[:, at] = np.linalg.solve(moments.own[np.ix_(at, at)], wanted[:, at].T).T
    return made
