"""Integers of 16 bits and unsigned ones of 32 and 64, which no device has: computed in the next type that holds them.

Where a result may leave its range it is taken modulo 2^bits, as onnxruntime's casts do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .build import Builder, OnnxNode, Value
from .element_types import WIDER

MOVES = frozenset(  # operators whose result lies in the range of their operands
    "Clip Concat DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND Identity Max Min Pad ReduceMax "
    "ReduceMin Reshape Resize ReverseSequence ScatterElements ScatterND Slice SpaceToDepth Split Squeeze Tile "
    "Transpose Trilu Unsqueeze Where".split()
)
SUMS = frozenset(  # those whose result may leave it
    "Abs Add BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CumSum Div Mod Mul Neg Pow ReduceProd ReduceSum Sub "
    "Sum".split()
)


def type_in_file(g: Builder, value: Value) -> str:
    """The element type that a value has in the file."""
    return value.dtype.name if isinstance(value, np.ndarray) else g.narrow.get(value, g.dtype(value))


def narrow_type(g: Builder, n: OnnxNode) -> str | None:
    """The type of a node's results where it is one of these; None where it is another."""
    if n.op not in MOVES and n.op not in SUMS:
        return None
    values = [g.values[name] for name in n.inputs if name]
    types = [type_in_file(g, value) for value in values if isinstance(value, Value)]
    return next((kind for kind in types if kind in WIDER), None)


def narrowed(g: Builder, n: OnnxNode, to: str, convert: Callable[[Builder, OnnxNode], None]) -> None:
    """Converts a node whose results are of type ``to``, one of these; ``convert`` does it in the wide type."""
    if n.op in SUMS:
        whole = g.fresh(f"{n.outputs[0]}/whole")
        convert(g, replace(n, name=whole, outputs=(whole,)))
        value = g.values[whole]
        g.bind(n, wrapped(g, n, value, to) if isinstance(value, str) else value.astype(to))
    else:
        convert(g, n)
    for name in filter(None, n.outputs):
        if isinstance(value := g.values.get(name), str):
            g.narrow[value] = to


def wrapped(g: Builder, n: OnnxNode, x: str, to: str) -> str:
    """Integers of a wide type modulo 2^bits, in the range of a narrow one."""
    kind = np.dtype(to)
    if kind.itemsize == np.dtype(WIDER[to]).itemsize:
        return x
    x = g.with_number(n, "bitand", x, 2 ** (8 * kind.itemsize) - 1, "low")
    if kind.kind == "i":  # the highest bit counts below 0
        half = 2 ** (8 * kind.itemsize - 1)
        x = g.with_number(n, "sub", g.with_number(n, "bitxor", x, half, "turned"), half, "signed")
    return x


def _real(g: Builder, n: OnnxNode, x: str) -> None:
    """What int64 holds of uint64, as floats: below 0 it stands for 2^64 more."""
    whole = g.cast(n, x, "float32", part="float")
    below = g.with_number(n, "less", x, 0, "below")
    g.emit(n, "where", [below, g.with_number(n, "add", whole, 2**64, "high"), whole])


def cast(g: Builder, n: OnnxNode, x: str, to: str) -> None:
    """``x`` in any integer or float type of a file."""
    source, wide = g.narrow.get(x, g.dtype(x)), WIDER.get(to, to)
    if source == "uint64" and wide == "float32":
        _real(g, n, x)
    elif to not in WIDER or np.can_cast(source, to):
        if g.dtype(x) == wide and source != to:  # another tensor, whose range is another
            g.emit(n, "cast", [x], to=wide)
        else:
            g.cast(n, x, wide)
    else:
        g.bind(n, wrapped(g, n, g.cast(n, x, wide, part="wide"), to))
    if to in WIDER:
        g.narrow[g.values[n.outputs[0]]] = to
