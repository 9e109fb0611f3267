"""A network of layers computed by torch, forward and back: what its training takes here can then be timed.

Networks for pictures whose layers are in ``RUN``. Weights are random unless they are given; a layer's fractions that
``Network`` does not have (LRN, the bounds of a clamp) are those of AlexNet and MobileNet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, ModelError, missing_extra
from .network import ALIASES, Layer, Network

try:
    import torch
    from torch.nn import functional
except ImportError:
    raise missing_extra("torch", "nas", "a step of training") from None

SEED, SPREAD = 0, 0.05  # of random weights


class TorchNetwork:
    """Called with its one input of any batch, gives its first output; ``step`` is a forward and a backward pass."""

    def __init__(self, network: Network, weights: Mapping[str, np.ndarray] | None = None):
        """``weights`` by name. Raises ModelError naming a layer that is not known here, or a fixed batch."""
        for layer in network.layers:
            if layer.op not in RUN:
                raise ModelError(f"{network.name}: layer {layer.name!r}: {layer.op} is not among what is trained here")
        if len(network.inputs) != 1 or network.shapes[network.inputs[0]][:1] != (1,):
            raise ModelError(f"{network.name}: expected one input of batch 1, got {', '.join(network.inputs)}")
        self.network = network
        random = torch.Generator().manual_seed(SEED)
        self.tensors: dict[str, torch.Tensor] = {}
        for name in (*network.parameters, *network.statistics):
            given = SPREAD * torch.randn(network.shapes[name], generator=random)
            if weights is not None:
                given = torch.tensor(weights[name])
            learnt = name in network.learnt
            self.tensors[name] = given.requires_grad_() if learnt else given.abs() + 0.5 * (weights is None)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        last = {name: index for index, layer in enumerate(self.network.layers) for name in layer.inputs}
        found = {self.network.inputs[0]: x}
        for index, layer in enumerate(self.network.layers):
            read = [found[name] if name in found else self.tensors.get(name) for name in layer.inputs]
            found[layer.outputs[0]] = RUN[layer.op](self.network, layer, read)
            for name in layer.inputs:  # only autograd keeps what it needs
                if last[name] == index and name not in self.network.outputs:
                    found.pop(name, None)
        return found[self.network.outputs[0]]

    def step(self, x: torch.Tensor) -> None:
        """A forward pass, and gradients of all weights of the mean square of the output."""
        for tensor in self.tensors.values():
            tensor.grad = None
        self(x).square().mean().backward()


def training_step(network: Network, batch: int) -> Callable[[int], None]:
    """A step on ``batch`` samples of noise, by so many threads.

    Raises ArgumentError for a batch below 1, ModelError for what ``TorchNetwork`` does not know.
    """
    if batch < 1:
        raise ArgumentError(f"batch: expected at least 1, got {batch}")
    net = TorchNetwork(network)
    x = torch.randn(batch, *network.shapes[network.inputs[0]][1:], generator=torch.Generator().manual_seed(SEED))

    def step(threads: int) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            net.step(x)
        finally:
            torch.set_num_threads(before)

    return step


# ---- operators: (network, layer, what it reads, None where a place is empty) -> its output

Tensors = Sequence[Any]


def _window(network: Network, layer: Layer, kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Padding (top, left) and (bottom, right) that give the output its size, whatever the file says of the latter."""
    strides, dilations = (layer.attrs.get(key, (1, 1)) for key in ("strides", "dilations"))
    before, after = network.shapes[layer.inputs[0]][2:], network.shapes[layer.outputs[0]][2:]
    sides = zip(before, after, strides, kernel, dilations, strict=True)
    needed = [(m - 1) * s + (k - 1) * d + 1 - n for n, m, s, k, d in sides]
    begin = list(layer.attrs.get("pads") or (max(0, need) // 2 for need in needed))[:2]
    return begin, [max(0, need - first) for need, first in zip(needed, begin, strict=True)]


def _padded(x: Any, begin: Sequence[int], end: Sequence[int], value: float) -> Any:
    sides = (begin[1], end[1], begin[0], end[0])
    return functional.pad(x, sides, value=value) if any(sides) else x


def _conv(network: Network, layer: Layer, read: Tensors) -> Any:
    x, weight, *rest = read
    bias = rest[0] if rest else None
    strides, dilations, groups = (
        layer.attrs.get(key, default) for key, default in (("strides", 1), ("dilations", 1), ("group", 1))
    )
    begin, end = _window(network, layer, weight.shape[2:])
    if any(last > first for first, last in zip(begin, end, strict=True)):
        x, begin = _padded(x, begin, end, 0.0), [0, 0]
    return functional.conv2d(x, weight, bias, strides, begin, dilations, groups)


def _max_pool(network: Network, layer: Layer, read: Tensors) -> Any:
    kernel = layer.attrs["kernel_shape"]
    begin, end = _window(network, layer, kernel)
    x = _padded(read[0], begin, end, float("-inf"))
    return functional.max_pool2d(x, kernel, layer.attrs.get("strides", 1), dilation=layer.attrs.get("dilations", 1))


def _average_pool(network: Network, layer: Layer, read: Tensors) -> Any:
    kernel = layer.attrs["kernel_shape"]
    x = _padded(read[0], *_window(network, layer, kernel), 0.0)
    return functional.avg_pool2d(x, kernel, layer.attrs.get("strides", 1))


def _gemm(network: Network, layer: Layer, read: Tensors) -> Any:
    x, weight, *rest = read
    weight = weight if layer.attrs.get("transB") else weight.t()
    return functional.linear(x.flatten(1), weight, rest[0] if rest else None)


def _batch_norm(network: Network, layer: Layer, read: Tensors) -> Any:
    x, scale, shift, mean, variance = read
    return functional.batch_norm(x, mean, variance, scale, shift, training=True)


def _concat(network: Network, layer: Layer, read: Tensors) -> Any:
    first, out = network.shapes[layer.inputs[0]], network.shapes[layer.outputs[0]]
    axis = next((i for i, (a, b) in enumerate(zip(first, out, strict=True)) if a != b), 1)
    return torch.cat(list(read), axis)


def _reshape(network: Network, layer: Layer, read: Tensors) -> Any:
    return read[0].reshape(len(read[0]), *network.shapes[layer.outputs[0]][1:])


def _of(call: Callable[..., Any]) -> Callable[[Network, Layer, Tensors], Any]:
    """An operator that needs what it reads alone."""
    return lambda network, layer, read: call(*(tensor for tensor in read if tensor is not None))


RUN: Mapping[str, Callable[[Network, Layer, Tensors], Any]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "BatchNormalization": _batch_norm,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _of(lambda x: x.mean((2, 3), keepdim=True)),
    "Concat": _concat,
    **dict.fromkeys(ALIASES, _reshape),
    "LRN": lambda network, layer, read: functional.local_response_norm(read[0], layer.attrs["size"]),
    "Clip": _of(lambda x: torch.clamp(x, 0.0, 6.0)),
    "Softmax": _of(lambda x: x.softmax(-1)),
    "Dropout": _of(functional.dropout),
    "Add": _of(torch.add),
    "Mul": _of(torch.mul),
    "Relu": _of(torch.relu),
    "Sigmoid": _of(torch.sigmoid),
    "Tanh": _of(torch.tanh),
    "Swish": _of(functional.silu),
    "HardSwish": _of(functional.hardswish),
    "HardSigmoid": _of(functional.hardsigmoid),
    "Gelu": _of(functional.gelu),
}
