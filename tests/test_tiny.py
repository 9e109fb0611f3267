"""The main job in ten seconds: a network is read, measured, searched, run as a pipeline, and its results are right."""

import numpy as np
import pytest
from graphs import Net, frames

import pipeall
from pipeall.graph.ops import run_graph

TOLERANCE = dict(rtol=1e-4, atol=1e-5)  # sums of at most 144 products of order 1 in float32, through six layers


@pytest.fixture(scope="module")
def graph():
    """Convolutions by GEMM and by Winograd, depthwise, a residual, a concatenation, pools and a classifier."""
    net = Net((1, 3, 32, 32))
    x = net.conv("x0", 16, k=3, lo=0.0)
    x = net.op("maxpool", x)
    x = net.conv(net.conv(x, 16, k=3, groups=16, lo=0.0), 16, residual=x, lo=0.0)
    x = net.op("concat", net.conv(x, 16, k=3, lo=0.0), net.conv(x, 8, lo=0.0))
    return net.graph(net.op("softmax", net.fc(net.global_pool(x), 10)), name="tiny")


@pytest.fixture(scope="module")
def expected(graph):
    return [run_graph(graph, {"x0": x})[graph.outputs[0].name] for x in frames(graph, 5)]


def test_an_engine_gives_the_results_of_float64(graph, expected):
    with pipeall.Engine(graph) as engine:
        for x, y in zip(frames(graph, 5), expected, strict=True):
            np.testing.assert_allclose(engine(x), y, **TOLERANCE)


@pytest.mark.parametrize("plan", ["big-little:2", "little-big:1", "big+little", "big-little:1~4"])
def test_a_pipeline_gives_them_in_order(plan, graph, expected, board):
    with pipeall.Pipeline(graph, plan, board) as pipe:
        results = list(pipe.map(frames(graph, 5)))
        assert pipe.stats().frames == 5
    np.testing.assert_allclose(results, expected, **TOLERANCE)


def test_a_pipeline_that_begins_with_the_gpu(graph, expected, board_with_gpu):
    with pipeall.Pipeline(graph, "gpu-big-little:1,3", board_with_gpu) as pipe:
        np.testing.assert_allclose(list(pipe.map(frames(graph, 5))), expected, **TOLERANCE)


def test_a_plan_is_found_and_explained(graph, board):
    profile = pipeall.profile(graph, board)
    best = pipeall.search(graph, profile).best
    with pipeall.Pipeline(graph, best, board) as pipe:
        assert len(list(pipe.map(frames(graph, 3)))) == 3
    assert pipeall.Plan.parse(str(best)) == best


def test_a_file_and_the_command_line(graph, expected, tmp_path):
    from commands import document

    pipeall.save_onnx(graph, tmp_path / "tiny.onnx")
    (x, *_) = frames(graph, 1)
    with pipeall.Engine(pipeall.load(tmp_path / "tiny.onnx")) as engine:
        np.testing.assert_allclose(engine(x), expected[0], **TOLERANCE)
    assert document("info", tmp_path / "tiny.onnx")["groups"]
