"""Attention and embeddings of com.microsoft, as onnxruntime's optimizer writes them, against onnxruntime."""

import numpy as np
import onnx_models
import pytest
from load_models import TOLERANCE
from onnx import helper
from onnx_models import rand, saved

from pipeall import Engine, load

MASKS = {
    "none": None,
    "raw": [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]],
    "ends": [3, 5],
    "ends and starts": [4, 5, 1, 0],
}


def check(node, fed, constants, folder):
    proto = onnx_models.model(
        [node], {name: array.shape for name, array in fed.items()}, [name for name in node.output if name], constants,
        types={name: array.dtype for name, array in fed.items()} | {"count": np.int32},
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    expected = onnx_models.run(proto, fed)
    with Engine(load(saved(proto, folder)), "big", threads=1) as engine:
        found = engine(fed)
    found = found if isinstance(found, dict) else {node.output[0]: found}
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=TOLERANCE * np.abs(array).max(), err_msg=name)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_attention(mask, causal, op, tmp_path):
    if op == "Attention":
        fed, constants = {"x": rand(2, 5, 8)}, {"w": rand(8, 24, seed=1), "b": rand(24, seed=2)}
        inputs = ["x", "w", "b"]
    else:
        fed, constants = {name: rand(2, 5, 8, seed=i) for i, name in enumerate("qkv")}, {"b": rand(24, seed=3)}
        inputs = ["q", "k", "v", "b"]
        mask = "none" if mask == "ends and starts" else mask  # which its kernel does not take
    if MASKS[mask] is not None:
        fed["m"] = np.array(MASKS[mask], np.int32)
        inputs.append("m")
    node = helper.make_node(op, inputs, ["y"], domain="com.microsoft", num_heads=2, unidirectional=causal)
    check(node, fed, constants, tmp_path)


def test_embeddings(tmp_path):
    tables = {"words": rand(20, 8), "places": rand(16, 8, seed=1), "kinds": rand(2, 8, seed=2)}
    sizes = {"ids": 7, "kind": 2, "at": 9}
    fed = {name: (np.arange(10).reshape(2, 5) % size).astype(np.int32) for name, size in sizes.items()}
    fed["mask"] = np.array(MASKS["raw"], np.int32)
    inputs = ["ids", "kind", *tables, "g", "b", "mask", "at"]
    node = helper.make_node("EmbedLayerNormalization", inputs, ["y", "count", "sum"], domain="com.microsoft")
    check(node, fed, tables | {"g": rand(8, seed=3), "b": rand(8, seed=4)}, tmp_path)


@pytest.mark.parametrize("exchanged", ["", "A", "B", "AB"])
@pytest.mark.parametrize("batch", ["", "A", "B", "AB"])
def test_products_of_exchanged_axes(exchanged, batch, tmp_path):
    fed = {"a": rand(2, 3, 4, 5), "b": rand(2, 3, 5, 6, seed=1)}
    attrs = {f"trans{name}": 1 for name in exchanged} | {f"transBatch{name}": 1 for name in batch}
    for name, factor in zip("AB", fed, strict=True):
        if name in exchanged:
            fed[factor] = fed[factor].swapaxes(2, 3)
        if name in batch:
            fed[factor] = fed[factor].transpose(2, 0, 1, 3)
        fed[factor] = np.ascontiguousarray(fed[factor])
    check(
        helper.make_node("FusedMatMul", list(fed), ["y"], domain="com.microsoft", alpha=0.5, **attrs), fed, {}, tmp_path
    )


MASK = np.array([[0, 0, 1, 1, 1, 1, 1]], np.int32)
PAST = {
    "past": ["x", "w", "b", "", "past"],
    "past and mask": ["x", "w", "b", "m", "past"],
    "present alone": ["x", "w", "b"],
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("kind", PAST)
def test_past_of_attention(kind, causal, tmp_path):
    inputs = PAST[kind]
    made = {"x": rand(1, 3, 8), "past": rand(2, 1, 2, 4, 4, seed=1), "m": MASK}
    node = helper.make_node(
        "Attention", inputs, ["y", "present"], domain="com.microsoft", num_heads=2, unidirectional=causal
    )
    check(
        node,
        {name: made[name] for name in made if name in inputs},
        {"w": rand(8, 24, seed=2), "b": rand(24, seed=3)},
        tmp_path,
    )


MULTI_HEAD = {  # shapes, names of the inputs
    "past": ({"q": (3, 8), "k": (3, 8), "v": (3, 8), "pk": (2, 4, 4), "pv": (2, 4, 4)}, "q k v b - - pk pv"),
    "past and mask": ({"q": (3, 8), "k": (3, 8), "v": (3, 8), "m": (7,), "pk": (2, 4, 4), "pv": (2, 4, 4)},
                      "q k v b m - pk pv"),
    "present alone": ({"q": (3, 8), "k": (3, 8), "v": (3, 8)}, "q k v"),
    "in heads": ({"q": (3, 8), "k": (2, 5, 4), "v": (2, 5, 4)}, "q k v b"),
    "more keys": ({"q": (3, 8), "k": (5, 8), "v": (5, 12)}, "q k v"),
}  # fmt: skip


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("kind", MULTI_HEAD)
def test_past_of_many_heads(kind, causal, tmp_path):
    shapes, names = MULTI_HEAD[kind]
    inputs = ["" if name == "-" else name for name in names.split()]
    fed = {name: MASK if name == "m" else rand(1, *shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    outputs = ["y"] if kind in ("in heads", "more keys") else ["y", "keys", "values"]
    node = helper.make_node(
        "MultiHeadAttention", inputs, outputs, domain="com.microsoft", num_heads=2, unidirectional=causal
    )
    check(node, fed, {"b": rand(24, seed=9)} if "b" in inputs else {}, tmp_path)


@pytest.mark.parametrize("scales", [1, 24])
def test_attention_of_integers(scales, tmp_path):
    """By a weight of int8, with one scale or one for each column."""
    fed = {"x": (40 * rand(1, 3, 8) + 128).astype(np.uint8), "past": rand(2, 1, 2, 4, 4, seed=1), "m": MASK}
    weight = (30 * rand(8, 24, seed=2)).clip(-127, 127).astype(np.int8)
    constants = {"w": weight, "b": rand(24, seed=3), "xs": np.float32(0.02), "xz": np.uint8(128)}
    constants |= {"ws": np.linspace(0.01, 0.02, scales, dtype=np.float32), "wz": np.zeros(scales, np.int8)}
    inputs = ["x", "w", "b", "xs", "ws", "m", "xz", "wz", "past"]
    node = helper.make_node("QAttention", inputs, ["y", "present"], domain="com.microsoft", num_heads=2)
    check(node, fed, constants, tmp_path)
