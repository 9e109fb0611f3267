"""Small networks on levels, with every kind of op that is computed with integers."""

from dataclasses import replace

import numpy as np
from graphs import Net

from pipeall.graph.ir import Quantization

RNG = np.random.default_rng(0)


def fake(net, x, scale, zero=0):
    """``x`` on the levels of int8."""
    return net.op("fakequant", x, scale=scale, low=float(-128 - zero))


def resized(net, x, size, **attrs):
    """An image of another height and width."""
    before = net.shape(x)
    scales = (1.0, 1.0, *(new / old for new, old in zip(size, before[2:], strict=True)))
    return net.op("resize", x, sizes=(*before[:2], *size), scales=scales, **attrs)


def quantized_weights(graph, scale=0.0101):
    """The graph with the weights of its layers on levels, a scale for each output."""
    constants, qparams = dict(graph.constants), {}
    for node in graph.nodes:
        if node.op in ("conv", "fc"):
            weight = constants[node.inputs[1]]
            scales = scale * (1 + np.arange(len(weight)) % 3)
            whole = RNG.integers(-127, 128, weight.shape)
            constants[node.inputs[1]] = (whole * scales.reshape(-1, *[1] * (weight.ndim - 1))).astype(np.float32)
            qparams[node.inputs[1]] = Quantization(tuple(scales.astype(np.float32).tolist()), (0,) * len(weight), 0)
    return replace(graph, constants=constants, qparams=qparams)


def chain():
    """Every kind of op on integers, and a difference in between that has no kernel for them.

    Sums of what lies on some levels are no ties between others: no scale is a simple multiple of another.
    """
    net = Net((1, 8, 12, 10))
    x = fake(net, "x0", 0.0213, 5)
    a = fake(net, net.conv(x, 16, 3, lo=0.0), 0.517, -128)
    b = fake(net, net.conv(a, 16, 3, groups=16), 0.317, 7)
    c = fake(net, net.op("sigmoid", b), 1 / 256, -128)
    d = fake(net, net.op("mul", b, c), 0.2371, 3)
    e = fake(net, net.op("add", d, a), 0.613, -20)
    f = net.op("maxpool", e, kernel=(3, 3), strides=(2, 2), pads=(1,) * 4)
    g = fake(net, net.op("avgpool", f, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4), 0.4093, 0)
    h = fake(net, net.op("concat", f, g), 0.5279, 1)
    i = fake(net, resized(net, h, (7, 5), mode="nearest"), 0.4733, 9)
    j = fake(net, net.op("softmax", i, axis=1), 1 / 256, -128)
    k = fake(net, net.op("lrn", j, size=3, alpha=20.0), 0.00317, -128)
    k = fake(net, net.op("sub", j, k), 0.00217, -100)
    m = fake(net, resized(net, fake(net, net.conv(k, 12, 1), 0.0519, 0), (6, 8), mode="linear"), 0.0437, 1)
    return quantized_weights(net.graph(fake(net, net.fc(m, 7), 2.03, 4)))


def levels_between(graph, found, expected):
    """The most levels of its output that two results of a network are apart."""
    return np.abs(np.rint(np.subtract(found, expected) / graph.nodes[-1].attrs["scale"])).max()
