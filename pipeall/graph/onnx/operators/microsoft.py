"""Operators of the domain com.microsoft, which onnxruntime's optimizer and exporters write, in operators of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..read.build import OPSET, Builder, OnnxNode, operator
from ..read.element_types import unpacked

CONV = "auto_pad dilations group kernel_shape pads strides"
ACTIVATIONS = {  # of fused operators, with the names of their parameters
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
    "HardSwish": (),
}


def ms(names: str) -> str:
    return " ".join(f"com.microsoft.{name}" for name in names.split())


def renamed(names: str, op: str, attributes: str = "", limits: str = "", **attrs: Any) -> None:
    """Registers operators that are one of ONNX's under other names; ``attrs`` are those that it has always."""

    @operator(names, attributes, limits)
    def convert(g: Builder, n: OnnxNode) -> None:
        g.apply(n, op, n.inputs, **n.attrs, **attrs)


NORM = "axis epsilon stash_type"
renamed("SimplifiedLayerNormalization", "RMSNormalization", NORM, "one result")  # in ONNX's own domain
renamed(ms("LayerNormalization"), "LayerNormalization", NORM, "as LayerNormalization; one result")


def _activated(g: Builder, n: OnnxNode, x: str, parameters: Sequence[float]) -> None:
    """The activation that the attribute names, of ``x``, as the output of the node."""
    name = n.get("activation", str)
    if name not in ACTIVATIONS or len(parameters) != len(ACTIVATIONS[name]):
        n.fail(f"activation {name!r} with {len(parameters)} parameters is not supported")
    if name == "Clip":
        g.apply(n, "Clip", [x, *(g.named(n, bound) for bound in parameters)])
    else:
        g.apply(n, name, [x], **dict(zip(ACTIVATIONS[name], parameters, strict=True)))


@operator(ms("FusedConv"), f"{CONV} activation activation_params", "as Conv")
@operator(ms("NhwcConv NhwcFusedConv"), f"{CONV} activation activation_params", "as Conv; only the pixels are NHWC")
def convolved(g: Builder, n: OnnxNode) -> None:
    """A convolution by inputs 1 and 2, with input 3 added, and an activation."""
    summed, fused = g.has(n, 3), bool(n.attrs.get("activation"))
    attrs = {name: value for name, value in n.attrs.items() if name in CONV.split()}
    x = with_channels_first(g, n, "Conv", n.inputs[:3], "conv" if summed or fused else "", **attrs)
    if summed:
        x = g.apply(n, "Add", [x, n.inputs[3]], "sum" if fused else "")
    if fused:
        _activated(g, n, x, n.get("activation_params", list, []))


def with_channels_first(g: Builder, n: OnnxNode, op: str, inputs: Sequence[str], part: str = "", **attrs: Any) -> str:
    """As ``apply``, where ``channels_last`` says so of input 0 with its channels last."""
    if not n.get("channels_last", int, n.op.startswith("com.microsoft.Nhwc")):
        return g.apply(n, op, inputs, part, **attrs)
    axes = list(range(len(g.shape_of(g.values[inputs[0]]))))
    if len(axes) < 3:
        n.fail(f"expected samples, pixels and channels, got rank {len(axes)}")
    x = g.apply(n, "Transpose", inputs[:1], f"{part}/channels", perm=[0, axes[-1], *axes[1:-1]])
    y = g.apply(n, op, [x, *inputs[1:]], f"{part}/first", **attrs)
    return g.apply(n, "Transpose", [y], part, perm=[0, *axes[2:], 1])


@operator(ms("NhwcMaxPool"), "auto_pad ceil_mode dilations kernel_shape pads strides", "the pixels are NHWC")
def _nhwc_max_pool(g: Builder, n: OnnxNode) -> None:
    with_channels_first(g, n, "MaxPool", n.inputs[:1], **n.attrs)


