"""The graph: immutable nodes and tensors with shapes, and the sub-graphs cut out of it.

A graph holds compute nodes only, in topological order; constants (weights, biases) are arrays beside
them. Its borders are ``Input`` and ``Output``, or ``Receiver`` and ``Transmitter`` where a sub-graph
meets its neighbour in the pipeline (paper 001, section 5); ``Graph.listing`` shows all of them as nodes.

Every tensor has a shape of any rank and an element type. An image is (N, C, H, W), ONNX's NCHW: the logical layout;
how a device stores it is decided in ``lower.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import refused, whole
from ..notebook import html_table
from ..steps import TYPES, item_bytes

if TYPE_CHECKING:
    from .partition import Cut, Group


@dataclass(frozen=True, slots=True)
class Quantization:
    """What the integers of a tensor stand for: (integer - zero_point) * scale.

    One scale and zero point for the whole tensor, or one for each index along ``axis``. Integers are int8: those of a
    file that are unsigned are less 128 here, zero points too.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @property
    def single(self) -> tuple[float, int]:
        """Scale and zero point of a whole tensor."""
        return self.scale[0], self.zero_point[0]


FIELDS = {  # of a Tensor: classes, and in words
    "name": (str, "text"),
    "shape": ((tuple, list), "a tuple of sizes"),
    "dtype": (str, "the name of a type"),
    "quantization": ((Quantization, type(None)), "a Quantization"),
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named activation: ``shape`` in the model's own layout, and its element type, a key of ``steps.TYPES``.

    Raises ArgumentError for another type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    quantization: Quantization | None = None

    def __post_init__(self) -> None:
        for name, (kinds, expected) in FIELDS.items():
            if not isinstance(getattr(self, name), kinds):
                raise refused(name, expected, getattr(self, name))
        if self.dtype not in TYPES:
            raise refused(f"tensor {self.name!r:.80}", f"one of the types {', '.join(TYPES)}", self.dtype)

    def __repr__(self) -> str:
        return f"<Tensor {self}>"

    def __str__(self) -> str:
        quantized = ", quantized" if self.quantization else ""
        return f"{self.name} {self.dtype} {'x'.join(map(str, self.shape)) or 'scalar'}{quantized}"

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * item_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: ``op`` is a key of ``ops.OPS``; inputs name tensors or constants; one output."""

    name: str
    op: str
    inputs: tuple[str, ...]
    output: str
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.output} = {self.op}({', '.join(self.inputs)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.op, self.inputs, self.output, dict(self.attrs))  # a view has no pickle

    @property
    def is_main(self) -> bool:
        """Whether it opens a group: a layer with weights ("Main" nodes of paper 001), a product or attention."""
        from .ops.registry import OPS

        multiplies = self.op in OPS and OPS[self.op].macs is not None
        return multiplies or (self.op == "picture" and self.attrs["picture"].apart)


@dataclass(frozen=True, slots=True)
class ListingRow:
    """One line of ``Graph.listing``: kind is Input, Receiver, Weight, Bias, Main, Op, Output or Transmitter."""

    kind: str
    name: str
    detail: str
    shape: tuple[int, ...]


Lengths = Mapping[str, tuple[tuple[int, str], ...]]  # as in Graph


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A network or a consecutive part of one.

    nodes      compute nodes in topological order
    tensors    name -> Tensor of every activation, inputs and outputs included
    constants  name -> array of every weight, bias and constant operand
    inputs     what enters: the model's inputs, or what the previous stage sends
    outputs    what leaves: the model's outputs, or what the next stage receives
    lengths    output -> (axis, name) of each axis whose size depends on data: the tensor, (1,) of int64, that holds it;
               the output is as long there as it can be, and is cut to it where it leaves the runtime
    leaves     of a sub-graph that transmits: outputs of the model that it is the last to compute or read
    receives   True where the inputs come from another sub-graph (Receiver instead of Input)
    transmits  True where the outputs go to another sub-graph (Transmitter instead of Output)
    qparams    constant's name -> what its integers stand for: a float32 constant has no other values
    declared   an input or output -> its element type at the border, by NumPy's name, where no tensor has that type
    metadata   what the model's file says of itself, such as the names of its classes
    max_crossing  most tensors that may cross a cut; None: as few as any cut has, and more inside of large groups
    branches   whether groups are cut into the branches of their modules
    """

    name: str
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, np.ndarray]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    receives: bool = False
    transmits: bool = False
    max_crossing: int | None = None
    leaves: tuple[Tensor, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    qparams: Mapping[str, Quantization] = field(default_factory=dict)
    lengths: Lengths = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)
    branches: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        object.__setattr__(self, "constants", MappingProxyType(dict(self.constants)))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))
        object.__setattr__(self, "qparams", MappingProxyType(dict(self.qparams)))
        known = {tensor.name: self.lengths[tensor.name] for tensor in self.outputs if tensor.name in self.lengths}
        object.__setattr__(self, "lengths", MappingProxyType(known))
        object.__setattr__(self, "declared", MappingProxyType(dict(self.declared)))

    def __reduce__(self) -> tuple[Any, ...]:
        given = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        views = {name: dict(value) for name, value in given.items() if isinstance(value, MappingProxyType)}
        return type(self), tuple((given | views).values())

    def __repr__(self) -> str:
        ends = " -> ".join(", ".join(map(str, tensors)) for tensors in (self.inputs, self.outputs))
        return f"<Graph {self.name}: {ends}; {len(self.nodes)} nodes, {self.parameters:,} parameters>"

    def _repr_html_(self) -> str:
        crossing = [*(cut.tensors for cut in self.cuts), self.outputs]
        rows = [
            (group.index, group.name, len(group.nodes), ", ".join(map(str, tensors)))
            for group, tensors in zip(self.groups, crossing, strict=True)
        ]
        return html_table(repr(self)[1:-1], ("group", "name", "nodes", "hands on"), rows)

    @property
    def leaving(self) -> tuple[Tensor, ...]:
        """``outputs``, and behind them the tensors that ``lengths`` names."""
        if not self.lengths:
            return self.outputs
        counts = {name: self.tensors[name] for axes in self.lengths.values() for _, name in axes}
        return tuple(({tensor.name: tensor for tensor in self.outputs} | counts).values())

    @property
    def quantized(self) -> bool:
        """Whether tensors of it are integers that stand for real numbers (``integers``)."""
        return any(tensor.quantization for tensor in self.tensors.values())

    @property
    def parameters(self) -> int:
        """Elements of all its constants."""
        return sum(array.size for array in self.constants.values())

    def finer(self, max_crossing: int) -> Graph:
        """The same network in smaller groups: cuts are also legal where up to ``max_crossing`` tensors cross.

        So inception modules and residual units can be cut inside. Raises ArgumentError below 1.
        """
        return replace(self, max_crossing=whole(1)("max_crossing", max_crossing))

    def in_branches(self) -> Graph:
        """The same network in smaller groups: each branch of a module is one, and so are what comes before and behind.

        Plans may then run branches side by side: ``B-(B|G)-B:3,4,6``. The nodes of a branch follow each other.
        """
        from .partition import ordered_by_branches

        return replace(self, nodes=ordered_by_branches(self), branches=True)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The partition units, in order (``partition.Group``)."""
        from .partition import groups_of

        return groups_of(self)

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """The legal borders between groups (``partition.Cut``); ``len(graph.cuts)`` is the paper's N."""
        from .partition import cuts_of

        return cuts_of(self)

    def listing(self) -> Iterator[ListingRow]:
        """Every node, borders and constants included, in the order of execution."""
        for tensor in self.inputs:
            yield ListingRow("Receiver" if self.receives else "Input", tensor.name, "", tensor.shape)
        for node in self.nodes:
            constants = [name for name in node.inputs if name in self.constants]
            for position, name in enumerate(constants):
                yield ListingRow("Bias" if position else "Weight", name, node.name, self.constants[name].shape)
            yield ListingRow("Main" if node.is_main else "Op", node.name, node.op, self.tensors[node.output].shape)
        for tensor in self.outputs:
            yield ListingRow("Transmitter" if self.transmits else "Output", tensor.name, "", tensor.shape)
        for tensor in self.leaves:
            yield ListingRow("Output", tensor.name, "", tensor.shape)


def cut_to_lengths(outputs: Iterable[str], lengths: Lengths, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name, of all arrays that leave: each as long as the count beside it says."""
    results = {}
    for name in outputs:
        array = arrays[name]
        for axis, count in lengths.get(name, ()):
            array = array[(slice(None),) * axis + (slice(int(arrays[count][0])),)]
        results[name] = array
    return results
