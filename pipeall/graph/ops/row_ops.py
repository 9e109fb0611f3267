"""Ops on rows of tensors of any rank: products, and what normalizes along axes."""

from __future__ import annotations

from math import prod

import numpy as np

from .image_ops import clamped
from .spec import FREE, GIVEN, Attrs, OpSpec, Shape, Trait, axes_of, clamp, flags, integer, numbers, require

# ---- output shapes ----


def _fc_shape(attrs: Attrs, x: Shape, weight: Shape, bias: Shape) -> Shape:
    axis = integer(attrs, "axis", 0, len(x))
    require(len(weight) == 2, f"weight must be (out, in), got {weight}")
    require(weight[1] == prod(x[axis:]), f"weight {weight} needs rows of {weight[1]}, got {prod(x[axis:])} of {x}")
    require(bias == weight[:1], f"bias must be {weight[:1]}, got {bias}")
    clamp(attrs)
    return (*x[:axis], weight[0])


def _matmul_shape(attrs: Attrs, a: Shape, b: Shape) -> Shape:
    require(len(a) == len(b) >= 2, f"operands must have the same rank of 2 or more, got {a} and {b}")
    fits = all(1 in (m, n) or m == n for m, n in zip(a[:-2], b[:-2], strict=True))
    require(fits and a[-1] == b[-2], f"cannot multiply {a} by {b}")
    numbers(attrs, "alpha")
    return (*map(max, a[:-2], b[:-2]), a[-2], b[-1])


def _attention_shape(attrs: Attrs, q: Shape, k: Shape, v: Shape, mask: Shape | None = None) -> Shape:
    require(len(q) == len(k) == len(v) >= 2, f"q, k and v must have the same rank, got {q}, {k}, {v}")
    require(q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] and k[-2] == v[-2], f"q {q}, k {k} and v {v} do not fit")
    scores = (*q[:-1], k[-2])
    fits = mask is None or (len(mask) == len(q) and all(n in (1, m) for n, m in zip(mask, scores, strict=True)))
    require(fits, f"mask {mask} does not broadcast to {scores}")
    numbers(attrs, "scale")
    flags(attrs, "causal")
    return (*q[:-1], v[-1])


def _softmax_shape(attrs: Attrs, x: Shape) -> Shape:
    integer(attrs, "axis", 0, len(x) - 1)
    return x


def _layernorm_shape(attrs: Attrs, x: Shape) -> Shape:
    numbers(attrs, "epsilon")
    flags(attrs, "center")
    require(attrs["epsilon"] > 0, f"epsilon must be positive, got {attrs['epsilon']}")
    axes_of(attrs, x)
    return x


# ---- references ----


def _fc(attrs: Attrs, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    rows = x.shape[: attrs["axis"]]
    return clamped(attrs, (x.reshape(*rows, -1)[..., None, :] @ weight.T)[..., 0, :] + bias)


def _matmul(attrs: Attrs, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a @ b) * a.dtype.type(attrs["alpha"])


def _attention(attrs: Attrs, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    scores = q @ k.swapaxes(-1, -2) * q.dtype.type(attrs["scale"])
    if mask is not None:
        scores = scores + mask
    if attrs["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return _softmax({"axis": scores.ndim - 1}, scores) @ v


def _softmax(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=attrs["axis"], keepdims=True))
    return powers / powers.sum(axis=attrs["axis"], keepdims=True)


def _logsoftmax(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    below = x - x.max(axis=attrs["axis"], keepdims=True)
    return below - np.log(np.exp(below).sum(axis=attrs["axis"], keepdims=True))


def _layernorm(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    axes = attrs["axes"]
    difference = x - x.mean(axis=axes, keepdims=True) if attrs["center"] else x
    return difference / np.sqrt((difference**2).mean(axis=axes, keepdims=True) + x.dtype.type(attrs["epsilon"]))


def _fc_macs(out: Shape, x: Shape, weight: Shape, *_: Shape) -> int:
    return prod(out[:-1]) * prod(weight)


def _matmul_macs(out: Shape, a: Shape, b: Shape) -> int:
    return prod(out) * a[-1]


def _attention_macs(out: Shape, q: Shape, k: Shape, v: Shape, *_: Shape) -> int:
    return prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


_ATTENTION = {"scale": GIVEN, "causal": False}
_LAYERNORM = {"epsilon": 1e-5, "axes": (1,), "center": True}
_FC = Trait.WEIGHTS | Trait.INT8_WEIGHTS | Trait.REORDERS | Trait.SUMS
_PRODUCT = Trait.REORDERS | Trait.ANY_STRIDES | Trait.SUMS

OPS: dict[str, OpSpec] = {
    "fc": OpSpec((3, 3), {"axis": 1} | FREE, _fc_shape, _fc, _fc_macs, traits=_FC),
    "matmul": OpSpec((2, 2), {"alpha": 1.0}, _matmul_shape, _matmul, _matmul_macs, traits=_PRODUCT),
    "attention": OpSpec((3, 4), _ATTENTION, _attention_shape, _attention, _attention_macs, traits=_PRODUCT),
    "softmax": OpSpec((1, 1), {"axis": 1}, _softmax_shape, _softmax, traits=Trait.SUMS),
    "logsoftmax": OpSpec((1, 1), {"axis": 1}, _softmax_shape, _logsoftmax, traits=Trait.SUMS),
    "layernorm": OpSpec((1, 1), _LAYERNORM, _layernorm_shape, _layernorm, traits=Trait.SUMS),
}
