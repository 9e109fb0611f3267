"""Where channels are made, and which convolutions read them.

A channel can be multiplied by a factor where it is made if convolutions alone read it, whose weights are divided by the
factor. Between them are ops that a factor passes through, and concatenations, splits and shuffles, which put channels
elsewhere: numbers of channels are moved in place of values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from ..graph.ir import Graph, Node
from ..graph.ops import OPS
from .quantizable import is_movement

NONE = np.zeros((), int)  # no number of a channel
PASSING = ("maxpool", "avgpool", "leakyrelu", "resize")  # f(s x) = s f(x) for s above 0, channel by channel


class Channels:
    """The channels that some nodes of a network make, numbered from 1.

    graph  the network
    made   numbers of the channels of each tensor that has free ones
    read   numbers of the channels that each convolution reads, by its output; 0 for channels that are not numbered
    free   by number, whether convolutions alone read a channel, and no other node their weights
    """

    def __init__(self, graph: Graph, making: Callable[[Node], bool]):
        self.graph, self.made, self.read = graph, {}, {}
        self._uses = Counter(name for node in graph.nodes for name in node.inputs)
        first = 1
        for node in graph.nodes:
            image = len(graph.tensors[node.output].shape) == 4
            if image and making(node) and self._owns_its_constants(node):
                last = first + graph.tensors[node.output].shape[1]
                self.made[node.output], first = np.arange(first, last), last
        self.free = np.arange(first) > 0
        self._follow()

    def numbered(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Values of free channels by number, given by tensor; 1 for other channels."""
        made = np.ones(len(self.free))
        for name, each in values.items():
            made[self.made[name]] = each
        return np.where(self.free, made, 1)

    def _owns_its_constants(self, node: Node) -> bool:
        return all(self._uses[name] == 1 for name in node.inputs if name in self.graph.constants)

    def _follow(self) -> None:
        numbers: dict[str, np.ndarray] = {}  # in place of the values of tensors that have some
        for node in self.graph.nodes:
            if any(name in numbers for name in node.inputs):
                self._pass(node, numbers)
            if node.output in self.made:
                numbers[node.output] = self._image(node.output, self.made[node.output])
        self._hold(*(numbers.get(tensor.name, NONE) for tensor in self.graph.outputs))
        self.made = {name: made for name, made in self.made.items() if self.free[made].any()}

    def _pass(self, node: Node, numbers: dict[str, np.ndarray]) -> None:
        """From what a node reads to what it makes. Where no factor passes, to what is read or not free."""
        arrays = [numbers.get(name, NONE) for name in node.inputs]
        channels = _by_channel(arrays[0])
        if node.op in PASSING and channels is not None:
            numbers[node.output] = self._image(node.output, channels)
        elif node.op not in PASSING and is_movement(self.graph, node):
            shapes = [self.graph.tensors[name].shape for name in node.inputs]
            moved = OPS[node.op].compute(node.attrs, *map(np.broadcast_to, arrays, shapes))
            channels = _by_channel(moved)
            numbers[node.output] = moved if channels is None else self._image(node.output, channels)
        elif channels is not None and is_layer(self.graph, node) and self._owns_its_constants(node):
            self.read[node.output] = channels
            self._hold(*arrays[1:])
        else:
            self._hold(*arrays)

    def _image(self, name: str, channels: np.ndarray) -> np.ndarray:
        return np.broadcast_to(channels.reshape(1, -1, 1, 1), self.graph.tensors[name].shape)

    def _hold(self, *arrays: np.ndarray) -> None:
        """Channels that are not free."""
        for numbers in arrays:
            self.free[np.unique(_once(numbers))] = False


def is_layer(graph: Graph, node: Node) -> bool:
    """Whether a node is a convolution with constant weights."""
    return node.op == "conv" and all(name in graph.constants for name in node.inputs[1:3])


def _by_channel(numbers: np.ndarray) -> np.ndarray | None:
    """The number of each channel of an image; None where the numbers of a channel differ, and for other tensors."""
    if numbers.ndim != 4:
        return None
    alike = (_once(numbers) == numbers[:1, :, :1, :1]).all()
    return numbers[0, :, 0, 0] if alike else None


def _once(array: np.ndarray) -> np.ndarray:
    """An array without what a broadcast repeats."""
    return array[tuple(slice(None if stride else 1) for stride in array.strides)]
