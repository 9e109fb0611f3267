"""What each op becomes: the steps of a node, written with the help of ``lowering.Lowering``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from ...errors import ModelError
from ...picture import described, example
from ...steps import Strided, View
from ..ir import Node
from ..ops import OPS, Trait, has, infer_type
from ..pointwise import BINARY, UNARY
from . import lower_int8, lower_movement
from .lower_conv import conv, fc
from .lower_deconv import deconv
from .lowering import Lowering, attrs_of
from .strides import (
    FEW,
    IMAGE_ORDER,
    LINE,
    broadcast,
    images,
    in_lines,
    is_row_major,
    merged,
    order_of,
    permuted,
    pixels,
    place,
    planes,
    rows,
)

PLAIN = {  # op on images -> the attributes that the step of the same kind takes over
    "maxpool": ("kernel", "strides", "pads", "dilations"),
    "avgpool": ("kernel", "strides", "pads", "count_include_pad"),
    "lrn": ("size", "alpha", "beta", "bias"),
}
FLOAT, HALF = "float32", "float16"


def emit(to: Lowering, node: Node) -> None:
    """Appends a node's steps. Raises ModelError where no step computes it."""
    if node.op not in OPS:
        raise ModelError(f"node {node.name!r}: no device computes op {node.op!r}; known: {', '.join(OPS)}")
    quantized = lower_int8.on_integers(to, node) and node.op != "quantize"
    types = [FLOAT if quantized else to.type_of(name) for name in node.inputs]  # what an op means is of real numbers
    said = FLOAT if quantized else to.type_of(node.output)
    if node.op != "cast":
        types, said = [FLOAT if x == HALF else x for x in types], FLOAT if said == HALF else said
    made = infer_type(node.op, node.attrs, types, node.name)
    if made != said:
        raise ModelError(f"node {node.name!r} ({node.op}): expected an output of {made}, got {said}")
    rule = lower_int8.RULES.get(node.op) if quantized else None
    (rule or RULES.get(node.op, general))(to, node)


def writes(node: Node, at: Strided, image: bool) -> bool:
    """Whether a node can write its output, an image or not, at a place of any layout, without losing speed."""
    if has(node.op, Trait.IMAGES) or (node.op in ("softmax", "layernorm") and len(at.shape) == 4):
        return pixels(at) is not None
    if node.op == "fc":
        return rows(at, len(at.shape) - 1) is not None
    if has(node.op, Trait.ANY_STRIDES):
        return True
    if node.op == "slice":
        return False  # it only looks; whoever wants it elsewhere may copy it together with others
    if not image and (node.op in BINARY or node.op in UNARY):
        return in_lines(at)
    return pixels(at) is not None if len(at.shape) == 4 else is_row_major(at)


def general(to: Lowering, node: Node) -> None:
    """A step of the op's own name, on operands as they lie."""
    src = [to.operand(name) for name in node.inputs]
    like = src[0] if len(src[0].shape) == len(to.shape(node.output)) and src[0].array is None else None
    dst = to.target(node, order_of(like) if like is not None else range(len(to.shape(node.output))))
    to.step(KINDS.get(node.op, node.op), node, src, dst, dict(node.attrs))


def gather(to: Lowering, node: Node) -> None:
    """Indices that are known and evenly spaced only look."""
    name, axis, index = node.inputs[0], node.attrs["axis"], to.graph.constants.get(node.inputs[1])
    at = lower_movement.gathered(to.places[name], axis, index) if name in to.places and index is not None else None
    if at is None:
        general(to, node)
    else:
        to.look(node, at)


KINDS = {"softmax": "softmax_nd", "layernorm": "layernorm_nd"}  # the names of steps that are not on pixels

# ---- images ----


def pool(to: Lowering, node: Node) -> None:
    """Few channels that lie apart are windows over each of them."""
    name, placed, shape = to.activation(node), to.places.get(node.output), to.shape(node.output)
    x, apart = to.places[name], placed is None or planes(placed) is not None
    together = pixels(x) is not None or name in to.images or x.dtype != FLOAT or shape[0] * shape[1] > FEW
    if together or not apart or planes(x) is None:
        plain(to, node)
        return
    for a, b in zip(planes(x), planes(to.target(node, range(4))), strict=True):
        to.step(node.op, node, (a,), b, attrs_of(node, *PLAIN[node.op]))


def plain(to: Lowering, node: Node) -> None:
    x, count = to.pixels(node), to.shape(node.output)[0]
    out = pixels(to.target(node))
    each = zip(*(images(view, count) for view in (x, out)), strict=True) if node.op != "lrn" else [(x, out)]
    for a, b in each:
        to.step(node.op, node, (a,), b, attrs_of(node, *PLAIN[node.op]) | lower_int8.qparams(to, node))


