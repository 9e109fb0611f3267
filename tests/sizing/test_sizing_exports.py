"""Sizing from files for inference: BatchNorm that was folded, attention that was taken apart, against torch itself."""

import warnings

import numpy as np
import onnx
from commands import document, invoke
from onnx import TensorProto, helper
from onnx_models import model
from torch_modules import Attention, exported, kept, network, nn, torch

from pipeall.cli.model_argument import read_network
from pipeall.sizing import onnx_shapes
from pipeall.sizing.count import network_cost
from pipeall.sizing.training import saved_bytes


def test_folded_batch_norm_is_put_back(tmp_path):
    """Saved bytes, parameters and statistics are those of the module, and a note says what was done."""
    module = network()
    path = exported(module, tmp_path / "net.onnx")
    assert "BatchNormalization" not in {node.op_type for node in onnx.load(path).graph.node}
    net, graph, _ = read_network(str(path))
    assert saved_bytes(net) == kept(module, 3, 32, 32)
    assert net.elements(net.parameters) == sum(t.numel() for t in module.parameters())
    assert net.elements(net.statistics) == sum(t.numel() for t in module.buffers() if t.is_floating_point())
    (note,) = net.notes
    each = saved_bytes(net)[0] / 1e6
    assert "folded into 6 layers" in note and f"{each:.1f} MB of each sample" in note and "pipeall.cost(module" in note
    assert document("cost", path)["notes"] == document("info", path)["notes"] == [note]
    assert document("cost", path, "--folded")["notes"] == []
    assert "Note: BatchNorm was folded" in invoke("cost", "train", path, "--optimizer", "sgd", "--batch", "1").stdout


def test_batch_norm_that_was_kept_needs_no_note(tmp_path):
    module = network()
    path = exported(module, tmp_path / "net.onnx", training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    net, _, _ = read_network(str(path))
    assert saved_bytes(net) == kept(module, 3, 32, 32) and not net.notes


def convolutions(names, rules, shape=(1, 4, 8, 8)):
    """A residual unit as the exporter of torch.export leaves it: names of biases, rules at nodes."""
    nodes = [
        helper.make_node("Conv", ["x", "a.weight", names[0]], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "b.weight", names[1]], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["x", "b"], ["y"]),
    ]
    for node, rule in zip(nodes, rules, strict=False):
        if rule:
            node.metadata_props.add(key="pkg.onnxscript.rewriter.rule_name", value=rule)
    weights = dict.fromkeys(("a.weight", "b.weight"), np.ones((4, 4, 3, 3), np.float32))
    return model(nodes, {"x": shape}, ["y"], weights | dict.fromkeys(names, np.ones(4, np.float32)))


def test_what_the_exporter_of_torch_export_notes(tmp_path):
    """The first convolution had no bias, the second its own: 2 x 4 and 4 + 2 x 4 parameters beside the weights."""
    rules = "FuseBatchNormIntoConv, RemoveOptionalBiasFromConv", "FuseBatchNormIntoConv"
    onnx.save(convolutions(("a.weight_bias", "b.bias"), rules), tmp_path / "net.onnx")
    net = onnx_shapes.read(tmp_path / "net.onnx")
    assert [layer.op for layer in net.layers] == [*2 * ["Conv", "BatchNormalization"], "Add"]
    assert net.elements(net.parameters) == 2 * 144 + 8 + 12 and net.elements(net.statistics) == 16
    plane = 4 * 4 * 64  # bytes: x, what the convolutions give, what the first normalization gives
    assert saved_bytes(net) == (4 * plane, 2 * 2 * 4 * 4)


def test_a_file_without_signs_raises_a_doubt(tmp_path):
    """Residual sums, a bias everywhere, nothing that normalizes; the figures stay those of the file."""
    onnx.save(convolutions(("p", "q"), ()), tmp_path / "net.onnx")
    net, _, _ = read_network(str(tmp_path / "net.onnx"))
    assert network_cost(net).parameters == 2 * 144 + 8 and "all 2 convolutions have a bias" in net.notes[0]
    assert not read_network("squeezenet")[0].notes and read_network("resnet50")[0].notes