@operator(
    ms("FusedGemm"),
    "activation activation_alpha activation_beta activation_gamma alpha beta transA transB",
    "as Gemm",
)
def _fused_gemm(g: Builder, n: OnnxNode) -> None:
    attrs = {name: value for name, value in n.attrs.items() if name in ("alpha", "beta", "transA", "transB")}
    fused = bool(n.attrs.get("activation"))
    x = g.apply(n, "Gemm", n.inputs, "product" if fused else "", **attrs)
    if fused:
        given = (n.get(f"activation_{name}", float, 0.0) for name in ("alpha", "beta"))
        _activated(g, n, x, list(given)[: len(ACTIVATIONS.get(n.get("activation", str), ()))])


@operator(ms("FusedMatMul TransposeMatMul"), "alpha transA transB transBatchA transBatchB", "as MatMul")
def _fused_matmul(g: Builder, n: OnnxNode) -> None:
    """alpha A B; of each the first axis may come behind those of the batch, and then the last two be exchanged."""
    factors, alpha = list(n.inputs[:2]), n.get("alpha", float, 1.0)
    for i, name in enumerate("AB"):
        axes = list(range(len(g.shape_of(g.value(n, i)))))
        if n.get(f"transBatch{name}", int, 0) and len(axes) > 2:
            axes = [*axes[1:-1], 0, axes[-1]]
        if n.get(f"trans{name}", int, 0) and len(axes) > 1:
            axes[-2:] = axes[:-3:-1]
        if axes != sorted(axes):
            factors[i] = g.apply(n, "Transpose", [factors[i]], name, perm=axes)
    x = g.apply(n, "MatMul", factors, "product" if alpha != 1 else "")
    if alpha != 1:
        g.apply(n, "Mul", [x, g.named(n, alpha)])


@operator(ms("Gelu BiasGelu FastGelu"))
def _gelu(g: Builder, n: OnnxNode) -> None:
    x = g.apply(n, "Add", n.inputs[:2], "sum") if g.has(n, 1) else n.inputs[0]
    g.apply(n, "Gelu", [x], approximate="tanh" if n.op.endswith("FastGelu") else "none")


@operator(ms("QuickGelu"), "alpha")
def _quick_gelu(g: Builder, n: OnnxNode) -> None:
    """x sigmoid(alpha x)"""
    scaled = g.apply(n, "Mul", [n.inputs[0], g.named(n, n.get("alpha", float, 1.702))], "scaled")
    g.apply(n, "Mul", [n.inputs[0], g.apply(n, "Sigmoid", [scaled], "gate")])


@operator(ms("SkipLayerNormalization SkipSimplifiedLayerNormalization"), "epsilon", "without mean and deviation")
def _skip_layer_norm(g: Builder, n: OnnxNode) -> None:
    """The normalized sum of two or three operands; the fourth output is that sum."""
    simple = n.op.endswith("SkipSimplifiedLayerNormalization")
    bias = 3 if simple else 4
    for i in range(3):
        g.value(n, i)  # raises where it is absent
    total = g.apply(n, "Add", n.inputs[:2], "sum")
    if g.has(n, bias):
        total = g.apply(n, "Add", [total, n.inputs[bias]], "biased")
    scale = n.inputs[2:3] if simple else n.inputs[2:4]
    op = "RMSNormalization" if simple else "LayerNormalization"
    g.apply(n, op, [total, *scale], axis=-1, epsilon=n.get("epsilon", float, 1e-12 if not simple else 1e-5))
    if 3 in n.made:
        g.bind(n, g.values[total], 3)


# ---- products by quantized weights, on real numbers ----


def _product(g: Builder, n: OnnxNode, a: str, b: str, bias: int) -> None:
    """a times b, plus input ``bias`` where it is there."""
    y = g.apply(n, "MatMul", [a, b], "product" if g.has(n, bias) else "")
    if g.has(n, bias):
        g.apply(n, "Add", [y, n.inputs[bias]])


