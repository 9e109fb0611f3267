"""ONNX operators that normalize along axes in canonical ops: the softmax family, and what divides by a deviation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...ops import attributes
from ..read.build import Builder, OnnxNode, Value, operator
from .pointwise_nodes import aligned, binary, broadcast, named
from .reductions import along

Shape = tuple[int, ...]

# ---- softmax and its kin ----


@operator("Softmax LogSoftmax Hardmax", "axis")
def _softmax(g: Builder, n: OnnxNode) -> None:
    """Along one axis; before opset 13 over all axes from there on."""
    x = g.x(n)
    shape = g.shape(x)
    emit = _hardmax if n.op == "Hardmax" else _soft
    axis = n.axis_of(len(shape), -1 if n.opset >= 13 else 1)
    if n.opset >= 13 or prod(shape[axis + 1 :]) == 1:
        emit(g, n, x, axis, "")
        return
    rows = g.reshape(n, x, (prod(shape[:axis]), prod(shape[axis:])), part="rows")
    whole = g.shape(rows) == shape
    y = emit(g, n, rows, 1, "" if whole else "flat")
    if not whole:
        g.reshape(n, y, shape)


def _soft(g: Builder, n: OnnxNode, x: str, axis: int, part: str) -> str:
    return g.emit(n, n.op.lower(), [x], part=part, axis=axis)


def _hardmax(g: Builder, n: OnnxNode, x: str, axis: int, part: str) -> str:
    """1 at the first largest element, else 0."""
    place = g.emit(n, "arg", [x], part="place", how="max", axis=axis)
    shape = [1] * len(g.shape(x))
    shape[axis] = g.shape(x)[axis]
    places = g.new_constant(n, np.arange(shape[axis]).reshape(shape), "places")
    chosen = g.emit(n, "equal", [places, place], part="chosen")
    return g.cast(n, chosen, g.dtype(x), part)


@operator("LpNormalization", "axis p")
def _lp_norm(g: Builder, n: OnnxNode) -> None:
    """x over its norm along an axis; 0 where that is 0."""
    x, p = g.x(n), n.get("p", int, 2)
    axis = n.axis_of(len(g.shape(x)), -1)
    if p not in (1, 2):
        n.fail(f"p must be 1 or 2, got {p}")
    norm = along(g, n, f"l{p}", x, (axis,), True, "norm")
    positive = g.with_number(n, "max", norm, float(np.finfo(np.float32).tiny), "positive")
    g.emit(n, "div", [x, positive])


# ---- by a deviation ----


def _epsilon(n: OnnxNode) -> float:
    return n.get("epsilon", float, attributes("layernorm")["epsilon"])


def scaled(g: Builder, n: OnnxNode, x: str, shape: Shape | None = None) -> None:
    """x times input 1 plus input 2 where they are there, as the node's output; ``shape`` is how they lie in x."""
    inputs = [i for i in (1, 2) if g.has(n, i)]
    for i in inputs:
        value = _reshaped(g, n, g.value(n, i), shape)
        if broadcast(g, n, (x, value)) != g.shape(x):
            n.fail(f"input {i} {g.shape_of(value)} does not broadcast to {g.shape(x)}")
        x = binary(g, n, "mul" if i == 1 else "add", x, value, "" if i == inputs[-1] else "scaled")


def _reshaped(g: Builder, n: OnnxNode, value: Value, shape: Shape | None) -> Value:
    """A constant or a tensor of one axis in another shape."""
    if shape is None:
        return value
    if prod(g.shape_of(value)) != prod(shape):
        n.fail(f"expected {prod(shape)} elements, got {g.shape_of(value)}")
    reshaped = g.reshape(n, value, shape, part="operand")
    return reshaped if isinstance(reshaped, str) else g.keep(reshaped, named(g, n, value))