def test_functions_of_a_file_are_sized(tmp_path):
    """A local function of a convolution and batch normalization in training mode, called twice."""
    norm = helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["y", "rm", "rv"], training_mode=1)
    opsets = [helper.make_opsetid("", 17)]
    body = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), norm]
    function = helper.make_function("own", "unit", list("xwsbmv"), ["y"], body, opsets)
    nodes = [helper.make_node("unit", [x, *"wsbmv"], [y], domain="own") for x, y in (("x", "h"), ("h", "y"))]
    proto = model(nodes, {"x": (1, 4, 8, 8)}, ["y"], {"w": np.zeros((4, 4, 3, 3), np.float32)})
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.ones(4, np.float32), name) for name in "sbmv")
    del proto.opset_import[:]
    proto.opset_import.extend([*opsets, helper.make_opsetid("own", 1)])
    proto.functions.append(function)
    onnx.save(proto, tmp_path / "net.onnx")
    net = onnx_shapes.read(tmp_path / "net.onnx")
    assert [layer.op for layer in net.layers] == 2 * ["Conv", "BatchNormalization"]
    assert network_cost(net).macs == 2 * 64 * 144 and net.elements(net.statistics) == 8
    assert saved_bytes(net) == (4 * 4 * 4 * 64, 2 * 2 * 4 * 4)  # two inputs of each kind of layer


def test_attention_taken_apart_is_told(tmp_path):
    module = nn.Sequential(nn.Conv2d(3, 16, 2, 2), Attention())
    net, _, _ = read_network(str(exported(module, tmp_path / "net.onnx")))
    products = 256 * 16 * (12 + 48) + 2 * 256 * 256 * 16
    assert network_cost(net).macs == products
    assert "attention is 1 products" in net.notes[0]


def test_sizes_that_are_computed_with_any_operator(tmp_path):
    """A remainder, which exporters of windowed attention write: 32 mod 12 = 8 rows are padded."""
    shape = helper.make_node("Shape", ["x"], ["shape"], start=3)
    nodes = [
        shape,
        helper.make_node("Mod", ["shape", "twelve"], ["rest"]),
        helper.make_node("Concat", ["zeros", "rest"], ["pads"], axis=0),
        helper.make_node("Pad", ["x", "pads"], ["y"]),
    ]
    ints = {"twelve": np.array([12]), "zeros": np.zeros(7, np.int64)}
    onnx.save(model(nodes, {"x": (1, 3, 32, 32)}, ["y"], ints), tmp_path / "net.onnx")
    assert onnx_shapes.read(tmp_path / "net.onnx").shapes["y"] == (1, 3, 32, 40)


def test_einsum_and_half_precision(tmp_path):
    nodes = [helper.make_node("Einsum", ["x", "w"], ["y"], equation="bhc,cd->bhd")]
    proto = model(nodes, {"x": (1, 6, 8)}, ["y"], {"w": np.zeros((8, 5), np.float32)})
    onnx.save(proto, tmp_path / "net.onnx")
    assert network_cost(onnx_shapes.read(tmp_path / "net.onnx")).macs == 6 * 8 * 5
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.zeros((8, 5), np.float16), "w"))
    onnx.save(proto, tmp_path / "half.onnx")
    half = onnx_shapes.read(tmp_path / "half.onnx")
    assert network_cost(half).macs == 6 * 8 * 5 and half.file_types == ("float16",)


def test_files_of_several_pictures_say_so(tmp_path):
    """A file of two pictures at a time counts two as a sample, until its shape is given."""
    one = network_cost(read_network(str(exported(network(), tmp_path / "one.onnx")))[0])
    two = tmp_path / "two.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network().eval(), (torch.zeros(2, 3, 32, 32),), two, dynamo=False)
    net, _, _ = read_network(str(two))
    assert network_cost(net).macs == 2 * one.macs and "has 2 pictures" in net.notes[-1]
    assert "--input-shape 1x3x32x32" in net.notes[-1]
    net, _, _ = read_network(str(two), (1, 3, 32, 32))
    assert network_cost(net).macs == one.macs and not any("pictures" in note for note in net.notes)
