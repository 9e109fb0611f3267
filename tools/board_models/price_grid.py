"""Networks of every kernel at some sizes, for price.py: of what networks of today have some of, these have all."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from graphs import Net

from pipeall import Graph
from pipeall._kernels.cpu.sparse_panels import SPARSE_COLUMNS

UNARY = (
    "leakyrelu sigmoid hardsigmoid hardswish tanh erf elu sqrt exp log abs reciprocal softplus mish selu gelu "
    "gelu_tanh swish"
).split()
BINARY = ("add", "sub", "mul", "div", "max")
# Those whose results are finite, whatever they get
BOUNDED = (
    "leakyrelu sigmoid hardsigmoid hardswish tanh mish gelu swish".split(),
    ("add", "sub", "mul", "max"),
    "bounded",
)


def pointwise(
    channels: int, size: int, unary: Sequence[str] = UNARY, binary: Sequence[str] = BINARY, name: str = "pointwise"
) -> Graph:
    """Each op behind a convolution that it cannot be part of; gates of one pixel for all, as in squeeze-excite."""
    net = Net((1, channels, size, size))
    x = "x0"
    for op in unary:
        x = net.op(op, net.conv(x, channels))
    for op in binary:
        x = net.op(op, net.op("maxpool", x, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4), x)
        gate = net.op("sigmoid", net.conv(net.global_pool(x), channels))
        x = net.op(op, x, gate)
    return net.graph(net.conv(x, channels), name=f"grid-{name}-{channels}x{size}")


def windows(channels: int, size: int) -> Graph:
    """Convolutions of all forms, pooling, resizing and moving."""
    net = Net((1, 3, size, size))
    x = net.conv(net.conv("x0", channels, 3), channels, 7)
    for k in (3, 5, 7):
        x = net.conv(x, channels, k, groups=channels)
        x = net.conv(x, channels, k)
    bias = net.constant((channels,))
    x = net.op("conv", x, net.constant((channels, 1, 3, 3)), bias, pads=(2,) * 4, dilations=(2, 2), groups=channels)
    x = net.op("conv", x, net.constant((channels, channels, 3, 3)), bias, pads=(2,) * 4, dilations=(2, 2))
    for kernel, pads in (((1, 7), (0, 3, 0, 3)), ((7, 1), (3, 0, 3, 0)), ((2, 2), (1, 1, 0, 0))):
        x = net.op("conv", x, net.constant((channels, channels, *kernel)), bias, pads=pads)
    x = net.conv(net.conv(x, channels, 3, groups=channels // 4), channels, 3, groups=2)
    for k in (3, 5, 9, 13):
        x = net.op("maxpool", x, kernel=(k, k), strides=(1, 1), pads=(k // 2,) * 4)
        x = net.op("avgpool", net.conv(x, channels), kernel=(3, 3), strides=(1, 1), pads=(1,) * 4)
    x = net.op("lrn", net.op("softmax", net.conv(x, channels), axis=1), size=5)
    for mode in ("nearest", "linear"):
        h, w = net.shape(x)[2:]
        big = net.op("resize", x, sizes=(1, channels, 2 * h, 2 * w), scales=(1.0, 1.0, 2.0, 2.0), mode=mode)
        x = net.op("maxpool", net.op("concat", big, big))
        x = net.conv(x, channels)
    for k in (3, 5, 7):
        x = net.conv(net.conv(x, 2 * channels, k, strides=(1, 1)), 2 * channels, k, groups=2 * channels, strides=(2, 2))
        x = net.conv(net.conv(x, channels, k, strides=(2, 2)), channels, 1)
        x = net.op("resize", x, sizes=(1, channels, size, size), scales=_scales(net, x, size), mode="nearest")
    moved = net.op("transpose", x, perm=(0, 2, 3, 1))
    x = net.conv(net.op("transpose", net.op("tanh", moved), perm=(0, 3, 1, 2)), channels)
    return net.graph(net.fc(net.op("avgpool", x, kernel=(4, 4), strides=(4, 4)), 500), name=f"grid-windows-{size}")


def silu(channels: int, size: int) -> Graph:
    """Convolutions of all forms with SiLU behind them, and sums behind that."""
    net = Net((1, 3, 2 * size, 2 * size))

    def conv(x: str, channels: int, k: int, **attrs: Any) -> str:
        return net.op("swish", net.conv(x, channels, k, **attrs), alpha=1.0)

    x = conv("x0", channels, 3, strides=(2, 2))
    for k in (1, 3, 5):
        x = net.op("add", conv(x, channels, k), x)
        x = conv(conv(x, channels, k, groups=channels if k > 1 else 1), 2 * channels, k)
        x = conv(x, channels, k, groups=2)
    return net.graph(conv(x, 2 * channels, 3, strides=(2, 2)), name=f"grid-silu-{channels}x{size}")


def sparse(channels: int, size: int) -> Graph:
    """1x1 convolutions whose filters have zeros in common, eight side by side: from half of the weights to most."""
    net = Net((1, channels, size, size))
    x = "x0"
    for share in (0.5, 0.6, 0.7, 0.8, 0.9):
        x = net.conv(x, channels)
        weight = net.constants[net.nodes[-1].inputs[1]]
        zeros = net.random.random((channels // SPARSE_COLUMNS, channels)) < share
        weight[np.repeat(zeros, SPARSE_COLUMNS, axis=0)] = 0.0
        x = net.op("maxpool", x, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4)
    return net.graph(x, name=f"grid-sparse-{channels}x{size}")


def mixed(channels: int, size: int) -> Graph:
    """Ops that have no integers between convolutions: what changes the type of large tensors."""
    net = Net((1, 3, size, size))
    x = net.conv("x0", channels, 3)
    for _ in range(3):
        x = net.conv(net.op("lrn", x, size=5), channels)
    return net.graph(x, name=f"grid-mixed-{size}")


def tokens(count: int, width: int, heads: int) -> Graph:
    """Blocks of a transformer, their attention as products and softmax, and as one op."""
    net = Net((1, count, width))
    x = "x0"
    for block in range(4):
        y = net.op("layernorm", x)
        q, k, v = (_split(net, net.op("matmul", y, net.constant((1, width, width))), count, heads) for _ in range(3))
        if block % 2:
            y = net.op("attention", q, k, v, scale=0.125)
        else:
            scores = net.op("matmul", q, net.op("transpose", k, perm=(0, 1, 3, 2)), alpha=0.125)
            y = net.op("matmul", net.op("softmax", scores, axis=3), v)
        y = net.op("reshape", net.op("transpose", y, perm=(0, 2, 1, 3)), shape=(1, count, width))
        x = net.op("add", net.op("matmul", y, net.constant((1, width, width))), x)
        y = net.op("gelu", net.op("matmul", x, net.constant((1, width, 4 * width))))
        x = net.op("add", net.op("matmul", y, net.constant((1, 4 * width, width))), x)
    return net.graph(net.op("reduce", x, how="mean", axes=(1,), keepdims=False), name=f"grid-tokens-{count}")


def _split(net: Net, x: str, count: int, heads: int) -> str:
    width = net.shape(x)[-1] // heads
    return net.op("transpose", net.op("reshape", x, shape=(1, count, heads, width)), perm=(0, 2, 1, 3))


def _scales(net: Net, x: str, size: int) -> tuple[float, ...]:
    return 1.0, 1.0, *(size / side for side in net.shape(x)[2:])


GRIDS: dict[str, Callable[[], Graph]] = {
    "grid-pointwise-32x40": partial(pointwise, 32, 40),
    "grid-pointwise-96x14": partial(pointwise, 96, 14),
    "grid-bounded-16x24": partial(pointwise, 16, 24, *BOUNDED),
    "grid-bounded-64x10": partial(pointwise, 64, 10, *BOUNDED),
    "grid-windows-40": partial(windows, 32, 40),
    "grid-windows-20": partial(windows, 64, 20),
    "grid-windows-32": partial(windows, 16, 32),
    "grid-windows-8": partial(windows, 64, 8),
    "grid-silu-32x40": partial(silu, 32, 40),
    "grid-silu-64x20": partial(silu, 64, 20),
    "grid-sparse-256x14": partial(sparse, 256, 14),
    "grid-sparse-64x56": partial(sparse, 64, 56),
    "grid-mixed-112": partial(mixed, 64, 112),
    "grid-mixed-56": partial(mixed, 64, 56),
    "grid-tokens-197": partial(tokens, 197, 192, 3),
    "grid-tokens-64": partial(tokens, 64, 320, 5),
}
