"""A network's shapes from an ONNX file as it was exported; the weights' data is not read and may be missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..graph.onnx.read.inputs import Shapes, Values
from ..graph.onnx.read.prepare import OWN_DOMAINS
from ..graph.onnx.read.read import load
from ..graph.onnx.read.shape_inference import outline
from .exports import folded_bias, put_back
from .size_network import STATISTICS, Layer, Network, Shape, of_graph

FLOAT_TYPES = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}  # of TensorProto.DataType
# Operators whose constant operands are settings, but for what they work on: a class token is repeated for each image
SETTINGS = ("Clip", "Pad", "Resize", "Upsample", "Dropout", "Reshape", "Slice", "Expand", "Tile")
MAY_BE_EMPTY = ("Slice", "Split", "Concat")  # what they cut out may be nothing, and be joined again
QUANTIZED = (
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "QLinearConv",
    "QLinearMatMul",
)  # fmt: skip
COURSES = ("If", "Loop", "Scan", "SequenceMap", "ConcatFromSequence", "SequenceAt", "SequenceLength")
COUNTED = ("NonZero", "Compress", "NonMaxSuppression")  # how large their results are, the data says


class UnknownShapeError(ModelError):
    """A tensor whose shape does not follow from the shapes of the inputs, as inference has it."""


def read(path: str | Path, input_shape: Shapes | None = None, values: Values | None = None) -> Network:
    """The network in an ONNX file of any standard operators.

    ``input_shape`` and ``values`` as ``load`` takes them. Weights are every float that layers read and that is not
    computed, except settings such as the bounds of Clip. Raises ModelError naming file and node where shapes are
    missing, zero or do not fit, ArgumentError for a bad shape or value, MissingExtraError without onnx.

    A quantized file, and one with operators of other domains, subgraphs or sequences, is the graph that ``load`` makes
    of it: its weights are integers that other nodes make floats of, or lie within nodes. One whose sizes depend on data
    is that graph too, with the largest sizes, and so is one with shapes that inference does not tell.

    torch's exporter names a node by the modules around it. Where a node lies directly in a module that has modules
    inside, a function was called there (``Layer.module`` is False); some tools count modules only. BatchNorm that it
    folded is put back (``exports``), and ``notes`` says so.
    """
    graph = outline(path, input_shape, values).graph
    if any(node.op_type in (*QUANTIZED, *COURSES) or node.domain not in OWN_DOMAINS for node in graph.node):
        return of_graph(load(path, input_shape, values=values))
    try:
        return _network(Path(path).stem, graph)
    except ModelError as error:
        if isinstance(error, UnknownShapeError) or any(node.op_type in COUNTED for node in graph.node):
            return of_graph(load(path, input_shape, values=values))
        raise ModelError(f"{path}: {error}") from None


def _network(name: str, graph: Any) -> Network:
    outputs = tuple(value.name for value in graph.output)
    constants = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    float_constants = {tensor.name for tensor in graph.initializer if tensor.data_type in FLOAT_TYPES}
    inputs = tuple(value.name for value in graph.input if value.name not in constants)
    shapes, computed = dict(constants), set(inputs)
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if value.name not in constants and kind.HasField("shape"):
            shapes[value.name] = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim)
        if kind.elem_type in FLOAT_TYPES:
            computed.add(value.name)
    scopes = _scopes(node.name for node in graph.node)
    layers: list[Layer] = []
    needed = _needed(graph, outputs)
    read_names = {*outputs, *(tensor for node in needed for tensor in node.input)}
    for node in needed:
        # an equal weight that the exporter stored once
        if node.op_type == "Identity" and node.input[0] in float_constants:
            shapes[node.output[0]] = shapes[node.input[0]]
            float_constants.add(node.output[0])
            continue
        made = [name for name in node.output if name]
        if node.op_type == "Constant" or computed.isdisjoint(made):
            continue  # numbers of the exporter's own: shapes, indices
        made = made[:1] + [tensor for tensor in made[1:] if tensor in read_names]  # no indices that nobody wants
        layer = _layer(node, made, scopes)
        read = [name for i, name in enumerate(layer.inputs) if name in computed or not _is_setting(layer, i)]
        for tensor in (*read, *made):
            if tensor in computed or tensor in float_constants:
                _check(layer, tensor, shapes, computed)
        if layer.op == "Conv":
            _check_channels(layer, shapes)
        layers.append(layer)
    for name in outputs:
        if wrong := _wrong(shapes.get(name)):
            raise _error(shapes.get(name), f"output {name!r} is of {wrong}")
    weights = dict.fromkeys(tensor for layer in layers for tensor in _weights(layer, float_constants, shapes))
    statistics = tuple(dict.fromkeys(name for layer in layers for name in _statistics(layer)))
    parameters = tuple(tensor for tensor in weights if tensor not in statistics)
    used = {*inputs, *outputs, *weights}
    for layer in layers:
        used.update(layer.inputs, layer.outputs)
    layers = [_without_settings(layer, computed, weights, statistics) for layer in layers]
    shapes = {tensor: shape for tensor, shape in shapes.items() if tensor in used}
    network = Network(name, tuple(layers), shapes, inputs, outputs, parameters, statistics, _float_types(graph))
    folded = {node.output[0]: own for node in needed if (own := folded_bias(node)) is not None}
    return put_back(network, folded)


def _float_types(graph: Any) -> tuple[str, ...]:
    """The float types of weights, inputs and outputs, without float32."""
    kinds = {tensor.data_type for tensor in graph.initializer}
    kinds.update(value.type.tensor_type.elem_type for value in (*graph.input, *graph.output))
    return tuple(FLOAT_TYPES[kind] for kind in sorted(kinds & FLOAT_TYPES.keys()) if kind != 1)


def _statistics(layer: Layer) -> list[str]:
    positions = STATISTICS.get(layer.op, ())
    return [layer.inputs[position] for position in positions if position < len(layer.inputs)]


def _layer(node: Any, made: list[str], scopes: Counter[str]) -> Layer:
    attrs = {attr.name: tuple(attr.ints) or attr.i for attr in node.attribute if attr.ints or attr.HasField("i")}
    attrs |= {attr.name: attr.s.decode(errors="replace") for attr in node.attribute if attr.HasField("s")}
    label = node.name or node.output[0]
    return Layer(label, node.op_type, tuple(node.input), tuple(made), attrs, _is_module(label, scopes))


def _check(layer: Layer, tensor: str, shapes: dict[str, Shape], computed: set[str]) -> None:
    if layer.op in ("Resize", "Upsample") and tensor in layer.inputs[1:]:
        return  # empty where it is left out
    reads_empty = any(name in computed and 0 in shapes.get(name, ()) for name in layer.inputs)
    may_be_empty = layer.op in MAY_BE_EMPTY or tensor in computed and reads_empty
    if wrong := _wrong(shapes.get(tensor), may_be_empty):
        raise _error(shapes.get(tensor), f"node {layer.name!r} ({layer.op}): tensor {tensor!r} is of {wrong}")


def _error(shape: Shape | None, message: str) -> ModelError:
    return (ModelError if shape and min(shape) >= 0 else UnknownShapeError)(message)


def _wrong(shape: Shape | None, may_be_empty: bool = False) -> str:
    """A shape that no network can have, in words."""
    if shape is None or min(shape, default=1) < 0:
        shown = "unknown shape" if shape is None else f"shape {tuple(n if n >= 0 else '?' for n in shape)}"
        return f"{shown}, which does not follow from the shapes of the inputs"
    return f"shape {shape}" if 0 in shape and not may_be_empty else ""


def _check_channels(layer: Layer, shapes: dict[str, Shape]) -> None:
    """Raises ModelError where the channels do not fit: shape inference does not compare them."""
    image, weight, groups = shapes[layer.inputs[0]], shapes[layer.inputs[1]], layer.attrs.get("group", 1)
    if image[1] != weight[1] * groups:
        message = f"weight {weight} of {groups} groups does not fit input {image}"
        raise ModelError(f"node {layer.name!r} ({layer.op}): {message}")


def _needed(graph: Any, outputs: Iterable[str]) -> list[Any]:
    """The nodes that the outputs depend on. ModelError for one that reads what is not there yet."""
    made = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    for node in graph.node:
        for name in node.input:
            if name and name not in made:
                label = node.name or next(iter(node.output), "")
                raise ModelError(f"node {label!r} ({node.op_type}): nothing before it makes {name!r}")
        for name in filter(None, node.output):
            if name in made:
                raise ModelError(f"node {node.name or name!r} ({node.op_type}): {name!r} is made twice")
            made.add(name)
    if missing := [name for name in outputs if name not in made]:
        raise ModelError(f"output {missing[0]!r} is made by no node")
    read, nodes = set(outputs), []
    for node in reversed(graph.node):
        if not read.isdisjoint(node.output):
            nodes.append(node)
            read.update(node.input)
    return nodes[::-1]


def _weights(layer: Layer, float_constants: set[str], shapes: dict[str, Shape]) -> Iterator[str]:
    for position, name in enumerate(layer.inputs):
        if name in float_constants and shapes[name] and not _is_setting(layer, position):
            yield name


def _is_setting(layer: Layer, position: int) -> bool:
    """Whether a constant there is no weight."""
    return layer.op in SETTINGS and position > 0


def _without_settings(layer: Layer, computed: set[str], weights: Iterable[str], statistics: Iterable[str]) -> Layer:
    """The layer with an empty place for every operand that is neither computed nor a weight."""
    inputs = tuple(n if n in computed or n in weights or n in statistics else "" for n in layer.inputs)
    return Layer(layer.name, layer.op, inputs, layer.outputs, layer.attrs, layer.module)


def _scopes(names: Iterable[str]) -> Counter[str]:
    """How many nodes lie below each scope, not directly in it: "/features/0/Conv" lies below "/features"."""
    below: Counter[str] = Counter()
    for scope in {name.rpartition("/")[0] for name in names}:
        while scope:
            scope = scope.rpartition("/")[0]
            below[scope] += 1
    return below


def _is_module(name: str, scopes: Counter[str]) -> bool:
    return scopes[name.rpartition("/")[0]] == 0
