"""Layers that stay in float32 in a network of halves: what the metadata says, and how they are found."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames, small_net
from integer_nets import chain

import pipeall
from pipeall import ArgumentError, Board, DeviceError, Engine, ModelError, Pipeline
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.fp16 import KEPT, fp16_between, keep_float32, kept_float32
from pipeall.graph.passes.int8 import to_int8
from pipeall.pipeline.measuring.precision import allowed_precisions, mixed_precision


def overflowing():
    """Five layers; what the third makes is beyond 65504, and the fourth scales it down again."""
    net = Net((1, 3, 10, 8))
    x = net.conv(net.conv("x0", 8, k=3, lo=0.0), 8, k=1)
    graph = net.graph(net.conv(net.conv(net.conv(x, 8, k=3), 8, k=1), 4, k=1))
    weights = dict(graph.constants)
    third, fourth = graph.nodes[2], graph.nodes[3]
    weights[third.inputs[1]] = weights[third.inputs[1]] * np.float32(5e3)
    weights[fourth.inputs[1]] = weights[fourth.inputs[1]] * np.float32(2e-4)
    return replace(graph, constants=weights)


def names(graph):
    return [node.name for node in graph.nodes]


def test_kept_layers_have_floats_on_both_sides():
    graph = overflowing()
    third = names(graph)[2]
    types = [t.dtype for t in _outputs(fp16_between(keep_float32(graph, [third]), ())[0])]
    assert (
        types == ["float16"] * 3 + ["float32"] * 2 + ["float16"] * 2 + ["float32"] * 2
    )  # casts around the third, and the head
    everything = keep_float32(graph, names(graph))
    assert fp16_between(everything, ())[0] is everything
    assert KEPT not in keep_float32(everything, []).metadata


def _outputs(graph):
    return [graph.tensors[node.output] for node in graph.nodes]


def test_what_overflows_is_found_and_kept(half_board):
    graph = overflowing()
    some = frames(graph, 3)
    calls = []
    found = mixed_precision(graph, some, board=half_board, done=lambda: calls.append(1))
    third, fourth = names(graph)[2:4]
    # the third makes more than a half holds, and the fourth reads it
    assert found.before == np.inf and found.layers == (third, fourth)
    assert found.after <= 0.01 and 3 < len(calls) < 12
    with Engine(found.graph, "big@fp16", board=half_board) as engine:
        for frame in some:
            (want,) = run_graph(graph, {"x0": frame}).values()
            np.testing.assert_allclose(engine(frame), want, rtol=0, atol=0.02 * np.abs(want).max())
    with Pipeline(found.graph, "big@fp16-little:3" if "little" in half_board.components else "big@fp16") as pipe:
        assert all(np.isfinite(result).all() for result in pipe.map(some))


def test_a_layer_of_one_pixel_whose_input_overflows_is_kept(half_board):
    """700 products of about 500 are more than a half holds, 32 of them are not: the first layer's sums are floats."""
    net = Net((1, 700, 1, 1))
    graph = net.graph(net.fc(net.fc("x0", 40), 5))
    random, (first, second) = np.random.default_rng(0), (node.inputs[1] for node in graph.nodes)
    weights = dict(graph.constants)
    weights[first] = random.uniform(250, 750, weights[first].shape).astype(np.float32)
    weights[second] = weights[second] * np.float32(1e-3)
    graph = replace(graph, constants=weights)
    some = [random.uniform(0.5, 1.5, (1, 700, 1, 1)).astype(np.float32) for _ in range(2)]
    found = mixed_precision(graph, some, board=half_board)
    assert found.before == np.inf and found.layers == (names(graph)[1],) and found.after <= 0.01


def test_nothing_is_kept_where_halves_do(half_board):
    graph = small_net()
    found = mixed_precision(graph, frames(graph, 2), board=half_board)
    assert found.layers == () and found.before == found.after < 0.01 and KEPT not in found.graph.metadata


def test_a_bound_that_cannot_be_kept_says_what_can(half_board):
    graph = small_net()
    with pytest.raises(ArgumentError, match="max_error -1: expected at least"):
        mixed_precision(graph, frames(graph, 1), board=half_board, max_error=-1.0)
    with pytest.raises(ArgumentError, match="unit 'big': expected a CPU component in fp16"):
        mixed_precision(graph, frames(graph, 1), "big", half_board)
    with pytest.raises(ArgumentError, match="frames: expected at least one"):
        mixed_precision(graph, [], board=half_board)


