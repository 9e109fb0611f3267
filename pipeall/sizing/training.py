"""Memory of training: the lecture's formula, and the exact one by the liveness of what autograd saves.

Exact bytes at batch b, in PyTorch's eager mode:

    weights x (1 + 1 gradient + k optimizer states) + statistics + peak(b)

At each step of the backward pass some activations are still saved for the steps to come, and some gradients of
activations are alive; peak(b) is the most that both take together. The lecture's formula (paper 004) counts each
activation twice, and neither weight gradients nor optimizer states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..errors import ArgumentError
from ..graph.pointwise import UNARY
from .size_network import ALIASES, Layer, Network, Saved

INDEX_BYTES = 8  # of an index: where a maximum is
OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}  # states of each weight


def lecture_bytes(model: float, data: float, activations_and_gradients: float, batch: int) -> float:
    """The lecture's operational space: model + batch x (data + activations + gradients), all in one unit."""
    return model + batch * (data + activations_and_gradients)


@dataclass(frozen=True, slots=True)
class LectureSpace:
    """What the lecture's formula needs: ``model`` bytes, and ``data`` and ``activations`` bytes of each sample."""

    model: int
    data: int
    activations: int

    def bytes_at(self, batch: int) -> int:
        """Bytes at a batch size by the lecture's formula: each activation has a gradient of its size."""
        return int(lecture_bytes(self.model, self.data, 2 * self.activations, batch))


