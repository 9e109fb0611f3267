"""Panels of filters without the input channels that none of them reads, for the sparse GEMM (drivers/sparse.c)."""

from __future__ import annotations

from math import ceil

import numpy as np

SPARSE_COLUMNS = 8  # filters that have their zeros in common (kernels_sparse.h: PA_SPARSE_COLUMNS)
SPARSE_BLOCK = 512  # channels whose products are summed together (conv.h: PA_SPARSE_BLOCK)


def kept_rows(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix (filters, channels) in panels of SPARSE_COLUMNS filters without the channels that a panel does not read.

    Returns (panels x blocks + 1,) int32, where the rows of each panel's blocks of SPARSE_BLOCK channels begin; (rows,)
    int32, their channels in the block, ascending; (rows, SPARSE_COLUMNS) float32, their weights, zeros beyond the last
    filter.
    """
    count, channels = weight.shape
    panels = np.zeros((-(-count // SPARSE_COLUMNS) * SPARSE_COLUMNS, channels), np.float32)
    panels[:count] = weight
    panels = panels.reshape(-1, SPARSE_COLUMNS, channels)
    panel, k = np.nonzero(panels.any(axis=1))
    blocks = ceil(channels / SPARSE_BLOCK)
    starts = np.searchsorted(panel * blocks + k // SPARSE_BLOCK, np.arange(len(panels) * blocks + 1))
    return starts.astype(np.int32), (k % SPARSE_BLOCK).astype(np.int32), panels[panel, :, k]