def shuffle(to: Lowering, node: Node) -> None:
    """Channel i * (c / groups) + j moves to j * groups + i."""
    x, target, groups = to.pixels(node), pixels(to.target(node)), node.attrs["groups"]
    each, dims = x.c // groups, (x.h * x.w, groups, x.c // groups)
    source = place(x.base, x.offset, dims, (x.stride, each, 1), x.dtype)
    to.copy(node.name, source, place(target.base, target.offset, dims, (target.stride, 1, groups), target.dtype))


# ---- elements ----


def unary(to: Lowering, node: Node) -> None:
    x = to.places[to.activation(node)]
    dst = to.target(node, order_of(x))
    p0, p1 = (*attrs_of(node, *UNARY[node.op].parameters).values(), 0.0, 0.0)[:2]
    params = {"op": node.op, "p0": p0, "p1": p1}
    views = (pixels(x), pixels(dst)) if len(x.shape) == 4 else (None, None)
    if None in views and (two := _two(x, dst)):
        views = two
    fits = None not in views and views[0].elements == views[1].elements  # not where an element of x is repeated
    if fits and {x.dtype, dst.dtype} == {FLOAT} and _in_long_runs(*views):
        to.step("unary", node, views[:1], views[1], params)
    else:
        _pointwise(to, node, [x], dst, **params)


def _in_long_runs(*views: View) -> bool:
    """Whether a step on these pixels, the last of which are written, computes enough at a time: all elements, a pixel's
    worth of an operand as often as it takes, or the channels of a pixel where they are many."""
    out = views[-1]
    flat = all(
        view.c == view.stride and (view.elements in (1, out.elements) or (view.h, view.w, view.c) == (1, 1, out.c))
        for view in views
    )
    return flat or out.c >= LINE


def _two(*operands: Strided) -> tuple[View, ...] | None:
    """Operands of one shape, the last of which is written, as rows of contiguous elements, or of one element that is
    repeated; None where they do not lie so."""
    flat = merged(operands[-1].shape, *operands)
    if len(flat[-1].shape) > 2 or any(at.strides[-1] not in (0, 1) for at in flat):
        return None
    views = []
    for at in flat:
        (count, by), size = (at.shape[0], at.strides[0]) if len(at.shape) == 2 else (1, 0), at.shape[-1]
        h, c = (count if by else 1), (size if at.strides[-1] or size == 1 else 1)
        if h > 1 and by < c:
            return None
        views.append(View(at.base, at.offset, h, 1, c, by if h > 1 else c, at.dtype))
    return tuple(views)


def binary(to: Lowering, node: Node) -> None:
    shape = to.shape(node.output)
    full = [to.places[n] for n in node.inputs if n in to.places and to.shape(n) == shape]
    full.sort(key=lambda at: pixels(at) is None and not is_row_major(at))  # the one whose layout others want
    order = order_of(full[0]) if full else IMAGE_ORDER if len(shape) == 4 else range(len(shape))
    a, b = (broadcast(to.operand(name, order), shape) for name in node.inputs)
    dst = to.target(node, order)
    op = (node.attrs.get("swapped") and BINARY[node.op].swapped) or node.op
    reverse = BINARY[op].swapped if op in BINARY else node.op
    params = {"op": op, "lo": node.attrs.get("lo", -inf), "hi": node.attrs.get("hi", inf)}
    typed = {at.dtype for at in (a, b, dst)} == {FLOAT}
    if typed and a.array is None and _on_pixels(to, node, a, b, dst, params):
        return
    if typed and reverse and b.array is None and _on_pixels(to, node, b, a, dst, params | {"op": reverse}):
        return
    _pointwise(to, node, [a, b], dst, p0=0.0, p1=0.0, **params)


def _on_pixels(to: Lowering, node: Node, a: Strided, b: Strided, dst: Strided, params: dict[str, Any]) -> bool:
    """A binary step where the first operand has the shape of the result and all lie as pixels; False elsewhere."""
    views = _image_views(a, b, dst) or _two(a, b, dst)
    if (
        views is None
        or not _in_long_runs(*views)
        or (views[0].h, views[0].w, views[0].c) != (views[2].h, views[2].w, views[2].c)
    ):
        return False
    x, y, out = views
    if b.array is None:
        to.step("binary", node, (x, y), out, params)
    else:
        to.step("binary", node, (x,), out, params, weight=b.array.reshape(y.h, y.w, y.c))
    return True


def _image_views(a: Strided, b: Strided, dst: Strided) -> tuple[View, ...] | None:
    """Of single images, b being broadcast to the others' shape along any axes."""
    if len(dst.shape) != 4 or dst.shape[0] != 1:
        return None
    met = [size if stride else 1 for size, stride in zip(b.shape, b.strides, strict=True)]
    views = pixels(a), pixels(replace(b, shape=tuple(met))), pixels(dst)
    return None if None in views else views


def _pointwise(to: Lowering, node: Node, src: list[Strided], dst: Strided, **params: Any) -> None:
    *given, made = merged(dst.shape, *(broadcast(at, dst.shape) for at in src), dst)
    given = [_turned(to, node, at) if made.strides[-1] == 1 else at for at in given]
    to.step("pointwise", node, given, made, {"lo": -inf, "hi": inf, "p0": 0.0, "p1": 0.0} | params)


