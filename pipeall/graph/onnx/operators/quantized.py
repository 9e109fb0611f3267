"""Quantized networks in ops on real numbers: QDQ files and operators on integers (QOperator), by their definitions.

A quantized tensor's integers q mean scale * (q - zero point). QuantizeLinear rounds half to even and saturates: it puts
values on levels (``fakequant``), and stores them as integers (``quantize``). Where these are only read as real numbers,
``rewrite`` leaves out that they were stored. ``int8`` computes what is between levels in 8 bits.
"""

from __future__ import annotations

import numpy as np

from ..read.build import Builder, OnnxNode, Value, operator
from ..read.element_types import limits
from ..read.fold import check_scale, levels_of, parameter_shape
from .microsoft import CONV, ms, with_channels_first
from .pointwise_nodes import binary

Parameter = Value | None
INTEGERS = ("int8", "uint8", "int32")
HELD = {"int16": "int32", "uint16": "int32"}  # levels of other types, by what holds them
COMPUTED = "int8 and uint8, computed in float32"
POOL = "auto_pad ceil_mode count_include_pad kernel_shape pads strides"


def _parameters(g: Builder, n: OnnxNode, shape: tuple[int, ...]) -> tuple[Parameter, Parameter]:
    """Scale and zero point (None for 0) of inputs 1 and 2, as they lie in a tensor of this shape."""
    if n.get("block_size", int, 0):
        n.fail("blocked quantization is supported of constants only")
    parameters: list[Parameter] = []
    for i in (1, 2):
        value = g.value(n, i) if i == 1 or g.has(n, i) else None
        if value is not None:
            full = parameter_shape(n, i, g.shape_of(value), shape)
            value = g.reshape(n, value, full, part=f"parameter{i}")
        parameters.append(value)
    scale, zero = parameters
    if isinstance(scale, np.ndarray):
        check_scale(n, scale)
    return scale, zero


def _single(scale: Parameter, zero: Parameter) -> tuple[float, int] | None:
    """Scale, above 0, and zero point of a whole tensor, known before the network runs; else None."""
    if (
        not isinstance(scale, np.ndarray)
        or scale.size != 1
        or not scale.all()
        or isinstance(zero, str)
        or (zero is not None and zero.size != 1)
    ):
        return None
    return scale.item(), 0 if zero is None else int(zero.item())


def _type(g: Builder, value: Value) -> np.dtype:
    """With its number of bits."""
    return np.dtype(g.dtype(value)) if isinstance(value, str) else value.dtype


def _held(dtype: np.dtype) -> str:
    """The type of a tensor of these integers."""
    return HELD.get(dtype.name, dtype.name)


