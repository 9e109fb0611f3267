"""ONNX's MatMul and Gemm in canonical ops: by constant weights a fully connected layer, else a matrix product."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ops import MAX_RANK
from ..read.build import Builder, OnnxNode, operator
from .movement import taken
from .pointwise_nodes import aligned, binary, named, with_number

Shape = tuple[int, ...]

INTEGERS = ("int32", "int64")
MAX_PRODUCTS = 2**22  # of integers, before they are added up


def zeros(g: Builder, n: OnnxNode, count: int) -> str:
    """A bias of nothing."""
    return g.keep(np.zeros(count, np.float32), g.fresh(f"{n.outputs[0]}/bias"))


@operator("MatMul", limits="of floats, int32 and int64")
def _matmul(g: Builder, n: OnnxNode) -> None:
    a, b = g.value(n, 0), g.value(n, 1)
    shapes = [g.shape_of(value) for value in (a, b)]
    kinds = {g.dtype(value) if isinstance(value, str) else value.dtype.name for value in (a, b)}
    integers = len(kinds) == 1 and kinds <= set(INTEGERS)
    if not integers and not all(kind.startswith("float") for kind in kinds):
        n.fail(f"only products of floats, int32 or int64 are supported, got {' and '.join(sorted(kinds))}")
    if not all(shapes):
        n.fail(f"cannot multiply {shapes[0]} by {shapes[1]}")
    matrix = isinstance(b, np.ndarray) and b.ndim >= 2 and prod(b.shape[:-2]) == 1 and b.ndim <= max(2, len(shapes[0]))
    if isinstance(a, str) and matrix and not integers:
        if shapes[0][-1] != b.shape[-2]:
            n.fail(f"cannot multiply {shapes[0]} by {b.shape}")
        weight = b.reshape(b.shape[-2:]).T
        g.emit(n, "fc", [a, g.keep(weight, n.inputs[1]), zeros(g, n, len(weight))], axis=len(shapes[0]) - 1)
    else:
        matmul(g, n, a, b)


def matmul(g: Builder, n: OnnxNode, a: np.ndarray | str, b: np.ndarray | str, part: str = "") -> str:
    """The product of operands of any ranks as NumPy's ``matmul``; vectors are rows or columns on the way."""
    shapes = [g.shape_of(value) for value in (a, b)]
    rows, columns = (_matrix(g, n, v, axis) if len(g.shape_of(v)) == 1 else v for v, axis in ((a, 0), (b, 1)))
    rows, columns = aligned(g, n, (rows, columns))
    vectors = [len(shape) == 1 for shape in shapes]
    multiply = _of_integers if g.dtype(rows) in INTEGERS else _of_floats
    product = multiply(g, n, rows, columns, f"{part}product" if any(vectors) else part)
    if any(vectors):
        out = g.shape(product)
        kept = out[:-2] + (() if vectors[0] else out[-2:-1]) + (() if vectors[1] else out[-1:])
        return g.reshape(n, product, kept, part)
    return product


def _of_floats(g: Builder, n: OnnxNode, a: str, b: str, part: str) -> str:
    return g.emit(n, "matmul", [a, b], part=part)


