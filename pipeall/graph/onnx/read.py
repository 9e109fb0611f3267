"""Reads an ONNX file into a graph; the one file that imports onnx.

A model file is untrusted: sizes are checked before anything is allocated, names before they are looked up, external
data must lie beside the model, and only what the outputs depend on is decoded at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArgumentError, ModelError, missing_extra
from ..ir import Graph, Tensor
from ..ops import MAX_ELEMENTS, MAX_RANK
from ..rewrite import rewrite as rewritten
from . import wire as onnx_wire
from .build import MAX_CONSTANT_ELEMENTS, Builder, OnnxNode
from .fold import FOLD, RESHAPE, TYPES, fold, shape_of
from .operators import SUPPORTED, convert

OPSETS = (6, 28)
MAX_FILE_BYTES = 2**31 - 1  # what protobuf can parse
# ONNX element types as stored; the halves and doubles among them become float32
STORED = {1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 16: "<u2"}
FLOAT_TYPE, BFLOAT16_TYPE = 1, 16
MAX_NUMBERS = 4096  # of one array of sizes or indices
INTEGERS = (6, 7, 9)  # what shapes are computed with: int32, int64, bool
NOT_UTF8 = "corrupt: a name is not valid UTF-8"
MAX_IR_VERSION = 2**31 - 1  # what the checker takes
MAX_MESSAGE = 1000  # characters of an error
EXTERNAL = 1  # TensorProto.DataLocation


def load(path: str | Path, input_shape: Sequence[int] | None = None, rewrite: bool = True) -> Graph:
    """The network in an ONNX file, opsets 6 to 28, float32, batch 1.

    ``input_shape`` replaces the shape the file gives its (only) input, e.g. (1, 3, 227, 227); it is needed where the
    file leaves more than the batch open. ``rewrite=False`` keeps one node per operator, for tests and inspection.
    Raises ModelError naming file and node for whatever is broken or not supported, ArgumentError for a bad
    ``input_shape``, MissingExtraError without the onnx package. Source: ONNX operators, onnx.ai/onnx/operators.
    """
    path = Path(path)
    shape = None if input_shape is None else _checked_shape(input_shape)
    try:
        graph = _ModelReader(path, *_parse(path)).graph(shape)
    except ModelError as error:
        raise ModelError(f"{path}: {_one_line(str(error))}") from None
    except UnicodeDecodeError:  # protobuf decodes a name where it is first read
        raise ModelError(f"{path}: {NOT_UTF8}") from None
    graph = rewritten(graph) if rewrite else graph
    for array in graph.constants.values():
        onnx_wire.release(array)  # read by now only to be checked
    if not graph.nodes:
        raise ModelError(f"{path}: expected a network, got a model that computes nothing of its input")
    return graph


def _one_line(text: str) -> str:
    """Operators, attributes and files of a model may be named anything; both ends of what is too long stay."""
    if len(text) > MAX_MESSAGE:
        text = f"{text[: MAX_MESSAGE // 2]} ... {text[-MAX_MESSAGE // 2 :]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(shape)
    if not sizes or not all(isinstance(size, int | np.integer) and size >= 1 for size in sizes) or sizes[0] != 1:
        raise ArgumentError(f"input_shape must be positive integers with batch 1, e.g. (1, 3, 224, 224), got {shape}")
    return tuple(map(int, sizes))


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx", "reading .onnx files") from None
    return onnx


def _parse(path: Path) -> tuple[Any, list[memoryview | None]]:
    """The file's ModelProto without large initialisers' bytes, and these."""
    onnx = _onnx()
    from google.protobuf.message import DecodeError

    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ModelError(f"file has {size} bytes, ONNX files have at most {MAX_FILE_BYTES}")
        message, raw = onnx_wire.split(path)
        model = onnx.ModelProto.FromString(message)
    except OSError as error:
        raise ModelError(f"cannot read: {error.strerror}") from None
    except (DecodeError, onnx_wire.WireError):
        raise ModelError("not an ONNX file, or truncated") from None
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError("not an ONNX file, or truncated: it has no graph with outputs")
    return model, raw


def outline(path: str | Path, input_shape: Sequence[int] | None = None) -> Any:
    """A model's ModelProto without the data of its large weights, the shape of every tensor inferred.

    ``input_shape`` as for ``load``; weights may be missing in the file as long as their shapes are there. Raises
    ModelError naming the file, ArgumentError for a bad ``input_shape``, MissingExtraError without the onnx package.
    """
    path = Path(path)
    shape = None if input_shape is None else _checked_shape(input_shape)
    try:
        model, _ = _parse(path)
        graph = model.graph
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in weights]
        if shape is not None and len(inputs) != 1:
            raise ModelError(f"input_shape suits a model with one input, this one has {len(inputs)}")
        for value in inputs:
            dims = value.type.tensor_type.shape
            sizes = _input_tensor(value, shape).shape
            dims.ClearField("dim")
            for size in sizes:
                dims.dim.add(dim_value=size)
        del graph.value_info[:]
        for output in graph.output:
            output.type.tensor_type.ClearField("shape")
        return _with_shapes(path, model)
    except (ModelError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: {error}") from None
    except (_onnx().shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise ModelError(f"{path}: no shapes: {' '.join(str(error).split()):.200}") from None


def _with_shapes(path: Path, model: Any) -> Any:
    """Infers shapes, evaluates the numbers that exporters compute of them (sizes, indices) and infers again, until
    nothing new is known."""
    reader = _ModelReader(path, model, [None] * len(model.graph.initializer))
    builder = Builder([], {}, set())
    for tensor in model.graph.initializer:
        if tensor.HasField("raw_data") and tensor.data_type in INTEGERS and tensor.data_location != EXTERNAL:
            builder.values[tensor.name] = reader.array(f"initializer {tensor.name!r}", tensor)
    while True:
        model = _onnx().shape_inference.infer_shapes(model, data_prop=True)
        shapes = {
            value.name: value.type.tensor_type.shape.dim for value in (*model.graph.input, *model.graph.value_info)
        }
        found = []
        for proto in model.graph.node:
            if proto.output[0] in builder.values or proto.op_type not in (*FOLD, *RESHAPE):
                continue
            sizes = [dim.dim_value for dim in shapes.get(proto.input[0] if proto.input else "", ())]
            node = reader.node(proto)
            if proto.op_type == "Shape" and sizes and min(sizes) > 0:
                builder.bind(node, shape_of(node, tuple(sizes)))
            elif all(name in builder.values for name in filter(None, proto.input)):
                fold(builder, node)
            else:
                continue
            made = [(name, builder.values[name]) for name in proto.output]
            found += [name for name, array in made if array.dtype.kind in "iub" and array.size <= MAX_NUMBERS]
        if not found:
            return model
        known = set(found)
        kept = [node for node in model.graph.node if known.isdisjoint(node.output)]
        model.graph.initializer.extend(_onnx().numpy_helper.from_array(builder.values[name], name) for name in found)
        del model.graph.node[:]
        model.graph.node.extend(kept)
        del model.graph.value_info[:]


class _ModelReader:
    """One model: its needed nodes and initialisers, in plain Python and NumPy."""

    def __init__(self, path: Path, model: Any, raw: list[memoryview | None]):
        self.path, self.proto, self.raw = path, model.graph, raw
        versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
        self.opset = versions.get("ai.onnx", 1)
        if not OPSETS[0] <= self.opset <= OPSETS[1]:
            raise ModelError(f"opset {self.opset} is not supported, expected {OPSETS[0]} to {OPSETS[1]}")
        if not 0 <= model.ir_version <= MAX_IR_VERSION:
            raise ModelError(f"corrupt: IR version {model.ir_version}, expected at most {MAX_IR_VERSION}")
        self.context = _onnx().checker.C.CheckerContext()
        self.context.ir_version = model.ir_version
        self.context.opset_imports = {"": self.opset}

    def graph(self, input_shape: tuple[int, ...] | None) -> Graph:
        outputs = [output.name for output in self.proto.output]
        nodes, read = self.needed(outputs)
        constants = self.constants(read)
        inputs = [value for value in self.proto.input if value.name in read and value.name not in constants]
        if input_shape is not None and len(inputs) != 1:
            raise ModelError(f"input_shape suits a model with one input, this one has {len(inputs)}")
        tensors = [_input_tensor(value, input_shape) for value in inputs]
        builder = Builder(tensors, constants, read | {name for node in nodes for name in node.outputs})
        for node in nodes:
            for name in node.inputs:
                if name and name not in builder.values:
                    node.fail(f"reads {name!r} {self.absence(name)}")
            convert(builder, node)
            for name in node.outputs:
                if name in read and name not in builder.values:
                    node.fail(f"its output {name!r} is not supported")
        for name in outputs:
            if name not in builder.values:
                raise ModelError(f"output {name!r} is made by no node")
        return builder.graph(self.path.stem, outputs)

    def absence(self, name: str) -> str:
        if any(name in node.output for node in self.proto.node):
            return "before it is made: the nodes form a cycle or are out of order"
        return "that nothing makes"

    def needed(self, outputs: list[str]) -> tuple[list[OnnxNode], set[str]]:
        """The nodes that the outputs depend on, in the file's order, and every name that is read."""
        initializers = [tensor.name for tensor in self.proto.initializer]
        listed = set(initializers)  # initialisers may be listed as inputs too
        inputs = [value.name for value in self.proto.input if value.name not in listed]
        made = [name for node in self.proto.node for name in node.output if name]
        for what, names in (("made", initializers + inputs + made), ("an output", outputs)):
            for name, count in Counter(names).items():
                if count > 1:
                    raise ModelError(f"tensor {name!r} is {what} {count} times")
        read, nodes = set(outputs), []
        for proto in reversed(self.proto.node):
            if not read.isdisjoint(proto.output):
                nodes.append(self.node(proto))
                read.update(proto.input)
        return nodes[::-1], read - {""}

    def node(self, proto: Any) -> OnnxNode:
        """A node in plain Python, checked against its operator's schema."""
        label = proto.name or next(filter(None, proto.output), "")
        names = (label, proto.op_type, proto.domain, *proto.input, *proto.output, *(a.name for a in proto.attribute))
        if not all(isinstance(name, str) for name in names):  # protobuf may give the bytes instead of an error
            raise ModelError(NOT_UTF8)
        op = proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"
        attrs = {
            attr.name: self.attribute(f"attribute {attr.name} of node {label!r}", attr) for attr in proto.attribute
        }
        node = OnnxNode(label, op, tuple(proto.input), tuple(proto.output), attrs, self.opset)
        if op in SUPPORTED:
            try:
                _onnx().checker.check_node(proto, self.context)
            except _onnx().checker.ValidationError as error:
                node.fail((str(error).strip().splitlines() or ["is malformed"])[0])
        return node

    def attribute(self, what: str, proto: Any) -> Any:
        """Number, string, list or array; whatever else there is stays a protobuf, which no operator accepts."""
        value = _onnx().helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if proto.type == proto.TENSOR:
            return self.array(what, value)
        return value

    def constants(self, read: set[str]) -> dict[str, np.ndarray]:
        """The initialisers that are read; their sizes are added up before any is decoded."""
        initializers = zip(self.proto.initializer, self.raw, strict=True)
        needed = [(tensor, raw) for tensor, raw in initializers if tensor.name in read]
        if any(tensor.values.name in read for tensor in self.proto.sparse_initializer):
            raise ModelError("sparse initializers are not supported")
        total = sum(prod(tensor.dims) for tensor, _ in needed)
        if total > MAX_CONSTANT_ELEMENTS:
            raise ModelError(f"its initializers have {total} elements, expected at most {MAX_CONSTANT_ELEMENTS}")
        return {tensor.name: self.array(f"initializer {tensor.name!r}", tensor, raw) for tensor, raw in needed}

    def array(self, what: str, proto: Any, raw: memoryview | None = None) -> np.ndarray:
        """Values of a TensorProto: raw bytes (``raw`` where they stayed in the file), typed fields or a file beside
        the model; floats become float32."""
        if proto.data_type not in STORED:
            raise ModelError(f"{what} has element type {_type_name(proto.data_type)}, expected floats or integers")
        dims, stored = tuple(proto.dims), np.dtype(STORED[proto.data_type])
        elements = prod(dims)
        if min(dims, default=1) < 0 or len(dims) > MAX_RANK or elements > MAX_ELEMENTS:
            raise ModelError(f"{what} has an absurd shape: {dims!s:.80}")
        if proto.data_location == EXTERNAL:
            raw = self.external(what, proto, elements * stored.itemsize)
        elif raw is None and proto.HasField("raw_data"):
            raw = proto.raw_data
        if raw is not None:
            if len(raw) != elements * stored.itemsize:
                raise ModelError(f"{what} of shape {dims} needs {elements * stored.itemsize} bytes, has {len(raw)}")
            values = np.frombuffer(raw, stored)
            if proto.data_type == BFLOAT16_TYPE:  # the upper half of a float32
                values = (values.astype(np.uint32) << 16).view(np.float32)
        else:
            field = getattr(proto, _onnx().helper.tensor_dtype_to_field(proto.data_type))
            if len(field) != elements:
                raise ModelError(f"{what} of shape {dims} needs {elements} values, has {len(field)}")
            values = _onnx().numpy_helper.to_array(proto)
        with np.errstate(over="raise"):
            try:
                return values.reshape(dims).astype(TYPES[proto.data_type], copy=False)
            except FloatingPointError:
                raise ModelError(f"{what} has values beyond float32") from None

    def external(self, what: str, proto: Any, nbytes: int) -> bytes:
        """The bytes of a tensor stored in another file of the model's folder, no more than it needs and one."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        folder = self.path.parent.resolve()
        try:
            file = (folder / entries.get("location", "")).resolve()
            if not file.is_relative_to(folder):
                raise ModelError(f"{what}: external data {str(file)!r} lies outside of the model's folder")
            if not file.is_file():  # a pipe would be waited for
                raise ModelError(f"{what}: external data {str(file)!r}: expected a file beside the model")
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
            with file.open("rb") as stream:
                stream.seek(offset)
                return stream.read(min(length, nbytes + 1) if length >= 0 else nbytes + 1)
        except (OSError, ValueError, OverflowError) as error:
            if isinstance(error, ModelError):
                raise
            location = entries.get("location")
            raise ModelError(f"{what}: external data {location!r:.200} cannot be read: {error!s:.200}") from None


def _type_name(elem_type: int) -> str:
    types = _onnx().TensorProto.DataType
    return types.Name(elem_type) if elem_type in types.values() else str(elem_type)


def _input_tensor(proto: Any, input_shape: tuple[int, ...] | None) -> Tensor:
    """A model input: float32, every size known; an open batch is 1."""
    kind = proto.type.tensor_type
    if kind.elem_type != FLOAT_TYPE:
        raise ModelError(f"input {proto.name!r} has element type {_type_name(kind.elem_type)}, expected FLOAT")
    sizes = [dim.dim_value if dim.dim_value > 0 else None for dim in kind.shape.dim]
    if input_shape is not None:
        if sizes and len(sizes) != len(input_shape):
            raise ModelError(
                f"input {proto.name!r} has {len(sizes)} dimensions, input_shape {input_shape} does not fit"
            )
        return Tensor(proto.name, input_shape)
    shown = (
        "("
        + ", ".join(str(size or dim.dim_param or "?") for size, dim in zip(sizes, kind.shape.dim, strict=True))
        + ")"
    )
    if not sizes or None in sizes[1:]:
        raise ModelError(f"input {proto.name!r} has open sizes {shown}: give input_shape, e.g. (1, 3, 224, 224)")
    if sizes[0] not in (None, 1):
        raise ModelError(
            f"input {proto.name!r} has batch {sizes[0]}, expected 1: give input_shape to run it with batch 1"
        )
    if prod(sizes[1:]) > MAX_ELEMENTS:
        raise ModelError(f"input {proto.name!r} of {shown} has more than {MAX_ELEMENTS} elements")
    return Tensor(proto.name, (1, *sizes[1:]))