def _dequantized(g: Builder, n: OnnxNode, i: int, scale: int, zero: int, part: str) -> str:
    """The integers of input i as real numbers; there may be a scale for each place of the last axis."""
    inputs = [g.given(n, i), g.given(n, scale), n.inputs[zero] if g.has(n, zero) else ""]
    return g.apply(n, "DequantizeLinear", inputs, part, axis=len(g.shape_of(g.value(n, i))) - 1)


@operator(ms("MatMulIntegerToFloat"), limits="int8 and uint8, computed in float32")
def _integer_to_float(g: Builder, n: OnnxNode) -> None:
    _product(g, n, _dequantized(g, n, 0, 2, 4, "a"), _dequantized(g, n, 1, 3, 5, "b"), 6)


@operator(ms("DynamicQuantizeMatMul"), limits="int8 and uint8, computed in float32")
def _dynamic(g: Builder, n: OnnxNode) -> None:
    """The first operand is put on the 256 levels of its own range."""
    parts = tuple(g.fresh(f"{n.outputs[0]}/{part}") for part in ("levels", "scale", "zero"))
    g.convert(OnnxNode(parts[0], "DynamicQuantizeLinear", n.inputs[:1], parts, {}, OPSET))
    a = g.apply(n, "DequantizeLinear", parts, "a")
    _product(g, n, a, _dequantized(g, n, 1, 2, 3, "b"), 4)


@operator(
    ms("MatMulNBits"),
    "K N accuracy_level bits block_size weight_prepacked",
    "constant weights of 2, 4 or 8 bits, computed in float32",
)
def _n_bits(g: Builder, n: OnnxNode) -> None:
    """Weights (N, K) in blocks along K, with a scale and a zero point for each block."""
    rows, columns, bits, block = (n.get(name, int) for name in ("N", "K", "bits", "block_size"))
    if bits not in (2, 4, 8) or rows < 1 or columns < 1 or block < 1 or n.get("weight_prepacked", int, 0):
        n.fail(f"weights of {rows} x {columns} with {bits} bits in blocks of {block} are not supported")
    count = -(-columns // block)
    g.afford(n, rows * count * block)
    packed = g.constant(n, 1)
    if packed.dtype != np.uint8 or packed.size * 8 != rows * count * block * bits:
        n.fail(f"input 1 has shape {packed.shape}, expected {(rows, count, block * bits // 8)} bytes")
    levels = unpacked(packed.reshape(rows, -1), bits)
    groups = np.arange(columns) // block
    if g.has(n, 4):
        groups = np.array(g.ints(n, 4))
        if groups.shape != (columns,) or not ((groups >= 0) & (groups < count)).all():
            n.fail(f"input 4 must hold a block of {count} for each of the {columns} columns")
    scale = _by_block(n, 2, g.floats(n, 2), (rows, count))
    zero = np.float32(2 ** (bits - 1)) if not g.has(n, 3) else _zeros(g, n, bits, (rows, count))[:, groups]
    weight = (levels[:, :columns] - zero) * scale[:, groups]
    _product(g, n, n.inputs[0], g.named(n, weight.astype(np.float32).T, "weight"), 5)


def _by_block(n: OnnxNode, i: int, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    if values.size != shape[0] * shape[1]:
        n.fail(f"input {i} has shape {values.shape}, expected {shape}")
    return values.reshape(shape)


def _zeros(g: Builder, n: OnnxNode, bits: int, shape: tuple[int, int]) -> np.ndarray:
    """Zero points of the blocks: floats, or packed like the weights, each row in whole bytes."""
    zero = g.constant(n, 3)
    if zero.dtype.kind == "f":
        return _by_block(n, 3, zero, shape)
    rows, count = shape
    if zero.dtype != np.uint8 or zero.size != rows * -(-count * bits // 8):
        n.fail(f"input 3 has shape {zero.shape}, expected {(rows, -(-count * bits // 8))} bytes")
    return unpacked(zero.reshape(rows, -1), bits)[:, :count].astype(np.float32)
