"""A canonical graph in the making, from ONNX nodes in plain Python (``read`` reads them from the file).

Sizes, indices and types are checked wherever a node is read, since a model file is untrusted; ``ops.infer_shape``
checks every canonical node that is made. Where a later opset turned an attribute into an input, whichever the node
carries is read: ``read`` has checked that it suits the opset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any, NoReturn

import numpy as np

from ....errors import ModelError
from ....steps import TYPES
from ...ir import Node, Quantization, Tensor
from ...ops import OPS, attributes, infer_shape, infer_type
from .element_types import WIDER

Shape = tuple[int, ...]
Value = np.ndarray | str  # a constant, or the canonical name of an activation

MAX_CONSTANT_ELEMENTS = 2**30  # of all constants of a model together: 4 GiB of float32
MAX_SETTING = 16  # elements of an input that may be the same for every frame
OPSET = 23  # of the operators that others are written in
MAX_UNROLLED = 20_000  # nodes of subgraphs, each counted as often as it runs


@dataclass(frozen=True)
class OnnxNode:
    """One ONNX node in plain Python. An absent optional input is an empty name."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    opset: int

    def fail(self, message: str) -> NoReturn:
        raise ModelError(f"node {self.name!r} ({self.op}): {message}")

    def get(self, name: str, kind: type, default: Any = None) -> Any:
        """An attribute, which must be of ``kind``; without a default it must be there."""
        value = self.attrs.get(name, default)
        if value is None:
            self.fail(f"attribute {name} is missing")
        if not isinstance(value, kind):
            self.fail(f"attribute {name} must be {kind.__name__}, got {value!r:.60}")
        return value

    def ints(self, name: str, count: int, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An attribute that is a list of ``count`` integers."""
        values = self.get(name, list, None if default is None else list(default))
        if len(values) != count or not all(isinstance(value, int) for value in values):
            self.fail(f"attribute {name} must be {count} integers, got {values!r:.60}")
        return tuple(values)

    @cached_property
    def made(self) -> tuple[int, ...]:
        """The places of the outputs that have a name."""
        return tuple(i for i, name in enumerate(self.outputs) if name)

    def axis_of(self, rank: int, default: int | None = None) -> int:
        """The attribute ``axis``, from 0 on."""
        return self.axis(self.get("axis", int, default), rank)

    def axis(self, value: int, rank: int) -> int:
        if not -rank <= value < rank:
            self.fail(f"axis {value} is outside of rank {rank}")
        return value % rank


class Builder:
    """A graph in the making.

    values     what is known of every ONNX name: the array of a constant, or the canonical name of an activation
    tensors, constants, nodes    as in Graph
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        constants: Mapping[str, np.ndarray],
        reserved: Set[str],
        convert: Callable[[Builder, OnnxNode], None],
    ):
        """``reserved``: every name of the ONNX graph, which no made-up name may equal; ``convert``: reads a node, for
        operators that are made of others."""
        self.convert_node, self.convert = convert, partial(convert, self)  # adds what a node means to the graph
        self.inputs = tuple(inputs)
        self.reserved = reserved
        self.values: dict[str, Value] = dict(constants) | {tensor.name: tensor.name for tensor in inputs}
        self.tensors = {tensor.name: tensor for tensor in inputs}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []
        self.extents: dict[str, tuple[Any, ...]] = {}  # true shapes where sizes depend on data (``lengths``)
        self.counts: set[str] = set()  # canonical names of what they are computed of
        self.places: dict[Any, tuple[str, Any]] = {}  # of a mask: where it is set, and how often
        self.qparams: dict[str, Quantization] = {}  # as in Graph
        self._dequantized: dict[int, tuple[np.ndarray, Quantization]] = {}  # by id: floats that lie on levels
        self.narrow: dict[str, str] = {}  # canonical name -> the type, of ``WIDER``, that the file gives it
        self.labels: set[str] = set()  # names of nodes: ONNX lets them repeat, outputs are unique
        self.budget = MAX_CONSTANT_ELEMENTS - sum(array.size for array in constants.values())
        self.scope = ""  # of a subgraph: how the names of what is made in it begin
        self.local: Set[str] = frozenset()  # ONNX names of the subgraphs that are being converted
        self.unrolled = 0
        self.block = 0  # channels of a block (``nchwc``)
        self.subgraph: Callable[[Any], Any] = NotImplemented  # reads a GraphProto, set by ``read``

    # -- what a node reads --

    def given(self, n: OnnxNode, i: int) -> str:
        """The ONNX name of an input that must be there."""
        self.value(n, i)
        return n.inputs[i]

    def has(self, n: OnnxNode, i: int) -> bool:
        return i < len(n.inputs) and n.inputs[i] != ""

    def value(self, n: OnnxNode, i: int) -> Value:
        """An input that must be there: the array of a constant, or the canonical name of an activation."""
        return self.values[n.inputs[i]] if self.has(n, i) else n.fail(f"input {i} is missing")

    def x(self, n: OnnxNode, i: int = 0) -> str:
        """Canonical name of an input that must be an activation."""
        value = self.value(n, i)
        if isinstance(value, np.ndarray):
            n.fail(f"input {i} ({n.inputs[i]!r}) must be computed from the model's input, got a constant")
        return value

    def constant(self, n: OnnxNode, i: int) -> np.ndarray:
        """An input that must be known before the network runs."""
        value = self.value(n, i)
        if isinstance(value, str):
            what = f"input {i} ({n.inputs[i]!r}) must be a constant, got a tensor computed at run time"
            n.fail(what + self.way_on(value))
        return value

    def way_on(self, value: Value) -> str:
        """What an error says of a computed value that must be known: the small inputs that it depends on, and how to
        give them; "" where there are none."""
        if not isinstance(value, str):
            return ""
        producers = {node.output: node for node in self.nodes}
        pending, met = [value], {value}
        while pending:
            node = producers.get(pending.pop())
            pending += {*(node.inputs if node else ())} - met
            met.update(pending)
        scalars = [tensor.name for tensor in self.inputs if tensor.name in met and tensor.elements <= MAX_SETTING]
        if not scalars:
            return ""
        way = f"values={{{scalars[0]!r}: ...}} or --value {scalars[0]}=..."
        which = ", ".join(map(repr, scalars))
        return f"; it depends on input {which}: if that is the same for every frame, give its value, {way}"

    def floats(self, n: OnnxNode, i: int) -> np.ndarray:
        array = self.constant(n, i)
        if array.dtype.kind != "f":
            n.fail(f"input {i} ({n.inputs[i]!r}) must hold floats, got {array.dtype}")
        return array

    def ints(self, n: OnnxNode, i: int) -> tuple[int, ...]:
        array = self.constant(n, i)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            n.fail(f"input {i} ({n.inputs[i]!r}) must be a list of integers, got {array.dtype} {array.shape}")
        return tuple(array.reshape(-1).tolist())

    def scalar(self, n: OnnxNode, i: int, default: Any = None, kinds: str = "iufb") -> Any:
        """An input of one number that must be known before the network runs; ``kinds`` as NumPy's."""
        if default is not None and not self.has(n, i):
            return default
        array = self.constant(n, i)
        if array.size != 1 or array.dtype.kind not in kinds:
            what = "integer" if kinds == "iu" else "number"
            n.fail(f"input {i} ({n.inputs[i]!r}) must be one {what}, got {array.dtype} {array.shape}")
        return array.item()

    def attr_or_ints(self, n: OnnxNode, name: str, i: int) -> tuple[int, ...] | None:
        """A list of integers: an attribute in older opsets, input ``i`` in newer; None where there is neither."""
        if name in n.attrs:
            return n.ints(name, len(n.get(name, list)))
        return self.ints(n, i) if self.has(n, i) else None

    def operand(self, n: OnnxNode, i: int, name_hint: str = "") -> str:
        """Canonical name of an input that may be either: a constant is kept, by its own name or a given one."""
        value = self.value(n, i)
        return value if isinstance(value, str) else self.keep(value, name_hint or n.inputs[i], infinite=True)

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape if name in self.tensors else self.constants[name].shape

    def dtype(self, name: str) -> str:
        """Element type of an activation or of a kept constant, by its canonical name."""
        return self.tensors[name].dtype if name in self.tensors else self.constants[name].dtype.name

    def type_of(self, value: Value) -> str:
        """The element type of a constant's array, or of an activation by its canonical name."""
        return value.dtype.name if isinstance(value, np.ndarray) else self.dtype(value)

    def shape_of(self, value: Value) -> Shape:
        """The shape of a constant's array, or of an activation by its canonical name."""
        return value.shape if isinstance(value, np.ndarray) else self.shape(value)

    def afford(self, n: OnnxNode, elements: int) -> None:
        """Refuse a node that would make more constants than a model may hold; before they are allocated."""
        if elements > self.budget:
            n.fail(f"the model's constants exceed {MAX_CONSTANT_ELEMENTS} elements")

    # -- what a node makes --

    def fresh(self, name: str) -> str:
        while name in self.reserved or name in self.tensors or name in self.constants:
            name += "'"
        return name

    def on_levels(self, array: np.ndarray, levels: Quantization) -> None:
        """Floats made of constant integers; where they, or a view of all of them, are kept is in ``qparams``."""
        self._dequantized[id(array)] = array, levels

    def _levels_of(self, array: np.ndarray) -> Quantization | None:
        root = array
        while root.base is not None and isinstance(root.base, np.ndarray):
            root = root.base
        _, levels = self._dequantized.get(id(root), (None, None))
        if levels is None or array.size != root.size or levels.axis is None:
            return levels if levels is None or array.size == root.size else None
        place = root.shape[levels.axis], root.strides[levels.axis]
        axes = [axis for axis, at in enumerate(zip(array.shape, array.strides, strict=True)) if at == place]
        return replace(levels, axis=axes[0]) if len(axes) == 1 else None

    def keep(self, array: np.ndarray, name: str, *, infinite: bool = False) -> str:
        """Store a constant operand in its own type (any float is float32); named ``name`` unless that is taken."""
        if self.constants.get(name) is array:
            return name
        if array.dtype.kind == "f":
            if not (infinite or np.isfinite(array).all()):
                raise ModelError(f"constant {name!r} holds values that are not finite")
        elif array.dtype.name in WIDER:
            array = array.astype(WIDER[array.dtype.name])
        elif array.dtype.name not in TYPES:
            raise ModelError(f"constant {name!r} has elements of {array.dtype}, expected one of {', '.join(TYPES)}")
        if not _same(self.values.get(name), array) or name in self.constants or name in self.local:
            name = self.fresh(self.scope + name if name in self.local else name)
        try:
            with np.errstate(over="raise"):
                kept = np.asarray(array, np.float32 if array.dtype.kind == "f" else None, order="C")
        except FloatingPointError:
            raise ModelError(f"constant {name!r} has values beyond float32") from None
        self.constants[name] = kept
        if levels := self._levels_of(array):
            self.qparams[name] = levels
        return name

    def weight(self, n: OnnxNode, i: int) -> str:
        return self.keep(self.floats(n, i), n.inputs[i])

    def bind(self, n: OnnxNode, value: Value, output: int = 0) -> None:
        """The node's output is a constant, or another name for an activation."""
        if isinstance(value, np.ndarray):
            self.afford(n, value.size)
            self.budget -= value.size
            value = value.astype(np.float32, copy=False) if value.dtype == np.float16 else value
        self.values[n.outputs[output]] = value

    def hold(self, n: OnnxNode, value: Any, output: int = 0) -> None:
        """The node's output is a sequence or an optional value (``sequences``)."""
        self.values[n.outputs[output]] = value

    def new_constant(self, n: OnnxNode, array: np.ndarray, part: str, *, infinite: bool = False) -> str:
        """Store a constant operand that is computed of the node."""
        return self.keep(array, f"{n.outputs[0]}/{part}", infinite=infinite)

    def number(self, n: OnnxNode, value: float | bool, like: str, part: str = "number") -> str:
        """A constant of one element that has the rank and the type of an operand."""
        dtype = np.dtype(self.dtype(like))
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            n.fail(f"{value} is no {dtype}, the type of its operand")
        return self.new_constant(n, np.full((1,) * len(self.shape(like)), value, dtype), part, infinite=True)

    def with_number(self, n: OnnxNode, op: str, x: str, value: float, part: str = "") -> str:
        """x op value"""
        return self.emit(n, op, [x, self.number(n, value, x)], part=part)

    def named(self, n: OnnxNode, value: Any, part: str = "") -> str:
        """A value by an ONNX name of its own, for ``apply``; a number as a float32."""
        name = self.fresh(f"{n.outputs[0]}/{part or value}")
        self.values[name] = value if part else np.array(value, np.float32)
        return name

    def apply(self, n: OnnxNode, op: str, inputs: Sequence[str], part: str = "", **attrs: Any) -> str:
        """What an operator of ONNX makes of tensors by their ONNX names: the first output of ``n``, or with ``part``
        something on the way; its ONNX name."""
        name = self.fresh(f"{n.outputs[0]}/{part}") if part else n.outputs[0]
        self.convert(OnnxNode(name if part else n.name, op, tuple(inputs), (name,), attrs, OPSET))
        return name

    def emit(self, n: OnnxNode, op: str, inputs: Sequence[str], *, part: str = "", output: int = 0, **attrs) -> str:
        """Add a canonical node. It makes ``n``'s output number ``output``, or with ``part`` something on the way, which
        is computed here where it reads constants alone. Attributes that are not given take their defaults."""
        last = n.outputs[output]
        name = self.fresh(f"{self.scope}{last}{part and '/' + part}") if part or self.scope else last
        label = name if part or output or self.scope or n.name in self.labels else n.name
        self.labels.add(label)
        attrs = attributes(op, **attrs)
        shape = infer_shape(op, attrs, [self.shape(i) for i in inputs], label)
        dtype = infer_type(op, attrs, [self.dtype(i) for i in inputs], label)
        if part and inputs and all(i in self.constants for i in inputs):
            arrays = [self.constants[i] for i in inputs]
            wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
            return self.keep(np.asarray(OPS[op].compute(attrs, *wide)).astype(dtype), name, infinite=True)
        self.nodes.append(Node(label, op, tuple(inputs), name, attrs))
        self.tensors[name] = Tensor(name, shape, dtype)
        self.values[name if part else last] = name
        return name

    def reshape(self, n: OnnxNode, x: Value, shape: Shape, part: str = "") -> Value:
        """Reshape an array, a tensor or a kept constant; between two images through (1, N), since their pixels hold
        different channels."""
        if isinstance(x, np.ndarray):
            return x.reshape(shape)
        old = self.shape(x)
        if x in self.constants and old != shape:
            return self.reshape(n, self.keep(self.constants[x].reshape(shape), x, infinite=True), shape, part)
        if old == shape:
            if not part:
                self.bind(n, x)
            return x
        if len(old) == len(shape) == 4:
            x = self.emit(n, "reshape", [x], part=f"{part}flat", shape=(1, prod(old)))
        return self.emit(n, "reshape", [x], part=part, shape=shape)

    def cast(self, n: OnnxNode, x: Value, to: str, part: str = "") -> Value:
        """``x`` in another element type, a key of ``steps.TYPES``; a tensor itself if that is its own."""
        if isinstance(x, np.ndarray):
            return x.astype(to)
        if self.dtype(x) == to:
            if not part:
                self.bind(n, x if x in self.tensors else self.constants[x])
            return x
        return self.emit(n, "cast", [x], part=part, to=to)

    @contextmanager
    def inside(self, n: OnnxNode, names: Set[str], nodes: int, turn: str) -> Iterator[None]:
        """While a subgraph of ``n`` is converted: its own names mean nothing yet, and mean what they did afterwards."""
        self.unrolled += nodes
        if self.unrolled > MAX_UNROLLED:
            n.fail(f"the model's subgraphs unroll to more than {MAX_UNROLLED} nodes")
        before = {name: self.values.pop(name) for name in names if name in self.values}
        scope, local = self.scope, self.local
        self.scope, self.local = f"{scope}{n.name}/{turn}", local | names
        yield
        self.scope, self.local = scope, local
        for name in names:
            self.values.pop(name, None)
        self.values.update(before)


def _same(value: Value | None, array: np.ndarray) -> bool:
    """Whether a constant is this array, or a view of it that is alike, such as the transpose of the transpose."""
    if not isinstance(value, np.ndarray):
        return False
    places = (value.ctypes.data, value.shape, value.strides), (array.ctypes.data, array.shape, array.strides)
    return value is array or (places[0] == places[1] and value.dtype == array.dtype)


@dataclass(frozen=True)
class Operator:
    """An ONNX operator on activations.

    convert     adds a node's canonical nodes to the graph in the making
    attributes  those that it knows; a node with any other is refused
    limits      what else is required of a node, for the reader of ``docs/reference/operators.md``
    """

    convert: Callable[[Builder, OnnxNode], None]
    attributes: frozenset[str]
    limits: str


OPERATORS: dict[str, Operator] = {}


def operator(names: str, attributes: str = "", limits: str = "") -> Callable:
    """Registers a function for the operators of these names; names and attributes are separated by spaces."""

    def register(function: Callable[[Builder, OnnxNode], None]) -> Callable[[Builder, OnnxNode], None]:
        entry = Operator(function, frozenset(attributes.split()), limits)
        OPERATORS.update(dict.fromkeys(names.split(), entry))
        return function

    return register
