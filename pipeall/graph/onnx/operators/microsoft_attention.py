"""Attention of the domain com.microsoft, which onnxruntime's optimizer writes of BERT, in operators of ONNX."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .microsoft import ms

HIDDEN = -10000.0  # what is added to the score of a key that a mask hides


def _shape(g: Builder, name: str) -> tuple[int, ...]:
    return g.shape_of(g.values[name])


def _heads(g: Builder, n: OnnxNode, x: str, heads: int, part: str) -> str:
    """(samples, length, heads * size) as (samples, heads, length, size)."""
    shape = _shape(g, x)
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        n.fail(f"cannot split {shape} into {heads} heads")
    split = g.named(n, np.array([*shape[:2], heads, shape[2] // heads]), f"{part}/shape")
    return g.apply(n, "Transpose", [g.apply(n, "Reshape", [x, split], f"{part}/split")], part, perm=[0, 2, 1, 3])


def _part(g: Builder, n: OnnxNode, x: str, start: int, stop: int, axis: int, part: str) -> str:
    cut = [g.named(n, np.array([value]), f"{part}/{name}") for name, value in
           (("start", start), ("stop", stop), ("axis", axis))]  # fmt: skip
    return g.apply(n, "Slice", [x, *cut], part)


def _attended(g: Builder, n: OnnxNode, q: str, k: str, v: str, biases: list[str], past: int = 0) -> None:
    """softmax(scale Q K^T + biases) V of (samples, heads, length, size), as (samples, length, heads * size); each query
    sees, where it is not to see what comes later, the keys of the past and those up to its own."""
    (count, heads, length, size), keys, values = _shape(g, q), _shape(g, k), _shape(g, v)
    if keys[:2] != (count, heads) or keys[3] != size or values[:3] != keys[:3]:
        n.fail(f"q {(count, heads, length, size)}, k {keys} and v {values} do not fit")
    turned = g.apply(n, "Transpose", [k], "columns", perm=[0, 1, 3, 2])
    scale = n.get("scale", float, 0.0) or 1 / sqrt(size)
    scores = g.apply(n, "Mul", [g.apply(n, "MatMul", [q, turned], "products"), g.named(n, scale)], "scores")
    if n.get("unidirectional", int, 0):
        seen = np.tri(length, keys[2], past, dtype=bool)
        seen[-1] = True  # also where there are more keys than queries: as in onnxruntime
        biases = [*biases, g.named(n, np.where(seen, 0, np.finfo(np.float32).min).astype(np.float32), "causal")]
    for i, bias in enumerate(biases):
        scores = g.apply(n, "Add", [scores, bias], f"masked{i}")
    rows = g.apply(n, "MatMul", [g.apply(n, "Softmax", [scores], "probabilities", axis=-1), v], "heads")
    rows = g.apply(n, "Transpose", [rows], "rows", perm=[0, 2, 1, 3])
    g.apply(n, "Reshape", [rows, g.named(n, np.array([count, length, heads * values[3]]), "joined")])


def _mask(g: Builder, n: OnnxNode, i: int, count: int, total: int) -> list[str]:
    """What input i adds to the scores: 1 for keys to see, or how many there are, or where they end and begin."""
    if not g.has(n, i):
        return []
    mask, shape = n.inputs[i], g.shape_of(g.value(n, i))
    if len(shape) == 1:
        places = g.named(n, np.arange(total)[None], "places")
        ends = g.apply(n, "Cast", [mask], "ends", to=7)
        if shape == (count,):
            seen = g.apply(n, "Less", [places, _column(g, n, ends, 0, count, "last")], "seen")
        elif shape == (2 * count,):
            below = g.apply(n, "Less", [places, _column(g, n, ends, 0, count, "last")], "below")
            above = _column(g, n, ends, count, 2 * count, "first")
            seen = g.apply(n, "And", [below, g.apply(n, "GreaterOrEqual", [places, above], "above")], "seen")
        else:
            n.fail(f"mask {shape} is not supported for {count} samples")
    elif shape in ((count, total), (1, total)) or len(shape) == 3:
        seen = g.apply(n, "Cast", [mask], "seen", to=9)
    else:
        n.fail(f"mask {shape} is not supported for {count} samples of {total} keys")
    axes = g.named(n, np.array([1, 2] if len(shape) < 3 else [1]), "mask/axes")
    seen = g.apply(n, "Unsqueeze", [seen, axes], "mask/seen")
    hidden = g.named(n, n.get("mask_filter_value", float, HIDDEN))
    return [g.apply(n, "Where", [seen, g.named(n, 0.0), hidden], "mask")]


def _column(g: Builder, n: OnnxNode, x: str, start: int, stop: int, part: str) -> str:
    cut = _part(g, n, x, start, stop, 0, f"{part}/cut")
    return g.apply(n, "Unsqueeze", [cut, g.named(n, np.array([1]), f"{part}/axes")], part)


def _bias(g: Builder, n: OnnxNode, i: int) -> list[str]:
    return [n.inputs[i]] if g.has(n, i) else []


def _length(g: Builder, n: OnnxNode, i: int) -> int:
    """How many keys of the past input i holds, (..., keys, size)."""
    shape = g.shape_of(g.value(n, i)) if g.has(n, i) else (0, 0)
    return shape[-2] if len(shape) > 1 else n.fail(f"a past {shape} is not supported")


def _appended(g: Builder, n: OnnxNode, past: str, x: str, part: str) -> str:
    """Keys or values of the past, and those of now."""
    return g.apply(n, "Concat", [past, x], f"{part}/all", axis=2) if past else x


def _leaves(g: Builder, n: OnnxNode, output: int, x: str) -> None:
    if output in n.made:
        g.bind(n, g.values[x], output)


@operator(
    ms("Attention"),
    "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes scale unidirectional",
    "without a buffer that is shared",
)
def _attention(g: Builder, n: OnnxNode) -> None:
    if g.has(n, 6) or n.get("do_rotary", int, 0) or n.get("past_present_share_buffer", int, 0):
        n.fail("do_rotary and a shared buffer of the past are not supported")
    x, heads = g.given(n, 0), n.get("num_heads", int)
    y = g.apply(n, "MatMul", [x, g.given(n, 1)], "projected")
    if g.has(n, 2):
        y = g.apply(n, "Add", [y, n.inputs[2]], "biased")
    shape = _shape(g, y)
    if len(shape) != 3:
        n.fail(f"expected (samples, length, size), got {shape}")
    sizes = n.ints("qkv_hidden_sizes", 3, (shape[2] // 3,) * 3)
    if min(sizes) < 1 or sum(sizes) != shape[2]:
        n.fail(f"cannot split {shape} into {sizes}")
    ends = np.cumsum([0, *sizes])
    q, k, v = (
        _heads(g, n, _part(g, n, y, int(ends[i]), int(ends[i + 1]), 2, f"{name}/part"), heads, name)
        for i, name in enumerate("qkv")
    )
    past, axis = _length(g, n, 4), g.named(n, np.array([0]), "past/axis")
    if g.has(n, 4):
        kept = [g.apply(n, "Squeeze", [_part(g, n, n.inputs[4], i, i + 1, 0, f"{name}/cut"), axis], f"{name}/past")
                for i, name in enumerate("kv")]  # fmt: skip
        k, v = (_appended(g, n, kept[i], x, name) for i, (x, name) in enumerate(((k, "k"), (v, "v"))))
    if any(n.outputs[1:2]):
        present = [g.apply(n, "Unsqueeze", [x, axis], f"{name}/present") for x, name in ((k, "k"), (v, "v"))]
        _leaves(g, n, 1, g.apply(n, "Concat", present, "present", axis=0))
    _attended(g, n, q, k, v, [*_mask(g, n, 3, shape[0], past + shape[1]), *_bias(g, n, 5)], past)


@operator(
    ms("QAttention"),
    "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional",
    "as Attention; computed in float32",
)
def _quantized_attention(g: Builder, n: OnnxNode) -> None:
    inputs = [n.inputs[i] if g.has(n, i) else "" for i in range(9)]
    x = g.apply(n, "DequantizeLinear", [inputs[i] for i in (0, 3, 6)], "x")
    weight = g.apply(n, "DequantizeLinear", [inputs[i] for i in (1, 4, 7)], "weight", axis=1)
    _attention(g, replace(n, inputs=(x, weight, inputs[2], inputs[5], inputs[8])))


@operator(ms("MultiHeadAttention"), "mask_filter_value num_heads scale unidirectional", "as Attention; not packed")
def _multi_head(g: Builder, n: OnnxNode) -> None:
    if g.has(n, 6) != g.has(n, 7) or g.has(n, 8) or g.has(n, 9):
        n.fail("a past is supported of keys and values, without a buffer that they share")
    heads, names = n.get("num_heads", int), [g.given(n, i) for i in range(3)]
    if g.has(n, 3):
        sizes = [_shape(g, name)[-1] * (heads if len(_shape(g, name)) == 4 else 1) for name in names]
        ends = np.cumsum([0, *sizes])
        for i, part in ((i, part) for i, part in enumerate("qkv") if len(_shape(g, names[i])) == 3):
            bias = _part(g, n, n.inputs[3], int(ends[i]), int(ends[i + 1]), 0, f"{part}/bias")
            names[i] = g.apply(n, "Add", [names[i], bias], f"{part}/biased")
    q, k, v = (
        name if i and len(_shape(g, name)) == 4 else _heads(g, n, name, heads, part)
        for i, (name, part) in enumerate(zip(names, "qkv", strict=True))
    )
    past = _length(g, n, 6)
    k, v = (_appended(g, n, n.inputs[i] if g.has(n, i) else "", x, part) for i, x, part in ((6, k, "k"), (7, v, "v")))
    for i, x in ((1, k), (2, v)):
        _leaves(g, n, i, x)
    _attended(g, n, q, k, v, [*_mask(g, n, 4, _shape(g, q)[0], _shape(g, k)[2]), *_bias(g, n, 5)], past)


@operator(ms("EmbedLayerNormalization"), "epsilon mask_index_type", "the third result is the sum")
def _embed(g: Builder, n: OnnxNode) -> None:
    """The normalized sum of the embeddings of words, places and segments; and how many words each mask counts."""
    words = g.apply(n, "Gather", [g.given(n, 2), g.given(n, 0)], "words")
    shape = _shape(g, words)
    if len(shape) != 3:
        n.fail(f"expected words (samples, length), got {shape[:-1]}")
    places = n.inputs[8] if g.has(n, 8) else g.named(n, np.arange(shape[1])[None], "places")
    total = g.apply(n, "Add", [words, g.apply(n, "Gather", [g.given(n, 3), places], "positions")], "placed")
    if g.has(n, 1):
        total = g.apply(n, "Add", [total, g.apply(n, "Gather", [g.given(n, 4), n.inputs[1]], "segments")], "sum")
    scale = [g.given(n, 5), g.given(n, 6)]
    g.apply(n, "LayerNormalization", [total, *scale], axis=-1, epsilon=n.get("epsilon", float, 1e-12))
    if 1 in n.made:
        if g.has(n, 7):
            axes = g.named(n, np.array([1]), "mask/axes")
            counted = g.apply(n, "ReduceSum", [n.inputs[7], axes], "counted", keepdims=0)
        else:
            counted = g.named(n, np.zeros(shape[0], np.int32), "counted")
        g.bind(n, g.values[counted], 1)
    if 2 in n.made:
        g.bind(n, g.values[total], 2)