@operator(
    f"QuantizeLinear {ms('QuantizeLinear')}",
    "axis block_size output_dtype precision saturate",
    "integers of 2, 4, 8 and 16 bits; computed in float32",
)
def _quantize(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    scale, zero = _parameters(g, n, g.shape(x))
    if isinstance(scale, np.ndarray) and not scale.all():
        n.fail("scales must be above 0, got 0")
    dtype = levels_of(n, n.get("output_dtype", int, 0), None if zero is None else _type(g, zero))
    lo, hi = limits(dtype)
    if (single := _single(scale, zero)) is not None and hi - lo == 255:
        put = g.emit(n, "fakequant", [x], part="levels", scale=single[0], low=float(lo - single[1]))
        g.emit(n, "quantize", [put], scale=single[0], zero=single[1], to=dtype.name)
        return
    steps = g.emit(n, "round", [binary(g, n, "div", x, scale, "steps")], part="rounded")
    if zero is not None:
        steps = binary(g, n, "add", steps, g.cast(n, zero, "float32", "zero"), "shifted")
    levels = g.emit(n, "clip", [steps], part="levels", lo=float(lo), hi=float(hi))
    g.cast(n, levels, _held(dtype))


@operator(
    f"DequantizeLinear {ms('DequantizeLinear')}",
    "axis block_size output_dtype",
    "integers of 2, 4, 8 and 16 bits, and int32; computed in float32",
)
def _dequantize(g: Builder, n: OnnxNode) -> None:
    value = g.value(n, 0)
    if isinstance(value, np.ndarray):  # of a scale that is computed
        value = g.keep(value.astype(_held(value.dtype)), n.inputs[0])
    scale, zero = _parameters(g, n, g.shape(value))
    if g.dtype(value) not in INTEGERS:
        n.fail(f"integers of at most 16 bits and int32 are supported, got {g.dtype(value)}")
    if zero is not None and _held(_type(g, zero)) != g.dtype(value):
        n.fail(f"the zero point is of {_type(g, zero)}, its tensor of {g.dtype(value)}")
    if (single := _single(scale, zero)) is not None:
        g.emit(n, "dequantize", [value], scale=single[0], zero=single[1])
        return
    x = g.cast(n, value, "float32", "levels")
    if zero is not None and not (isinstance(zero, np.ndarray) and not zero.any()):
        x = binary(g, n, "sub", x, g.cast(n, zero, "float32", "zero"), "steps")
    binary(g, n, "mul", x, scale)


# ---- operators on integers: what they read is dequantized, the result quantized ----


def _read(g: Builder, n: OnnxNode, i: int, part: str, axis: int = 0) -> str:
    """Input i, of scale i + 1 and zero point i + 2, as real numbers: its ONNX name."""
    inputs = [n.inputs[k] if g.has(n, k) else "" for k in range(i, i + 3)]
    return g.apply(n, "DequantizeLinear", inputs, part, axis=axis)


def _made(g: Builder, n: OnnxNode, y: str, i: int) -> None:
    """Real numbers, quantized by the scale in input i and the zero point after it, as the output of the node."""
    g.apply(n, "QuantizeLinear", [y, *n.inputs[i : i + 2]])


def _given(n: OnnxNode, names: str) -> dict:
    return {name: value for name, value in n.attrs.items() if name in names.split()}


def _bias(g: Builder, n: OnnxNode, i: int) -> list[str]:
    """The int32 bias in input i, whose scale is that of input 0 times that of input 3; nothing where there is none."""
    if not g.has(n, i):
        return []
    scale = g.fresh(f"{n.outputs[0]}/scale")
    g.values[scale] = g.floats(n, 1).reshape(-1) * g.floats(n, 4).reshape(-1)
    return [g.apply(n, "DequantizeLinear", [n.inputs[i], scale], "bias", axis=0)]


@operator(f"QLinearConv {ms('QLinearConv')}", f"{CONV} channels_last", f"as Conv; {COMPUTED}")
def _qlinear_conv(g: Builder, n: OnnxNode) -> None:
    read = [_read(g, n, 0, "x"), _read(g, n, 3, "w"), *_bias(g, n, 8)]
    _made(g, n, with_channels_first(g, n, "Conv", read, "y", **_given(n, CONV)), 6)


@operator("QLinearMatMul", limits=f"as MatMul; {COMPUTED}")
def _qlinear_matmul(g: Builder, n: OnnxNode) -> None:
    ranks = [max(len(g.shape_of(g.value(n, i))), 2) for i in (0, 3)]
    read = [_read(g, n, 0, "a", axis=ranks[0] - 2), _read(g, n, 3, "b", axis=ranks[1] - 1)]
    _made(g, n, g.apply(n, "MatMul", read, "y"), 6)


@operator(ms("QGemm"), "alpha transA transB", f"as Gemm; {COMPUTED}")
def _qgemm(g: Builder, n: OnnxNode) -> None:
    attrs = _given(n, "alpha transA transB")
    read = [_read(g, n, 0, "a"), _read(g, n, 3, "b", axis=0 if n.get("transB", int, 0) else 1), *_bias(g, n, 6)]
    if g.has(n, 7):
        _made(g, n, g.apply(n, "Gemm", read, "y", **attrs), 7)
    else:
        g.apply(n, "Gemm", read, **attrs)


@operator(ms("QLinearWhere"), limits=COMPUTED)
def _qlinear_where(g: Builder, n: OnnxNode) -> None:
    _made(g, n, g.apply(n, "Where", [n.inputs[0], _read(g, n, 1, "a"), _read(g, n, 4, "b")], "y"), 7)


@operator(ms("QLinearAdd QLinearMul"), limits=COMPUTED)
def _qlinear_binary(g: Builder, n: OnnxNode) -> None:
    _made(g, n, g.apply(n, _real_op(n), [_read(g, n, 0, "a"), _read(g, n, 3, "b")], "y"), 6)


@operator(ms("QLinearSigmoid QLinearLeakyRelu QLinearSoftmax"), "alpha axis opset", "int8 and uint8, in float32")
@operator(ms("QLinearAveragePool QLinearGlobalAveragePool"), f"{POOL} channels_last", COMPUTED)
def _qlinear_unary(g: Builder, n: OnnxNode) -> None:
    op = _real_op(n)
    attrs = _given(n, {"Sigmoid": "", "LeakyRelu": "alpha", "Softmax": "axis"}.get(op, POOL))
    if op == "Softmax" and n.get("opset", int, 13) < 13 and n.get("axis", int, 1) not in (-1, _last(g, n)):
        n.fail("softmax over several axes (opset below 13) is not supported of integers")
    _made(g, n, with_channels_first(g, n, op, [_read(g, n, 0, "x")], "y", **attrs), 3)


def _real_op(n: OnnxNode) -> str:
    return n.op.rpartition("QLinear")[2]


def _last(g: Builder, n: OnnxNode) -> int:
    return len(g.shape_of(g.value(n, 0))) - 1


@operator(ms("QLinearConcat"), "axis", COMPUTED)
def _qlinear_concat(g: Builder, n: OnnxNode) -> None:
    parts = [_read(g, n, i, f"x{i // 3}") for i in range(2, len(n.inputs), 3)]
    _made(g, n, g.apply(n, "Concat", parts, "y", **n.attrs), 0)


def _less_zero(g: Builder, n: OnnxNode, i: int, zero: int, axis: int) -> str:
    """The integers of input i less the zero point in input ``zero``, as floats."""
    name, value = g.fresh(f"{n.outputs[0]}/one{i}"), g.value(n, zero) if g.has(n, zero) else None
    g.values[name] = np.ones(g.shape_of(value) if value is not None else (), np.float32)
    return g.apply(n, "DequantizeLinear", [n.inputs[i], name, *n.inputs[zero : zero + 1]], f"x{i}", axis=axis)


@operator("ConvInteger MatMulInteger", CONV, "sums are float32's: exact below 2^24")
def _integer(g: Builder, n: OnnxNode) -> None:
    conv = n.op == "ConvInteger"
    ranks = [len(g.shape_of(g.value(n, i))) for i in (0, 1)]
    axes = (0, 0) if conv else (max(ranks[0] - 2, 0), ranks[1] - 1)
    read = [_less_zero(g, n, i, i + 2, axis) for i, axis in enumerate(axes)]
    y = g.apply(n, "Conv" if conv else "MatMul", read, "y", **_given(n, CONV))
    g.cast(n, g.emit(n, "round", [g.values[y]], part="sums"), "int32")
