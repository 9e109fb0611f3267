"""Parameters and operations against torchvision's published numbers, the tools themselves, and the literature."""

import pytest
from onnx_models import model
from sizing_networks import REFERENCES, main_part, network

import pipeall
from pipeall import ArgumentError
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.ops import macs
from pipeall.sizing import conventions
from pipeall.sizing.count import cost_of, network_cost, total
from pipeall.sizing.size_network import of_graph

PUBLISHED = [(name, row) for name, rows in REFERENCES["published"].items() for row in rows]


@pytest.mark.parametrize(
    "name, row", PUBLISHED, ids=lambda value: value if isinstance(value, str) else value["weights"]
)
def test_what_torchvision_publishes(name, row):
    """Parameters exactly; 10^9 operations to the three decimals that are published, of the main output."""
    net = network(name, row["size"])
    assert network_cost(net).parameters == row["parameters"]
    macs = network_cost(main_part(net)).macs
    assert macs / 1e9 == pytest.approx(row["gops"], abs=0.000501)


def test_at_least_sixty_architectures_are_compared():
    assert len({name for name, _ in PUBLISHED}) >= 60 and not REFERENCES["not_exported"]


@pytest.mark.parametrize(
    "name, size, parameters, macs",
    [
        ("alexnet", 224, 61_100_840, 714_188_480),
        ("googlenet_caffe", 224, 13_378_280, None),
        ("googlenet", 224, 6_624_904, 1_498_376_192),
        ("mobilenet_v1", 224, 4_231_976, 568_740_352),
        ("resnet50_v1", 224, 25_557_032, 3_857_973_248),
        ("resnet50_v1_bias", 224, 25_583_592, 3_857_973_248),
        ("resnet50", 224, 25_557_032, 4_089_184_256),
        ("squeezenet1_0", 224, 1_248_424, 818_924_576),
        ("squeezenet1_0", 227, 1_248_424, 832_667_936),
        ("squeezenet1_1", 224, 1_235_496, 349_151_936),
        ("squeezenet1_1", 227, 1_235_496, 387_747_520),
        ("vgg16", 224, 138_357_544, 15_470_264_320),
        ("densenet121", 224, 7_978_856, 2_834_161_664),
        ("mobilenet_v2", 224, 3_504_872, 300_774_272),
        ("mobilenet_v3_large", 224, 5_483_032, 216_589_760),
        ("resnet18", 224, 11_689_512, 1_814_073_344),
    ],
)
def test_reference_values(name, size, parameters, macs):
    cost = network_cost(network(name, size))
    assert cost.parameters == parameters and macs in (None, cost.macs)


def test_googlenet_of_caffe_without_its_auxiliary_heads():
    main = main_part(network("googlenet_caffe"))
    learnt = {name for layer in main.layers for name in layer.inputs if name in main.learnt}
    assert main.elements(learnt) == 6_998_552 and network_cost(main).macs == 1_582_671_872


@pytest.mark.parametrize("name, keras_total", [("mobilenet_v1", 4_253_864), ("resnet50_v1_bias", 25_636_712)])
def test_what_keras_adds_are_the_running_statistics(name, keras_total):
    net = network(name)
    assert net.elements(net.parameters) + net.elements(net.statistics) == keras_total


def test_alexnet_of_caffe():
    """Counts of the zoo's AlexNet as it runs; conv and fc are those of Eyeriss's table."""
    found = conventions.quantities(of_graph(pipeall.zoo.alexnet()))
    assert (found["conv"], found["fc"]) == (665_784_864, 58_621_952)
    cost = network_cost(of_graph(pipeall.zoo.alexnet()))
    assert cost.parameters == 60_965_224 and cost.weight_bytes == 243_860_896 and cost.flops == 2 * 724_406_816


@pytest.mark.parametrize("name", REFERENCES["counted"])
@pytest.mark.parametrize("tool", [tool for tool in conventions.CONVENTIONS if tool != "macs"])
def test_every_tool_exactly(name, tool):
    assert conventions.counted(network(name, 224), tool) == REFERENCES["counted"][name][tool]


