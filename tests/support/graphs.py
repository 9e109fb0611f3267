"""Graphs for tests: the zoo, built once, a builder of small graphs, and random ones made of every op."""

from functools import cache
from math import prod

import numpy as np

from pipeall.graph import zoo
from pipeall.graph.ir import Graph, Node, Tensor
from pipeall.graph.ops import attributes, infer_shape
from pipeall.graph.pointwise import BINARY, UNARY

INF = float("inf")
ZOO = ("alexnet", "googlenet", "mobilenet", "resnet50", "resnet50-slim", "squeezenet")
# Functions of random graphs: they neither jump nor grow, so that an error stays in proportion
TAME = "clip leakyrelu sigmoid hardsigmoid hardswish tanh erf elu softplus softsign mish gelu swish abs sin".split()
TAME_OF_TWO = ("add", "sub", "mul", "max", "min")
DEFAULTS = {
    "maxpool": dict(kernel=(2, 2), strides=(2, 2)),
    "avgpool": dict(kernel=(2, 2), strides=(2, 2)),
    "lrn": dict(size=3, alpha=0.5),
    **{op: dict(zip(entry.parameters, entry.samples[0], strict=True)) for op, entry in UNARY.items()},
    "concat": dict(axis=1),
    "slice": dict(axis=1),
}


@cache
def zoo_net(name: str) -> Graph:
    return zoo.resnet50(variant="slim") if name == "resnet50-slim" else getattr(zoo, name)()


