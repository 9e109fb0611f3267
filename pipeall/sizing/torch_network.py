"""A network of layers computed by torch, forward and back: what its training takes here can then be timed.

Networks for pictures whose layers are in ``RUN``. Weights are random unless they are given; a layer's fractions that
``Network`` does not have (LRN, the bounds of a clamp) are those of AlexNet and MobileNet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, ModelError, missing_extra
from .size_network import ALIASES, Layer, Network

try:
    import torch
    from torch.nn import functional
except ImportError:
    raise missing_extra("torch", "nas", "a step of training") from None

OF_PICTURES = ("Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "LRN")
SEED, SPREAD = 0, 0.05  # of random weights


class TorchNetwork:
    """Called with its one input of any batch, gives its first output; ``step`` is a forward and a backward pass."""

    def __init__(self, network: Network, weights: Mapping[str, np.ndarray] | None = None):
        """``weights`` by name. Raises ModelError naming a layer that is not known here, or a fixed batch."""
        for layer in network.layers:
            if layer.op not in RUN:
                raise ModelError(f"{network.name}: layer {layer.name!r}: {layer.op} is not among what is trained here")
            shape = network.shapes[layer.outputs[0]]
            if layer.op in OF_PICTURES and len(shape) != 4:
                raise ModelError(f"{network.name}: layer {layer.name!r}: expected a picture of rank 4, got {shape}")
        if len(network.inputs) != 1 or network.shapes[network.inputs[0]][:1] != (1,):
            got = ", ".join(f"{name} {network.shapes[name]}" for name in network.inputs)
            raise ModelError(f"{network.name}: expected one input of batch 1, got {got}")
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
        values = {self.network.inputs[0]: x}
        for index, layer in enumerate(self.network.layers):
            read = [values[name] if name in values else self.tensors.get(name) for name in layer.inputs]
            values[layer.outputs[0]] = RUN[layer.op](self.network, layer, read)
            for name in layer.inputs:  # only autograd keeps what it needs
                if last[name] == index and name not in self.network.outputs:
                    values.pop(name, None)
        return values[self.network.outputs[0]]

    def step(self, x: torch.Tensor) -> None:
        """A forward pass, and gradients of all weights of the mean square of the output."""
        for tensor in self.tensors.values():
            tensor.grad = None
        self(x).square().mean().backward()


def training_step(network: Network, batch: int, library: bool = True) -> Callable[[int], None]:
    """A step on ``batch`` samples of noise, by so many threads; without ``library`` torch's own loops compute it, not
    oneDNN's.

    Raises ArgumentError for a batch below 1, ModelError for what ``TorchNetwork`` does not know.
    """
    if batch < 1:
        raise ArgumentError(f"batch: expected at least 1, got {batch}")
    net = TorchNetwork(network)
    x = torch.randn(batch, *network.shapes[network.inputs[0]][1:], generator=torch.Generator().manual_seed(SEED))

    def step(threads: int) -> None:
        before = torch.get_num_threads(), torch.backends.mkldnn.enabled
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = library
        try:
            net.step(x)
        finally:
            torch.set_num_threads(before[0])
            torch.backends.mkldnn.enabled = before[1]

    return step


# ---- operators: (network, layer, what it reads, None where a place is empty) -> its output

Tensors = Sequence[Any]


def _padded(network: Network, layer: Layer, x: Any, kernel: Sequence[int], value: float) -> tuple[Any, list[int]]:
    """The input, and by how much an operator is to pad both of its sides, for an output of its size.

    The file says where padding begins, sizes say where it ends. What differs from side to side is padded here.
    """
    strides, dilations = (layer.attrs.get(key, (1, 1)) for key in ("strides", "dilations"))
    before, after = network.shapes[layer.inputs[0]][2:], network.shapes[layer.outputs[0]][2:]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    needed = [(m - 1) * s + span - n for n, m, s, span in zip(before, after, strides, spans, strict=True)]
    begin = list(layer.attrs.get("pads") or (max(0, need) // 2 for need in needed))[:2]
    sides = zip(before, after, strides, spans, begin, strict=True)
    if all((n + 2 * first - span) // s + 1 == m for n, m, s, span, first in sides):
        return x, begin
    (top, left), (bottom, right) = begin, (max(0, need - first) for need, first in zip(needed, begin, strict=True))
    return functional.pad(x, (left, right, top, bottom), value=value), [0, 0]


def _conv(network: Network, layer: Layer, read: Tensors) -> Any:
    x, weight, *rest = read
    x, padding = _padded(network, layer, x, weight.shape[2:], 0.0)
    strides, dilations, groups = (layer.attrs.get(key, 1) for key in ("strides", "dilations", "group"))
    return functional.conv2d(x, weight, rest[0] if rest else None, strides, padding, dilations, groups)


def _max_pool(network: Network, layer: Layer, read: Tensors) -> Any:
    kernel = layer.attrs["kernel_shape"]
    x, padding = _padded(network, layer, read[0], kernel, float("-inf"))
    strides, dilations = (layer.attrs.get(key, 1) for key in ("strides", "dilations"))
    return functional.max_pool2d(x, kernel, strides, padding, dilations)


def _average_pool(network: Network, layer: Layer, read: Tensors) -> Any:
    kernel = layer.attrs["kernel_shape"]
    x, padding = _padded(network, layer, read[0], kernel, 0.0)
    counted = bool(layer.attrs.get("count_include_pad"))
    return functional.avg_pool2d(x, kernel, layer.attrs.get("strides", 1), padding, count_include_pad=counted)


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
