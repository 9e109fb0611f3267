"""Element types: what moves tensors without computing works for elements of 1, 2, 4 and 8 bytes, on every device."""

from dataclasses import replace

import numpy as np
import pytest

from pipeall import ArgumentError, DeviceError, Engine, ModelError, Pipeline
from pipeall.graph.ir import Graph, Node, Quantization, Tensor
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import attributes, infer_shape, run_graph
from pipeall.graph.partition import split
from pipeall.pipeline.measuring.footprint import footprint
from pipeall.pipeline.measuring.trial import random_frame
from pipeall.pipeline.planning.profile import crossing_bytes
from pipeall.steps import TYPES, item_bytes

BIG_LITTLE = ("big", "little")


class Typed:
    """A graph in the making; every node's output has the type of its first input."""

    def __init__(self, **inputs: tuple[str, tuple[int, ...]]):
        self.tensors = {name: Tensor(name, shape, dtype) for name, (dtype, shape) in inputs.items()}
        self.inputs, self.nodes, self.constants = tuple(self.tensors.values()), [], {}

    def op(self, op: str, *inputs: str, **attrs) -> str:
        name, attrs = f"{op}{len(self.nodes)}", attributes(op, **attrs)
        shapes = [self.tensors[i].shape if i in self.tensors else self.constants[i].shape for i in inputs]
        self.nodes.append(Node(name, op, inputs, name, attrs))
        self.tensors[name] = Tensor(name, infer_shape(op, attrs, shapes, name), self.tensors[inputs[0]].dtype)
        return name

    def conv(self, x: str, channels: int) -> str:
        weight, bias, c = f"w{len(self.nodes)}", f"b{len(self.nodes)}", self.tensors[x].shape[1]
        self.constants[weight] = np.linspace(-1, 1, channels * c, dtype=np.float32).reshape(channels, c, 1, 1)
        self.constants[bias] = np.zeros(channels, np.float32)
        return self.op("conv", x, weight, bias)

    def graph(self, *outputs: str) -> Graph:
        found = tuple(self.tensors[name] for name in outputs)
        return Graph("typed", tuple(self.nodes), self.tensors, self.constants, self.inputs, found)


def movers(dtype: str) -> Graph:
    """Every op that moves elements, on images of odd sizes: in place where that can be, copied elsewhere."""
    net = Typed(x=(dtype, (1, 5, 7, 3)), y=(dtype, (1, 3, 7, 3)))
    both = net.op("concat", "x", "y", axis=1)
    high = net.op("concat", both, both, axis=2)
    padded = net.op("pad", high, pads_begin=(0, 1, 0, 2), pads_end=(0, 0, 3, 0), value=3.0)
    part = net.op("slice", padded, axis=3, start=1, stop=4)
    turned = net.op("transpose", part, perm=(0, 2, 1, 3))
    shuffled = net.op("shuffle", both, groups=4)
    flat = net.op("reshape", shuffled, shape=(1, 8 * 7 * 3))
    ends = net.op("slice", flat, axis=1, start=3, stop=160)
    return net.graph(padded, turned, ends, net.op("slice", both, axis=1, start=2, stop=7))


def two_types() -> Graph:
    """Two convolutions, and bytes that cross the cut between them beside floats."""
    net = Typed(x=("float32", (1, 4, 5, 5)), u=("uint8", (1, 3, 5, 3)))
    first = net.conv("x", 6)
    cropped = net.op("slice", "u", axis=2, start=1, stop=5)
    second = net.conv(first, 2)
    return net.graph(second, net.op("concat", cropped, cropped, axis=1))


def check(graph: Graph, got: dict[str, np.ndarray], frame: dict[str, np.ndarray]) -> None:
    expected = run_graph(graph, frame, dtype=None)
    for tensor in graph.outputs:
        assert got[tensor.name].dtype == tensor.dtype
        np.testing.assert_allclose(got[tensor.name], expected[tensor.name], rtol=1e-5)
        if tensor.dtype != "float32":
            np.testing.assert_array_equal(got[tensor.name], expected[tensor.name])