def test_a_file_keeps_them():
    graph = overflowing()
    kept = names(graph)[1:3]
    read = pipeall.load(onnx_bytes(pipeall.keep_float32(graph, kept)))
    assert kept_float32(read) == set(kept) <= set(names(read))


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", "[" * 10**5, '["a"'])
def test_damaged_metadata_is_named(text):
    graph = replace(small_net(), metadata={KEPT: text})
    with pytest.raises(ModelError, match="metadata pipeall.float32: expected a list of layers") as caught:
        fp16_between(graph, ())
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def test_only_layers_have_names_to_keep():
    net = Net((1, 3, 8, 8))
    graph = net.graph(net.op("maxpool", net.conv("x0", 4, k=3)))
    for name in ("absent", graph.nodes[-1].name):
        with pytest.raises(ArgumentError, match=f"layer {name!r}: expected a convolution or fully connected layer"):
            keep_float32(graph, [name])


# ---- units in precisions ----


def test_units_in_the_precisions_that_are_allowed(half_board):
    """Errors are those of an engine; a bound just below one leaves that precision out."""
    graph = small_net()
    some = frames(graph, 2)
    found = allowed_precisions(graph, ["big", "bigx1"], ["fp32", "fp16", "int8", "mixed"], half_board)
    assert found.units == ("big", "big@fp16", "big@mixed", "bigx1", "big@fp16x1", "big@mixedx1")
    assert found.errors == {} and list(found.refused) == ["big@int8"] and "quantize" in found.refused["big@int8"]
    measured = allowed_precisions(graph, ["big"], ["fp32", "fp16"], half_board, frames=some, max_error=1.0)
    with Engine(graph, "big", board=half_board) as floats, Engine(graph, "big@fp16", board=half_board) as halves:
        pairs = [(halves(x).copy(), floats(x).copy()) for x in some]
    worst = max(np.abs(y.astype(np.float64) - z).max() for y, z in pairs) / max(np.abs(z).max() for _, z in pairs)
    assert measured.errors == {"big@fp16": pytest.approx(worst)} and measured.units == ("big", "big@fp16")
    least = allowed_precisions(graph, ["big"], ["fp32", "fp16"], half_board, frames=some, max_error=0.9 * worst)
    assert least.units == ("big",) and "more than" in least.refused["big@fp16"]


def test_halves_that_overflow_are_never_allowed(half_board):
    graph = overflowing()
    found = allowed_precisions(graph, ["big"], ["fp16", "fp32"], half_board, frames=frames(graph, 1), max_error=1e6)
    assert found.units == ("big",) and found.errors["big@fp16"] > 1e6


def test_a_quantized_network_has_8_bits_and_floats(board):
    graph = to_int8(chain())
    found = allowed_precisions(graph, ["big", "big"], ["int8", "fp32"], board, frames=_noise(graph), max_error=0.1)
    assert found.units == ("big@int8", "big@fp32") and found.errors["big@int8"] <= 0.1


def _noise(graph):
    return [np.random.default_rng(0).uniform(-3, 3, graph.inputs[0].shape).astype(np.float32)]


def test_precisions_that_cannot_be(half_board, monkeypatch):
    graph = small_net()
    for units, precisions, more, words in (
        (["big"], ["fp8"], {}, "precisions: .*fp8"),
        (["big"], [], {}, "precisions: "),
        (["big@fp16"], ["fp32"], {}, "units: .*big@fp16"),
        (["big"], ["fp16"], dict(max_error=0.1), "frame"),
        (["big"], ["fp16"], dict(max_error=-1.0, frames=frames(graph, 1)), "max_error -1"),
        (["big"], ["int8"], {}, "precisions: .*not quantized"),
    ):
        with pytest.raises(ArgumentError, match=words):
            allowed_precisions(graph, units, precisions, half_board, **more)
    monkeypatch.delenv("PIPEALL_ISA", raising=False)
    board = Board.detect(gpu=False)
    if "asimdhp" not in board.component("big").device.cluster.isas:
        assert "asimdhp" in allowed_precisions(graph, ["big"], ["fp32", "fp16"], board).refused["big@fp16"]
    with pytest.raises(DeviceError, match="no component 'gpu'"):
        allowed_precisions(graph, ["gpu"], ["fp32"], board)
