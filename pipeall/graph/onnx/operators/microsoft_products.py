"""Products with quantized weights of the domain com.microsoft, in operators of ONNX on real numbers."""

from __future__ import annotations

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from ..read.few_bits import unpacked
from .microsoft import OPSET, apply, constant, given, ms


def _product(g: Builder, n: OnnxNode, a: str, b: str, bias: int) -> None:
    """a times b, plus input ``bias`` where it is there."""
    y = apply(g, n, "MatMul", [a, b], "product" if g.has(n, bias) else "")
    if g.has(n, bias):
        apply(g, n, "Add", [y, n.inputs[bias]])


def _dequantized(g: Builder, n: OnnxNode, i: int, scale: int, zero: int, part: str) -> str:
    """The integers of input i as real numbers; there may be a scale for each place of the last axis."""
    inputs = [given(g, n, i), given(g, n, scale), n.inputs[zero] if g.has(n, zero) else ""]
    return apply(g, n, "DequantizeLinear", inputs, part, axis=len(g.shape_of(g.value(n, i))) - 1)


@operator(ms("MatMulIntegerToFloat"), limits="int8 and uint8, computed in float32")
def _integer_to_float(g: Builder, n: OnnxNode) -> None:
    _product(g, n, _dequantized(g, n, 0, 2, 4, "a"), _dequantized(g, n, 1, 3, 5, "b"), 6)


@operator(ms("DynamicQuantizeMatMul"), limits="int8 and uint8, computed in float32")
def _dynamic(g: Builder, n: OnnxNode) -> None:
    """The first operand is put on the 256 levels of its own range."""
    parts = tuple(g.fresh(f"{n.outputs[0]}/{part}") for part in ("levels", "scale", "zero"))
    g.convert(OnnxNode(parts[0], "DynamicQuantizeLinear", n.inputs[:1], parts, {}, OPSET))
    a = apply(g, n, "DequantizeLinear", parts, "a")
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
    _product(g, n, n.inputs[0], constant(g, n, weight.astype(np.float32).T, "weight"), 5)


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