class Net:
    """Adds nodes one by one; every method returns the name of the tensor it makes, op and number ("conv3")."""

    def __init__(self, *shapes: tuple[int, ...], seed: int = 0):
        self.random = np.random.default_rng(seed)
        self.inputs = [Tensor(f"x{i}", shape) for i, shape in enumerate(shapes)]
        self.tensors = {tensor.name: tensor for tensor in self.inputs}
        self.nodes, self.constants = [], {}

    def shape(self, name: str) -> tuple[int, ...]:
        return self.constants[name].shape if name in self.constants else self.tensors[name].shape

    def constant(self, shape: tuple[int, ...], scale: float = 1.0) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = (scale * self.random.standard_normal(shape)).astype(np.float32)
        return name

    def op(self, op: str, *inputs: str, **attrs) -> str:
        attrs = attributes(op, **(DEFAULTS.get(op, {}) | attrs))
        name = f"{op}{len(self.nodes)}"
        shape = infer_shape(op, attrs, [self.shape(x) for x in inputs], name)
        self.tensors[name] = Tensor(name, shape, attrs.get("to", "float32"))
        self.nodes.append(Node(name, op, inputs, name, attrs))
        return name

    def conv(self, x: str, channels: int, k: int = 1, groups: int = 1, residual: str | None = None, **attrs) -> str:
        weight = self.constant((channels, self.shape(x)[1] // groups, k, k), 1 / k)
        inputs = (x, weight, self.constant((channels,)), *([residual] if residual else []))
        return self.op("conv", *inputs, pads=(k // 2,) * 4, groups=groups, **attrs)

    def fc(self, x: str, features: int) -> str:
        shape = self.shape(x)
        if len(shape) == 1:
            x = self.op("reshape", x, shape=(1, *shape))
        elements = prod(self.shape(x)[1:])
        return self.op("fc", x, self.constant((features, elements), elements**-0.5), self.constant((features,)))

    def global_pool(self, x: str) -> str:
        return self.op("avgpool", x, kernel=self.shape(x)[2:], strides=(1, 1))

    def graph(self, *outputs: str, name: str = "net") -> Graph:
        leaving = tuple(self.tensors[output] for output in outputs)
        return Graph(name, tuple(self.nodes), self.tensors, self.constants, tuple(self.inputs), leaving)


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {tensor.name: random.standard_normal(tensor.shape).astype(np.float32) for tensor in graph.inputs}


def small_net() -> Graph:
    """Four groups of 1x1 and 3x3 convolutions on 8 x 8 pixels; microseconds a frame."""
    net = Net((1, 4, 8, 8))
    x = net.conv("x0", 8, k=3)
    x = net.conv(x, 8)
    x = net.conv(x, 16, k=3)
    return net.graph(net.conv(x, 5))


def picture_net(size: tuple[int, int]) -> Graph:
    """Three groups of 1x1 convolutions on three channels."""
    net = Net((1, 3, *size))
    return net.graph(net.conv(net.conv(net.conv("x0", 3), 3), 3))


def frames(graph: Graph, count: int) -> list[np.ndarray]:
    """Random frames for a graph of one input."""
    return [next(iter(inputs_of(graph, seed).values())) for seed in range(count)]


def random_graph(seed: int, steps: int = 14) -> Graph:
    """A connected mess of every op on a few small tensors, with several outputs, some of them inputs or aliases."""
    net = Net((1, 6, 4, 4), (1, 4, 1, 1), (1, 1, 4, 4), (1, 12), seed=seed)
    random = net.random

    def pick(*ranks: int) -> str:
        names = [name for name, tensor in net.tensors.items() if len(tensor.shape) in ranks and tensor.elements < 600]
        return names[-1 - min(int(random.exponential(3)), len(names) - 1)]

    def alike(x: str, axis: int | None) -> str:
        def rest(name: str) -> tuple[int, ...]:
            shape = net.shape(name)
            return (len(shape), *(n for i, n in enumerate(shape) if i != axis))

        return str(random.choice([name for name in net.tensors if rest(name) == rest(x)]))

    def window() -> dict:
        size, stride, pad = int(random.integers(2, 4)), int(random.integers(1, 3)), int(random.integers(2))
        return dict(kernel=(size, size), strides=(stride, stride), pads=(pad,) * 4, ceil=bool(random.integers(2)))

    def unary() -> str:
        op = random.choice(TAME)
        return net.op(str(op), pick(2, 3, 4))

    def conv() -> str:
        x = pick(4)
        groups = int(random.choice([g for g in (1, 2, 3, net.shape(x)[1]) if net.shape(x)[1] % g == 0]))
        y = net.conv(x, groups * int(random.integers(1, 4)), int(random.choice([1, 3])), groups)
        return net.conv(x, net.shape(y)[1], 1, residual=y, lo=0.0) if random.integers(2) else y

    def pool() -> str:
        x = pick(4)
        if min(net.shape(x)[2:]) < 3:
            return net.global_pool(x)
        averaged = random.integers(2)
        extra = dict(count_include_pad=bool(random.integers(2))) if averaged else {}
        return net.op("avgpool" if averaged else "maxpool", x, **window(), **extra)

    def binary() -> str:
        a = pick(2, 3, 4)
        shape = net.shape(a)
        broadcast = tuple(n if random.integers(2) else 1 for n in shape)
        fits = [n for n in net.tensors if len(net.shape(n)) == 4 == len(shape)]
        fits = [n for n in fits if all(m in (1, k) for m, k in zip(net.shape(n), shape, strict=True))] or [a]
        constant = net.constant(broadcast if len(shape) == 4 else shape)
        b = constant if random.integers(2) else str(random.choice(fits))
        op = str(random.choice(TAME_OF_TWO))
        return net.op(op, a, b, swapped=bool(BINARY[op].swapped and random.integers(2)))

    def concat() -> str:
        x = pick(2, 3, 4, 4)
        axis = int(random.integers(1, 4)) if len(net.shape(x)) == 4 else int(random.integers(len(net.shape(x))))
        axis = 1 if len(net.shape(x)) == 4 and random.integers(2) else axis
        return net.op("concat", x, *(alike(x, axis) for _ in range(random.integers(1, 4))), axis=axis)

    def slice_() -> str:
        x = pick(2, 3, 4, 4)
        axes = [axis for axis, n in enumerate(net.shape(x)) if n > 1]
        if not axes:
            return unary()
        axis = 1 if 1 in axes and random.integers(2) else int(random.choice(axes))
        start = int(random.integers(net.shape(x)[axis]))
        return net.op("slice", x, axis=axis, start=start, stop=int(random.integers(start, net.shape(x)[axis])) + 1)

    def reshape() -> str:
        x = pick(2, 3, 4)
        n = net.tensors[x].elements
        if len(net.shape(x)) == 4:
            return net.op("reshape", x, shape=(1, n))
        h = int(random.choice([k for k in (1, 2, 4) if n % k == 0]))
        shapes = [(1, n // h, h, 1), (1, h, n // h, 1), (1, 1, h, n // h), (h, n // h), (1, h, n // h)]
        return net.op("reshape", x, shape=shapes[random.integers(len(shapes))])

    def transpose() -> str:
        x = pick(2, 3, 4)
        rank = len(net.shape(x))
        inner = (int(axis) + 1 for axis in random.permutation(rank - 1))
        return net.op("transpose", x, perm=(0, *inner))

    def pad() -> str:
        x = pick(2, 4)
        rank = len(net.shape(x))
        begin, end = ((0, *(int(n) for n in random.integers(0, 3, rank - 1))) for _ in range(2))
        return net.op("pad", x, pads_begin=begin, pads_end=end, value=0.5)

    def image() -> str:
        x = pick(4)
        op = str(random.choice(["lrn", "softmax", "layernorm", "shuffle"]))
        groups = int(random.choice([g for g in (1, 2, 3) if net.shape(x)[1] % g == 0]))
        return net.op(op, x, **(dict(groups=groups) if op == "shuffle" else {}))

    makers = [unary, conv, pool, binary, concat, concat, slice_, reshape, transpose, pad, image]
    for _ in range(steps):
        random.choice(makers)()
    net.fc(pick(2, 4), 8)
    names = list(net.tensors)
    outputs = {names[-1], *random.choice(names, size=3)}
    return net.graph(*sorted(map(str, outputs)), name=f"random{seed}")


def branching_net():
    """Concats, a residual, a shuffle, two outputs, one of them before the last group; tail groups without a Main."""
    net = Net((1, 4, 8, 8))
    x = net.conv("x0", 8, k=3)
    x = net.op("concat", net.conv(x, 4), net.op("maxpool", net.conv(x, 4), strides=(1, 1), pads=(1, 1, 0, 0)), x)
    early = net.op("shuffle", x, groups=2)
    x = net.conv(early, 8)
    x = net.conv(net.conv(x, 8, k=3), 8, residual=x, lo=0.0)
    x = net.conv(x, 6)
    x = net.op("softmax", net.op("reshape", net.global_pool(x), shape=(1, 6)))
    return net.graph(early, x)


def early_net() -> Graph:
    """Six groups in a row, each with a head; outputs in another order than they are made, one of them the input, one
    read by later nodes and one by no node; images and rows, of sizes that are no whole lines."""
    net = Net((1, 3, 7, 5))
    x, outputs = net.conv("x0", 4, k=3), ["x0"]
    for channels in (5, 6, 7, 6):
        outputs.insert(1, net.op("sigmoid", x))
        x = net.conv(x, channels, k=3)
    outputs.insert(2, x)
    skip = net.op("reshape", net.global_pool(x), shape=(1, 6))
    outputs.append(skip)
    x = net.op("add", net.fc(x, 6), skip)
    return net.graph(x, *outputs, name="early")


def two_crossing_net():
    """Two tensors cross every cut; the input is one of them."""
    net = Net((1, 4, 8, 8))
    x = "x0"
    for _ in range(4):
        x = net.conv(x, 4, k=3)
    return net.graph(net.op("add", x, "x0"))


def reshaped_net():
    """Its last group is a reshape: no step, no time."""
    net = Net((1, 4, 8, 8))
    return net.graph(net.op("reshape", net.global_pool(net.conv(net.conv("x0", 8), 6)), shape=(1, 6)))


NETS = [small_net, branching_net, two_crossing_net, reshaped_net]


def modules_net() -> Graph:
    """A convolution; a module of three branches, one with a pooling ahead; another of three, of which one ends there as
    an output and one is an output too; a convolution."""
    net = Net((1, 4, 8, 8))
    x = net.conv("x0", 8, k=3)
    wide = net.conv(net.conv(x, 4), 6, k=3)
    pooled = net.conv(net.op("maxpool", x, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)), 5)
    x = net.op("concat", net.conv(x, 3), wide, pooled)
    apart = net.op("sigmoid", net.conv(x, 5))
    deep, flat = net.conv(net.conv(x, 8), 8, k=3), net.conv(x, 6)
    return net.graph(net.conv(net.op("concat", deep, flat), 7), flat, apart, name="modules")
