"""Networks in half precision on CPUs (``big@fp16``): which tensors are halves, and what becomes of the results.

Reference kernels stand for those of Armv8.2 where there are none: all but the roundings inside of a sum is the same.
"""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames, small_net, zoo_net

import pipeall
from pipeall import Board, Engine, Pipeline
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.graph.partition import split
from pipeall.graph.passes.fp16 import fp16_between

HALF_U = 2.0**-11
NETWORKS = ("squeezenet1.0", "squeezenet1.1", "googlenet", "resnet50", "mobilenet_v1_0.75_192")


def with_a_head():
    """Layers, a residual, pooling, a gate on halves; then what decodes: sigmoid and a product with a grid."""
    net = Net((1, 3, 18, 14))
    x = net.op("mul", "x0", net.constant((1, 3, 1, 1)))  # ahead of the first layer: floats
    x = net.conv(x, 16, k=3, lo=0.0)
    y = net.conv(x, 16, k=3, groups=16)
    y = net.op("sigmoid", y)
    x = net.conv(net.op("mul", y, x), 16, k=1, residual=x)
    x = net.op("maxpool", x, kernel=(2, 2), strides=(2, 2))
    x = net.conv(x, 6, k=1)
    return net.graph(net.op("mul", net.op("sigmoid", x), net.constant((1, 6, 9, 7))))


def types(graph):
    return {node.op + str(i): graph.tensors[node.output].dtype for i, node in enumerate(graph.nodes)}


def test_layers_and_what_lies_between_them_are_halves():
    graph, _ = fp16_between(with_a_head(), ())
    assert [(node.op, graph.tensors[node.output].dtype) for node in graph.nodes] == [
        ("mul", "float32"), ("cast", "float16"), ("conv", "float16"), ("conv", "float16"), ("sigmoid", "float16"),
        ("mul", "float16"), ("conv", "float16"), ("maxpool", "float16"), ("cast", "float32"), ("conv", "float32"),
        ("sigmoid", "float32"), ("mul", "float32"),
    ]  # fmt: skip
    assert [t.dtype for t in (*graph.inputs, *graph.outputs)] == ["float32", "float32"]


@pytest.mark.parametrize("behind", ["avgpool", "reduce", "flat", "both"])
def test_a_layer_that_an_average_follows_is_no_head(behind):
    """``both``: an average reads it, and so does an output: it is followed."""
    net = Net((1, 8, 6, 6))
    x = net.conv(net.conv("x0", 8, k=3, lo=0.0), 8, k=1, lo=0.0)
    y = net.op("sigmoid", x)
    if behind in ("avgpool", "both"):
        y = net.op("avgpool", y, kernel=(6, 6), strides=(1, 1))
    if behind == "reduce":
        y = net.op("reduce", y, how="mean", axes=(2, 3))
    graph = net.graph(*((y, x) if behind == "both" else (y,)))
    halved, _ = fp16_between(graph, ())
    found = [halved.tensors[node.output].dtype for node in halved.nodes if node.op == "conv"]
    assert found == ["float16", "float32" if behind == "flat" else "float16"]


def test_what_crosses_to_another_part_is_no_head():
    net = Net((1, 8, 6, 6))
    x = net.conv("x0", 8, k=3, lo=0.0)
    graph = net.graph(net.conv(net.conv(x, 8, k=3, lo=0.0), 8, k=1))
    found = [
        [part.tensors[node.output].dtype for node in part.nodes if node.op == "conv"]
        for part in (fp16_between(half, ())[0] for half in split(graph, [2]))
    ]
    assert found == [["float16", "float16"], ["float32"]]


def test_layers_of_one_pixel_and_weights_beyond_halves_stay_floats():
    net = Net((1, 8, 6, 6))
    x = net.conv("x0", 8, k=1)
    x = net.conv(x, 8, k=1)
    graph = net.graph(net.fc(net.op("avgpool", x, kernel=(6, 6), strides=(1, 1)), 5))
    second = graph.nodes[1]
    large = graph.constants[second.inputs[1]].copy()
    large.flat[3] = 65520
    graph = replace(graph, constants=dict(graph.constants) | {second.inputs[1]: large})
    found = types(fp16_between(graph, ())[0])
    assert found == {"cast0": "float16", "conv1": "float16", "cast2": "float32", "conv3": "float32",
                     "avgpool4": "float32", "fc5": "float32"}  # fmt: skip


def with_vectors():
    """A layer of pixels, then two of one pixel each."""
    net = Net((1, 3, 9, 9))
    x = net.conv("x0", 12, k=3, lo=0.0)
    return net.graph(net.fc(net.fc(x, 50), 7))