def _of_integers(g: Builder, n: OnnxNode, a: str, b: str, part: str) -> str:
    """Sums of the products, modulo 2^bits; of some columns of a and rows of b at a time."""
    (*outer, rows, depth), (*inner, _, columns) = g.shape(a), g.shape(b)
    if g.shape(b)[-2] != depth or len(outer) + 3 > MAX_RANK:
        n.fail(f"cannot multiply {g.shape(a)} by {g.shape(b)}")
    a = g.reshape(n, a, (*outer, rows, depth, 1), part="columns")
    b = g.reshape(n, b, (*inner, 1, depth, columns), part="rows")
    axis = len(outer) + 1
    each = max(1, MAX_PRODUCTS // max(prod(g.shape(a)) // depth * columns, prod(g.shape(b)) // depth * rows))
    total = ""
    for start in range(0, depth, each):
        stop = min(start + each, depth)
        x, y = (taken(g, n, v, axis, range(start, stop), "few") if each < depth else v for v in (a, b))
        last, first = stop == depth, start == 0
        products = g.emit(n, "mul", [x, y], part="products")
        sums = g.emit(n, "reduce", [products], part=part if last and first else "sums", how="sum", axes=(axis,),
                      keepdims=False)  # fmt: skip
        total = sums if first else g.emit(n, "add", [total, sums], part=part if last else "total")
    return total


def _matrix(g: Builder, n: OnnxNode, vector: np.ndarray | str, axis: int) -> np.ndarray | str:
    """A vector as a matrix with one row (axis 0) or column."""
    if isinstance(vector, np.ndarray):
        return g.keep(np.expand_dims(vector, axis), named(g, n, vector))
    (size,) = g.shape(vector)
    return g.reshape(n, vector, (1, size) if axis == 0 else (size, 1), part="vector")


@operator("Gemm", "alpha beta broadcast transA transB")
def _gemm(g: Builder, n: OnnxNode) -> None:
    """alpha A B + beta C"""
    a, b = (_oriented(g, n, i) for i in (0, 1))
    shapes = g.shape_of(a), g.shape_of(b)
    if shapes[0][1] != shapes[1][0]:
        n.fail(f"cannot multiply {shapes[0]} by {shapes[1]}")
    out = (shapes[0][0], shapes[1][1])
    bias = g.value(n, 2) if g.has(n, 2) and n.get("beta", float, 1.0) else None
    if bias is not None:
        shape = g.shape_of(bias)
        fits = len(shape) <= 2 and all(size in (1, whole) for size, whole in zip(shape[::-1], out[::-1], strict=False))
        if not fits:
            n.fail(f"C {shape} does not broadcast to {out}")
    row = isinstance(bias, np.ndarray) and prod(bias.shape[:-1]) == 1
    if isinstance(a, str) and isinstance(b, np.ndarray):
        weight = b.T * n.get("alpha", float, 1.0) if n.get("alpha", float, 1.0) != 1 else b.T
        if row or bias is None:
            g.emit(n, "fc", [a, g.keep(weight, n.inputs[1]), _row(g, n, bias, out[1])])
            return
        product = g.emit(n, "fc", [a, g.keep(weight, n.inputs[1]), zeros(g, n, out[1])], part="product")
    else:
        names = aligned(g, n, (a, b))
        part = "" if bias is None else "product"
        product = g.emit(n, "matmul", names, part=part, alpha=n.get("alpha", float, 1.0))
    if bias is not None:
        binary(g, n, "add", product, _scaled(g, n, bias))


def _oriented(g: Builder, n: OnnxNode, i: int) -> np.ndarray | str:
    """Operand A or B, transposed if the node says so."""
    value = g.value(n, i)
    if len(g.shape_of(value)) != 2:
        n.fail(f"expected matrices, got {g.shape_of(value)}")
    if isinstance(value, np.ndarray) and value.dtype.kind != "f":
        n.fail(f"only products of floats are supported, got {value.dtype}")
    if not n.get(f"trans{'AB'[i]}", int, 0):
        return value
    if isinstance(value, np.ndarray):
        return value.T
    return g.emit(n, "transpose", [value], part="AB"[i], perm=(1, 0))


def _row(g: Builder, n: OnnxNode, bias: np.ndarray | None, count: int) -> str:
    """beta C as the bias of a layer."""
    beta = n.get("beta", float, 1.0)
    if bias is None:
        return zeros(g, n, count)
    if bias.dtype.kind != "f":
        n.fail(f"only sums of floats are supported, got {bias.dtype}")
    if bias.shape == (count,) and beta == 1:
        return g.weight(n, 2)
    return g.keep(np.broadcast_to(bias * beta, (1, count))[0], n.inputs[2])


def _scaled(g: Builder, n: OnnxNode, bias: np.ndarray | str) -> np.ndarray | str:
    beta = n.get("beta", float, 1.0)
    if beta == 1:
        return bias
    return np.asarray(bias * beta) if isinstance(bias, np.ndarray) else with_number(g, n, "mul", bias, beta, "scaled")
