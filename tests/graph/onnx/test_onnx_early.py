"""Operators beside ONNX's own: those it had for trial, those of ai.onnx.ml, and forms that it no longer has."""

import numpy as np
import pytest
from load_models import TOLERANCE, agrees, model, value
from onnx import helper
from onnx_models import rand, refusal, saved

from pipeall import load
from pipeall.graph.ops import run_graph

ML = "ai.onnx.ml"
FORMS = {
    "ImageScaler": ((1, 3, 4, 5), dict(bias=[1.0, 2.0, 3.0], scale=0.5)),
    "Affine": ((2, 3), dict(alpha=2.0, beta=1.0)),
    "Scale": ((2, 3), dict(scale=2.0)),
    "ScaledTanh": ((2, 3), dict(alpha=2.0, beta=0.5)),
    "ParametricSoftplus": ((2, 3), dict(alpha=2.0, beta=0.5)),
    "Crop": ((1, 2, 6, 7), dict(border=[1, 0, 2, 1])),
    "Crop to a size": ((1, 2, 6, 7), dict(border=[1, 2, 2, 1], scale=[2, 3])),
    "ml.Scaler": ((2, 3), dict(offset=[1.0, 2.0, 3.0], scale=[2.0, 3.0, 4.0])),
    "ml.Scaler of one number": ((3,), dict(offset=[1.0], scale=[2.0])),
    "ml.Normalizer MAX": ((4, 3), dict(norm="MAX")),
    "ml.Normalizer L1": ((4, 3), dict(norm="L1")),
    "ml.Normalizer L2": ((3,), dict(norm="L2")),
    "ml.Binarizer": ((2, 3), dict(threshold=0.5)),
    "ml.Imputer": ((2, 3), dict(imputed_value_floats=[7.0], replaced_value_float=float("nan"))),
    "ml.LinearRegressor": (
        (2, 3), dict(coefficients=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts=[0.5, 1.0], targets=2)
    ),
}  # fmt: skip


def proto_of(name):
    shape, attrs = FORMS[name]
    op = name.split()[0]
    node = helper.make_node(op.removeprefix("ml."), ["x"], ["y"], domain=ML if op.startswith("ml.") else "", **attrs)
    return model([node], [value("x", 1, shape)], [value("y", 1, None)], opset=7, domains=[helper.make_opsetid(ML, 1)])


@pytest.mark.parametrize("name", FORMS)
def test_operators_of_early_converters(name, tmp_path):
    agrees(proto_of(name), tmp_path)


def test_a_row_of_zeros_is_not_divided(tmp_path):
    graph = load(saved(proto_of("ml.Normalizer L1"), tmp_path))
    x = np.array([[1, -3, 0], [0, 0, 0], [2, 2, 4], [-1, 0, 0]], np.float32)
    expected = [[0.25, -0.75, 0], [0, 0, 0], [0.25, 0.25, 0.5], [-1, 0, 0]]
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], expected)


def test_batch_norm_of_every_element(tmp_path):
    """``spatial`` 0, until opset 8: NumPy, since onnxruntime has it no longer."""
    parts = dict(s=rand(3, 4, 5), b=rand(3, 4, 5), m=rand(3, 4, 5), v=np.abs(rand(3, 4, 5)))
    node = helper.make_node("BatchNormalization", ["x", *parts], ["y"], spatial=0, epsilon=0.01)
    x = rand(2, 3, 4, 5)
    expected = (x - parts["m"]) / np.sqrt(parts["v"] + 0.01) * parts["s"] + parts["b"]
    for computed in ("", "m"):
        fed = {"x": x} | {name: parts[name] for name in computed}
        inputs = [value(name, 1, array.shape) for name, array in fed.items()]
        constants = {name: array for name, array in parts.items() if name not in fed}
        graph = load(saved(model([node], inputs, [value("y", 1, None)], constants, opset=7), tmp_path))
        limit = TOLERANCE * np.abs(expected).max()
        np.testing.assert_allclose(run_graph(graph, fed)["y"], expected, rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8])
