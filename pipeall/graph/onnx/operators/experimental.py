"""Operators that ONNX had for trial until version 1.5: converters of CoreML, Caffe2 and Keras wrote them."""

from __future__ import annotations

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .microsoft import apply, constant, number
from .movement import taken


@operator("ImageScaler", "bias scale", "images")
def _image_scaler(g: Builder, n: OnnxNode) -> None:
    """x * scale + a bias for each channel"""
    scaled = apply(g, n, "Mul", [n.inputs[0], number(g, n, n.get("scale", float, 1.0))], "scaled")
    bias = np.array(n.get("bias", list, [0.0]), np.float32).reshape(-1, 1, 1)
    apply(g, n, "Add", [scaled, constant(g, n, bias, "bias")])


@operator("Affine", "alpha beta")
def _affine(g: Builder, n: OnnxNode) -> None:
    """alpha x + beta"""
    scaled = apply(g, n, "Mul", [n.inputs[0], number(g, n, n.get("alpha", float, 1.0))], "scaled")
    apply(g, n, "Add", [scaled, number(g, n, n.get("beta", float, 0.0))])


@operator("Scale", "scale")
def _scale(g: Builder, n: OnnxNode) -> None:
    apply(g, n, "Mul", [n.inputs[0], number(g, n, n.get("scale", float, 1.0))])


@operator("ScaledTanh ParametricSoftplus", "alpha beta")
def _curve(g: Builder, n: OnnxNode) -> None:
    """alpha f(beta x)"""
    scaled = apply(g, n, "Mul", [n.inputs[0], number(g, n, n.get("beta", float))], "scaled")
    curve = apply(g, n, "Tanh" if n.op == "ScaledTanh" else "Softplus", [scaled], "curve")
    apply(g, n, "Mul", [curve, number(g, n, n.get("alpha", float))])


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
