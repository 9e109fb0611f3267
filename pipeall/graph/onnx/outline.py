"""A model's shapes without its weights: every tensor's, inferred by the onnx package and by folding what it cannot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import ModelError
from .build import Builder
from .convert import convert
from .evaluate import can_evaluate, evaluate
from .fold import FOLD, RESHAPE, fold, shape_of
from .reader import OWN_DOMAINS, ModelReader, parse
from .shapes import Shape, Shapes, by_name, checked, tensors
from .source import Source
from .tensors import EXTERNAL, package

MAX_NUMBERS = 4096  # of one array of sizes or indices
FLOATS = (1, 10, 11, 16)
INTEGERS = (6, 7, 9)  # what shapes are computed with: int32, int64, bool


def outline(path: str | os.PathLike[str], input_shape: Shapes | None = None) -> Any:
    """A model's ModelProto without the data of its large weights, the shape of every tensor inferred.

    ``input_shape`` as for ``load``; weights may be missing in the file as long as their shapes are there. Raises
    ModelError naming the file, ArgumentError for a bad ``input_shape``, MissingExtraError without the onnx package.
    """
    source = Source.of(path)
    given = checked(input_shape)
    try:
        model, _ = parse(source)
        return with_shapes(source, model, by_name(given, [value.name for value in inputs_of(model.graph)]))
    except (ModelError, UnicodeDecodeError) as error:
        raise ModelError(f"{source.label}: {error}") from None


def inputs_of(graph: Any) -> list[Any]:
    """The inputs of a GraphProto, without the initialisers among them."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def with_shapes(source: Source, model: Any, given: Mapping[str, Shape]) -> Any:
    """The model with the shape of every tensor in ``value_info``, as far as it can be known; it is changed.

    Raises ModelError where an input's shape is open or the package cannot infer.
    """
    graph = model.graph
    values = inputs_of(graph)
    for value, tensor in zip(values, tensors(values, given), strict=True):
        dims = value.type.tensor_type.shape
        dims.ClearField("dim")
        for size in tensor.shape:
            dims.dim.add(dim_value=size)
    _hoist_constants(graph)
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    try:
        return _inferred(source, model)
    except (package().shape_inference.InferenceError, RuntimeError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"no shapes: {' '.join(str(error).split()):.200}") from None


def _hoist_constants(graph: Any) -> None:
    """Make initialisers of the float tensors that Constant nodes hold, as some exporters write weights."""
    kept = []
    for node in graph.node:
        held = [attr.t for attr in node.attribute if attr.type == attr.TENSOR]
        if (
            node.op_type == "Constant"
            and node.domain in OWN_DOMAINS
            and node.output
            and held
            and held[0].data_type in FLOATS
        ):
            weight = graph.initializer.add()
            weight.CopyFrom(held[0])
            weight.name = node.output[0]
        else:
            kept.append(node)
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)


def _inferred(source: Source, model: Any) -> Any:
    """Infers shapes, evaluates the numbers that exporters compute of them (sizes, indices) and infers again, until
    nothing new is known."""
    reader = ModelReader(source, model, {})
    builder = Builder([], {}, set(), convert)
    for tensor in model.graph.initializer:
        if tensor.HasField("raw_data") and tensor.data_type in INTEGERS and tensor.data_location != EXTERNAL:
            builder.values[tensor.name] = reader.array(f"initializer {tensor.name!r}", tensor)
    while True:
        model = package().shape_inference.infer_shapes(model, data_prop=True)
        shapes = {
            value.name: value.type.tensor_type.shape.dim for value in (*model.graph.input, *model.graph.value_info)
        }
        found = []
        for proto in model.graph.node:
            if not proto.output or proto.output[0] in builder.values:
                continue
            sizes = [dim.dim_value for dim in shapes.get(proto.input[0] if proto.input else "", ())]
            node = reader.node(proto)
            if proto.op_type == "Shape" and sizes and min(sizes) > 0:
                builder.bind(node, shape_of(node, tuple(sizes)))
            elif any(name not in builder.values for name in filter(None, proto.input)):
                continue
            elif proto.op_type in (*FOLD, *RESHAPE):
                fold(builder, node)
            elif can_evaluate(node):
                evaluate(builder, node)
            else:
                continue
            made = [(name, builder.values[name]) for name in proto.output]
            found += [name for name, array in made if array.dtype.kind in "iub" and array.size <= MAX_NUMBERS]
        if not found:
            return model
        known = set(found)
        kept = [node for node in model.graph.node if known.isdisjoint(node.output)]
        model.graph.initializer.extend(package().numpy_helper.from_array(builder.values[name], name) for name in found)
        del model.graph.node[:]
        model.graph.node.extend(kept)
        del model.graph.value_info[:]
