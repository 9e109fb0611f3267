"""What ONNX operators each op becomes when a graph is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import ArgumentError
from ...ir import Node
from ...pointwise import BINARY, UNARY, Unary
from ..operators.reductions import HOW
from .writer import Writer

Rule = Callable[[Writer, Node, str], Any]  # adds the nodes whose last one makes a tensor of that name
OPERATOR_OF = {how: name for name, how in HOW.items()}
AXES_ARE_INPUTS = 18  # of all reductions; of sums since 13


def _numbers(w: Writer, values: Any) -> str:
    """A list of sizes or indices."""
    return w.constant(np.atleast_1d(np.asarray(values, np.int64)))


def _conv(w: Writer, node: Node, output: str) -> None:
    x, weight, bias, *residual = node.inputs
    attrs = {name: node.attrs[name] for name in ("strides", "pads", "dilations")}
    inner = w.fresh(f"{output}/sum") if residual else output
    inputs = [x, w.weight(weight), w.bias(bias, x, weight)]
    w.emit("Conv", inputs, inner, **attrs, group=node.attrs["groups"], kernel_shape=w.shape(weight)[2:])
    if residual:
        w.emit("Add", [inner, *residual], output)


def _deconv(w: Writer, node: Node, output: str) -> None:
    attrs = {name: node.attrs[name] for name in ("strides", "pads", "dilations", "output_padding")}
    kernel = w.shape(node.inputs[1])[2:]
    w.emit("ConvTranspose", node.inputs, output, **attrs, group=node.attrs["groups"], kernel_shape=kernel)


def _fc(w: Writer, node: Node, output: str) -> None:
    """Of rows a Gemm; of vectors along the last axis a MatMul."""
    x, weight, bias = node.inputs
    rank, axis = len(w.shape(x)), node.attrs["axis"]
    if axis == 1:
        flat = x if rank == 2 else w.emit("Flatten", [x], w.fresh(f"{output}/flat"), axis=1)
        w.emit("Gemm", [flat, w.weight(weight), w.bias(bias, x, weight)], output, transB=1)
    elif axis == rank - 1:
        product = w.emit("MatMul", [x, w.weight(weight, transposed=True)], w.fresh(f"{output}/product"))
        w.emit("Add", [product, w.bias(bias, x, weight)], output)
    else:
        raise ArgumentError(f"node {node.name!r}: expected axis 1 or the last of {rank} to write as ONNX, got {axis}")


def _matmul(w: Writer, node: Node, output: str) -> None:
    scaled = node.attrs["alpha"] != 1
    product = w.emit("MatMul", node.inputs, w.fresh(f"{output}/product") if scaled else output)
    if scaled:
        w.emit("Mul", [product, w.constant(np.float32(node.attrs["alpha"]))], output)


def _pool(op: str, *extra: str) -> Rule:
    def rule(w: Writer, node: Node, output: str) -> None:
        attrs = {name: node.attrs[name] for name in ("strides", "pads", *extra)}
        w.emit(op, node.inputs, output, **attrs, kernel_shape=node.attrs["kernel"], ceil_mode=node.attrs["ceil"])

    return rule


def _same(op: str, *names: str) -> Rule:
    return lambda w, node, output: w.emit(op, node.inputs, output, **{name: node.attrs[name] for name in names})


def _binary(op: str) -> Rule:
    def rule(w: Writer, node: Node, output: str) -> None:
        inputs = node.inputs[::-1] if node.attrs.get("swapped") else node.inputs
        if node.op == "prelu" and w.shape(node.output) != (x := w.shape(inputs[0])):
            slopes = w.shape(inputs[1])
            raise ArgumentError(f"node {node.name!r}: expected slopes that broadcast to {x}, got {slopes}")
        w.emit(op, inputs, output)

    return rule


def _unary(entry: Unary) -> Rule:
    names = entry.parameters
    return lambda w, node, out: w.emit(
        entry.onnx, node.inputs, out, **{name: float(node.attrs[name]) for name in names}
    )


def _swish(w: Writer, node: Node, output: str) -> None:
    (x,), alpha = node.inputs, node.attrs["alpha"]
    scaled = x if alpha == 1 else w.emit("Mul", [x, w.constant(np.float32(alpha))], w.fresh(f"{output}/scaled"))
    w.emit("Mul", [x, w.emit("Sigmoid", [scaled], w.fresh(f"{output}/sigmoid"))], output)


def _quantize(w: Writer, node: Node, output: str) -> None:
    w.stored_levels("QuantizeLinear", node.inputs[0], output, **_levels(node, node.attrs["to"]))


def _dequantize(w: Writer, node: Node, output: str) -> None:
    x = node.inputs[0]
    w.stored_levels("DequantizeLinear", x, output, **_levels(node, w.dtype(x)))


def _levels(node: Node, dtype: str) -> dict[str, Any]:
    return {"scale": node.attrs["scale"], "zero": node.attrs["zero"], "dtype": dtype}


# ---- moves ----


def _shaped(op: str) -> Rule:
    return lambda w, node, output: w.emit(op, [node.inputs[0], _numbers(w, node.attrs["shape"])], output)


def _slice(w: Writer, node: Node, output: str) -> None:
    bounds = (_numbers(w, node.attrs[name]) for name in ("start", "stop", "axis", "step"))
    w.emit("Slice", [node.inputs[0], *bounds], output)


def _pad(w: Writer, node: Node, output: str) -> None:
    attrs = node.attrs
    value = [w.constant(np.asarray(attrs["value"], w.dtype(node.output)))] if attrs["mode"] == "constant" else []
    inputs = [node.inputs[0], _numbers(w, (*attrs["pads_begin"], *attrs["pads_end"])), *value]
    w.emit("Pad", inputs, output, mode=attrs["mode"])


def _shuffle(w: Writer, node: Node, output: str) -> None:
    (images, channels, *size), groups = w.shape(node.output), node.attrs["groups"]
    split = _numbers(w, (images, groups, channels // groups, *size))
    x = w.emit("Reshape", [node.inputs[0], split], w.fresh(f"{output}/split"))
    x = w.emit("Transpose", [x], w.fresh(f"{output}/swapped"), perm=(0, 2, 1, 3, 4))
    w.emit("Reshape", [x, _numbers(w, (images, channels, *size))], output)


def _resize(w: Writer, node: Node, output: str) -> None:
    """By sizes where they say the scales too: implementations differ in how they round a size times a scale."""
    attrs, shape = node.attrs, w.shape(node.inputs[0])
    scales = np.asarray(attrs["scales"], np.float32)
    given = {
        "coordinate_transformation_mode": attrs["coordinates"],
        "mode": attrs["mode"],
        "nearest_mode": attrs["rounding"],
    }
    if attrs["mode"] == "cubic":
        given |= {"cubic_coeff_a": float(attrs["cubic_a"]), "exclude_outside": attrs["exclude_outside"]}
    if attrs["antialias"]:
        given["antialias"] = True
    exact = np.array_equal(scales, np.asarray(attrs["sizes"], np.float32) / np.asarray(shape, np.float32))
    how = ["", "", _numbers(w, attrs["sizes"])] if exact else ["", w.constant(scales)]
    w.emit("Resize", [node.inputs[0], *how], output, **given)


def _reduce(w: Writer, node: Node, output: str) -> None:
    how, axes = node.attrs["how"], node.attrs["axes"]
    as_input = how == "sum" or w.opset >= AXES_ARE_INPUTS
    inputs = [node.inputs[0], _numbers(w, axes)] if as_input else node.inputs
    attrs = {} if as_input else {"axes": axes}
    w.emit(OPERATOR_OF[how], inputs, output, keepdims=node.attrs["keepdims"], **attrs)


RULES: dict[str, Rule] = {
    "conv": _conv,
    "deconv": _deconv,
    "fc": _fc,
    "matmul": _matmul,
    "maxpool": _pool("MaxPool", "dilations"),
    "avgpool": _pool("AveragePool", "count_include_pad"),
    "lrn": _same("LRN", "alpha", "beta", "bias", "size"),
    "softmax": _same("Softmax", "axis"),
    "logsoftmax": _same("LogSoftmax", "axis"),
    "concat": _same("Concat", "axis"),
    "transpose": _same("Transpose", "perm"),
    "reshape": _shaped("Reshape"),
    "expand": _shaped("Expand"),
    "slice": _slice,
    "pad": _pad,
    "shuffle": _shuffle,
    "resize": _resize,
    "reduce": _reduce,
    # but for Mod, which takes floats only as fmod
    **{op: _binary(entry.onnx) for op, entry in BINARY.items() if entry.onnx and entry.floats and op != "mod"},
    **{op: _unary(entry) for op, entry in UNARY.items() if entry.onnx and entry.floats},
    "clip": lambda w, node, output: w.clamp(node.inputs[0], output, node.attrs["lo"], node.attrs["hi"]),
    "fakequant": lambda w, node, output: w.fakequant(node.inputs[0], output, **node.attrs),
    "quantize": _quantize,
    "dequantize": _dequantize,
    "swish": _swish,
    "gelu_tanh": lambda w, node, output: w.emit("Gelu", node.inputs, output, approximate="tanh"),
}
