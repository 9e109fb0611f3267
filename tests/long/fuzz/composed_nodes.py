"""The operators of compositions: how each finds operands that fit, and how often it is taken."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from composed import Composer, Unfit
from onnx import helper

UNARY = (
    "Relu Sigmoid Tanh Exp Log Sqrt Abs Neg Floor Ceil Sign Erf HardSigmoid Elu Selu LeakyRelu Softplus Softsign "
    "Sin Cos Atan Reciprocal Identity"
).split()
LATER_UNARY = {"ThresholdedRelu": 10, "Round": 11, "Celu": 12, "HardSwish": 14, "Mish": 18, "Gelu": 20}
CASTS = ("float32", "float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool")


def unary(c: Composer) -> str:
    x = c.pick("f", open_ended=True)
    op = c.one_of([*UNARY, *(op for op, since in LATER_UNARY.items() if c.opset >= since)])
    if op in ("Log", "Sqrt"):
        x = c.node("Abs", [x])
    attributes = {"alpha": c.one_of((0.1, 0.5, 1.0, 2.0))} if op in ("Elu", "LeakyRelu", "Celu", "HardSigmoid") else {}
    return c.node(op, [x], **attributes)


def whole_unary(c: Composer) -> str:
    x = c.pick("iub", open_ended=True)
    return c.node("Not" if c.of(x).dtype == bool else c.one_of(("Abs", "Neg", "Sign", "Identity")), [x])


def other(c: Composer, x: str) -> str:
    """Another operand of a broadcast: a part of the shape, an activation that fits, or the same again."""
    shape, dtype = c.of(x).shape, c.of(x).dtype
    fitting = [
        name
        for name, value in c.values.items()
        if name not in c.constants and value.dtype == dtype and _together(shape, value.shape)
    ]
    if len(fitting) > 1 and c.chance(0.5) and x not in c.open_ended:
        return c.one_of(fitting)
    if x in c.open_ended or c.chance(0.2):
        return c.operand((), dtype)
    sizes = [1 if c.chance(0.4) else size for size in shape[c.whole(0, len(shape)) :]]
    if c.chance(0.1):
        sizes = [c.whole(1, 3) if size == 1 else size for size in sizes]
    return c.operand(sizes, dtype)


def _together(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(1 in (m, n) or m == n for m, n in zip(a[::-1], b[::-1], strict=False))


def binary(c: Composer) -> str:
    x = c.pick("fiu", open_ended=True)
    op = c.one_of("Add Add Sub Mul Mul Div Div Max Min Mod Pow PRelu".split())
    y, attributes = other(c, x), {}
    kind = c.of(x).dtype.kind
    if op == "Div" or op == "Mod":
        if (c.of(y) == 0).any() or (kind != "f" and (c.of(x) < 0).any()):
            if y not in c.constants:
                raise Unfit
            c.values[y] = c.constants[y] = np.where(c.of(y) == 0, 1, np.abs(c.of(y))).astype(c.of(y).dtype)
        if op == "Mod":
            attributes["fmod"] = int(kind == "f" or c.chance(0.3))
    if op == "Pow":
        y = c.constant(c.one_of((2, 3, 0.5, 1, 0)), c.of(x).dtype)
        x = c.node("Abs", [x])
    if op == "PRelu" and c.of(y).size > 1 and c.of(y).shape != c.of(x).shape[-c.of(y).ndim :]:
        raise Unfit
    pair = [x, y] if op in ("Pow", "PRelu", "Div", "Mod") or c.chance(0.7) else [y, x]
    return c.node(op, pair, **attributes)


def variadic(c: Composer) -> str:
    x = c.pick("f")
    return c.node(c.one_of(("Sum", "Mean", "Max", "Min")), [x, *(other(c, x) for _ in range(c.whole(0, 2)))])


def comparison(c: Composer) -> str:
    x = c.pick("fi", open_ended=True)
    later = ["GreaterOrEqual", "LessOrEqual"] if c.opset >= 12 else []
    op = c.one_of(["Equal", "Greater", "Less", *later])
    return c.node(op, [x, other(c, x)])


def logic(c: Composer) -> str:
    x = c.pick("b", open_ended=True)
    return c.node(c.one_of(("And", "Or", "Xor")), [x, other(c, x)])


def where(c: Composer) -> str:
    x = c.pick("fiu")
    condition = next((n for n in c.values if c.of(n).dtype == bool and _together(c.of(n).shape, c.of(x).shape)), None)
    if condition is None or condition in c.open_ended:
        condition = comparison_of(c, x)
    return c.node("Where", [condition, x, other(c, x)] if c.chance(0.5) else [condition, other(c, x), x])


def comparison_of(c: Composer, x: str) -> str:
    return c.node(c.one_of(("Greater", "Less")), [x, c.constant(c.array((), c.of(x).dtype))])


def cast(c: Composer) -> str:
    x = c.pick("fiub", open_ended=True)
    to = np.dtype(c.one_of(CASTS))
    if to.kind in "iu" and c.of(x).dtype.kind in "fiu":
        low, high = np.iinfo(to).min, np.iinfo(to).max
        if c.of(x).size and (float(c.of(x).min()) <= low or float(c.of(x).max()) >= high):
            raise Unfit
    return c.node("Cast", [x], to=helper.np_dtype_to_tensor_dtype(to))


def clip(c: Composer) -> str:
    x = c.pick("f" if c.opset < 12 else "fi", open_ended=True)
    low, high = sorted(c.array((2,), c.of(x).dtype).tolist())
    low, high = (None, high) if c.chance(0.2) else (low, None) if c.chance(0.2) else (low, high)
    if c.opset < 11:
        return c.node("Clip", [x], min=low, max=high)
    bounds = ["" if bound is None else c.constant(bound, c.of(x).dtype) for bound in (low, high)]
    return c.node("Clip", [x, *bounds])


# ---- moves ----

ANY = "fiub"


def axis_of(c: Composer, x: str) -> int:
    rank = c.of(x).ndim
    return c.whole(-rank if c.opset >= 11 else 0, rank - 1)


def gather(c: Composer) -> str:
    x = c.pick(ANY, 1)
    axis = axis_of(c, x)
    size = c.of(x).shape[axis]
    indices = c.random.integers(-size if c.opset >= 11 else 0, size, c.shape(0, 2)) if size else np.zeros(0)
    return c.node("Gather", [x, indices_of(c, indices)], axis=axis)


def indices_of(c: Composer, array: Any) -> str:
    array = np.asarray(array, c.one_of((np.int64, np.int64, np.int32)))
    return c.feed(array) if c.chance(0.2) else c.constant(array)


def gather_elements(c: Composer) -> str:
    if c.opset < 11:
        raise Unfit
    x = c.pick(ANY, 1)
    axis, shape = axis_of(c, x), [c.whole(1, size) if size else 0 for size in c.of(x).shape]
    shape[axis] = c.whole(1, 4)
    indices = c.random.integers(0, c.of(x).shape[axis], shape)
    return c.node("GatherElements", [x, indices_of(c, indices)], axis=axis)


def _places(c: Composer, shape: tuple[int, ...], distinct: bool) -> np.ndarray:
    depth = c.whole(1, len(shape))
    if not prod(shape):
        raise Unfit
    every = np.stack(np.unravel_index(np.arange(prod(shape[:depth])), shape[:depth]), -1)
    count = c.whole(1, max(1, min(6, len(every))))
    return every[c.random.choice(len(every), count, replace=not distinct)]


def gather_nd(c: Composer) -> str:
    x = c.pick(ANY, 1)
    indices = c.constant(_places(c, c.of(x).shape, distinct=False), np.int64)
    return c.node("GatherND", [x, indices])


def scatter_nd(c: Composer) -> str:
    x = c.pick("fiu", 1)
    shape = c.of(x).shape
    reduction = c.one_of(("add", "mul")) if c.opset >= 16 and c.chance(0.4) else None
    places = _places(c, shape, distinct=True)
    updates = c.operand((*places.shape[:-1], *shape[places.shape[-1] :]), c.of(x).dtype)
    indices = c.constant(places, np.int64)
    return c.node("ScatterND", [x, indices, updates], reduction=reduction)


def scatter_elements(c: Composer) -> str:
    if c.opset < 11:
        raise Unfit
    x = c.pick("fiu", 1)
    axis, shape = axis_of(c, x), list(c.of(x).shape)
    if not c.of(x).size:
        raise Unfit
    count = c.whole(1, shape[axis])
    indices = np.argsort(c.random.random(shape), axis).take(range(count), axis)
    return c.node("ScatterElements", [x, indices_of(c, indices), c.operand(indices.shape, c.of(x).dtype)], axis=axis)


def expand(c: Composer) -> str:
    x = c.pick(ANY)
    shape = [c.whole(1, 4) if size == 1 and c.chance(0.7) else c.one_of((1, size)) for size in c.of(x).shape]
    if c.chance(0.3):
        shape = [c.whole(1, 3), *shape]
    return c.node("Expand", [x, c.constant(shape, np.int64)])


def tile(c: Composer) -> str:
    x = c.pick(ANY, 1)
    return c.node("Tile", [x, c.constant([c.one_of((1, 1, 2, 3)) for _ in c.of(x).shape], np.int64)])


def slices(c: Composer) -> str:
    x = c.pick(ANY, 1)
    axes = c.some_of(range(c.of(x).ndim)) or [0]
    starts, ends, steps = [], [], []
    for axis in axes:
        size = c.of(x).shape[axis]
        step = c.one_of((1, 1, 2, 3, -1, -2)) if c.opset >= 10 else 1
        start = c.whole(0, max(size - 1, 0))
        end = c.whole(start + 1, size + 2) if step > 0 else c.one_of((-size - 1, c.whole(-1, start) - size))
        starts.append(start if c.chance(0.6) else start - size)
        ends.append(end if c.chance(0.8) or step < 0 else 2**31 - 1)
        steps.append(step)
    if c.opset < 10:
        return c.node("Slice", [x], starts=starts, ends=ends, axes=axes)
    return c.node("Slice", [x, *(c.constant(values, np.int64) for values in (starts, ends, axes, steps))])


def concat(c: Composer) -> str:
    x = c.pick(ANY, 1)
    axis = axis_of(c, x)
    shape = list(c.of(x).shape)
    parts = [x]
    for _ in range(c.whole(1, 2)):
        shape[axis] = c.whole(1, 4)
        parts.insert(c.whole(0, len(parts)), c.one_of((x, c.operand(shape, c.of(x).dtype))))
    return c.node("Concat", parts, axis=axis)


def split(c: Composer) -> str:
    x = c.pick(ANY, 1)
    axis = axis_of(c, x)
    size = c.of(x).shape[axis]
    if size < 2:
        raise Unfit
    first = c.whole(1, size - 1)
    sizes = [first, size - first]
    if c.opset < 13:
        return c.node("Split", [x], 2, axis=axis, split=sizes)
    return c.node("Split", [x, c.constant(sizes, np.int64)], 2, axis=axis)


def transpose(c: Composer) -> str:
    x = c.pick(ANY, 1)
    return c.node("Transpose", [x], perm=None if c.chance(0.2) else c.random.permutation(c.of(x).ndim).tolist())


def reshape(c: Composer) -> str:
    x = c.pick(ANY)
    shape, left = [], c.of(x).size
    for _ in range(c.whole(0, 4)):
        size = c.one_of([n for n in range(1, 14) if left and left % n == 0] or [1])
        shape, left = [*shape, size], left // size
    shape.insert(c.whole(0, len(shape)), left if c.chance(0.6) or not c.of(x).size else -1)
    return c.node("Reshape", [x, c.constant(shape, np.int64)])


def flatten(c: Composer) -> str:
    x = c.pick("f", 1)
    return c.node("Flatten", [x], axis=c.whole(0, c.of(x).ndim))


def squeeze(c: Composer) -> str:
    x = c.pick(ANY, 1)
    axes = [axis for axis, size in enumerate(c.of(x).shape) if size == 1]
    if not axes:
        raise Unfit
    return c.set_of("Squeeze", 13, [x], axes=None if c.chance(0.2) else c.some_of(axes) or axes)


def unsqueeze(c: Composer) -> str:
    x = c.pick(ANY, 0, 5)
    rank = c.of(x).ndim + 1
    return c.set_of("Unsqueeze", 13, [x], axes=[c.whole(-rank if c.opset >= 11 else 0, rank - 1)])


def pad(c: Composer) -> str:
    x = c.pick("f" if c.opset < 13 else "fiu", 1)
    mode = c.one_of(["constant", "reflect", "edge", *(["wrap"] if c.opset >= 19 else [])])
    begin, end = ([], [])
    for axis, size in enumerate(c.of(x).shape):
        most = min(3, size - 1) if mode in ("reflect", "wrap") else 3 if mode == "constant" or size else 0
        inner = axis < 2 and c.of(x).ndim > 2 and c.chance(0.8)
        for pads in (begin, end):
            pads.append(0 if inner else c.whole(-1 if mode == "constant" and size > 2 else 0, max(most, 0)))
    value = float(c.one_of((0, 0, 1, -2.5)))
    if c.opset < 11:
        return c.node("Pad", [x], pads=begin + end, mode=mode, value=value)
    fill = [c.constant(value, c.of(x).dtype)] if mode == "constant" and c.chance(0.6) and value >= 0 else []
    return c.node("Pad", [x, c.constant(begin + end, np.int64), *fill], mode=mode)


def resize(c: Composer) -> str:
    x = c.pick("float32 uint8 int8", 3, 4)
    mode = c.one_of(("nearest", "linear", "cubic"))
    rank = c.of(x).ndim
    if mode == "cubic" and (rank != 4 or c.opset < 11):
        raise Unfit
    scales = [1.0] * (rank - 2) + [c.one_of((0.29, 0.5, 0.6, 1.0, 1.5, 2.0, 3.0)) for _ in range(2)]
    if rank == 3:
        scales = [1.0, 1.0, scales[-1]]
    if c.opset < 11:
        return c.node("Upsample" if c.opset == 9 else "Resize", [x, c.constant(scales, np.float32)], mode=mode)
    how = c.one_of("half_pixel half_pixel pytorch_half_pixel align_corners asymmetric half_pixel_symmetric".split())
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    if how == "half_pixel_symmetric" and c.opset < 19:
        raise Unfit
    if mode == "nearest":
        attributes["nearest_mode"] = c.one_of(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": c.one_of((-0.75, -0.5)), "exclude_outside": c.whole(0, 1)}
    if mode != "nearest" and c.opset >= 18 and c.of(x).dtype != np.int8 and c.chance(0.4):
        attributes["antialias"] = 1
        if c.of(x).dtype == np.uint8:  # rounded after each axis: one keeps a tie from moving all that follows
            scales[-2] = 1.0
    if c.chance(0.5):
        sizes = [max(1, int(size * scale)) for size, scale in zip(c.of(x).shape, scales, strict=True)]
        empty = "" if c.opset >= 13 else c.constant([], np.float32)
        return c.node("Resize", [x, empty, empty, c.constant(sizes, np.int64)], **attributes)
    return c.node("Resize", [x, c.constant([], np.float32), c.constant(scales, np.float32)], **attributes)


def depth(c: Composer) -> str:
    x = c.pick("f", 4, 4)
    channels, *sizes = c.of(x).shape[1:]
    if channels % 4 == 0:
        mode = c.one_of(("DCR", "CRD")) if c.opset >= 11 else None
        return c.node("DepthToSpace", [x], blocksize=2, mode=mode)
    fitting = [n for n in (2, 3, 4) if all(size % n == 0 for size in sizes)]
    return c.node("SpaceToDepth", [x], blocksize=c.one_of(fitting or (1,)))


def trilu(c: Composer) -> str:
    if c.opset < 14:
        raise Unfit
    x = c.pick("f", 2)
    k = [c.constant(c.whole(-2, 2), np.int64)] if c.chance(0.5) else []
    return c.node("Trilu", [x, *k], upper=c.whole(0, 1))


MOVING = (
    (3, gather),
    (1, gather_elements),
    (1, gather_nd),
    (1, scatter_nd),
    (1, scatter_elements),
    (2, expand),
    (2, tile),
    (3, slices),
    (3, concat),
    (2, split),
    (3, transpose),
    (3, reshape),
    (1, flatten),
    (1, squeeze),
    (2, unsqueeze),
    (3, pad),
    (3, resize),
    (1, depth),
    (1, trilu),
)
POINTWISE = (
    (6, unary),
    (2, whole_unary),
    (8, binary),
    (1, variadic),
    (2, comparison),
    (1, logic),
    (2, where),
    (3, cast),
    (2, clip),
)
