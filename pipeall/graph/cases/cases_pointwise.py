"""Cases of ops that compute each element by itself: arithmetic, comparisons, functions, types."""

from __future__ import annotations

from math import inf

from ...steps import TYPES
from ..pointwise import BINARY, UNARY, Binary, Unary
from .case import CHANNELS, Case, Shape

CLAMPS = ((-inf, inf), *UNARY["clip"].samples)


def _binary(op: str, a: Shape, b: Shape, clamp=CLAMPS[0], constant=False, swapped=False, dtype="float32"):
    attrs = dict(lo=clamp[0], hi=clamp[1], swapped=swapped) if BINARY[op].clamped else {}
    note, types = "constant" if constant else "", () if dtype == "float32" else (dtype, dtype)
    note = " ".join(filter(None, (note, *types[:1])))
    return Case(op, attrs, (a,) if constant else (a, b), (b,) if constant else (), note=note, types=types)


IMAGE = (1, 17, 5, 6)


def _binaries(op: str, *, swapped: bool = False) -> tuple[Case, ...]:
    """The arithmetic that networks are made of."""
    others = (IMAGE, (1, 17, 1, 1), (1, 1, 5, 6), (1, 1, 1, 1), (1, 17, 5, 1), (1, 1, 1, 6))
    return (
        *(_binary(op, IMAGE, b, constant=constant, swapped=swapped) for b in others for constant in (False, True)),
        *(_binary(op, (1, c, 3, 5), (1, c, 3, 5), swapped=swapped) for c in CHANNELS),
        *(_binary(op, (1, c, 3, 5), (1, c, 1, 1), constant=True, swapped=swapped) for c in CHANNELS),
        *(_binary(op, IMAGE, IMAGE, clamp, swapped=swapped) for clamp in CLAMPS[1:]),
        _binary(op, (1, 33), (1, 33), swapped=swapped),
        _binary(op, (1, 33), (1, 1), constant=True, swapped=swapped),
        _binary(op, (1, 9, 7), (1, 9, 7), constant=True, swapped=swapped),
    )


BOTH_WAYS = (((1, 17, 1, 1), IMAGE), ((1, 1, 5, 6), (1, 17, 1, 1)), ((1, 1), (1, 33)), ((2, 3, 1, 5), (1, 3, 4, 1)))


def _alike(op: str, entry: Binary) -> tuple[Case, ...]:
    """Those that share their kernels' loops with the arithmetic above; every type, broadcast both ways."""
    pairs = ((IMAGE, IMAGE), (IMAGE, (1, 17, 1, 1)), *BOTH_WAYS)
    cases = [_binary(op, a, b, dtype=dtype) for dtype in entry.takes for a, b in pairs]
    if entry.swapped:
        cases += [_binary(op, *pairs[1], swapped=True, dtype=dtype) for dtype in entry.takes]
    if entry.clamped:
        cases += [_binary(op, IMAGE, IMAGE, (-1.0, 2.5), dtype=dtype) for dtype in entry.takes]
        cases.append(_binary(op, IMAGE, (1, 17, 1, 1), constant=True))
    return tuple(cases)


BINARIES = tuple(
    (
        *(_binaries(op) if op in ("add", "sub", "mul") else ()),
        *(_binaries(op, swapped=True) if op == "sub" else ()),
        *([_binary(op, (1, 9), (1, 9), swapped=True)] if entry.clamped and not entry.swapped else ()),
        *_alike(op, entry),
    )
    for op, entry in BINARY.items()
)


def _unaries(op: str, entry: Unary) -> tuple[Case, ...]:
    shapes = (*((1, c, 3, 5) for c in CHANNELS), (1, 1), (1, 1001), (1, 7, 9))
    attrs = [dict(zip(entry.parameters, sample, strict=True)) for sample in entry.samples]
    cases = [Case(op, values, (shape,)) for values in attrs for shape in shapes if "float32" in entry.takes]
    typed = [dtype for dtype in entry.takes if dtype != "float32"]
    cases += [Case(op, values, ((2, 3, 37),), note=dtype, types=(dtype,)) for values in attrs for dtype in typed]
    return tuple(cases)


UNARIES = tuple(_unaries(op, entry) for op, entry in UNARY.items())

CAST = tuple(Case("cast", dict(to=to), ((2, 3, 37),), note=dtype, types=(dtype,)) for dtype in TYPES for to in TYPES)
QUANTIZE = tuple(
    Case("quantize", dict(scale=scale, zero=zero, to=to), (shape,), note=to, types=("float32",))
    for scale, zero, to in ((0.02, 0, "int8"), (0.5, -128, "int8"), (0.03, 255, "uint8"), (1.0, 7, "uint8"))
    for shape in ((2, 3, 37), (1, 17, 5, 6))
)
DEQUANTIZE = tuple(
    Case("dequantize", dict(scale=scale, zero=zero), (shape,), note=dtype, types=(dtype,))
    for scale, zero, dtype in ((0.02, -3, "int8"), (0.5, 255, "uint8"), (0.001, 9, "int32"))
    for shape in ((2, 3, 37), (1, 17, 5, 6))
)
WHERE = tuple(
    Case("where", {}, shapes, note=dtype, types=("bool", dtype, dtype))
    for dtype in TYPES
    for shapes in ((IMAGE,) * 3, (IMAGE, (1, 1, 1, 1), IMAGE), ((1, 1, 5, 6), (1, 17, 1, 1), (1, 1, 1, 6)))
)