@operator("LayerNormalization", "axis epsilon stash_type")
@operator("RMSNormalization", "axis epsilon stash_type")
def _layer_norm(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    rank, center = len(g.shape(x)), n.op == "LayerNormalization"
    axes = tuple(range(n.axis_of(rank, -1), rank))
    part = "normal" if g.has(n, 1) or g.has(n, 2) else ""
    normal = g.emit(n, "layernorm", [x], part=part, axes=axes, epsilon=_epsilon(n), center=center)
    scaled(g, n, normal)
    if max(n.made) > 0:
        _statistics(g, n, x, axes)


def _statistics(g: Builder, n: OnnxNode, x: str, axes: tuple[int, ...]) -> None:
    """The results Mean and InvStdDev of LayerNormalization."""
    named = [place in n.made for place in (1, 2)]
    mean = g.emit(n, "reduce", [x], part="" if named[0] else "mean", output=int(named[0]), how="mean", axes=axes)
    if named[1]:
        difference = g.emit(n, "sub", [x, mean], part="difference")
        square = g.emit(n, "mul", [difference, difference], part="square")
        variance = g.emit(n, "reduce", [square], part="variance", how="mean", axes=axes)
        deviation = g.emit(n, "sqrt", [g.with_number(n, "add", variance, _epsilon(n), "shifted")], part="deviation")
        g.emit(n, "reciprocal", [deviation], output=2)


@operator("InstanceNormalization", "epsilon")
def _instance_norm(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape = g.shape(x)
    if len(shape) < 3:
        n.fail(f"expected samples, channels and more axes, got {shape}")
    axes = tuple(range(2, len(shape)))
    normal = g.emit(n, "layernorm", [x], part="normal", axes=axes, epsilon=_epsilon(n))
    scaled(g, n, normal, (1, shape[1], *(1,) * len(axes)))


@operator("GroupNormalization", "epsilon num_groups stash_type")
def _group_norm(g: Builder, n: OnnxNode) -> None:
    """Scale and bias are per channel; in opset 18 per group."""
    x, groups = g.x(n), n.get("num_groups", int)
    shape = g.shape(x)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        n.fail(f"{groups} groups do not divide the channels of {shape}")
    split = (shape[0], groups, shape[1] // groups, *shape[2:])
    apart = g.emit(n, "reshape", [x], part="groups", shape=split)
    axes = tuple(range(2, len(split)))
    normal = g.emit(n, "layernorm", [apart], part="normal", axes=axes, epsilon=_epsilon(n))
    ones = (1,) * len(shape[2:])
    if n.opset >= 21 or groups == shape[1]:
        joined = g.emit(n, "reshape", [normal], part="joined", shape=shape)
        scaled(g, n, joined, (1, shape[1], *ones))
        return
    gain, shift = (_reshaped(g, n, g.value(n, i), (1, groups, 1, *ones)) for i in (1, 2))
    gained = binary(g, n, "mul", normal, gain, "scaled")
    g.emit(n, "reshape", [binary(g, n, "add", gained, shift, "shifted")], shape=shape)


@operator("MeanVarianceNormalization", "axes")
def _mean_variance_norm(g: Builder, n: OnnxNode) -> None:
    """ONNX adds 1e-9 to the deviation, which is the root of this to the variance."""
    x = g.x(n)
    axes = n.get("axes", list, [0, 2, 3])
    axes = tuple(sorted({n.axis(axis, len(g.shape(x))) for axis in n.ints("axes", len(axes), axes)}))
    g.emit(n, "layernorm", [x], axes=axes, epsilon=1e-18)


@operator("BatchNormalization", "epsilon is_test momentum spatial training_mode", "inference")
def _batch_norm(g: Builder, n: OnnxNode) -> None:
    """x * scale + shift per channel, or per element where ``spatial`` is 0; ``rewrite`` folds both into the convolution
    before it, where there is one."""
    x = g.x(n)
    shape = g.shape(x)
    training = n.get("training_mode", int, 0) or (n.opset < 7 and not n.get("is_test", int, 0))
    if training:
        n.fail("only inference is supported")
    operands = [g.value(n, i) for i in range(1, 5)]
    shapes = {g.shape_of(operand) for operand in operands}
    if n.get("spatial", int, 1):
        channels = shape[1] if len(shape) > 1 else 1
        if shapes != {(channels,)}:
            n.fail(f"scale, bias, mean and variance must have the {channels} channels of {shape}")
        places = (1, channels, *(1,) * (len(shape) - 2)) if len(shape) > 1 else (1,)
    else:
        places = (1, *shape[1:])
        if len(shapes) > 1 or prod(max(shapes)) != prod(places):
            n.fail(f"scale, bias, mean and variance must have the elements of {shape[1:]}")
    if all(isinstance(operand, np.ndarray) for operand in operands):
        factor, shift = _folded(g, n, places)
    else:
        factor, shift = _computed(g, n, operands, places)
    g.emit(n, "add", [g.emit(n, "mul", [x, factor], part="scaled"), shift])


def _folded(g: Builder, n: OnnxNode, shape: Shape) -> tuple[str, str]:
    gamma, beta, mean, variance = (g.floats(n, i).astype(np.float64) for i in range(1, 5))
    spread = variance + _epsilon(n)
    if not spread.min() > 0:
        n.fail("variance + epsilon must be positive")
    scale = gamma / np.sqrt(spread)
    factor = g.keep(scale.reshape(shape), n.inputs[1])
    return factor, g.keep((beta - mean * scale).reshape(shape), n.inputs[2])


def _computed(g: Builder, n: OnnxNode, operands: Sequence[Value], shape: Shape) -> tuple[str, str]:
    gamma, beta, mean, variance = aligned(g, n, operands)
    deviation = g.emit(n, "sqrt", [g.with_number(n, "add", variance, _epsilon(n), "spread")], part="deviation")
    factor = g.emit(n, "div", [gamma, deviation], part="factor")
    shift = g.emit(n, "sub", [beta, g.emit(n, "mul", [mean, factor], part="offset")], part="shift")
    return g.reshape(n, factor, shape, part="factors"), g.reshape(n, shift, shape, part="shifts")


@operator("LRN", "alpha beta bias size")
def _lrn(g: Builder, n: OnnxNode) -> None:
    """Across channels: all axes behind them count as one."""
    x = g.x(n)
    shape = g.shape(x)
    if len(shape) < 2:
        n.fail(f"expected samples and channels, got {shape}")
    numbers = {name: n.get(name, float, default) for name, default in attributes("lrn").items()}
    size = n.get("size", int)
    if len(shape) == 4:
        g.emit(n, "lrn", [x], size=size, **numbers)
        return
    image = g.reshape(n, x, (*shape[:2], prod(shape[2:]), 1), part="image")
    g.reshape(n, g.emit(n, "lrn", [image], part="normal", size=size, **numbers), shape)