@pytest.mark.parametrize(
    ("unit", "kept", "expected"),
    [
        ("big@fp16", (), ["gemv-halves", "gemv-halves"]),
        ("big@fp16", (1,), ["gemm", "gemv-halves"]),
        ("big@fp16", (1, 2), ["gemm", "gemm"]),
        ("big@mixed", (), ["half-gemm", "half-gemm"]),
        ("big@mixed", (1, 2), ["half-gemm", "half-gemm"]),
        ("big", (1,), ["gemm", "gemm"]),
    ],
)
def test_who_multiplies_halves_in_layers_of_one_pixel(half_board, unit, kept, expected):
    graph = with_vectors()
    graph = pipeall.keep_float32(graph, [graph.nodes[i].name for i in kept])
    device = half_board.component(unit).device
    lowered = lower(graph, fp16=device.fp16)
    program = device.compile(lowered, "test")
    found = [str(way) for way, step in zip(program.algorithms, lowered.steps, strict=True)
             if step.kind == "conv" and step.dst.h == 1]  # fmt: skip
    assert found == expected


def test_layers_of_one_pixel_round_and_kept_ones_do_not(half_board):
    net = Net((1, 700, 1, 1))
    graph = net.graph(net.fc("x0", 60))
    (x,) = frames(graph, 1)
    kept = pipeall.keep_float32(graph, [graph.nodes[0].name])
    found = []
    for network, unit in ((graph, "big"), (kept, "big@fp16"), (graph, "big@mixed"), (graph, "big@fp16")):
        with Engine(network, unit, board=half_board) as engine:
            found.append(engine(x))
    assert np.array_equal(found[0], found[1])
    (expected,) = run_graph(graph, {"x0": x}, np.float64).values()
    errors = [np.abs(y - expected).max() / np.abs(expected).max() for y in found]
    assert errors[1] < 1e-5 < errors[2] < errors[3] < 0.004


def test_a_network_without_layers_is_left_alone():
    net = Net((1, 8, 6, 6))
    graph = net.graph(net.op("sigmoid", "x0"))
    assert fp16_between(graph, ())[0] is graph


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_floats_but_for_rounding(half_board, threads):
    graph = with_a_head()
    for x in frames(graph, 3):
        with Engine(graph, "cpu@fp16", board=half_board, threads=threads) as engine:
            found = engine(x)
        (expected,) = run_graph(graph, {"x0": x}, np.float64).values()
        error = np.abs(found - expected)
        assert 0 < error.max() <= 16 * HALF_U * np.abs(expected).max()  # five layers, some roundings each


def test_floating_cuts_and_neighbours_in_other_precisions(half_board):
    graph = zoo_net("squeezenet")
    xs = frames(graph, 2)
    groups = len(graph.groups)
    with Engine(graph, "big", board=half_board) as engine:
        expected = [engine(x) for x in xs]
    for plan in (f"big@fp16-little:{groups // 2}", f"big-little@fp16:{groups // 3}",
                 f"big@fp16-little@fp16:{groups // 3}~{2 * groups // 3}"):  # fmt: skip
        with Pipeline(graph, plan, board=half_board) as pipe:
            found = list(pipe.map(xs))
        for result, reference in zip(found, expected, strict=True):
            assert 0 < np.abs(result - reference).max() <= 0.01 * reference.max(), plan


def test_slots_are_float32():
    """Whatever lies between them is not."""
    graph = small_net()
    lowered = lower(graph, fp16=True)
    assert {step.dst.dtype for step in lowered.steps if step.kind == "conv"} >= {"float16"}
    assert {slot.dtype for slot in (*lowered.slot_in, *lowered.slot_out)} == {"float32"}


@pytest.mark.parametrize("model", NETWORKS)
def test_trained_networks_keep_their_classes(model, data_dir, half_board, some):
    """The first class of some photos, every probability within 0.01, the first five but for ties within 0.01."""
    from task_images import photos

    graph = pipeall.load(data_dir / "models" / f"{model}.onnx")
    few = photos(data_dir, model)[
        :: {"resnet50": 13, "googlenet": 6}.get(model, 4)
    ]  # all: bench/engines/half_accuracy.py
    few = some(few)
    with Engine(graph, "big", board=Board.detect(gpu=False)) as floats:
        expected = [floats(x).reshape(-1) for x in few]
    with Engine(graph, "big@fp16", board=half_board) as engine:
        for x, reference in zip(few, expected, strict=True):
            found = engine(x).reshape(-1)
            assert found.argmax() == reference.argmax()
            assert np.abs(found - reference).max() <= 0.01
            least = np.sort(reference)[-5]
            assert (reference[np.argsort(-found)[:5]] >= least - 0.01).all()