@pytest.mark.parametrize("unit", ["big", "gpu"])
@pytest.mark.parametrize("dtype", TYPES)
def test_elements_of_every_type_are_moved(dtype, unit, board_with_gpu):
    graph = movers(dtype)
    frame = random_frame(graph)
    assert all(array.dtype == dtype for array in frame.values())
    with Engine(graph, unit, board_with_gpu) as engine:
        check(graph, engine(frame), frame)


@pytest.mark.parametrize("plan", ["B-L:1", "B-gpu:1", "gpu-L:1"])
def test_a_slot_carries_tensors_of_different_types(plan, board_with_gpu):
    graph = two_types().finer(2)
    frame = random_frame(graph)
    first = lower(split(graph, [1])[0])
    assert {slot.dtype for slot in first.slot_out} == {"float32", "uint8"}
    with Pipeline(graph, plan, board_with_gpu) as pipe:
        for got in pipe.map([frame] * 3):
            check(graph, got, frame)


def test_sizes_are_those_of_the_types(board):
    graph = two_types().finer(2)
    assert crossing_bytes(graph) == (4 * 100 + 45, 4 * 150 + 36, 4 * 50 + 72)
    small, large = (footprint(movers(dtype), "big", board)[0] for dtype in ("uint8", "float32"))
    assert 4 * small.arena > large.arena > 3 * small.arena  # but for a line after each tensor
    assert large.rings > 2 * small.rings
    assert [item_bytes(dtype) for dtype in TYPES] == [np.dtype(dtype).itemsize for dtype in TYPES]


def test_the_border_takes_the_models_own_types(board):
    graph = movers("uint8")
    frame = random_frame(graph)
    with Engine(graph, "big", board) as engine:
        with pytest.raises(ArgumentError, match="input 'x': expected uint8 .1, 5, 7, 3., got float32"):
            engine(frame | {"x": frame["x"].astype(np.float32)})
        check(graph, engine(frame), frame)


def test_an_op_on_a_type_that_it_does_not_take_is_named(board):
    net = Typed(x=("int8", (1, 4, 3, 3)))
    graph = net.graph(net.op("softmax", "x", axis=1))
    with pytest.raises(ModelError, match="node 'softmax0' .softmax.: expected float32 inputs, got int8"):
        Engine(graph, "big", board)


def test_half_precision_refuses_other_types(board_with_gpu):
    with pytest.raises(DeviceError, match="mixed: expected float32 tensors alone.*uint8"):
        Engine(movers("uint8"), "gpu@mixed", board_with_gpu)


def test_types_that_differ_are_refused():
    net = Typed(x=("uint8", (1, 2, 2, 2)), y=("int8", (1, 2, 2, 2)))
    with pytest.raises(
        ModelError, match="node 'concat0' .concat.: expected inputs of one element type, got uint8, int8"
    ):
        lower(net.graph(net.op("concat", "x", "y", axis=1)))
    with pytest.raises(ArgumentError, match="tensor 'x': expected one of the types float32,.* got 'complex64'"):
        Tensor("x", (1,), "complex64")


@pytest.mark.parametrize(("dtype", "value"), [("uint8", 256.0), ("int8", -129.0), ("uint8", 0.5)])
def test_a_constant_must_fit_its_type(dtype, value):
    net = Typed(x=(dtype, (1, 2, 2, 2)))
    pads = attributes("pad", pads_begin=(0, 0, 1, 0), pads_end=(0, 0, 0, 0))
    with pytest.raises(ModelError, match=f"node 'pad0' .pad.: expected a value that {dtype} can hold, got {value}"):
        lower(net.graph(net.op("pad", "x", **pads | {"value": value})))


def test_a_tensor_says_what_its_integers_stand_for():
    quantized = Tensor("x", (1, 2), "uint8", Quantization((0.5,), (128,)))
    assert replace(quantized, name="y").quantization.scale == (0.5,) and quantized.nbytes == 2
