"""Memory of training: the lecture's formula, and the exact one by the liveness of what autograd keeps.

Exact bytes at batch b, with float32 weights, in PyTorch's eager mode:

    weights x (1 + 1 gradient + k optimizer states) + statistics + peak(b)

where peak(b) is the most, over the steps of the backward pass, of what is saved for the steps to come and the gradients
of activations that live then. The lecture's formula (paper 004) counts two of each activation at once and neither
weight gradients nor optimizer states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..errors import ArgumentError
from ..graph.pointwise import UNARY
from .network import ALIASES, FLOAT_BYTES, Layer, Network

INDEX_BYTES = 8  # of where a maximum was
OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}  # states of each weight


def lecture_bytes(model: float, data: float, activations_and_gradients: float, batch: int) -> float:
    """The lecture's operational space: model + batch x (data + activations + gradients), all in one unit."""
    return model + batch * (data + activations_and_gradients)


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes that do not grow with the batch, and bytes of each sample: what the lecture's formula needs."""

    model: int
    data: int
    activations: int

    def bytes_at(self, batch: int) -> int:
        """By the lecture: each activation has a gradient of its size."""
        return int(lecture_bytes(self.model, self.data, 2 * self.activations, batch))


def space(network: Network) -> Space:
    """Activations are the outputs of all layers that write memory of their own."""
    written = (layer for layer in network.layers if layer.op not in ALIASES)
    return Space(
        FLOAT_BYTES * network.elements((*network.parameters, *network.statistics)),
        FLOAT_BYTES * network.elements(network.inputs),
        FLOAT_BYTES * sum(network.elements(layer.outputs) for layer in written),
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that training takes at one batch size, peak of a step."""

    weights: int
    weight_gradients: int
    optimizer: int
    statistics: int
    saved: int
    transient: int

    @property
    def total(self) -> int:
        return sum(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Saved:
    """What autograd keeps for one layer. ``tensors`` share their memory with whoever else keeps them; ``extra`` bytes
    of each sample and ``fixed`` bytes, whatever the batch, are the layer's own."""

    tensors: tuple[str, ...] = ()
    extra: int = 0
    fixed: int = 0


def _input(network: Network, layer: Layer) -> Saved:
    return Saved((layer.inputs[0],))


def _inputs(network: Network, layer: Layer) -> Saved:
    """A product needs each factor for the gradient of the other, but for one that is a setting."""
    named = [name for name in layer.inputs if name]
    return Saved(tuple(n for n in named if n not in network.weights) if len(named) > 1 else ())


def _output(network: Network, layer: Layer) -> Saved:
    return Saved(layer.outputs)


def _maxima(network: Network, layer: Layer) -> Saved:
    return Saved((layer.inputs[0],), INDEX_BYTES * network.elements(layer.outputs[0]))


def _copy(network: Network, layer: Layer) -> Saved:
    """ReLU6 in place: its input is overwritten and therefore copied."""
    return Saved(extra=FLOAT_BYTES * network.elements(layer.inputs[0]))


def _batch_norm(network: Network, layer: Layer) -> Saved:
    """The mean and the inverse deviation of the batch beside the input."""
    return Saved((layer.inputs[0],), fixed=2 * FLOAT_BYTES * network.elements(layer.inputs[1]))


def _layer_norm(network: Network, layer: Layer) -> Saved:
    """The mean and the inverse deviation of each row beside the input."""
    channels = network.elements(layer.inputs[1]) if len(layer.inputs) > 1 else network.shapes[layer.inputs[0]][1]
    rows = network.elements(layer.inputs[0]) // channels
    return Saved((layer.inputs[0],), 2 * FLOAT_BYTES * rows)


def _noise(network: Network, layer: Layer) -> Saved:
    """What PyTorch multiplies with on a CPU: one float for each element."""
    return Saved(extra=FLOAT_BYTES * network.elements(layer.inputs[0]))


SAVED: dict[str, Callable[[Network, Layer], Saved]] = {
    **{entry.onnx: _input if entry.saved == "input" else _output for entry in UNARY.values() if entry.onnx},
    **dict.fromkeys("Conv ConvTranspose Gemm AveragePool LRN Gelu Pow Log Abs".split(), _input),
    **dict.fromkeys("Relu Selu Exp Sqrt Softmax LogSoftmax Reciprocal".split(), _output),
    **dict.fromkeys("Mul MatMul Div".split(), _inputs),
    "Clip": _copy,
    "PRelu": _input,
    "MaxPool": _maxima,
    "GlobalMaxPool": _maxima,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _layer_norm,
    "Dropout": _noise,
}


def saved_by(network: Network) -> list[Saved]:
    """Of each layer; tensors are named by the memory they lie in. Activations are applied in place, as networks do that
    are trained: they keep their result."""
    root: dict[str, str] = {}
    found = []
    for layer in network.layers:
        rule = SAVED.get(layer.op)
        kept = rule(network, layer) if rule else Saved()
        found.append(Saved(tuple(dict.fromkeys(root.get(n, n) for n in kept.tensors)), kept.extra, kept.fixed))
        if layer.op in ALIASES:
            root[layer.outputs[0]] = root.get(layer.inputs[0], layer.inputs[0])
    return found


def saved_bytes(network: Network) -> tuple[int, int]:
    """Bytes kept for the backward pass: of each sample, and whatever the batch is; every memory counts once."""
    kept = saved_by(network)
    tensors = dict.fromkeys(name for saved in kept for name in saved.tensors)
    each = FLOAT_BYTES * network.elements(tensors) + sum(saved.extra for saved in kept)
    return each, sum(saved.fixed for saved in kept)


def memory_function(network: Network, optimizer: str = "momentum") -> Callable[[int], Memory]:
    """Batch size -> exact memory of training. ``optimizer``: sgd, momentum or adam. ArgumentError for another."""
    if optimizer not in OPTIMIZERS:
        raise ArgumentError(f"optimizer: expected one of {', '.join(OPTIMIZERS)}, got {optimizer!r}")
    weights = FLOAT_BYTES * network.elements(network.parameters)
    statistics = FLOAT_BYTES * network.elements(network.statistics)
    moments = list(_backward(network))

    def memory(batch: int) -> Memory:
        """The step of the backward pass that needs most."""
        saved, fixed, gradients = max(moments, key=lambda m: batch * (m[0] + m[2]) + m[1], default=(0, 0, 0))
        states = OPTIMIZERS[optimizer] * weights
        return Memory(weights, weights, states, statistics, batch * saved + fixed, batch * gradients)

    return memory


def _backward(network: Network) -> Iterator[tuple[int, int, int]]:
    """Of each step, last layer first: bytes saved until then (of a sample, fixed), bytes of gradients alive.

    A gradient lives from the backward step of the last reader of its tensor to that of its maker.
    """
    kept = saved_by(network)
    first_user = dict.fromkeys(network.inputs, -1)  # whoever trains holds on to the batch
    for index, saved in enumerate(kept):
        for name in saved.tensors:
            first_user.setdefault(name, index)
    freed: dict[int, int] = {}
    for name, index in first_user.items():
        freed[index] = freed.get(index, 0) + FLOAT_BYTES * network.elements(name)
    each, fixed = saved_bytes(network)
    held = {name for saved in kept for name in saved.tensors}
    each += FLOAT_BYTES * network.elements(name for name in network.inputs if name not in held)
    alive = {name: FLOAT_BYTES * network.elements(name) for name in network.outputs}
    gradients = sum(alive.values())
    for index in range(len(network.layers) - 1, -1, -1):
        layer = network.layers[index]
        for name in network.activations(layer):
            if name not in alive and name not in network.inputs:
                alive[name] = 0 if layer.op in ALIASES else FLOAT_BYTES * network.elements(name)
                gradients += alive[name]
        yield each, fixed, gradients
        each -= kept[index].extra + freed.get(index, 0)
        fixed -= kept[index].fixed
        gradients -= sum(alive.pop(name, 0) for name in layer.outputs)
