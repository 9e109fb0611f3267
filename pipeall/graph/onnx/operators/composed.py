"""Operators in the words of ONNX's: those that ONNX had for trial until version 1.5, which converters of CoreML, Caffe2
and Keras wrote, and those of the domain ai.onnx.ml that make rows of numbers of rows of numbers.
"""

from __future__ import annotations

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .microsoft import renamed
from .movement import taken

# ---- for trial ----


def _scaled(g: Builder, n: OnnxNode, x: str, name: str, part: str = "", default: float | None = None) -> str:
    """x times an attribute"""
    return g.apply(n, "Mul", [x, g.named(n, n.get(name, float, default))], part)


@operator("ImageScaler", "bias scale", "images")
def _image_scaler(g: Builder, n: OnnxNode) -> None:
    """x * scale + a bias for each channel"""
    bias = np.array(n.get("bias", list, [0.0]), np.float32).reshape(-1, 1, 1)
    g.apply(n, "Add", [_scaled(g, n, n.inputs[0], "scale", "scaled", 1.0), g.named(n, bias, "bias")])


@operator("Affine", "alpha beta")
def _affine(g: Builder, n: OnnxNode) -> None:
    """alpha x + beta"""
    scaled = _scaled(g, n, n.inputs[0], "alpha", "scaled", 1.0)
    g.apply(n, "Add", [scaled, g.named(n, n.get("beta", float, 0.0))])


@operator("Scale", "scale")
def _scale(g: Builder, n: OnnxNode) -> None:
    _scaled(g, n, n.inputs[0], "scale", default=1.0)


@operator("ScaledTanh ParametricSoftplus", "alpha beta")
def _curve(g: Builder, n: OnnxNode) -> None:
    """alpha f(beta x)"""
    scaled = _scaled(g, n, n.inputs[0], "beta", "scaled")
    _scaled(g, n, g.apply(n, "Tanh" if n.op == "ScaledTanh" else "Softplus", [scaled], "curve"), "alpha")


@operator("Crop", "border scale", "images")
def _crop(g: Builder, n: OnnxNode) -> None:
    """Without ``border`` pixels at the left, top, right and bottom; or ``scale`` pixels from the top left corner on."""
    x, (left, top, right, bottom) = g.x(n), n.ints("border", 4)
    shape = g.shape(x)
    if len(shape) != 4:
        n.fail(f"only images are supported, got {shape}")
    ends = (shape[2] - bottom, shape[3] - right)
    if "scale" in n.attrs:
        height, width = n.ints("scale", 2)
        ends = (top + height, left + width)
    for axis, start, end in ((2, top, ends[0]), (3, left, ends[1])):
        if not 0 <= start < end <= shape[axis]:
            n.fail(f"cannot crop axis {axis} of {shape} to {start}:{end}")
        x = taken(g, n, x, axis, range(start, end), part="" if axis == 3 else "rows")


# ---- ai.onnx.ml ----


def ml(names: str) -> str:
    return " ".join(f"ai.onnx.ml.{name}" for name in names.split())


def _real(g: Builder, n: OnnxNode) -> str:
    """Input 0 as float32, by its ONNX name."""
    return n.inputs[0] if g.dtype(g.x(n)) == "float32" else g.apply(n, "Cast", n.inputs[:1], "real", to=1)


def _numbers(n: OnnxNode, name: str, default: list[float] | None = None) -> np.ndarray:
    return np.array(n.get(name, list, default), np.float32)


@operator(ml("Scaler"), "offset scale", "rows")
def _scaler(g: Builder, n: OnnxNode) -> None:
    """(x - offset) * scale"""
    offset, scale = (_numbers(n, name) for name in ("offset", "scale"))
    if len(g.shape(g.x(n))) > 2 and max(offset.size, scale.size) > 1:
        n.fail(f"expected rows, got {g.shape(g.x(n))}")
    shifted = g.apply(n, "Sub", [_real(g, n), g.named(n, offset, "offset")], "shifted")
    g.apply(n, "Mul", [shifted, g.named(n, scale, "scale")])


@operator(ml("Normalizer"), "norm", "rows")
def _normalizer(g: Builder, n: OnnxNode) -> None:
    """Every row by its largest element, the sum of its absolute values or the root of that of their squares; rows for
    which that is 0 stay."""
    norm, rank = n.get("norm", str, "MAX"), len(g.shape(g.x(n)))
    if norm not in ("MAX", "L1", "L2") or rank > 2:
        n.fail(f"expected rows and norm MAX, L1 or L2, got rank {rank} and {norm!r}")
    x, axes = _real(g, n), g.named(n, np.array([-1]), "axes")
    size = g.apply(n, f"Reduce{norm.capitalize()}", [x, axes], "size")
    nothing = g.apply(n, "Equal", [size, g.named(n, 0.0)], "nothing")
    g.apply(n, "Div", [x, g.apply(n, "Where", [nothing, g.named(n, 1.0), size], "divisor")])


@operator(ml("Binarizer"), "threshold")
def _binarizer(g: Builder, n: OnnxNode) -> None:
    above = g.apply(n, "Greater", [_real(g, n), g.named(n, n.get("threshold", float, 0.0))], "above")
    g.apply(n, "Cast", [above], to=1)


@operator(ml("Imputer"), "imputed_value_floats replaced_value_float", "floats")
def _imputer(g: Builder, n: OnnxNode) -> None:
    """Numbers, or what is no number, replaced by those of their columns."""
    replaced = n.get("replaced_value_float", float, 0.0)
    if np.isnan(replaced):
        absent = g.apply(n, "IsNaN", n.inputs[:1], "absent")
    else:
        absent = g.apply(n, "Equal", [n.inputs[0], g.named(n, replaced)], "absent")
    g.apply(n, "Where", [absent, g.named(n, _numbers(n, "imputed_value_floats"), "values"), n.inputs[0]])


@operator(ml("LinearRegressor"), "coefficients intercepts post_transform targets", "rows; no post_transform")
def _linear(g: Builder, n: OnnxNode) -> None:
    targets, transform = n.get("targets", int, 1), n.get("post_transform", str, "NONE")
    weights = _numbers(n, "coefficients")
    if transform != "NONE":
        n.fail(f"post_transform {transform!r} is not supported")
    if targets < 1 or weights.size % targets:
        n.fail(f"{weights.size} coefficients do not divide into {targets} targets")
    bias = g.named(n, _numbers(n, "intercepts", [0.0] * targets), "intercepts")
    g.apply(n, "Gemm", [_real(g, n), g.named(n, weights.reshape(targets, -1), "coefficients"), bias], transB=1)


renamed(ml("ArrayFeatureExtractor"), "Gather", axis=-1)
