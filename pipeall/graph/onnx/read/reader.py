"""An ONNX file in plain Python and NumPy: its nodes, checked against their operators' schemas, and its initializers.

A model file is untrusted: sizes are checked before anything is allocated, names before they are looked up, external
data must lie beside the model, and only what the outputs depend on is decoded at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import ModelError
from ....files import other_kind
from . import tensors
from . import wire as onnx_wire
from .build import MAX_CONSTANT_ELEMENTS, OnnxNode
from .inputs import give
from .prepare import OWN_DOMAINS, checker_context, misfit, opset_in, prepared, read_by, tidy
from .signatures import fits
from .source import Source
from .tensors import package

OPSETS = (1, 28)
MAX_FILE_BYTES = 2**31 - 1  # what protobuf can parse
MAX_IR_VERSION = 2**31 - 1  # what the checker takes
NOT_UTF8 = "corrupt: a name is not valid UTF-8"
MAX_METADATA = 2**20  # characters of an entry's name and value; a recognizer's alphabet has some 10,000
EARLY = {"LayerNormalization": 17}  # operators that onnxruntime writes before the opset that has them


def parse(source: Source) -> tuple[Any, dict[str, memoryview]]:
    """The ModelProto without large initializers' bytes, tidied, functions inlined; and those bytes by name.

    The source's values are initializers of it.
    """
    onnx = package()
    from google.protobuf.message import DecodeError

    try:
        content = source.content
        if isinstance(content, Path) and (kind := other_kind(content)):
            raise ModelError(f"expected a file, got {kind}")
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ModelError(f"file has {size} bytes, ONNX files have at most {MAX_FILE_BYTES}")
        message, taken = onnx_wire.split(content)
        model = onnx.ModelProto.FromString(message)
        model.DiscardUnknownFields()  # of which protobuf may write what it does not read
    except OSError as error:
        raise ModelError(f"cannot read: {error.strerror}") from None
    except (DecodeError, onnx_wire.WireError):
        raise ModelError("not an ONNX file, or truncated") from None
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError("not an ONNX file, or truncated: it has no graph with outputs")
    give(model.graph, source.values)
    taken = tidy(model, [*taken, *(None for _ in source.values)])
    raw = {tensor.name: data for tensor, data in zip(model.graph.initializer, taken, strict=True) if data is not None}
    opset = opset_of(model)
    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise ModelError(f"opset {opset} is not supported, expected {OPSETS[0]} to {OPSETS[1]}")
    if not 0 <= model.ir_version <= MAX_IR_VERSION:
        raise ModelError(f"corrupt: IR version {model.ir_version}, expected at most {MAX_IR_VERSION}")
    return prepared(model, opset), raw


def opset_of(model: Any) -> int:
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    return versions.get("ai.onnx", OPSETS[1] if versions else 1)  # without a word of it the latest, as in onnxruntime


def metadata_of(model: Any) -> dict[str, str]:
    """What the file says of itself. Entries that are too long, or not in UTF-8, are left out."""
    entries = [(entry.key, entry.value) for entry in model.metadata_props]
    texts = [entry for entry in entries if all(isinstance(text, str) for text in entry)]
    return {key: value for key, value in texts if len(key) + len(value) <= MAX_METADATA}


class Subgraph:
    """A graph within a node, read when it is wanted."""

    def __init__(self, reader: ModelReader, proto: Any):
        self.reader, self.proto = reader, proto
        self.inputs = tuple(value.name for value in proto.input)
        self.outputs = tuple(value.name for value in proto.output)

    @cached_property
    def content(self) -> tuple[dict[str, np.ndarray], list[OnnxNode]]:
        """Its constants and the nodes that its outputs depend on."""
        names, nodes = set(self.outputs), []
        for proto in reversed(self.proto.node):
            if not names.isdisjoint(proto.output):
                nodes.append(self.reader.node(proto))
                names.update(read_by(proto))
        return self.reader.initializers(self.proto, names, {}), nodes[::-1]


def has_subgraph(n: OnnxNode) -> bool:
    return any(isinstance(value, Subgraph) for value in n.attrs.values())


class ModelReader:
    """One model: its needed nodes and initializers, in plain Python and NumPy."""

    def __init__(self, source: Source, model: Any, raw: Mapping[str, memoryview]):
        self.path, self.proto, self.raw = source.path, model.graph, raw
        self.opset = opset_of(model)
        self.ir_version = model.ir_version

    def absence(self, name: str) -> str:
        if any(name in node.output for node in self.proto.node):
            return "before it is made: the nodes form a cycle"
        return "that nothing makes"

    def needed(self, outputs: Sequence[str], inputs: Set[str] = frozenset()) -> tuple[list[OnnxNode], set[str]]:
        """The nodes that the outputs depend on, in the file's order, and every name that is read.

        ``inputs`` are given from outside although nodes make them.
        """
        initializers = [tensor.name for tensor in self.proto.initializer]
        initializers += [tensor.values.name for tensor in self.proto.sparse_initializer]
        listed = set(initializers)  # initializers may be listed as inputs too
        entering = [value.name for value in self.proto.input if value.name not in listed]
        made = [name for node in self.proto.node for name in node.output if name]
        for name, count in Counter(initializers + entering + made).items():
            if count > 1:
                raise ModelError(f"tensor {name!r} is made {count} times")
        read, nodes = set(outputs), []
        for proto in reversed(self.proto.node):
            if any(name in read and name not in inputs for name in proto.output):
                nodes.append(self.node(proto, inputs))
                read.update(read_by(proto))
        return nodes[::-1], read - {""}

    def node(self, proto: Any, given: Set[str] = frozenset()) -> OnnxNode:
        """A node in plain Python, checked against its operator's schema; outputs that are ``given`` are left out."""
        label = proto.name or next(filter(None, proto.output), "")
        names = (label, proto.op_type, proto.domain, *proto.input, *proto.output, *(a.name for a in proto.attribute))
        if not all(isinstance(name, str) for name in names):  # protobuf may give the bytes instead of an error
            raise ModelError(NOT_UTF8)
        opset = opset_in(proto.domain, self.opset)
        own = opset is not None
        op = proto.op_type if own else f"{proto.domain}.{proto.op_type}"
        attrs = {
            attr.name: self.attribute(f"attribute {attr.name} of node {label!r}", attr) for attr in proto.attribute
        }
        outputs = tuple(f"{name} of the network" if name in given else name for name in proto.output)
        node = OnnxNode(label, op, tuple(proto.input), outputs, attrs, opset or self.opset)
        early = op in EARLY and node.opset < EARLY[op]
        # the checker does not see what a subgraph reads from outside
        checked = own and not has_subgraph(node) and not early
        if checked and not fits(proto, node.opset) and package().defs.has(op):
            self._check(node, proto)
        return node

    def _check(self, node: OnnxNode, proto: Any) -> None:
        domain = proto.domain
        if domain not in OWN_DOMAINS:
            proto = type(proto).FromString(proto.SerializeToString())
            proto.domain = ""
        context = checker_context(self.ir_version, {"": opset_in(domain, self.opset)})
        if message := misfit(proto, context):
            node.fail(message)

    def attribute(self, what: str, proto: Any) -> Any:
        """Number, string, list, array or graph; whatever else there is stays a protobuf, which no operator accepts."""
        value = package().helper.get_attribute_value(proto)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if proto.type == proto.TENSOR:
            return tensors.array(what, value, self.path)
        if proto.type == proto.SPARSE_TENSOR:
            return tensors.sparse_array(what, value, self.path)
        if proto.type == proto.GRAPH:
            return Subgraph(self, value)
        return value

    def constants(self, read: Set[str]) -> dict[str, np.ndarray]:
        """The initializers that are read."""
        return self.initializers(self.proto, read, self.raw)

    def initializers(self, graph: Any, read: Set[str], raw: Mapping[str, memoryview]) -> dict[str, np.ndarray]:
        """Those of a GraphProto that are read; their sizes are added up before any is decoded."""
        dense = [tensor for tensor in graph.initializer if tensor.name in read]
        sparse = [tensor for tensor in graph.sparse_initializer if tensor.values.name in read]
        total = sum(prod(tensor.dims) for tensor in (*dense, *sparse))
        if total > MAX_CONSTANT_ELEMENTS:
            raise ModelError(f"its initializers have {total} elements, expected at most {MAX_CONSTANT_ELEMENTS}")
        arrays = {t.name: tensors.array(f"initializer {t.name!r}", t, self.path, raw.get(t.name)) for t in dense}
        named = {proto.values.name: proto for proto in sparse}
        return arrays | {k: tensors.sparse_array(f"initializer {k!r}", t, self.path) for k, t in named.items()}