def _turned(to: Lowering, node: Node, at: Strided) -> Strided:
    """An operand that is contiguous along another axis than the last: a copy transposes it, in tiles."""
    if at.array is not None or 0 in at.strides or 1 not in at.strides[:-1]:
        return at
    if min(at.shape[-1], at.shape[at.strides.index(1)]) < LINE:
        return at
    made = to.dense(at.shape, range(len(at.shape)), at.dtype)
    to.copy(node.name, at, made)
    return made


def cast(to: Lowering, node: Node) -> None:
    x = to.places[to.activation(node)]
    _pointwise(to, node, [x], to.target(node, order_of(x)), op="cast")


def where(to: Lowering, node: Node) -> None:
    shape = to.shape(node.output)
    full = next((n for n in node.inputs if n in to.places and to.shape(n) == shape), None)
    order = order_of(to.places[full]) if full else range(len(shape))
    _pointwise(to, node, [to.operand(name, order) for name in node.inputs], to.target(node, order), op="where")


# ---- rows ----


def softmax(to: Lowering, node: Node) -> None:
    _normalized(to, node, (node.attrs["axis"],), {})


def layernorm(to: Lowering, node: Node) -> None:
    if node.attrs["center"]:
        _normalized(to, node, node.attrs["axes"], attrs_of(node, "epsilon"))
    else:
        general(to, node)


def _normalized(to: Lowering, node: Node, axes: tuple[int, ...], params: dict[str, Any]) -> None:
    """A step on pixels where the axes lie together as channels."""
    x = to.places[to.activation(node)]
    if axes == (1,) and len(x.shape) == 4 and x.dtype == FLOAT:
        to.step(node.op, node, (to.pixels(node),), pixels(to.target(node)), params)
        return
    trailing = sorted(axes) == list(range(len(x.shape) - len(axes), len(x.shape)))
    if trailing and x.dtype == FLOAT and _rows_of(x, axes, x) is None:
        x = to.contiguous(node.inputs[0])  # as products of matrices want it, too
    dst = to.target(node, order_of(x))
    views = [_rows_of(at, axes, dst) for at in (x, dst)]
    if None in views or {x.dtype, dst.dtype} != {FLOAT}:
        general(to, node)
    else:
        to.step(node.op, node, views[:1], views[1], params)


def _rows_of(at: Strided, axes: tuple[int, ...], like: Strided) -> View | None:
    """The elements along the axes as rows, in the order in which those of ``like`` lie."""
    order = order_of(like)
    last = (*(axis for axis in order if axis not in axes), *(axis for axis in order if axis in axes))
    return rows(permuted(at, last), len(last) - len(axes))


def picture(to: Lowering, node: Node) -> None:
    attrs, dst = node.attrs, to.target(node, range(4) if node.attrs["layout"] == "NHWC" else None)
    rows = permuted(dst, (0, 1, 2, 3) if attrs["layout"] == "NHWC" else (0, 2, 3, 1))
    out = replace(rows, shape=rows.shape[1:], strides=rows.strides[1:])
    size, seen = attrs["example"], attrs["picture"]
    frame = example(seen.frames, size)
    words = described(frame, size, seen.placed(size, attrs["size"]), seen.yuv, seen.full_range)
    to.step("picture", node, [to.places[to.activation(node)]], out, attrs_of(node, "picture", "factors", "offsets")
            | {"example": (frame, words)})  # fmt: skip


def product(to: Lowering, node: Node) -> None:
    """A product of computed operands is written as whoever reads it wants it."""
    consumers = to.consumers.get(node.output, [])
    perms = {consumer.attrs["perm"] if consumer.op == "transpose" else None for consumer in consumers}
    rank = len(to.shape(node.output))
    order = perms.pop() if len(perms) == 1 and None not in perms else range(rank)
    to.step(node.op, node, [to.operand(name) for name in node.inputs], to.target(node, order), dict(node.attrs))


RULES: dict[str, Callable[[Lowering, Node], None]] = {
    **dict.fromkeys(("maxpool", "avgpool"), pool),
    "lrn": plain,
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys(("matmul", "attention"), product),
    "conv": conv,
    "deconv": deconv,
    "fc": fc,
    "shuffle": shuffle,
    "cast": cast,
    "where": where,
    "gather": gather,
    "softmax": softmax,
    "layernorm": layernorm,
    "concat": lower_movement.concat,
    "reshape": lower_movement.reshape,
    "transpose": lower_movement.transpose,
    "slice": lower_movement.slice_,
    "expand": lower_movement.expand,
    "pad": lower_movement.pad,
    "picture": picture,
    **dict.fromkeys(("quantize", "dequantize"), lower_int8.stored),
    "resize": lower_movement.resize,
}