def space(network: Network) -> LectureSpace:
    """The lecture's quantities. Activations are the outputs of all layers that write memory of their own."""
    written = (layer for layer in network.layers if layer.op not in ALIASES)
    return LectureSpace(
        network.nbytes((*network.parameters, *network.statistics)),
        network.nbytes(network.inputs),
        sum(network.nbytes(layer.outputs) for layer in written),
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that training takes at one batch size, at the peak of a step, in PyTorch's eager mode.

    Attributes
    ----------
    weights, weight_gradients : int
        Of the learnt numbers, and as many of their gradients.
    optimizer : int
        Of its states: none for sgd, one for each weight with momentum, two with adam.
    statistics : int
        Running means and variances.
    saved : int
        Activations that are still kept for the backward pass.
    transient : int
        Gradients of activations that are alive.
    """

    weights: int
    weight_gradients: int
    optimizer: int
    statistics: int
    saved: int
    transient: int

    @property
    def total(self) -> int:
        """The sum of all."""
        return sum(getattr(self, name) for name in self.__slots__)


def _input(network: Network, layer: Layer) -> Saved:
    return Saved((layer.inputs[0],))


def _inputs(network: Network, layer: Layer) -> Saved:
    """The factors of a product, each for the gradient of the other; none where the other factor is a setting."""
    factors = [name for name in layer.inputs if name]
    return Saved(network.activations(layer) if len(factors) > 1 else ())


def _output(network: Network, layer: Layer) -> Saved:
    return Saved(layer.outputs)


def _maxima(network: Network, layer: Layer) -> Saved:
    return Saved((layer.inputs[0],), INDEX_BYTES * network.elements(layer.outputs[0]))


def _copy(network: Network, layer: Layer) -> Saved:
    """A copy of the input: ReLU6 in place overwrites it."""
    return Saved(extra=network.float_bytes * network.elements(layer.inputs[0]))


def _batch_norm(network: Network, layer: Layer) -> Saved:
    """The input, and the mean and the inverse deviation of the batch."""
    return Saved((layer.inputs[0],), fixed=2 * network.float_bytes * network.elements(layer.inputs[1]))


def _layer_norm(network: Network, layer: Layer) -> Saved:
    """The input, and the mean and the inverse deviation of each row."""
    channels = network.elements(layer.inputs[1:2]) or network.shapes[layer.inputs[0]][-1]
    rows = network.elements(layer.inputs[0]) // channels
    return Saved((layer.inputs[0],), 2 * network.float_bytes * rows)


def _noise(network: Network, layer: Layer) -> Saved:
    """The mask that PyTorch multiplies with on a CPU: a float32 for each element."""
    return Saved(extra=network.float_bytes * network.elements(layer.inputs[0]))


SAVED: dict[str, Callable[[Network, Layer], Saved]] = {
    **{entry.onnx: _input if entry.saved == "input" else _output for entry in UNARY.values() if entry.onnx},
    **dict.fromkeys("Conv ConvTranspose Gemm AveragePool LRN Gelu Pow Log Abs".split(), _input),
    **dict.fromkeys("Relu Selu Exp Sqrt Softmax LogSoftmax Reciprocal".split(), _output),
    **dict.fromkeys("Mul MatMul Einsum Div".split(), _inputs),
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
    """What autograd saves for each layer; a tensor goes by the name of the memory it lies in.

    Activation functions save their result: networks that are trained apply them in place. A value times its own sigmoid
    is torch's SiLU, which saves the value alone.
    """
    root: dict[str, str] = {}  # name of an alias -> name of the memory
    gates = _swish_gates(network)
    by_layer = []
    for layer in network.layers:
        rule = SAVED.get(layer.op)
        saved = layer.saved or (rule(network, layer) if rule else Saved())
        if not gates.isdisjoint((*layer.inputs, *layer.outputs)):
            saved = Saved(tuple(name for name in saved.tensors if name not in gates))
        tensors = dict.fromkeys(root.get(name, name) for name in saved.tensors if name)
        by_layer.append(replace(saved, tensors=tuple(tensors)))
        if layer.op in ALIASES:
            root[layer.outputs[0]] = root.get(layer.inputs[0], layer.inputs[0])
    return by_layer


def _swish_gates(network: Network) -> set[str]:
    """Sigmoids that nothing but the product with what they are of reads."""
    of = {layer.outputs[0]: layer.inputs[0] for layer in network.layers if layer.op == "Sigmoid"}
    read = Counter(name for layer in network.layers for name in layer.inputs)
    products = [set(layer.inputs) for layer in network.layers if layer.op == "Mul"]
    return {gate for gate, value in of.items() if read[gate] == 1 and {gate, value} in products}


def saved_bytes(network: Network) -> tuple[int, int]:
    """Bytes saved for the backward pass: of each sample, and whatever the batch is; every memory counts once."""
    by_layer = saved_by(network)
    tensors = dict.fromkeys(name for saved in by_layer for name in saved.tensors)
    each = network.float_bytes * network.elements(tensors) + sum(saved.extra for saved in by_layer)
    return each, sum(saved.fixed for saved in by_layer)


def memory_function(network: Network, optimizer: str = "momentum") -> Callable[[int], Memory]:
    """Batch size -> exact memory of training. ``optimizer``: sgd, momentum or adam. ArgumentError for another."""
    if optimizer not in OPTIMIZERS:
        raise ArgumentError(f"optimizer: expected one of {', '.join(OPTIMIZERS)}, got {optimizer!r}")
    weights = network.float_bytes * network.elements(network.parameters)
    statistics = network.float_bytes * network.elements(network.statistics)
    moments = list(_backward(network))

    def memory(batch: int) -> Memory:
        """The memory at the step of the backward pass that needs most."""
        saved, fixed, gradients = max(moments, key=lambda m: batch * (m[0] + m[2]) + m[1], default=(0, 0, 0))
        states = OPTIMIZERS[optimizer] * weights
        return Memory(weights, weights, states, statistics, batch * saved + fixed, batch * gradients)

    return memory


def _backward(network: Network) -> Iterator[tuple[int, int, int]]:
    """For each backward step, last layer first: bytes still saved (of a sample, fixed), bytes of gradients alive.

    A gradient lives from the backward step of the last reader of its tensor to the step of its producer.
    """
    by_layer = saved_by(network)
    first_user = dict.fromkeys(network.inputs, -1)  # the batch stays until the end
    for index, saved in enumerate(by_layer):
        for name in saved.tensors:
            first_user.setdefault(name, index)
    freed: dict[int, int] = {}
    for name, index in first_user.items():
        freed[index] = freed.get(index, 0) + network.float_bytes * network.elements(name)
    each, fixed = saved_bytes(network)
    held = {name for saved in by_layer for name in saved.tensors}
    each += network.float_bytes * network.elements(name for name in network.inputs if name not in held)
    alive = {name: network.float_bytes * network.elements(name) for name in network.outputs}
    gradients = sum(alive.values())
    for index in range(len(network.layers) - 1, -1, -1):
        layer = network.layers[index]
        for name in network.activations(layer):
            if name not in alive and name not in network.inputs:
                alive[name] = 0 if layer.op in ALIASES else network.float_bytes * network.elements(name)
                gradients += alive[name]
        yield each, fixed, gradients
        each -= by_layer[index].extra + freed.get(index, 0)
        fixed -= by_layer[index].fixed
        gradients -= sum(alive.pop(name, 0) for name in layer.outputs)
