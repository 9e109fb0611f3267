"""The zoo against published sizes (paper 001, Table 1; parameter and MAC counts) and against onnxruntime."""

from collections import Counter

import numpy as np
import onnx_models
import pytest
from bounds import classifier_bound
from graphs import ZOO, inputs_of, zoo_net

from pipeall.errors import ArgumentError
from pipeall.graph import ops, zoo
from pipeall.graph.ir import Graph, Node
from pipeall.graph.onnx.read.read import load
from pipeall.graph.partition import main_layers

LAYERS = dict(alexnet=11, googlenet=58, mobilenet=28, resnet50=54, squeezenet=26)
LAYERS["resnet50-slim"] = LAYERS["resnet50"]

# Folding BatchNorm leaves one bias of its four parameters per channel. MobileNet: 4,231,976 trainable parameters less
# 10,944 scales; ResNet-50: 25,557,032 less 26,560.
PARAMETERS = dict(
    alexnet=60_965_224, googlenet=6_998_552, mobilenet=4_221_032, resnet50=25_530_472, squeezenet=1_248_424
)
PARAMETERS["resnet50-slim"] = PARAMETERS["resnet50"]

MACS = dict(
    alexnet=724_406_816,
    googlenet=1_582_671_872,
    mobilenet=568_740_352,
    resnet50=4_089_184_256,
    squeezenet=818_924_576,
)
BLOCKS = {"block1/unit_3": (1, 256, 28, 28), "block2/unit_4": (1, 512, 14, 14), "block3/unit_6": (1, 1024, 7, 7)}


@pytest.mark.parametrize("name", ZOO)
def test_sizes_are_the_published_ones(name):
    graph = zoo_net(name)
    size = 227 if name == "alexnet" else 224
    assert [(t.name, t.shape) for t in graph.inputs] == [("data", (1, 3, size, size))]
    assert [(t.name, t.shape) for t in graph.outputs] == [("prob", (1, 1000))]
    assert main_layers(graph) == LAYERS[name]
    assert sum(array.size for array in graph.constants.values()) == PARAMETERS[name]
    if name in MACS:
        assert sum(ops.macs(node, graph) for node in graph.nodes) == MACS[name]


@pytest.mark.parametrize("name", ["googlenet", "resnet50"])
def test_nodes_are_those_of_the_trained_model(name, data_dir):
    """Same ops, attributes, weight and output shapes, as often; the order of parallel branches is free."""
    free = {"ceil", "count_include_pad", "lo", "hi"}  # without effect there; which of two convolutions adds and clamps

    def nodes(graph: Graph) -> Counter:
        def key(node: Node) -> tuple:
            attrs = [
                (name, np.float32(value).tolist()) for name, value in sorted(node.attrs.items()) if name not in free
            ]
            weights = [graph.constants[name].shape for name in node.inputs if name in graph.constants]
            return (node.op, str(attrs), str(weights), graph.tensors[node.output].shape)

        return Counter(map(key, graph.nodes))

    trained = load(data_dir / "models" / f"{name}.onnx")
    assert nodes(zoo_net(name)) == nodes(trained)


def test_slim_resnet_strides_in_the_last_unit_of_a_block():
    graph = zoo_net("resnet50-slim")
    for unit, shape in BLOCKS.items():
        shortcut = next(node for node in graph.nodes if node.name == f"{unit}/shortcut")
        assert (shortcut.op, shortcut.attrs["kernel"], shortcut.attrs["strides"]) == ("maxpool", (1, 1), (2, 2))
        assert graph.tensors[f"{unit}/conv3"].shape == shape


def test_resnet_variant_is_checked():
    with pytest.raises(ArgumentError, match="variant: expected one of v1.5, slim, got 'v2'"):
        zoo.resnet50(variant="v2")


def test_weights_depend_on_the_seed_alone():
    first, again, other = zoo.squeezenet(3), zoo.squeezenet(3), zoo.squeezenet(4)
    assert all(np.array_equal(first.constants[name], again.constants[name]) for name in first.constants)
    assert not any(np.array_equal(first.constants[name], other.constants[name]) for name in first.constants)


@pytest.mark.parametrize("name", ZOO)
def test_agrees_with_onnxruntime(name):
    """Also that activations of every layer keep their size, which gives a comparison of the last one its worth."""
    graph = zoo_net(name)
    inputs = inputs_of(graph)
    values = ops.run_graph(graph, inputs, all_tensors=True)
    sizes = {node.name: np.sqrt(np.mean(values[node.output] ** 2)) for node in graph.nodes if node.op != "softmax"}
    assert all(0.3 < size < 6 for size in sizes.values()), sizes
    got = onnx_models.run(onnx_models.of_graph(graph), inputs)
    np.testing.assert_allclose(got["prob"], values["prob"], rtol=classifier_bound(graph, values))
