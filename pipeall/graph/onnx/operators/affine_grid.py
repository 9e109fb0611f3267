"""AffineGrid: where each pixel of a result is read, by a matrix on its coordinates (``convert`` says how)."""

from __future__ import annotations

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .microsoft import apply


@operator("AffineGrid", "align_corners", "constant size")
def _affine_grid(g: Builder, n: OnnxNode) -> None:
    """Coordinates from -1 to 1, of corners or of the middles of pixels, times theta (N, D, D + 1) transposed."""
    theta, size = g.shape_of(g.value(n, 0)), g.ints(n, 1)
    places, dims = size[2:], len(size) - 2
    if dims not in (2, 3) or min(size) < 1 or theta != (size[0], dims, dims + 1):
        n.fail(f"expected theta (N, D, D + 1) for a size (N, C, places of D axes), got {theta} and {size}")
    g.afford(n, int(np.prod(places)) * (dims + 1))
    corners = n.get("align_corners", int, 0)
    axes = [_coordinates(count, bool(corners)) for count in places]
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(places)], -1)  # x before y before z
    base = g.named_value(n, "points", points.reshape(1, -1, dims + 1).astype(np.float32))
    turned = apply(g, n, "Transpose", [n.inputs[0]], "turned", perm=[0, 2, 1])
    rows = apply(g, n, "MatMul", [base, turned], "rows")
    shape = g.named_value(n, "shape", np.array([size[0], *places, dims]))
    apply(g, n, "Reshape", [rows, shape])


def _coordinates(count: int, corners: bool) -> np.ndarray:
    if corners:
        return np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
    return (2 * np.arange(count) + 1) / count - 1
