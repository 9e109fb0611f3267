"""A composition of operators: a small graph with values for its inputs; and the one that a seed makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, load, numpy_helper, save
from unoptimized import Alone

LARGEST, HALF_LARGEST = 1e5, 2e3  # what a node may give, so that nothing overflows
MOST_ELEMENTS = 20_000
SIZES = (1, 1, 2, 2, 3, 4, 5, 6, 7, 9)
KINDS = {"f": "float32", "i": "int64", "u": "uint8", "b": "bool"}
OPEN_ENDED = ("NonZero", "NonMaxSuppression")  # their lengths depend on values
TYPES = ("float32",) * 10 + ("float16", "float64", "int8", "uint8", "int16", "int32", "int64", "int64", "bool")


@dataclass(frozen=True)
class Case:
    opset: int
    nodes: list[NodeProto]
    constants: dict[str, np.ndarray]
    feeds: dict[str, np.ndarray]
    outputs: dict[str, np.dtype]

    def model(self) -> ModelProto:
        def declared(name: str) -> Any:
            value = self.feeds[name]
            return helper.make_tensor_value_info(name, _type(value.dtype), value.shape)

        graph = helper.make_graph(
            self.nodes,
            "composition",
            [declared(name) for name in self.feeds],
            [helper.make_tensor_value_info(name, _type(self.outputs[name]), None) for name in self.outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8
        return model

    def activations(self) -> list[str]:
        return [name for node in self.nodes for name in node.output if name]

    def between(self, given: Sequence[str] = (), outputs: Sequence[str] = ()) -> Case:
        """The part that computes ``outputs`` (default: all that are) from ``given``, which take the values they have
        now, and the inputs."""
        values = values_of(self)
        wanted = [name for name in (outputs or self.outputs) if name not in given]
        needed, nodes = set(wanted), []
        for node in reversed(self.nodes):
            if needed & (set(node.output) - set(given)):
                nodes.insert(0, node)
                needed |= set(node.input)
        feeds = {name: value for name, value in self.feeds.items() if name in needed}
        feeds |= {name: values[name] for name in given if name in needed}
        made = {name for node in nodes for name in node.output} - set(given)
        constants = {name: value for name, value in self.constants.items() if name in needed}
        renamed = [_without(node, given) for node in nodes]
        types = {name: values[name].dtype for name in wanted if name in made}
        return Case(self.opset, renamed, constants, feeds, types)

    def write(self, path: Path) -> None:
        save(self.model(), path)
        np.savez(path.with_suffix(".npz"), **self.feeds)

    @staticmethod
    def read(path: Path) -> Case:
        model = load(path)
        with np.load(path.with_suffix(".npz")) as file:
            feeds = {value.name: file[value.name] for value in model.graph.input}
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        outputs = {
            value.name: helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            for value in model.graph.output
        }
        return Case(model.opset_import[0].version, list(model.graph.node), constants, feeds, outputs)


def _without(node: NodeProto, given: Sequence[str]) -> NodeProto:
    """The node, which may not write what is given."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = ["" if name in given else name for name in node.output]
    return copy


def values_of(case: Case, made: list[Alone] | None = None) -> dict[str, np.ndarray]:
    """Every tensor of the case; its nodes as sessions go into ``made``."""
    values = {**case.constants, **case.feeds}
    for node in case.nodes:
        alone = Alone(node, values, case.opset)
        values |= alone(values)
        if made is not None:
            made.append(alone)
    return values


def _type(dtype: np.dtype) -> int:
    return helper.np_dtype_to_tensor_dtype(dtype)


class Unfit(Exception):
    """There are no operands for this operator now, or onnxruntime refuses it."""