@pytest.mark.parametrize("constant", [False, True])
def test_attention_adds_a_mask_of_integers(dtype, constant, tmp_path):
    q, k, v = (rand(1, 2, n, 4, seed=n) for n in (5, 6, 6))
    mask = np.arange(30).reshape(5, 6).astype(dtype) % 4
    fed = dict(q=q, k=k, v=v) | ({} if constant else {"m": mask})
    inputs = [value(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in fed.items()]
    node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y"])
    constants = {"m": mask} if constant else {}
    graph = load(saved(model([node], inputs, [value("y", 1, None)], constants, opset=23), tmp_path))
    powers = np.exp(q.astype(np.float64) @ k.swapaxes(2, 3) / 2 + mask)
    expected = powers / powers.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(run_graph(graph, fed)["y"], expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def slots(mode, start):
    """Where three new rows lie in a cache of six."""
    return [(start + i) % 6 if mode == "circular" else start + i for i in range(3)]


@pytest.mark.parametrize(("mode", "starts"), [("linear", (3, 1)), ("circular", (5, 0))])
@pytest.mark.parametrize("constant", ["", "i", "c"])
def test_new_rows_of_a_cache(mode, starts, constant, tmp_path):
    arrays = dict(c=rand(2, 2, 6, 4), u=rand(2, 2, 3, 4, seed=1), i=np.array(starts))
    expected = arrays["c"].copy()
    for sample, start in enumerate(starts):
        expected[sample, :, slots(mode, start)] = arrays["u"][sample].swapaxes(0, 1)
    fed = {name: array for name, array in arrays.items() if name not in constant}
    inputs = [value(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in fed.items()]
    node = helper.make_node("TensorScatter", list(arrays), ["y"], mode=mode)
    constants = {name: arrays[name] for name in constant}
    graph = load(saved(model([node], inputs, [value("y", 1, None)], constants, opset=24), tmp_path))
    np.testing.assert_array_equal(run_graph(graph, fed)["y"], expected.astype(np.float64))


# ---- pools ----


def pooled(x, kernel, strides, pads, how, counted):
    """Windows over all axes but the first two, one by one."""
    around = [(0, 0), (0, 0), *((pad, pad) for pad in pads)]
    padded = np.pad(x.astype(np.float64), around, constant_values=-np.inf if how == "MaxPool" else 0)
    ones = np.pad(np.ones_like(x), around, constant_values=float(counted))
    sizes = [(n - k) // s + 1 for n, k, s in zip(padded.shape[2:], kernel, strides, strict=True)]
    y = np.zeros((*x.shape[:2], *sizes))
    for place in np.ndindex(*sizes):
        cut = (..., *(slice(i * s, i * s + k) for i, s, k in zip(place, strides, kernel, strict=True)))
        axes = tuple(range(2, x.ndim))
        y[(..., *place)] = padded[cut].max(axes) if how == "MaxPool" else padded[cut].sum(axes) / ones[cut].sum(axes)
    return y


POOLS = {
    "four axes": ((1, 2, 4, 5, 3, 6), (2, 3, 1, 2), (1, 2, 1, 2), (0, 1, 0, 1)),
    "five axes": ((2, 2, 3, 3, 3, 3, 3), (2, 1, 2, 3, 2), (1, 1, 2, 1, 1), (1, 0, 0, 1, 0)),
    "a volume without samples": ((3, 8, 6, 7), (2, 3, 3), (2, 1, 2), (1, 1, 0)),
    "LPRNet's": ((1, 8, 6, 7), (1, 3, 3), (1, 1, 1), (0, 0, 0)),
    "an image without samples": ((3, 6, 7), (3, 2), (2, 2), (1, 0)),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize(("how", "attrs"), [("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"counted": 1})])
def test_pools_of_any_rank(name, how, attrs, tmp_path):
    shape, kernel, strides, pads = POOLS[name]
    counted = dict(count_include_pad=1) if attrs else {}
    node = helper.make_node(how, ["x"], ["y"], kernel_shape=kernel, strides=strides, pads=pads * 2, **counted)
    graph = load(saved(model([node], [value("x", 1, shape)], [value("y", 1, None)]), tmp_path))
    x = rand(*shape)
    full = x if len(kernel) == x.ndim - 2 else x[None]
    expected = pooled(full, kernel, strides, pads, how, bool(attrs)).reshape(graph.outputs[0].shape)
    np.testing.assert_allclose(run_graph(graph, {"x": x})["y"], expected, rtol=0, atol=TOLERANCE * np.abs(x).max())


def test_a_window_of_another_rank_is_refused(tmp_path):
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2])
    message = refusal(saved(model([node], [value("x", 1, (1, 3, 4, 5))], [value("y", 1, None)]), tmp_path))
    assert "kernel_shape must be 2 integers, got [2]" in message
