"""How many blocks of each layer become zeros: those whose loss costs the answers least, for what they save."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph.ir import Node
from ..progress import Progress, silent
from ..quantization.calibrate import outputs_of
from ..quantization.calibration_run import Reference
from .blocks import Moments, Removal, fitted, matrix_of, pixels_of, with_matrices

SPAN = 0.1  # by which a layer's share may differ from that of all: errors of layers add up for small changes alone
TINY = np.finfo(float).tiny
MIXTURES = 11  # of the share of weights and the share of multiply-adds, by which blocks are ordered


def zeros_of(
    nodes: Sequence[Node],
    moments: dict[str, Moments],
    removals: dict[str, Removal],
    sparsity: float,
    reference: Reference,
    progress: Progress,
) -> dict[str, float]:
    """Weights by layer, as few as leave ``sparsity`` of the weights zeros and of the multiply-adds undone.

    A layer's error counts by what it does to the answers: they are computed with that layer alone pruned to
    ``sparsity``. Errors of layers are taken to add up.
    """
    graph = reference.graph
    whole = np.array([removals[node.name].sizes.sum() for node in nodes], float)
    macs = whole * [pixels_of(graph, node) for node in nodes]
    saved = np.array((whole / whole.sum(), macs / macs.sum())) / whole  # shares of all, by a weight
    rows = []
    for index, node in enumerate(nodes):
        progress("sensitivity of layers", index, len(nodes))
        added, sizes = removals[node.name].ascending()
        kept = removals[node.name].kept(sparsity * whole[index])
        left = sizes.cumsum() <= sparsity * whole[index]
        alone = with_matrices(graph, {node.name: fitted(matrix_of(graph, node), moments[node.name], kept)})
        answers = outputs_of(alone, reference.samples, "", silent)
        harm = reference.compared(answers).error ** 2 / max(added @ (sizes * left), TINY)
        least, most = (round(min(max(sparsity + way, 0), 1) * len(added)) for way in (-SPAN, SPAN))
        errors = np.where(np.arange(most) < least, 0, harm * added[:most])
        rows.append((errors, sizes[:most], np.full(most, index)))
    progress("sensitivity of layers", len(nodes), len(nodes))
    errors, sizes, layers = (np.concatenate(column) for column in zip(*rows, strict=True))
    taken = _fewest(errors, sizes, saved[:, layers], sparsity)
    zeros = np.bincount(layers[taken], sizes[taken], len(nodes)).tolist()
    return dict(zip((node.name for node in nodes), zeros, strict=True))


def _fewest(errors: np.ndarray, sizes: np.ndarray, saved: np.ndarray, sparsity: float) -> np.ndarray:
    """Places of blocks that save ``sparsity`` of the weights and of the multiply-adds, for the least sum of errors of
    some mixtures of the two. ``errors`` (blocks,) and ``saved`` (2, blocks) are by weight."""
    choices = []
    for mixture in np.linspace(0, 1, MIXTURES):
        order = np.argsort(errors / ((1 - mixture) * saved[0] + mixture * saved[1]), kind="stable")
        shares = (saved * sizes)[:, order].cumsum(1).min(0)
        choices.append(order[: np.searchsorted(shares, sparsity * (1 - 1e-9)) + 1])
    return min(choices, key=lambda chosen: errors[chosen] @ sizes[chosen])
