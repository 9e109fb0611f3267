"""Winograd's minimal filtering from first principles: its matrices, the convolution they make, and its error bound.

The matrices of F(m x m, r x r) are built from the points alone (Cook and Toom): with V_k the Vandermonde matrix of
k columns, two polynomials of m and r coefficients multiply as V_n^-1 ((V_m a) * (V_r g)), and the transpose of that map
is the convolution A^T ((G g) * (B^T d)) with A = V_m, G = V_r, B = V_n^-1. Kernels scale rows of G and B against each
other; neither the result nor the bound depends on that.
"""

from functools import cache

import numpy as np
from bounds import U

POINTS = {  # n; and infinity
    4: (0, 1, -1),
    6: (0, 0.625, -0.625, 1.5, -1.5),
    7: (0.3125, -0.3125, 0.875, -0.875, 1.75, -1.75),
    8: (0, 1, -1, 2, -2, 0.5, -0.5),
}

# Roundings on the longest path through a one-dimensional transform; a constant that is no float32 counts as one.
# OpenCL has fewer: its products may be rounded, two more into n = 6 and one out of it, but a weight is rounded once.
INPUT = {4: 1, 6: 3, 7: 4, 8: 3}  # n; 7: a product, two multiply-adds, the sum of a pair; 8: products are exact
WEIGHT = {2: 4, 3: 4, 4: 5, 5: 5}  # r; the longer part of the polynomial, even + odd, the scale and the product with it
OUTPUT = {4: 2, 6: 3, 7: 4, 8: 4}  # n; a pair, the point 0 or infinity, and a multiply-add for each further pair


def roundings(n, r, channels):
    """Of a product on its way to the result: two dimensions of each transform, the sum, the bias, the residual."""
    return 2 * (INPUT[n] + WEIGHT[r] + OUTPUT[n]) + channels + 2


def vandermonde(points, columns):
    """Powers of the finite points, and the row of infinity, which takes the highest coefficient."""
    finite = np.vander(points, columns, increasing=True)
    return np.vstack([finite, np.eye(columns)[-1]])


@cache
def matrices(r, m, points=None):
    """A (n x m), G (n x r), B (n x n); points other than those of the kernels."""
    n, points = m + r - 1, points or POINTS[m + r - 1]
    return vandermonde(points, m), vandermonde(points, r), np.linalg.inv(vandermonde(points, n))


def convolve(x, weight, pads, groups, a, g, b):
    """Convolution (c, h, w) x (c_out, c / groups, r, r) by tiles, in the type of its operands."""
    (n, m), r = a.shape, g.shape[1]
    sizes = [size + pads[axis] + pads[axis + 2] - r + 1 for axis, size in enumerate(x.shape[1:])]
    tiles = [-(-size // m) for size in sizes]
    after = [count * m + r - 1 - x.shape[1 + axis] - pads[axis] for axis, count in enumerate(tiles)]
    padded = np.pad(x, ((0, 0), (pads[0], after[0]), (pads[1], after[1])))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (n, n), axis=(1, 2))[:, ::m, ::m]
    inputs = (b.T @ windows @ b).reshape(groups, -1, *tiles, n, n)
    filters = (g @ weight @ g.T).reshape(groups, -1, weight.shape[1], n, n)
    products = np.einsum("gcyxij,gocij->goyxij", inputs, filters)
    result = (a.T @ products @ a).reshape(-1, *tiles, m, m).transpose(0, 1, 3, 2, 4)
    return result.reshape(-1, tiles[0] * m, tiles[1] * m)[:, : sizes[0], : sizes[1]]


def in_phases(x, weight, stride, pads):
    """(x, weight, pads) of stride 1 that give the convolution of this stride: rows and columns of each remainder are
    channels of their own."""
    if stride == 1:
        return x, weight, pads
    sizes = [size + pads[axis] + pads[axis + 2] for axis, size in enumerate(x.shape[1:])]
    taps = -(-weight.shape[2] // stride)
    wanted = [stride * ((size - weight.shape[2]) // stride + taps) for size in sizes]
    ends = [max(0, size - pads[axis] - x.shape[1 + axis]) for axis, size in enumerate(wanted)]
    whole = np.pad(x, ((0, 0), (pads[0], ends[0]), (pads[1], ends[1])))[:, : wanted[0], : wanted[1]]
    more = taps * stride - weight.shape[2]
    kernel = np.pad(weight, ((0, 0), (0, 0), (0, more), (0, more)))
    remainders = [(down, across) for down in range(stride) for across in range(stride)]
    return (
        np.concatenate([whole[:, down::stride, across::stride] for down, across in remainders]),
        np.concatenate([kernel[:, :, down::stride, across::stride] for down, across in remainders], axis=1),
        (0, 0, 0, 0),
    )


def in_remainders(x, weight, pads, groups, apart, m):
    """The convolution of magnitudes whose taps are ``apart``: one without gaps for each remainder."""
    r = weight.shape[2]
    whole = np.pad(x, ((0, 0), pads[0::2], pads[1::2]))
    total = np.empty((len(weight), *(size - (r - 1) * apart for size in whole.shape[1:])))
    made = [np.abs(matrix) for matrix in matrices(r, m)]
    for down in range(min(apart, total.shape[1])):
        for across in range(min(apart, total.shape[2])):
            part = whole[:, down::apart, across::apart]
            total[:, down::apart, across::apart] = convolve(part, weight, (0, 0, 0, 0), groups, *made)
    return total


def winograd_bound(graph, inputs, m):
    """Largest allowed |result - expected| of a graph of one convolution, (1, c, h, w).

    k roundings are at most (1 + u)^k - 1 of the sum of magnitudes that the transforms of absolute values make.
    """
    (node,) = graph.nodes
    values = [np.abs((inputs | graph.constants)[name].astype(np.float64)) for name in node.inputs]
    x, weight, bias, *residual = values
    x, weight, pads = in_phases(x[0], weight, node.attrs["strides"][0], node.attrs["pads"])
    groups, r = node.attrs["groups"], weight.shape[2]
    rest = bias[:, None, None] + sum(value[0] for value in residual)
    total = in_remainders(x, weight, pads, groups, node.attrs["dilations"][0], m) + rest
    return ((1 + U) ** roundings(m + r - 1, r, weight.shape[1]) - 1) * total[None]