@pytest.mark.parametrize("tool", conventions.CONVENTIONS)
def test_terms_add_up_to_the_difference(tool):
    net = network("densenet121")
    terms = conventions.explained(net, tool)
    value, macs = conventions.counted(net, tool), conventions.counted(net, "macs")
    assert sum(term.value for term in terms) == value and sum(term.beyond_macs for term in terms) == value - macs


def test_why_fvcore_says_more_of_resnet50():
    """Term by term, as taken apart by hand: two of each BatchNorm element, and what adaptive pooling reads."""
    extra = {t.term: t.beyond_macs for t in conventions.explained(network("resnet50"), "fvcore") if t.beyond_macs}
    assert extra == {"bn": 2 * 11_113_984, "adaptive-in": 2048 * 7 * 7}


def test_an_unknown_convention_is_refused():
    with pytest.raises(ArgumentError, match="expected one of macs, torch"):
        conventions.counted(network("alexnet"), "calflops")


def test_a_layer_by_hand():
    """The first convolution of torchvision's AlexNet: 64 filters of 11 x 11 x 3, output 55 x 55."""
    net = network("alexnet")
    cost = cost_of(net, net.layers[0])
    pixels, weights = 55 * 55, 64 * 3 * 11 * 11
    assert (cost.parameters, cost.macs, cost.flops) == (weights + 64, pixels * weights, 2 * pixels * weights)
    assert (cost.read_bytes, cost.written_bytes) == (4 * 3 * 224 * 224, 4 * 64 * pixels)
    moved = 4 * (weights + 64 + 3 * 224 * 224 + 64 * pixels)
    assert cost.intensity == pytest.approx(2 * pixels * weights / moved)
    pool = cost_of(net, next(layer for layer in net.layers if layer.op == "MaxPool"))
    assert (pool.macs, pool.element_ops) == (0, 27 * 27 * 64 * 9)


def test_layers_of_a_fused_node_count_as_what_they_were():
    """A zoo ResNet-50 has its additions and clamps inside of convolutions: 16 sums, 49 ReLUs, as the exported one."""
    ops = [layer.op for layer in of_graph(pipeall.zoo.resnet50()).layers]
    exported = [layer.op for layer in network("resnet50").layers]
    for op in ("Conv", "Relu", "Add", "MaxPool", "GlobalAveragePool", "Gemm"):
        assert ops.count(op) == exported.count(op), op


def test_groups_add_up_to_the_network():
    from pipeall.sizing.size_report import parts_of

    graph = pipeall.zoo.googlenet()
    costs = [parts_of(graph)(group.nodes) for group in graph.groups]
    whole = network_cost(of_graph(graph))
    assert total(costs).macs == whole.macs and total(costs).parameters == whole.parameters


def test_a_shared_weight_counts_once(tmp_path):
    import numpy as np
    import onnx
    from onnx import helper

    from pipeall.sizing import onnx_shapes

    nodes = [helper.make_node("Conv", [x, "w"], [y], pads=[1, 1, 1, 1]) for x, y in (("x", "a"), ("a", "y"))]
    proto = model(nodes, {"x": (1, 4, 8, 8)}, ["y"], {"w": np.zeros((4, 4, 3, 3), np.float32)})
    onnx.save(proto, tmp_path / "shared.onnx")
    cost = network_cost(onnx_shapes.read(tmp_path / "shared.onnx"))
    assert cost.parameters == 144 and cost.weight_bytes == 4 * 144 and cost.macs == 2 * 64 * 144


def test_every_op_of_the_table_has_a_cost():
    """Multiply-accumulates as the op table counts them, and operations that are known."""
    for op, cases in CASES.items():
        graph, _ = case_graph(cases[0])
        cost = network_cost(of_graph(graph))
        assert cost.macs == macs(graph.nodes[0], graph), op
        assert cost.element_ops >= 0
