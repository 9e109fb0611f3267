"""A model's shapes without its weights: every tensor's, inferred by the onnx package and by folding what it cannot."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from math import prod
from typing import Any

import numpy as np

from ....errors import ModelError
from .build import Builder, OnnxNode
from .control import branch
from .convert import convert
from .fold import FOLD, RESHAPE, fold, shape_of
from .inputs import Shape, Shapes, Values, by_name, checked, checked_values, tensors
from .prepare import OWN_DOMAINS
from .reader import ModelReader, parse
from .reference import can_evaluate, evaluate
from .source import Source
from .tensors import EXTERNAL, array, package

MAX_NUMBERS = 4096  # of one array of sizes, indices, or floats that these are computed with
RESIZES = ("Resize", "Upsample")  # whose scales are sizes too
FLOATS = (1, 10, 11, 16)
INTEGERS = (6, 7, 9)  # what shapes are computed with: int32, int64, bool


def outline(path: str | os.PathLike[str], input_shape: Shapes | None = None, values: Values | None = None) -> Any:
    """A model's ModelProto without the data of its large weights, the shape of every tensor inferred.

    ``input_shape`` and ``values`` as for ``load``; weights may be missing in the file as long as their shapes are
    there. Raises ModelError naming the file, ArgumentError where shapes or values do not fit, MissingExtraError without
    the onnx package.
    """
    source = Source.of(path, checked_values(values))
    given = checked(input_shape)
    try:
        model, _ = parse(source)
        return with_shapes(source, model, by_name(given, [value.name for value in inputs_of(model.graph)]))
    except (ModelError, UnicodeDecodeError) as error:
        raise ModelError(f"{source.label}: {error}") from None


def inputs_of(graph: Any) -> list[Any]:
    """The inputs of a GraphProto, without the initializers among them."""
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
    """Make initializers of the float tensors that Constant nodes hold, as some exporters write weights."""
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
    """Infers shapes, evaluates what is known before the network runs and infers again, until nothing new is known.

    Sizes and indices become initializers, and an If whose condition is known becomes the branch that it takes. Of
    floats only the shape is told, since weights may be made of them.
    """
    reader, builder = ModelReader(source, model, {}), Builder([], {}, set(), convert)
    values, others = builder.values, []
    while True:
        values.update(_sizes(reader, [tensor for tensor in model.graph.initializer if tensor.name not in values]))
        model = package().shape_inference.infer_shapes(model, data_prop=True)
        graph = model.graph
        outputs = [list(filter(None, proto.output)) for proto in _evaluated(reader, builder, graph)]
        scales = {name for node in graph.node if node.op_type in RESIZES for name in node.input[1:]}
        known = [names for names in outputs if all(_is_number(name, values[name], scales) for name in names)]
        numbers = dict.fromkeys(name for names in known for name in names)
        others += [name for names in outputs for name in names if name not in numbers]
        nodes, branches = [], []
        for proto in graph.node:
            if proto.op_type == "If" and proto.domain in OWN_DOMAINS and values.keys() & proto.input[:1]:
                branches.append(inlined(reader.node(proto), values[proto.input[0]]))
                nodes += branches[-1].node
            elif numbers.keys().isdisjoint(proto.output):
                nodes.append(proto)
        if not outputs and not branches:
            return model
        for body in branches:
            graph.initializer.extend(body.initializer)
        graph.initializer.extend(package().numpy_helper.from_array(values[name], name) for name in numbers)
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)
        graph.value_info.extend(_told(name, values[name].shape) for name in others)
        _hoist_constants(graph)


def _evaluated(reader: ModelReader, builder: Builder, graph: Any) -> list[Any]:
    """The nodes whose outputs are known from now on: the builder has their values."""
    shapes = {
        value.name: value.type.tensor_type.shape.dim for value in (*graph.input, *graph.value_info, *graph.output)
    }
    evaluated = []
    for proto in graph.node:
        if not proto.output or proto.output[0] in builder.values:
            continue
        sizes = [dim.dim_value for dim in shapes.get(proto.input[0] if proto.input else "", ())]
        node = reader.node(proto)
        if node.op == "Shape" and sizes and min(sizes) > 0:
            builder.bind(node, shape_of(node, tuple(sizes)))
        elif any(name not in builder.values for name in filter(None, proto.input)):
            continue
        elif node.op in (*FOLD, *RESHAPE):
            fold(builder, node)
        elif can_evaluate(node):
            evaluate(builder, node)
        else:
            continue
        evaluated.append(proto)
    return evaluated


def _sizes(reader: ModelReader, initializers: list[Any]) -> dict[str, np.ndarray]:
    """The initializers whose numbers are in the file and that shapes may be computed with, by name."""
    arrays = {}
    for tensor in initializers:
        floats, elements = tensor.data_type in FLOATS, prod(tensor.dims)
        if tensor.data_location == EXTERNAL or not (tensor.data_type in INTEGERS or floats and elements <= MAX_NUMBERS):
            continue
        field = getattr(tensor, package().helper.tensor_dtype_to_field(tensor.data_type))
        if not tensor.HasField("raw_data") and len(field) != elements:
            continue
        try:
            arrays[tensor.name] = array(f"initializer {tensor.name!r}", tensor, reader.path)
        except ModelError:
            if not floats:  # of a weight the data need not be right
                raise
    return arrays


def _is_number(name: str, array: np.ndarray, scales: Set[str]) -> bool:
    return (array.dtype.kind in "iub" or name in scales) and array.size <= MAX_NUMBERS


def _told(name: str, shape: Shape) -> Any:
    value = package().ValueInfoProto(name=name)
    value.type.tensor_type.shape.SetInParent()
    for size in shape:
        value.type.tensor_type.shape.dim.add(dim_value=size)
    return value


# ---- the branch of an If in its place, in protobuf ----


def inlined(n: OnnxNode, condition: np.ndarray) -> Any:
    """A GraphProto of the nodes and initializers that the If becomes.

    What it makes within goes by names that begin with the name of the node's output, for both branches, and several
    nodes, may use the same ones. Raises ModelError for a branch that does not fit.
    """
    body = package().GraphProto()
    body.CopyFrom(branch(n, condition).proto)
    within = [tensor.name for tensor in body.initializer] + [name for node in body.node for name in node.output]
    label = next(filter(None, n.outputs), n.name)
    _rename(body, {name: f"{label}/{name}" for name in within if name})
    for made, wanted in zip(body.output, n.outputs, strict=True):
        if wanted:
            body.node.append(package().helper.make_node("Identity", [made.name], [wanted], name=f"{n.name}/{wanted}"))
    return body


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Within a GraphProto and those within its nodes, which may read what is made around them."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for part in (node.input, node.output):
            part[:] = [names.get(name, name) for name in part]
        for attr in node.attribute:
            for inner in (attr.g, *attr.graphs) if attr.type in (attr.GRAPH, attr.GRAPHS) else ():
                _rename(inner, names)
