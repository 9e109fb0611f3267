"""Convolutions in blocks of channels, as onnxruntime's ORT_ENABLE_ALL writes them for the processor, against the
networks that it optimized."""

import re

import numpy as np
import onnx
import onnx_models
import onnxruntime
import pytest
from load_models import TOLERANCE
from onnx import helper
from onnx_models import parsed, rand

from pipeall import ModelError, load
from pipeall.graph.ops import run_graph

X = "float[1,3,13,12] x"
STEM = "s = Conv<pads=[1,1,1,1]>(x, w3x{0}, b{0}) r = Relu(s)"
NETWORKS = {  # w{inputs of a group}x{outputs}[k]: a weight of 3 x 3, or k x k
    "residual": (X, f"{STEM} c = Conv<pads=[1,1,1,1]>(r, w{{0}}x{{0}}, b{{0}}) d = Add(c, r) y = LeakyRelu(d)"),
    "depthwise": (X, f"{STEM} c = Conv<group={{0}}, strides=[2,2]>(r, w1x{{0}}) y = Clip(c, zero, six)"),
    "grouped": (X, "s = Conv(x, w3x{1}) r = Tanh(s) y = Conv<group=2>(r, w{0}x{1})"),
    "concatenated": (X, f"{STEM} t = Conv<dilations=[2,2], pads=[2,2,2,2]>(r, w{{0}}x{{1}}) u = Concat<axis=1>(t, r)"
                     " v = Sigmoid(u) y = Conv(v, w{2}x7k1, b7)"),
    "pooled": (X, f"{STEM} a = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(r)"
               " m = AveragePool<kernel_shape=[2,2], pads=[1,1,0,0], count_include_pad=1>(a)"
               " g = GlobalAveragePool(m) f = Conv(g, w{0}x9k1) t = GlobalMaxPool(m) z = Flatten(t) y = Flatten(f)"),
    "nearest": (X, f"{STEM} u = Resize<coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\">"
                "(r,,twice) y = Conv(u, w{0}x5k1)"),
    "linear": (X, f"{STEM} u = Resize<mode=\"linear\">(r,,twice) y = Conv(u, w{{0}}x5k1)"),
    "reordered": ("float[1,20,13,12] x", "s = Conv(x, w20x{0}) y = Transpose<perm=[0,2,3,1]>(s)"),
}  # fmt: skip


def network(name, channels):
    inputs, body = NETWORKS[name]
    body = body.format(channels, 2 * channels, 3 * channels)
    constants = {"twice": np.array([1, 1, 2, 2], np.float32), "zero": np.float32(0), "six": np.float32(0.5)}
    for found in set(re.findall(r"\bw\d\w+", body)):
        inner, outer, size = re.fullmatch(r"w(\d+)x(\d+)k?(\d*)", found).groups()
        scales = np.linspace(0.1, 1, int(outer), dtype=np.float32)[:, None, None, None]
        constants[found] = scales * rand(int(outer), int(inner), *[int(size or 3)] * 2, seed=len(constants))
    for found in set(re.findall(r"\bb\d+", body)):
        constants[found] = rand(int(found[1:]), seed=len(constants))
    return parsed(body, inputs, "z, y" if "z =" in body else "y", constants, 17)


def optimized(proto, folder):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath, options.log_severity_level = str(folder / "all.onnx"), 3
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("channels", [12, 16, 24, 48])
@pytest.mark.parametrize("name", NETWORKS)
def test_optimized_by_onnxruntime(name, channels, tmp_path):
    proto = network(name, channels)
    feeds = {"x": rand(*[dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim], seed=9)}
    found, expected = run_graph(load(optimized(proto, tmp_path)), feeds), onnx_models.run(proto, feeds)
    for output, array in expected.items():
        np.testing.assert_allclose(found[output], array, rtol=0, atol=TOLERANCE * np.abs(array).max())


def blocked(weight, block):
    """Its elements in the order of a file."""
    outer, inner, *size = weight.shape
    if inner < block:
        turned = weight.reshape(outer // block, block, inner, *size).transpose(0, 2, 3, 4, 1)
    else:
        turned = weight.reshape(outer // block, block, inner // block, block, *size).transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(turned).reshape(weight.shape)


def in_blocks(weights, block, channels):
    """Two layers whose weights lie in blocks, and as they are."""
    protos = []
    for kept in ([blocked(weight, block) for weight in weights], weights):
        constants = {"first": kept[0], "second": kept[1]}
        nodes = [("Conv", ["x", "first"], "a", {}), ("Conv", ["a", "second"], "b", {})]
        nodes += [("ReorderOutput", ["b"], "y", {"channels": channels})]
        if kept is weights:
            nodes[-1] = ("Slice", ["b", "start", "stop", "axis"], "y", {})
            constants |= {"start": np.array([0]), "stop": np.array([channels]), "axis": np.array([1])}
        domain = "" if kept is weights else "com.microsoft.nchwc"
        made = [helper.make_node(op, inputs, [y], domain=domain, **attrs) for op, inputs, y, attrs in nodes]
        protos.append(onnx_models.model(made, {"x": (1, 3, 9, 9)}, ["y"], constants))
    protos[0].opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    return protos


def loaded_as(proto, plain):
    feeds = {"x": rand(1, 3, 9, 9, seed=5)}
    found, expected = run_graph(load(proto), feeds)["y"], onnx_models.run(plain, feeds)["y"]
    return np.allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize(("told_by", "channels"), [("sizes or zeros", 24), ("zeros", 29), ("both", 21), ("scales", 32)])
def test_size_of_blocks_is_found(block, told_by, channels):
    outer = -(-channels // block) * block
    weights = [rand(16, 3, 3, 3), rand(outer, 16, 3, 3, seed=1)]
    weights[1][channels:] = 0
    if told_by == "scales":
        weights = [weight * np.geomspace(0.2, 2, len(weight))[:, None, None, None].astype("f") for weight in weights]
    assert loaded_as(*in_blocks(weights, block, channels))


def test_where_nothing_tells_16_is_taken_with_a_warning():
    proto, plain = in_blocks([rand(16, 3, 3, 3), rand(16, 16, 3, 3, seed=1)], 16, 16)
    with pytest.warns(UserWarning, match="blocks of 8 or 16 channels.*16 is taken.*ORT_ENABLE_EXTENDED"):
        assert loaded_as(proto, plain)


def test_weights_that_fit_no_block_are_refused():
    proto, _ = in_blocks([rand(16, 3, 3, 3), rand(16, 16, 3, 3)], 16, 16)
    proto.graph.initializer[0].dims[:] = [12, 4, 3, 3]
    with pytest.raises(
        ModelError, match=r"node 'a' \(com.microsoft.nchwc.Conv\): a weight \(12, 4, 3, 3\) of 1 groups"
    ):
        load(proto)
