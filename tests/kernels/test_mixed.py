"""Weights of fully connected layers in half precision on CPUs (``big@mixed``), against floats and float64."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames, small_net

from pipeall import ArgumentError, DeviceError, Engine, Pipeline
from pipeall.graph.ops import run_graph
from pipeall.pipeline.measuring.footprint import footprint

RNG = np.random.default_rng(0)


def layers_of_one_pixel():
    """Convolutions of a whole picture, in groups too, and fully connected layers, one with a residual."""
    net = Net((1, 12, 5, 7))
    weight = net.constant((36, 4, 5, 7), 0.1)
    x = net.op("conv", "x0", weight, net.constant((36,)), groups=3, lo=0.0)
    x = net.conv(x, 130, lo=0.0)
    x = net.conv(x, 130, residual=x)
    return net.graph(net.fc(x, 11))


def with_weights(graph, change):
    constants = dict(graph.constants)
    for node in graph.nodes:
        if node.op in ("conv", "fc"):
            constants[node.inputs[1]] = change(constants[node.inputs[1]]).astype(np.float32)
    return replace(graph, constants=constants)


def results(graph, x, *units, board):
    found = []
    for unit in units:
        with Engine(graph, unit, board=board) as engine:
            found.append(engine(x))
    return found


@pytest.mark.parametrize("threads", [1, 2])
def test_what_half_precision_holds_is_computed_as_floats_are(threads, board):
    """Down to subnormal weights: sums are float32's, in the same order."""
    graph = with_weights(layers_of_one_pixel(), lambda w: (w * 10.0 ** RNG.uniform(-6, 2, w.shape)).astype(np.float16))
    (x,) = frames(graph, 1)
    with Engine(graph, "cpu@mixed", board=board, threads=threads) as mixed, Engine(graph, "cpu", board=board) as floats:
        assert np.array_equal(mixed(x), floats(x))


def test_weights_are_rounded_to_half_precision(board):
    net = Net((1, 300, 1, 1))
    graph = net.graph(net.fc("x0", 77))
    (x,) = frames(graph, 1)
    (found,) = results(graph, x, "big@mixed", board=board)
    (expected,) = run_graph(graph, {"x0": x}, np.float64).values()
    (node,) = graph.nodes
    weight, bias = (np.abs(graph.constants[name]).astype(np.float64) for name in node.inputs[1:])
    size = weight.reshape(77, 300) @ np.abs(x).reshape(-1)
    # half an ulp of 11 bits or of a subnormal, and of each sum and product in 24 bits
    allowed = 2.0**-11 * size + 2.0**-25 * np.abs(x).sum() + 302 * 2.0**-24 * (size + bias)
    error = np.abs(found - expected).reshape(-1)
    assert (error <= allowed).all() and error.max() > 0.01 * (2.0**-11 * size).max()


@pytest.mark.parametrize("large", [65505.0, -1e30, np.inf])
def test_weights_beyond_half_precision_stay_in_single(large, board, caplog):
    def change(weight):
        weight = weight.copy()
        weight.flat[0] = large
        return weight

    net = Net((1, 20, 1, 1))
    graph = with_weights(net.graph(net.fc("x0", 5)), change)
    (x,) = frames(graph, 1)
    with caplog.at_level("INFO", "pipeall"):
        found, expected = results(graph, x, "big@mixed", "big", board=board)
    assert np.array_equal(found, expected)
    assert f"{graph.nodes[0].name} stays in single precision: it has weights beyond 65504" in caplog.text


def test_all_else_is_float32(board):
    graph = small_net()
    (x,) = frames(graph, 1)
    with Pipeline(graph, "big@mixed-little@mixed:2", board=board) as pipe:
        (found,) = pipe.map([x])
    (expected,) = results(graph, x, "big", board=board)
    assert np.array_equal(found, expected)


def test_half_of_the_bytes(board):
    net = Net((1, 1024, 1, 1))
    graph = net.graph(net.fc("x0", 512))
    floats, halves = (footprint(graph, unit, board)[0].weights for unit in ("big", "big@mixed"))
    assert 0.5 <= halves / floats < 0.51


def test_half_precision_arithmetic_is_refused_by_name(board):
    device = board.components["big"].device
    device = replace(device, cluster=replace(device.cluster, isas=("dotprod", "neon", "ref")))
    with pytest.raises(DeviceError, match="expected cores with asimdhp for fp16, got dotprod, neon, ref; mixed keeps"):
        device.with_precision("fp16")
    with pytest.raises(DeviceError, match="expected cores with bf16 for bf16, got dotprod, neon, ref"):
        device.with_precision("bf16")
    with pytest.raises(ArgumentError, match="expected fp32, fp16, bf16, int8, mixed, got 'fp8'"):
        device.with_precision("fp8")
