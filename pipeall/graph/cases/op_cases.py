"""The case table: for every op the nodes, with their sizes, that tests and benchmarks run.

Sizes sit on, one below and one above the multiples that kernels tile by (channels 8, 16, 32; rows of 4 to 14 pixels),
and cover every attribute value a kernel branches on. ``case_graph`` makes a one-node graph of a case.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import numpy as np

from ..ir import Graph, Node, Tensor
from ..ops import infer_shape, infer_type
from ..pointwise import BINARY, UNARY
from . import cases_rows
from .case import CHANNELS, PHASES, Case, Shape
from .cases_indexing import INDEXING
from .cases_movement import MOVES
from .cases_pointwise import BINARIES, CAST, CLAMPS, DEQUANTIZE, QUANTIZE, UNARIES, WHERE
from .cases_sampling import PICTURE, SAMPLING


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _sides(pads: int | tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return pads if isinstance(pads, tuple) else (pads,) * 4


def _conv(c_in, c_out, hw, kernel, *, stride=1, pads=0, dilation=1, groups=1, clamp=CLAMPS[0], out_hw=None, note=""):
    """``out_hw``, the output's height and width, adds a residual of that size."""
    lo, hi = clamp
    attrs = dict(strides=_pair(stride), pads=_sides(pads), dilations=_pair(dilation), groups=groups, lo=lo, hi=hi)
    shapes = ((1, c_in, *_pair(hw)),) + (((1, c_out, *_pair(out_hw)),) if out_hw else ())
    return Case("conv", attrs, shapes, ((c_out, c_in // groups, *_pair(kernel)), (c_out,)), note=note)


def _depthwise(channels, hw, kernel, *, multiplier=1, note="depthwise", **attrs):
    return _conv(channels, channels * multiplier, hw, kernel, groups=channels, note=note, **attrs)


CONV = (
    # 1x1: a matrix product of every edge in rows (pixels), columns (Cout) and depth (Cin)
    *(_conv(c_in, c_out, (5, 7), 1) for c_in, c_out in zip(CHANNELS, CHANNELS[::-1], strict=True)),
    *(_conv(c, c, (3, 3), 1) for c in CHANNELS),
    *(_conv(17, 33, (1, pixels), 1) for pixels in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17)),
    _conv(512, 96, 7, 1, note="deep"),
    _conv(16, 24, (9, 8), 1, stride=2),
    _conv(16, 24, (9, 8), 1, stride=(1, 3)),
    _conv(10, 12, 5, 1, pads=(1, 0, 2, 1), note="padded 1x1"),
    # 3x3, stride 1: the Winograd candidates, tiles of 2, 4, 5 and 6 outputs
    *(_conv(c, 16, (6, 7), 3, pads=1) for c in CHANNELS),
    *(_conv(16, c, (7, 6), 3, pads=1) for c in CHANNELS),
    *(_conv(8, 9, (n, n + 1), 3, pads=1) for n in (1, 2, 3, 4, 5, 8, 11, 12, 13)),
    _conv(33, 31, (15, 14), 3, pads=0),
    _conv(96, 64, (20, 21), 3, pads=1, clamp=(0.0, inf)),
    _conv(16, 17, (9, 8), 3, pads=(2, 0, 1, 3), note="asymmetric"),
    _conv(17, 161, (9, 10), 3, pads=1, note="wide"),
    _conv(264, 9, (30, 32), 3, pads=1, note="many tiles"),
    _conv(528, 18, (5, 6), 3, pads=1, groups=2, note="deep, 264 a group"),
    # other kernels, strides, dilations, paddings
    _conv(16, 24, (10, 11), 5, pads=2),
    _conv(7, 17, (9, 13), 5, pads=(2, 1, 0, 2), note="asymmetric"),
    *(_conv(8, 9, (n, n + 1), 5, pads=2) for n in (1, 2, 4, 5, 8)),
    _conv(70, 9, (6, 7), 5, pads=2, clamp=(0.0, 6.0), out_hw=(6, 7), note="residual"),
    _conv(3, 17, (23, 24), 7, stride=2, pads=3, note="stem"),
    _conv(3, 33, (22, 23), 3, stride=2, pads=(0, 0, 1, 1), note="stem SAME_UPPER"),
    _conv(3, 16, (35, 39), 11, stride=4, note="AlexNet stem"),
    _conv(3, 16, (35, 39), 11, stride=4, pads=2),
    # phases of a stride, for Winograd: their taps are 2 x 2 to 5 x 5; and 4 x 4 and 2 x 2 taps
    *(_conv(c_in, c_out, hw, k, stride=s, pads=pads) for c_in, c_out, hw, k, s, pads in PHASES),
    _conv(4, 9, (13, 14), 7, stride=2, pads=3, out_hw=(7, 7), clamp=(0.0, inf), note="residual"),
    *(_conv(6, 18, (n, n + 1), 4, pads=(1, 2, 2, 1), groups=g) for n, g in ((2, 1), (6, 2), (11, 1))),
    *(_conv(6, 18, (n, n + 1), 2, pads=(1, 0, 0, 1), groups=g) for n, g in ((2, 1), (6, 2), (11, 1))),
    _conv(9, 15, (8, 9), (1, 7), pads=(0, 3, 0, 3)),
    _conv(9, 15, (8, 9), (7, 1), pads=(3, 0, 3, 0)),
    _conv(8, 8, (9, 9), 2, stride=2),
    _conv(16, 17, (12, 13), 3, stride=2, pads=1),
    _conv(16, 17, (12, 13), 3, stride=3, pads=1),
    _conv(16, 17, (13, 12), 3, stride=(2, 1), pads=(1, 0, 1, 2)),
    _conv(16, 17, (12, 13), 3, dilation=2, pads=2),
    _conv(7, 8, (12, 13), 3, dilation=(1, 3), stride=2, pads=(1, 3, 1, 3)),
    # taps that see padding alone: regions with fewer of them
    _conv(50, 40, (9, 8), 3, dilation=4, pads=4),
    _conv(50, 40, (9, 8), 3, dilation=7, pads=7, note="one pixel has all taps"),
    _conv(50, 33, (11, 12), 3, dilation=(5, 6), stride=(2, 1), pads=(5, 6, 4, 7), note="asymmetric regions"),
    _conv(100, 20, (10, 9), 3, dilation=9, pads=9, groups=2, note="the middle tap alone"),
    _conv(50, 20, (4, 5), 3, dilation=9, pads=(20, 9, 9, 20), note="regions without taps"),
    _conv(50, 40, (1, 40), (1, 3), dilation=(1, 25), pads=(0, 25, 0, 25), note="regions of a line"),
    _conv(50, 8, (7, 6), 5, dilation=3, pads=6, note="more spans than are told apart"),
    _conv(16, 1000, 1, 1, note="classifier"),
    _conv(8, 12, (6, 5), (6, 5), note="kernel = input"),
    # more channels than a block of the sum (320) on more rows than a tile: several taps, each in parts
    _conv(330, 17, (5, 6), 3, pads=1, note="deep"),
    _conv(330, 17, (5, 6), 3, pads=1, out_hw=(5, 6), clamp=(0.0, inf), note="deep residual"),
    _conv(660, 18, (9, 8), 3, stride=2, pads=1, groups=2, note="deep, 330 a group"),
    # groups and depthwise
    _conv(16, 32, (6, 7), 3, pads=1, groups=2),
    _conv(48, 34, (5, 6), 5, pads=2, groups=2),
    _conv(9, 21, (6, 7), 1, groups=3),
    _conv(24, 15, (6, 7), 3, stride=2, pads=1, groups=3, clamp=(0.0, inf)),
    # narrow groups: of widths that fill vectors and do not, unequal, wider than a vector, the last vector in part
    *(
        _conv(groups * w, groups * w, (5, 17), 3, pads=1, groups=groups)
        for groups, w in ((17, 2), (7, 3), (9, 4), (3, 6))
    ),
    _conv(40, 40, (9, 31), 3, stride=2, pads=1, groups=5, clamp=(0.0, 6.0)),
    _conv(24, 24, (6, 7), 3, pads=1, groups=6, out_hw=(6, 7), note="residual of narrow groups"),
    _conv(22, 33, (7, 9), 5, stride=2, pads=2, groups=11),
    _conv(36, 18, (7, 30), 7, pads=3, groups=9),
    _conv(40, 8, (6, 7), 3, pads=1, groups=2, note="20 inputs a group"),
    _conv(12, 20, (8, 9), (2, 4), stride=(1, 3), pads=(0, 1, 1, 2), groups=4),
    _conv(12, 12, (9, 10), 3, dilation=2, pads=2, groups=4),
    _conv(20, 30, (5, 6), 1, groups=10),
    *(_depthwise(c, (7, 8), 3, pads=1) for c in CHANNELS[1:]),
    *(_depthwise(c, (9, 8), 3, stride=2, pads=1) for c in CHANNELS[1:]),
    _depthwise(17, (12, 11), 3, stride=2, pads=(0, 0, 1, 1)),
    _depthwise(33, (10, 9), 5, pads=2, clamp=(0.0, 6.0)),
    _depthwise(16, (11, 12), 5, stride=2, pads=2),
    _depthwise(8, (9, 10), 7, pads=3),
    _depthwise(9, (14, 29), 7, stride=2, pads=3),
    *(_depthwise(5, (12, 16), k, pads=k // 2) for k in (9, 11)),
    *(_depthwise(19, (4, n), (1, 5), pads=(0, 2, 0, 2)) for n in (1, 2, 6, 9, 13, 14, 15)),
    _depthwise(8, (11, 10), 3, dilation=2, pads=2),
    _depthwise(7, (6, 7), 3, multiplier=2, pads=1, note="depth multiplier"),
    _depthwise(8, (6, 7), 3, pads=1, out_hw=(6, 7), note="depthwise residual"),
    # clamp and residual
    *(_conv(17, 15, (4, 5), 1, clamp=clamp) for clamp in CLAMPS),
    *(_conv(8, 17, (5, 6), 3, pads=1, clamp=clamp, out_hw=(5, 6), note="residual") for clamp in CLAMPS),
    *(_conv(15, c, (5, 5), 1, out_hw=5, clamp=(0.0, inf), note="residual") for c in (1, 16, 33)),
    _conv(16, 16, (9, 8), 3, stride=2, pads=1, out_hw=(5, 4), note="residual"),
    _conv(12, 10, (6, 7), 3, pads=1, groups=2, out_hw=(6, 7), note="residual"),
)


def _batch(case: Case, images: int) -> Case:
    """The same node with several images."""
    return replace(case, shapes=tuple((images, *shape[1:]) for shape in case.shapes), note=f"{case.note} batch".strip())


CONV += (
    _batch(_conv(17, 33, (5, 7), 1), 3),
    _batch(_conv(16, 24, (9, 8), 3, stride=2, pads=1), 2),
    _batch(_conv(16, 24, (9, 8), 3, pads=1, out_hw=(9, 8), note="residual"), 5),
    _batch(_depthwise(17, (7, 8), 3, pads=1), 4),
)


def _deconv(c_in, c_out, hw, kernel, *, stride=1, pads=0, dilation=1, groups=1, extra=0, clamp=CLAMPS[0], note=""):
    attrs = dict(strides=_pair(stride), pads=_sides(pads), dilations=_pair(dilation), groups=groups,
                 output_padding=_pair(extra), lo=clamp[0], hi=clamp[1])  # fmt: skip
    weight = (c_in, c_out // groups, *_pair(kernel))
    return Case("deconv", attrs, ((1, c_in, *_pair(hw)),), (weight, (c_out,)), note=note)


DECONV = (
    *(_deconv(c, c + 1, (4, 5), 2, stride=2) for c in CHANNELS),
    *(_deconv(9, c, (5, 4), 3, stride=2, pads=1, extra=1) for c in (1, 8, 17)),
    *(_deconv(16, c, (5, 4), 4, stride=2, pads=1) for c in (1, 8, 33)),
    *(_deconv(7, 8, hw, 3, stride=stride) for hw, stride in (((5, 6), 1), ((1, 1), 2))),
    _deconv(7, 8, (5, 6), 3, stride=3, pads=(0, 1, 1, 0)),
    _deconv(7, 8, (5, 6), 2, stride=3, extra=1, note="gaps"),
    _deconv(7, 8, (5, 6), (3, 1), stride=(1, 2), pads=(1, 0, 0, 0), extra=(0, 1), note="gaps along an axis"),
    _deconv(7, 8, (5, 6), (3, 2), stride=(1, 2), pads=(1, 0, 0, 1), clamp=(0.0, inf)),
    _deconv(7, 8, (5, 6), 3, stride=2, dilation=2, pads=1),
    *(_deconv(7, 8, (5, 6), 3, stride=s, dilation=d, extra=e) for s, d, e in ((2, 3, 1), (4, 2, 0))),
    _deconv(7, 8, (6, 5), 5, stride=4, pads=3, note="pads beyond the stride"),
    _deconv(8, 12, (5, 6), 4, stride=2, pads=1, groups=2),
    _deconv(8, 12, (5, 6), 3, stride=2, pads=1, groups=4, extra=1),
    _deconv(9, 9, (5, 6), 4, stride=2, pads=1, groups=9, note="depthwise"),
    _deconv(5, 5, (3, 4), 16, stride=8, pads=4, note="many phases"),
    _deconv(3, 2, (2, 3), 20, stride=9, pads=4, note="more phases"),
    _deconv(2, 3, (3, 4), (2, 3), stride=(13, 7), dilation=(17, 1), note="more phases, one tap each"),
    _deconv(2, 3, (3, 2), (12, 4), stride=(9, 8), dilation=(2, 3), note="more phases, of taps between each other's"),
    _deconv(6, 6, (2, 3), 20, stride=9, pads=4, groups=3, note="more phases of groups"),
    _batch(_deconv(8, 9, (5, 4), 3, stride=2, pads=1, extra=1), 3),
)


def _fc(x: Shape, c_out: int, clamp=CLAMPS[0], axis=1):
    return Case("fc", dict(axis=axis, lo=clamp[0], hi=clamp[1]), (x,), ((c_out, prod(x[axis:])), (c_out,)))


FC = (
    *(_fc((1, c_in), c_out) for c_in, c_out in zip(CHANNELS, CHANNELS[::-1], strict=True)),
    *(_fc((1, c), 10) for c in (255, 1000, 2049)),
    _fc((1, 64), 1001),
    _fc((1, 9, 3, 4), 17),
    _fc((1, 16, 6, 6), 33, CLAMPS[1]),
    _fc((1, 33, 1, 1), 16, CLAMPS[2]),
    _fc((1, 5, 7), 8, CLAMPS[3]),
    _fc((1, 5, 7), 8, axis=2),
    _fc((2, 5, 33), 17, CLAMPS[1], axis=2),
    _fc((3, 33), 17),
    _fc((3, 9, 3, 4), 17),
    _fc((2, 3, 5, 16), 9, axis=3),
    _fc((2, 3, 5, 16), 9, axis=2),
)


def _pool(op, channels, hw, kernel, *, stride=1, pads=0, ceil=False, note="", **extra):
    attrs = dict(kernel=_pair(kernel), strides=_pair(stride), pads=_sides(pads), ceil=ceil, **extra)
    return Case(op, attrs, ((1, channels, *_pair(hw)),), note=note)


def _pools(op: str, **extra) -> tuple[Case, ...]:
    """The windows both kinds of pooling are tested on."""
    return (
        *(_pool(op, c, (7, 6), 2, stride=2, **extra) for c in CHANNELS),
        *(_pool(op, c, (6, 7), 3, stride=1, pads=1, **extra) for c in (3, 16, 33)),
        _pool(op, 17, (13, 12), 3, stride=2, **extra),
        _pool(op, 17, (13, 12), 3, stride=2, ceil=True, note="ceil", **extra),
        _pool(op, 8, (14, 15), 3, stride=2, ceil=True, pads=(0, 1, 1, 0), note="ceil asymmetric", **extra),
        _pool(op, 9, (5, 5), 2, stride=2, ceil=True, note="hangs over", **extra),
        _pool(op, 9, (7, 9), 3, stride=3, ceil=True, pads=1, note="hangs over the padding", **extra),
        _pool(
            op, 9, (4, 4), 2, stride=3, ceil=True, pads=(0, 0, 1, 1), note="last window would start outside", **extra
        ),
        _pool(op, 9, (4, 4), 1, stride=2, **extra),
        _pool(op, 9, (4, 5), 1, stride=2, ceil=True, note="kernel below stride", **extra),
        _pool(op, 16, (11, 10), 3, stride=2, pads=(1, 0, 0, 2), note="asymmetric", **extra),
        _pool(op, 15, (9, 8), (1, 3), stride=(2, 1), pads=(0, 1, 0, 1), **extra),
        _pool(op, 15, (9, 8), (5, 2), stride=(1, 4), pads=(2, 0, 2, 0), **extra),
        _pool(op, 2, (9, 37), (5, 2), stride=(1, 4), pads=(2, 0, 2, 0), note="lines", **extra),
        _pool(op, 1, (14, 40), 3, stride=2, ceil=True, pads=(0, 1, 1, 0), note="lines, ceil asymmetric", **extra),
        _pool(op, 4, (7, 9), 3, stride=3, ceil=True, pads=1, note="lines that hang over the padding", **extra),
        *(_pool(op, c, 7, 7, note="global", **extra) for c in (1, 17, 64)),
        _pool(op, 33, (1, 1), 1, note="1x1", **extra),
    )


MAXPOOL = (
    *_pools("maxpool", dilations=(1, 1)),
    _batch(_pool("maxpool", 17, (13, 12), 3, stride=2, pads=1, dilations=(1, 1)), 3),
    _pool("maxpool", 17, (9, 10), 3, dilations=(2, 2), pads=2, note="dilated"),
    _pool("maxpool", 3, (9, 10), 3, dilations=(2, 2), pads=2, note="dilated lines"),
    _pool("maxpool", 8, (11, 10), 2, dilations=(3, 1), stride=2, pads=(1, 0, 1, 1), ceil=True, note="dilated ceil"),
)
AVGPOOL = (*_pools("avgpool", count_include_pad=False), *_pools("avgpool", count_include_pad=True))


def _lrn(channels, hw, size, alpha=0.5, beta=0.75, bias=1.0):
    return Case("lrn", dict(size=size, alpha=alpha, beta=beta, bias=bias), ((1, channels, *hw),))


LRN = (
    *(_lrn(c, (3, 5), 5) for c in CHANNELS),
    *(_lrn(c, (3, 5), 3) for c in (1, 2, 7, 16, 33)),
    *(_lrn(c, (4, 4), 4) for c in (1, 8, 33)),
    _lrn(17, (3, 4), 1),
    _lrn(5, (3, 4), 9),
    _lrn(24, (3, 4), 5, alpha=1e-4),
    _lrn(24, (3, 4), 5, beta=0.5),
    _lrn(24, (3, 4), 5, beta=0.6),
    _lrn(24, (3, 4), 5, beta=1.0, bias=2.0),
)

SOFTMAX = (
    *(Case("softmax", dict(axis=1), ((1, n),)) for n in (1, 2, 7, 8, 10, 15, 16, 17, 33, 1000, 1001)),
    *(Case("softmax", dict(axis=1), ((1, c, 3, 5),)) for c in CHANNELS),
    Case("softmax", dict(axis=1), ((1, 1000, 1, 1),)),
)

LAYERNORM = (
    *(Case("layernorm", dict(epsilon=1e-5, axes=(1,), center=True), ((1, c, 3, 5),)) for c in CHANNELS),
    Case("layernorm", dict(epsilon=1e-6, axes=(1,), center=True), ((1, 768, 2, 3),)),
    Case("layernorm", dict(epsilon=0.5, axes=(1,), center=True), ((1, 33, 1, 1),)),
)

CASES: dict[str, tuple[Case, ...]] = {
    cases[0].op: cases
    for cases in (
        CONV, DECONV, FC, MAXPOOL, AVGPOOL, LRN, (*SOFTMAX, *cases_rows.SOFTMAX),
        (*LAYERNORM, *cases_rows.LAYERNORM), *cases_rows.NEW, *BINARIES, *UNARIES,
        CAST, QUANTIZE, DEQUANTIZE, WHERE, *MOVES, *INDEXING, *SAMPLING, *cases_rows.RECURRENT, PICTURE,
    )
}  # fmt: skip


def _typed(x: np.ndarray, dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return x.astype(dtype)
    return np.trunc(np.abs(x) if dtype == "uint8" else x).astype(dtype)


def _inside(x: np.ndarray, lo: float, hi: float) -> np.ndarray:
    """Numbers folded into a domain, which has a lower bound or none; integers stay as they are."""
    if lo == -inf or x.dtype.kind != "f":
        return x
    return (lo + (np.abs(x - lo) if hi == inf else (hi - lo) * (x % 1))).astype(x.dtype)


def case_graph(case: Case, seed: int = 0) -> tuple[Graph, dict[str, np.ndarray]]:
    """A one-node graph of a case with random constants, and random inputs for it.

    Activations are normal with deviation 2, so that every clamp and saturation is met; weights are scaled to keep
    the results of conv and fc in that range. Integers and bools are those numbers, rounded towards 0, unless the case
    draws them from a range. The operand whose domain an op limits lies in there.
    """
    rng = np.random.default_rng(seed)

    def draw(shape: Shape, scale: float, dtype: str) -> np.ndarray:
        if case.draws and np.dtype(dtype).kind in "iu":
            return rng.integers(*case.draws, shape).astype(dtype)
        return _typed(scale * rng.standard_normal(shape), dtype)

    types = iter(case.types or ("float32",) * (len(case.shapes) + len(case.constants)))
    inputs = {f"x{i}": draw(shape, 2, next(types)) for i, shape in enumerate(case.shapes)}
    constants = {
        f"c{i}": draw(shape, 1 / np.sqrt(max(1, prod(shape[1:]))), next(types))
        for i, shape in enumerate(case.constants)
    }
    names = ("x0", *constants, *list(inputs)[1:])
    if case.op in UNARY or case.op in BINARY:
        limited = names[int(case.attrs.get("swapped", False))]
        holder = inputs if limited in inputs else constants
        holder[limited] = _inside(holder[limited], *(UNARY | BINARY)[case.op].domain)
    if case.attrs.get("how") == "logsum":
        inputs["x0"] = _inside(inputs["x0"], 0.05, inf)
    operands = [(inputs | constants)[name] for name in names]
    shape = infer_shape(case.op, case.attrs, [array.shape for array in operands], str(case))
    out = Tensor("y", shape, infer_type(case.op, case.attrs, [str(array.dtype) for array in operands], str(case)))
    tensors = {name: Tensor(name, array.shape, str(array.dtype)) for name, array in inputs.items()}
    node = Node(case.op, case.op, names, "y", case.attrs)
    return Graph(str(case), (node,), tensors | {"y": out}, constants, tuple(tensors.values()), (out,)), inputs