@dataclass
class Composer:
    """A graph that grows node by node, each computed at once."""

    random: np.random.Generator
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    open_ended: set[str] = field(default_factory=set)
    count: int = 0

    # ---- chance ----

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return choices[self.random.integers(len(choices))]

    def whole(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both among them."""
        return int(self.random.integers(low, high + 1))

    def some_of(self, choices: Sequence[Any]) -> list[Any]:
        return [choice for choice in choices if self.chance(0.5)]

    def shape(self, low: int = 0, high: int = 6) -> tuple[int, ...]:
        rank = self.one_of([rank for rank in (0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6) if low <= rank <= high])
        sizes = [self.one_of(SIZES if rank < 5 else SIZES[:6]) for _ in range(rank)]
        if rank and self.chance(0.01):
            sizes[self.whole(0, rank - 1)] = 0
        return tuple(sizes)

    def array(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        dtype, shape = np.dtype(dtype), tuple(shape)
        if dtype.kind == "b":
            return self.random.random(shape) < 0.5
        if dtype.kind in "iu":
            top = self.one_of((3, 10, 100))
            return self.random.integers(0 if dtype.kind == "u" else -top, top + 1, shape).astype(dtype)
        kind = self.whole(0, 3)
        if kind == 0:
            return np.asarray(self.random.integers(-8, 9, shape)).astype(dtype)
        if kind == 1:
            return np.asarray(self.random.integers(-8, 9, shape) / 2).astype(dtype)
        return np.asarray(self.random.normal(0, self.one_of((0.5, 1, 3)), shape)).astype(np.float32).astype(dtype)

    # ---- tensors ----

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def constant(self, array: Any, dtype: Any = None) -> str:
        name = self.name()
        self.constants[name] = self.values[name] = np.asarray(array, dtype)
        return name

    def feed(self, array: np.ndarray) -> str:
        name = self.name()
        self.feeds[name] = self.values[name] = array
        return name

    def operand(self, shape: Sequence[int], dtype: Any) -> str:
        """A new tensor: mostly a constant, now and then another input."""
        array = self.array(shape, dtype)
        return self.feed(array) if self.chance(0.15) else self.constant(array)

    def pick(self, types: str = "f", low: int = 0, high: int = 6, open_ended: bool = False) -> str:
        """An activation of these NumPy kinds (or one type by its characters) and ranks, rather a late one."""
        names = [
            name
            for name, value in self.values.items()
            if name not in self.constants
            and (value.dtype.kind in types if len(types) < 5 else value.dtype.name in types.split())
            and low <= value.ndim <= high
            and (open_ended or name not in self.open_ended)
        ]
        if not names and len(self.feeds) < 3:
            kinds = types.split() if len(types) > 4 else [np.dtype(KINDS[kind]) for kind in types]
            return self.feed(self.array(self.shape(low, high), self.one_of(kinds)))
        if not names:
            raise Unfit
        return names[max(self.whole(0, len(names) - 1) for _ in range(2))]

    def of(self, name: str) -> np.ndarray:
        return self.values[name]

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> str:
        """The first output."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(op, inputs, names, **{k: v for k, v in attributes.items() if v is not None})
        try:
            results = Alone(node, self.values, self.opset)(self.values)
        except Exception as error:
            raise Unfit(str(error)) from None
        for result in results.values():
            largest = HALF_LARGEST if result.dtype == np.float16 else LARGEST
            with np.errstate(all="ignore"):
                fits = np.abs(result.astype(np.float64)).max(initial=0) < largest
            vanished = result.size == 0 and self.of(inputs[0]).size and op not in OPEN_ENDED
            if not fits or vanished or result.size > MOST_ELEMENTS or result.ndim > 7:
                raise Unfit
        self.values |= results
        self.nodes.append(node)
        if op in OPEN_ENDED or any(name in self.open_ended for name in inputs):
            self.open_ended |= set(names)
        return names[0]

    def set_of(self, op: str, since: int, inputs: list[str], outputs: int = 1, /, *, axes: Any, **more: Any) -> str:
        """A node whose axes are an attribute until opset ``since`` makes them an input."""
        if self.opset < since:
            return self.node(op, inputs, outputs, axes=axes, **more)
        return self.node(op, inputs if axes is None else [*inputs, self.constant(axes, np.int64)], outputs, **more)

    def case(self) -> Case:
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output if name]
        outputs = [name for name in made if name not in read]
        if self.chance(0.2):
            outputs += [name for name in made if name in read and self.chance(0.2)]
        types = {name: self.of(name).dtype for name in outputs}
        return Case(self.opset, self.nodes, self.constants, self.feeds, types).between()


def case(seed: int) -> Case:
    from composed_rows import OPERATORS

    random = np.random.default_rng(seed)
    composer = Composer(random, int(random.integers(9, 23)))
    for _ in range(composer.whole(1, 2)):
        if composer.chance(0.5):
            sizes = (composer.whole(1, 8), *(composer.one_of((1, 5, 6, 7, 8, 11, 13)) for _ in range(2)))
            composer.feed(composer.array((1, *sizes)))
        else:
            composer.feed(composer.array(composer.shape(), composer.one_of(TYPES)))
    weights = np.array([weight for weight, _ in OPERATORS], float)
    length = composer.whole(3, 12)
    for _ in range(20 * length):
        if len(composer.nodes) >= length:
            break
        operator = OPERATORS[random.choice(len(OPERATORS), p=weights / weights.sum())][1]
        try:
            operator(composer)
        except (Unfit, ValueError):  # an empty range to choose from is no operand either
            continue
    return composer.case()
