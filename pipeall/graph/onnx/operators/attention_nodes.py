"""ONNX's Attention and RotaryEmbedding in canonical ops. The rewriter joins the products and the softmax."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from ..read.build import Builder, OnnxNode, Value, operator
from .pointwise_nodes import aligned, binary

MODES = range(4)  # of qk_matmul_output: raw, capped, with its mask, probabilities
ATTRIBUTES = (
    "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale softcap "
    "softmax_precision"
)
LOWEST = float(np.finfo(np.float32).min)


@operator("Attention", ATTRIBUTES, "constant nonpad_kv_seqlen")
def _attention(g: Builder, n: OnnxNode) -> None:
    """softmax(scale Q K^T + mask) V for each head; several heads of Q may share one of K and V."""
    q, k, v = (_heads(g, n, i) for i in range(3))
    past = 0
    if g.has(n, 4) and g.has(n, 5):
        past = g.shape_of(g.value(n, 4))[2]
        k = g.emit(n, "concat", [g.operand(n, 4), k], axis=2, **_result(n, 1, "keys"))
        v = g.emit(n, "concat", [g.operand(n, 5), v], axis=2, **_result(n, 2, "values"))
    else:
        for place, x in ((1, k), (2, v)):
            if place in n.made:
                g.emit(n, "reshape", [x], output=place, shape=g.shape(x))
    mode = n.get("qk_matmul_output_mode", int, 0)
    if mode not in MODES:
        n.fail(f"qk_matmul_output_mode must be 0 to 3, got {mode}")
    scores = [_scores(g, n, q, k)]
    scores.append(_capped(g, n, scores[0]))
    bias = _bias(g, n, g.shape(scores[0]), past)
    scores.append(scores[1] if bias is None else binary(g, n, "add", scores[1], bias, "masked"))
    scores.append(g.emit(n, "softmax", [scores[2]], part="probabilities", axis=3))
    if 3 in n.made:
        result = _shown(g, n, scores[3], bias, "attended") if mode == 3 else scores[mode]
        g.emit(n, "reshape", [result], output=3, shape=g.shape(result))
    y = g.emit(n, "matmul", [scores[3], _repeated(g, n, v, g.shape(q)[1], "values")], part="heads")
    y = _shown(g, n, y, bias, "shown")
    batch, heads, length, size = g.shape(y)
    if len(g.shape_of(g.value(n, 0))) == 3:
        y = g.emit(n, "transpose", [y], part="rows", perm=(0, 2, 1, 3))
        g.emit(n, "reshape", [y], shape=(batch, length, heads * size))
    else:
        g.reshape(n, y, g.shape(y))


def _result(n: OnnxNode, output: int, part: str) -> dict[str, str | int]:
    """How to emit what may be an output of the node."""
    return {"output": output} if output in n.made else {"part": part}


def _heads(g: Builder, n: OnnxNode, i: int) -> str:
    """Input i as (samples, heads, length, size)."""
    x = g.operand(n, i)
    shape = g.shape(x)
    if len(shape) == 4:
        return x
    heads = n.get("q_num_heads" if i == 0 else "kv_num_heads", int)
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        n.fail(f"input {i} {shape} cannot be split into {heads} heads")
    x = g.emit(n, "reshape", [x], part=f"split{i}", shape=(*shape[:2], heads, shape[2] // heads))
    return g.emit(n, "transpose", [x], part=f"heads{i}", perm=(0, 2, 1, 3))


def _repeated(g: Builder, n: OnnxNode, x: str, heads: int, part: str) -> str:
    """Each head as often as heads of Q share it."""
    batch, own, length, size = g.shape(x)
    if own == heads:
        return x
    if heads % own:
        n.fail(f"{heads} heads of Q cannot share {own} of K and V")
    x = g.emit(n, "reshape", [x], part=f"{part}/single", shape=(batch, own, 1, length, size))
    x = g.emit(n, "expand", [x], part=f"{part}/shared", shape=(batch, own, heads // own, length, size))
    return g.emit(n, "reshape", [x], part=f"{part}/all", shape=(batch, heads, length, size))


def _scores(g: Builder, n: OnnxNode, q: str, k: str) -> str:
    size = g.shape(q)[3]
    k = _repeated(g, n, k, g.shape(q)[1], "keys")
    k = g.emit(n, "transpose", [k], part="columns", perm=(0, 1, 3, 2))
    return g.emit(n, "matmul", [q, k], part="scores", alpha=n.get("scale", float, 1 / sqrt(size)))


def _capped(g: Builder, n: OnnxNode, scores: str) -> str:
    cap = n.get("softcap", float, 0.0)
    if not cap:
        return scores
    curve = g.emit(n, "tanh", [g.with_number(n, "mul", scores, 1 / cap, "uncapped")], part="curve")
    return g.with_number(n, "mul", curve, cap, "capped")


def _bias(g: Builder, n: OnnxNode, scores: tuple[int, ...], past: int) -> Value | None:
    """What is added to scores of a shape: the mask, and -inf where keys are hidden; None where there is neither."""
    visible = _visible(g, n, scores, past)
    mask = _mask(g, n, scores[3]) if g.has(n, 3) else None
    if visible is None:
        return mask
    hidden = np.where(visible, 0, -inf).astype(np.float32)
    if mask is None:
        return hidden
    return mask + hidden if isinstance(mask, np.ndarray) else binary(g, n, "add", mask, hidden, "hidden")


def _visible(g: Builder, n: OnnxNode, scores: tuple[int, ...], past: int) -> np.ndarray | None:
    """Which keys (last axis) each query may see by its place; None where all."""
    rows, columns = np.arange(scores[2])[:, None], np.arange(scores[3])
    visible, offset = None, np.array(past)
    limits = [n.get("left_window_size", int, -1), n.get("right_window_size", int, -1)]
    if n.get("is_causal", int, 0):
        limits[1] = 0
    if g.has(n, 6):
        lengths = np.array(g.ints(n, 6)).reshape(-1, 1, 1, 1)
        if len(lengths) != scores[0]:
            n.fail(f"nonpad_kv_seqlen must have {scores[0]} elements, got {len(lengths)}")
        visible, offset = columns < lengths, lengths - scores[2]
    before = rows + offset - columns  # how many places a key lies before the query's own
    for limit, distance in zip(limits, (before, -before), strict=True):
        if limit >= 0:
            within = distance <= limit
            visible = within if visible is None else visible & within
    return visible


def _mask(g: Builder, n: OnnxNode, columns: int) -> Value:
    """Input 3 as numbers to add; keys that it does not reach are hidden."""
    mask = g.value(n, 3)
    shape = g.shape_of(mask)
    missing = max(0, columns - shape[-1]) if shape and shape[-1] > 1 else 0
    if isinstance(mask, np.ndarray):
        bias = (np.where(mask, 0, -inf) if mask.dtype.kind == "b" else mask).astype(np.float32)
        return np.pad(bias, [*[(0, 0)] * (bias.ndim - 1), (0, missing)], constant_values=-inf) if missing else bias
    if g.dtype(mask) == "bool":
        zero = g.new_constant(n, np.zeros((1,) * len(shape), np.float32), "zero")
        mask = g.emit(n, "where", [mask, zero, g.number(n, -inf, zero)], part="bias")
    mask = g.cast(n, mask, "float32", part="bias")
    if missing:
        end = (*(0,) * (len(shape) - 1), missing)
        mask = g.emit(n, "pad", [mask], part="reached", pads_begin=(0,) * len(shape), pads_end=end, value=-inf)
    return mask


def _shown(g: Builder, n: OnnxNode, x: str, bias: Value | None, part: str) -> str:
    """0 for queries that see no key, whose softmax is not a number."""
    if bias is None or not g.shape_of(bias):
        return x
    if isinstance(bias, np.ndarray):
        seen = bias.max(axis=-1, keepdims=True) > LOWEST
        if seen.all():
            return x
    else:
        most = g.emit(n, "reduce", [bias], part=f"{part}/most", how="max", axes=(len(g.shape(bias)) - 1,))
        seen = g.emit(n, "greater", [most, g.number(n, LOWEST, most)], part=f"{part}/seen")
    nothing = np.zeros((1,) * len(g.shape(x)), np.float32)
    return g.emit(n, "where", aligned(g, n, (seen, x, nothing)), part=part)


@operator("RotaryEmbedding", "interleaved num_heads rotary_embedding_dim")
def _rotary(g: Builder, n: OnnxNode) -> None:
    """The first elements of each head, in pairs, turned by the angle of their position."""
    x = g.x(n)
    shape = g.shape(x)
    rows = len(shape) == 3  # (samples, length, heads * size), else (samples, heads, length, size)
    if rows:
        heads = n.get("num_heads", int)
        if heads < 1 or shape[2] % heads:
            n.fail(f"{shape} cannot be split into {heads} heads")
        x = g.emit(n, "reshape", [x], part="heads", shape=(*shape[:2], heads, shape[2] // heads))
    elif len(shape) != 4:
        n.fail(f"expected rank 3 or 4, got {shape}")
    size = g.shape(x)[3]
    turned = n.get("rotary_embedding_dim", int, 0) or size
    if not 0 < turned <= size or turned % 2:
        n.fail(f"cannot turn {turned} of {size} elements")
    angles = [_angles(g, n, i, turned // 2, 2 if rows else 1) for i in (1, 2)]
    parts = [_turned(g, n, _cut(g, n, x, 0, turned, "turned"), *angles)]
    if turned < size:
        parts.append(_cut(g, n, x, turned, size, "rest"))
    y = parts[0] if len(parts) == 1 else g.emit(n, "concat", parts, part="whole", axis=3)
    g.emit(n, "reshape", [y], shape=shape)


def _cut(g: Builder, n: OnnxNode, x: str, start: int, stop: int, part: str, step: int = 1) -> str:
    if (start, stop, step) == (0, g.shape(x)[-1], 1):
        return x
    return g.emit(n, "slice", [x], part=part, axis=len(g.shape(x)) - 1, start=start, stop=stop, step=step)


def _angles(g: Builder, n: OnnxNode, i: int, pairs: int, axis: int) -> str:
    """Cosines or sines as (samples, 1, length, pairs), or with the 1 for the heads at another axis."""
    cache = g.value(n, i)
    if g.has(n, 3):
        positions = g.value(n, 3)
        if isinstance(cache, np.ndarray) and isinstance(positions, np.ndarray):
            size = cache.shape[0] if cache.ndim else 0
            if positions.dtype.kind not in "iu" or np.any((positions < 0) | (positions >= size)):
                n.fail(f"input 3 ({n.inputs[3]!r}) must hold positions from 0 to {size - 1}")
            cache = cache[positions]
        else:
            part = f"cache{i}"
            cache = g.emit(n, "gather", [g.operand(n, i), g.operand(n, 3)], part=part, axis=0)
    shape = g.shape_of(cache)
    if len(shape) != 3 or shape[2] != pairs:
        n.fail(f"input {i} must hold {pairs} angles for each position, got {shape}")
    full = (*shape[:axis], 1, *shape[axis:])
    if isinstance(cache, np.ndarray):
        return g.keep(cache.reshape(full), n.inputs[i])
    return g.emit(n, "reshape", [cache], part=f"angles{i}", shape=full)


def _turned(g: Builder, n: OnnxNode, x: str, cosine: str, sine: str) -> str:
    """(a, b) -> (a cos - b sin, a sin + b cos); the pairs are the halves of the elements, or their neighbours."""
    size, neighbours = g.shape(x)[3], n.get("interleaved", int, 0)
    if neighbours and size > 2:
        a, b = (_cut(g, n, x, first, size, part, 2) for first, part in ((0, "a"), (1, "b")))
    else:
        a, b = _cut(g, n, x, 0, size // 2, "a"), _cut(g, n, x, size // 2, size, "b")
    products = {}
    for name, operand in (("a", a), ("b", b)):
        for way, factor in (("cos", cosine), ("sin", sine)):
            products[name + way] = g.emit(n, "mul", aligned(g, n, (operand, factor)), part=f"{name}/{way}")
    real = g.emit(n, "sub", [products["acos"], products["bsin"]], part="real")
    imaginary = g.emit(n, "add", [products["asin"], products["bcos"]], part="imaginary")
    if not neighbours:
        return g.emit(n, "concat", [real, imaginary], part="pairs", axis=3)
    columns = [
        g.emit(n, "reshape", [half], part=f"{half_name}/column", shape=(*g.shape(half), 1))
        for half, half_name in ((real, "real"), (imaginary, "imaginary"))
    ]
    pairs = g.emit(n, "concat", columns, part="pairs", axis=4)
    return g.emit(n, "reshape", [pairs], part="neighbours", shape=g.shape(x))
