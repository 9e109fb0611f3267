"""Networks whose steps compute rows from a few rows, and their programs whole and in strips."""

from dataclasses import replace

import numpy as np
from graphs import Net

from pipeall import Board
from pipeall.graph.ir import Graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.lower.tiling import Cache

DEVICE = Board.detect(gpu=False).component("big").device
DEVICE = replace(DEVICE, cluster=replace(DEVICE.cluster, l2_bytes=300_000, l2_cores=None))  # whatever is published


def cache_of(nbytes: int, bands: int = 1) -> Cache:
    """Strips wherever they fit so much."""
    return Cache(nbytes, bands, DEVICE.cache(timed=False).apart, lambda whole, strips: True)


def blocks(shape: tuple[int, ...] = (1, 8, 64, 64)) -> Graph:
    """Two inverted residuals."""
    net = Net(shape)
    x = net.conv("x0", 8)
    for _ in range(2):
        inner = net.conv(net.conv(x, 48, lo=0.0, hi=6.0), 48, k=3, groups=48, lo=0.0, hi=6.0)
        x = net.conv(inner, 8, residual=x)
    return net.graph(x, name="blocks")


def image_graph(seed: int, nodes: int = 9) -> Graph:
    """Images of a few channels by ops whose rows need few rows: a chain with sums, concats and a second output."""
    net = Net((1, 3, 61, 13), seed=seed)
    random = net.random
    made = [net.conv("x0", 8, k=3, strides=(int(random.integers(1, 3)),) * 2)]

    def depthwise(x: str) -> str:
        k, dilation = int(random.choice([1, 3, 5])), int(random.integers(1, 3))
        pads = tuple(int(n) for n in random.integers(0, dilation * (k - 1) + 1, 4))
        channels = net.shape(x)[1]
        weight = net.constant((channels, 1, k, k), 1 / k)
        attrs = dict(strides=(int(random.integers(1, 3)), 1), dilations=(dilation, dilation), groups=channels)
        return net.op("conv", x, weight, net.constant((channels,)), pads=pads, **attrs)

    def window(x: str) -> str:
        attrs = dict(kernel=(3, 3), strides=(int(random.integers(1, 3)), 1), pads=(1, 1, int(random.integers(2)), 1))
        if random.integers(2):
            return net.op("avgpool", x, count_include_pad=bool(random.integers(2)), **attrs)
        return net.op("maxpool", x, **attrs)

    def alike(x: str) -> str:
        return str(random.choice([name for name in made if net.shape(name) == net.shape(x)]))

    def wide(x: str) -> str:
        return str(random.choice([name for name in made if net.shape(name)[2:] == net.shape(x)[2:]]))

    makers = [
        depthwise,
        depthwise,
        window,
        lambda x: net.conv(x, int(random.integers(4, 13)), lo=0.0),
        lambda x: net.conv(x, net.shape(x)[1], residual=alike(x)),
        lambda x: net.op("leakyrelu", x),
        lambda x: net.op("add", x, alike(x)),
        lambda x: net.op("mul", x, net.constant((1, net.shape(x)[1], 1, 1))),
        lambda x: net.op("mul", x, net.global_pool(x)),
        lambda x: net.op("concat", x, wide(x)),
        lambda x: net.op("softmax", x),
        lambda x: net.op("lrn", x),
    ]
    while len(made) < nodes:
        x = made[-1] if random.integers(6) else str(random.choice(made))
        if min(net.shape(x)[2:]) < 9:
            break
        made.append(random.choice(makers)(x))
    second = [made[len(made) // 2]] if random.integers(2) else []
    return net.graph(*dict.fromkeys((made[-1], *second)), name=f"images{seed}")


def programs(graph: Graph, cache: Cache, **traits) -> list[np.ndarray]:
    """The outputs of a program, whole and in strips, as bytes."""
    device = DEVICE.with_cores((-1,) * cache.bands)
    found = []
    for lowered in (lower(graph, **traits), lower(graph, cache=cache, **traits)):
        program = device.compile(lowered, "test")
        slot = np.random.default_rng(0).standard_normal(lowered.slot_in_bytes // 4).astype(np.float32)
        out = program.run(slot).view(np.uint8)
        found.append(np.concatenate([out[t.offset_bytes :][: t.nbytes] for t in lowered.slot_out]))
    return found
