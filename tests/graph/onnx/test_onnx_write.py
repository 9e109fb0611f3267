"""Graphs written as ONNX, against the import and onnxruntime."""

from math import inf

import numpy as np
import pytest
from graphs import Net, inputs_of

from pipeall import ArgumentError, load
from pipeall.graph.onnx.write.write import RULES, onnx_bytes
from pipeall.graph.ops import run_graph
from pipeall.graph.pointwise import BINARY, UNARY

pytest.importorskip("onnx", reason="needs pipeall[onnx]")


PARAMETERS = {"clip": (-0.25, 0.5), "fakequant": (2**-7, -100.0)}  # others: 0.5


def every_op():
    """Each op that can be written, with and without clamps, attributes off their defaults and exact in float32."""
    net = Net((1, 3, 13, 11))
    x = net.conv("x0", 8, k=3, strides=(2, 1), lo=0.0, hi=inf)
    x = net.conv(x, 8, k=3, groups=4, residual=x, lo=0.0, hi=6.0)
    x = net.op("add", x, net.conv(x, 8), lo=0.0, hi=inf)
    x = net.op("maxpool", x, kernel=(3, 2), pads=(1, 0, 1, 1), dilations=(1, 2), ceil=True)
    for op, entry in UNARY.items():
        if op in RULES:
            inside = {-inf: "tanh", 1: "cosh"}.get(entry.domain[0], "sigmoid")
            values = PARAMETERS.get(op, (0.5,) * len(entry.parameters))
            y = net.op(op, net.op(inside, x), **dict(zip(entry.parameters, values, strict=True)))
            x = net.op("tanh", net.conv(net.op("concat", x, net.op("tanh", y)), 8))
    for op, entry in BINARY.items():
        if op in RULES:  # of positive numbers
            swapped = bool(entry.swapped) and op != "prelu"  # whose slopes are the smaller tensor in ONNX
            y = net.op(op, net.op("sigmoid", x), net.global_pool(net.op("sigmoid", x)), swapped=swapped)
            x = net.op("add", x, y, lo=0.0, hi=inf)
    x = net.op("avgpool", x, kernel=(2, 3), strides=(1, 1), pads=(1, 1, 0, 1), count_include_pad=True)
    x = net.op("lrn", net.op("shuffle", x, groups=2), size=3, alpha=0.5, bias=2.0)
    x = net.op("pad", x, pads_begin=(0, 0, 1, 0), pads_end=(0, 0, 0, 2), value=0.5)
    x = net.op("pad", x, pads_begin=(0, 0, 1, 0), pads_end=(0, 0, 0, 0), mode="edge")
    height, width = net.shape(x)[2:]
    for mode, sizes in (("nearest", (2 * height, 3 * width)), ("linear", (height + 1, width))):
        scales = (1.0, 1.0, sizes[0] / net.shape(x)[2], sizes[1] / net.shape(x)[3])
        x = net.op("resize", x, sizes=(*net.shape(x)[:2], *sizes), scales=tuple(map(float, map(np.float32, scales))),
                   mode=mode, rounding="floor")  # fmt: skip
    x = net.op("slice", x, axis=2, start=1, stop=height, step=2)
    x = net.op("deconv", x, net.constant((8, 3, 2, 2)), net.constant((6,)), strides=(2, 1), groups=2)
    x = net.op("transpose", x, perm=(0, 2, 3, 1))
    for how in ("mean", "sum", "max"):
        x = net.op("add", x, net.op("reduce", x, how=how, axes=(1, 3)))
    x = net.op("add", x, net.op("expand", net.constant((1, 1, 1, 6)), shape=net.shape(x)))
    x = net.op("fc", x, net.constant((7, 6)), net.constant((7,)), axis=3, lo=-1.0, hi=1.0)
    x = net.op("matmul", x, net.constant((1, 1, 7, 4)), alpha=0.25)
    x = net.op("logsoftmax", net.op("reshape", x, shape=(1, *net.shape(x)[1:3], 4)), axis=3)
    x = net.op("quantize", net.fc(x, 12), scale=2**-5, zero=3, to="uint8")
    x = net.fc(net.op("dequantize", x, scale=2**-4, zero=5), 5)
    return net.graph(net.op("softmax", x))


def test_written_and_read_again(tmp_path):
    graph = every_op()
    assert {node.op for node in graph.nodes} == set(RULES)
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_bytes(graph))
    (expected,), (found,) = (run_graph(g, inputs_of(graph)).values() for g in (graph, load(path, rewrite=False)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # float64 on both sides, the same operations


def test_onnxruntime_computes_the_same(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs pipeall[peers]")
    graph, inputs = every_op(), inputs_of(every_op())
    content = onnx_bytes(graph)
    (found,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, inputs)
    (expected,) = run_graph(graph, inputs).values()
    np.testing.assert_allclose(found, expected, atol=1e-5)  # probabilities, of float32 against float64


def test_what_cannot_be_written_is_named():
    net = Net((1, 3, 1, 1))
    slopes = net.constant((1, 3, 4, 4))
    with pytest.raises(
        ArgumentError, match="'prelu0': expected slopes that broadcast to .1, 3, 1, 1., got .1, 3, 4, 4."
    ):
        onnx_bytes(net.graph(net.op("prelu", "x0", slopes)))
    net = Net((1, 3, 4, 4))
    with pytest.raises(ArgumentError, match="'cumsum0': expected one of conv, .*got 'cumsum'"):
        onnx_bytes(net.graph(net.op("cumsum", "x0", axis=1)))
    net = Net((1, 3, 4, 4))
    with pytest.raises(ArgumentError, match="'fc0': expected axis 1 or the last of 4 .* got 2"):
        onnx_bytes(net.graph(net.op("fc", "x0", net.constant((5, 16)), net.constant((5,)), axis=2)))
