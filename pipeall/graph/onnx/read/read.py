"""Reads an ONNX model, or a part of the network in it, into a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from ....arguments import refused, several, switch, text
from ....errors import ArgumentError, ModelError
from ...ir import Graph
from ...passes.int8 import to_int8
from ...passes.rewrite import rewrite as rewritten
from ..operators.masks import with_fills
from ..operators.nchwc import block_of
from . import wire as onnx_wire
from .build import Builder, OnnxNode, Value
from .convert import Unsupported, convert, is_known
from .element_types import FLOAT16, WIDENED, WIDER
from .inputs import (
    Shape,
    Shapes,
    Values,
    by_name,
    checked,
    checked_values,
    elem_type,
    floats,
    named,
    tensors,
)
from .lengths import lengths_of
from .reader import NOT_UTF8, OPSETS, ModelReader, Subgraph, metadata_of, parse
from .shape_inference import inputs_of, with_shapes
from .source import ModelSource, Source

__all__ = ["OPSETS", "load"]

NAMES = "a list of names of tensors"
MAX_OPERATORS = 8  # that an error names
MAX_MESSAGE = 1000  # characters of an error


def load(
    model: ModelSource,
    input_shape: Shapes | None = None,
    rewrite: bool = True,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    values: Values | None = None,
) -> Graph:
    """The network of an ONNX model, opsets 1 to 28, computed in float32.

    Inputs and outputs have the element types of the file, whatever is computed within: float16, float64 and bfloat16
    are float32 there, integers of 16 bits int32, unsigned ones of 32 and 64 int64. Source: ONNX operators,
    onnx.ai/onnx/operators.

    Parameters
    ----------
    model
        The path of a file, the bytes of one, or an ``onnx.ModelProto``. Weights in files of their own are read beside
        the model's; bytes have no such place. The network is called as the file, or as the graph in the bytes.
    input_shape
        The shape of the only input, such as (1, 3, 224, 224), or a dict of shapes by input name. It wins over the
        file's, and is needed where the file leaves more open than the batch, which then is 1. A size that several
        inputs have by the same name needs to be given with one of them.
    rewrite
        False keeps one node per operator, for tests and inspection.
    inputs, outputs
        Names of the tensors between which the network is cut out, instead of the file's own. Their shapes follow from
        those of the file's inputs unless ``input_shape`` has them.
    values
        What inputs are, such as {"sr": 16000}: numbers, which take the input's shape, or arrays. Such an input is a
        constant, and no longer one of the network's; sizes and conditions may depend on it.

    Returns
    -------
    Graph
        The network, rewritten for the kernels.

    Raises
    ------
    ModelError
        Names model and node for whatever is broken or not supported.
    ArgumentError
        For a bad ``input_shape``, and for names that the file does not have.
    MissingExtraError
        Without the onnx package.
    """
    source, rewrite = Source.of(model, checked_values(values)), switch("rewrite", rewrite)
    given = checked(input_shape)
    try:
        graph = _read(source, given, _names("inputs", inputs), _names("outputs", outputs))
    except (ModelError, ArgumentError) as error:
        raise type(error)(f"{source.label}: {_one_line(str(error))}") from None
    except UnicodeDecodeError:  # protobuf decodes a name where it is first read
        raise ModelError(f"{source.label}: {NOT_UTF8}") from None
    except RecursionError:
        raise ModelError(f"{source.label}: its subgraphs are nested too deep") from None
    graph = to_int8(rewritten(graph)) if rewrite else graph
    if graph.qparams:
        onnx_wire.trim()
    for array in graph.constants.values():
        onnx_wire.release(array)  # read by now only to be checked
    if not graph.nodes:
        raise ModelError(f"{source.label}: expected a network, got a model that computes nothing of its input")
    return graph


def _one_line(text: str) -> str:
    """Operators, attributes and files of a model may be named anything; both ends of what is too long stay."""
    if len(text) > MAX_MESSAGE:
        text = f"{text[: MAX_MESSAGE // 2]} ... {text[-MAX_MESSAGE // 2 :]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _names(what: str, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    listed = several(text, NAMES)(what, names)
    if not all(listed) or not listed:
        raise refused(what, NAMES, names)
    if len(set(listed)) < len(listed):
        raise ArgumentError(f"{what}: a name is there twice: {', '.join(listed)}")
    return listed


def _read(
    source: Source,
    given: Shape | dict[str, Shape] | None,
    inputs: tuple[str, ...] | None,
    outputs: tuple[str, ...] | None,
) -> Graph:
    model, raw = parse(source)
    reader = ModelReader(source, model, raw)
    made = [name for node in model.graph.node for name in node.output if name]
    entering = [value.name for value in inputs_of(model.graph)]
    named(inputs or (), [*entering, *made], "inputs")
    named(outputs or (), [*made, *entering], "outputs")
    results = outputs or [output.name for output in model.graph.output]
    nodes, read = reader.needed(results, frozenset(inputs or ()))
    constants = reader.constants(read)
    nodes = with_fills(nodes, constants, results)
    values = [value for value in model.graph.input if value.name in read and value.name not in constants]
    if inputs is not None:
        if missing := [value.name for value in values if value.name not in inputs]:
            raise ArgumentError(f"inputs: the outputs depend on {', '.join(missing)} too")
        if unread := [name for name in inputs if name not in read]:
            raise ArgumentError(f"inputs: no output depends on {', '.join(unread)}")
    border = [value.name for value in values] if inputs is None else list(inputs)
    shapes = by_name(given, border, entering)
    types = _types(source, model, [*border, *(outputs or ())], shapes)
    for name in border:
        if name not in types and name not in shapes:
            raise ModelError(f"the shape of {name!r} cannot be inferred: give it in input_shape")
    entered = tensors([types[name] if name in types else floats(name) for name in border], shapes)
    if entered and not any(tensor.elements for tensor in entered):
        raise ModelError(f"input {entered[0].name!r} has no elements, {entered[0].shape}: give input_shape")
    builder = Builder(entered, constants, read | {name for node in nodes for name in node.outputs}, convert)
    builder.block = block_of(nodes, constants)
    declared = {name: WIDENED.get(elem_type(types[name])) for name in border if name in types}
    builder.narrow.update({name: kind for name, kind in declared.items() if kind in WIDER})
    _convert(reader, builder, nodes, read)
    for name in results:
        if name not in builder.values:
            raise ModelError(f"output {name!r} is made by no node")
    halves = {name for name in results if name in types and elem_type(types[name]) == FLOAT16}
    graph = _graph(builder, source.name(model.graph), results, halves)
    return replace(graph, metadata=metadata_of(model), declared=_declared(graph, types))


def _declared(graph: Graph, types: Mapping[str, Any]) -> dict[str, str]:
    """The types that the file gives inputs and outputs, where no tensor has them."""
    kinds = {}
    for tensor in (*graph.inputs, *graph.outputs):
        kind = WIDENED.get(elem_type(types[tensor.name])) if tensor.name in types else None
        if kind is not None and tensor.dtype == WIDER.get(kind, "float32"):
            kinds[tensor.name] = kind
    return kinds


def _convert(reader: ModelReader, g: Builder, nodes: Sequence[OnnxNode], read: set[str]) -> None:
    g.subgraph = lambda proto: Subgraph(reader, proto)
    for tensor in g.inputs:
        if not tensor.elements:
            g.values[tensor.name] = np.zeros(tensor.shape, tensor.dtype)
        elif tensor.dtype == "float16":  # from here on float32
            node = OnnxNode(f"{tensor.name}/cast", "Cast", (tensor.name,), (tensor.name,), {}, reader.opset)
            g.values[tensor.name] = g.cast(node, tensor.name, "float32", part="float32")
    for node in nodes:
        for name in node.inputs:
            if name and name not in g.values:
                node.fail(f"reads {name!r} {reader.absence(name)}")
        try:
            convert(g, node)
        except Unsupported as error:
            raise ModelError(f"{error}{_others(g, error.node, nodes)}") from None
        for name in node.outputs:
            if name in read and name not in g.values:
                node.fail(f"its output {name!r} is not supported")


def _others(g: Builder, failed: OnnxNode, nodes: Sequence[OnnxNode]) -> str:
    """How many nodes have operators that are not supported, which, and which part of the network has none."""
    counts = Counter(node.op for node in nodes if not is_known(node))
    names = ", ".join(f"{op} ({count})" if count > 1 else op for op, count in counts.most_common(MAX_OPERATORS))
    more = f" and {len(counts) - MAX_OPERATORS} other operators" if len(counts) > MAX_OPERATORS else ""
    others = f"; {sum(counts.values())} of {len(nodes)} nodes are not: {names}{more}" if counts.total() > 1 else ""
    entered = {tensor.name for tensor in g.inputs}
    before = [name for name in failed.inputs if name not in entered and isinstance(g.values.get(name), str)]
    if before:
        return f"{others}; the part before it loads with outputs={before}"
    return f"{others}; the part behind it may load with inputs={[name for name in failed.outputs if name]}"


def _types(source: Source, model: Any, names: Sequence[str], given: Mapping[str, Shape]) -> dict[str, Any]:
    """ValueInfoProtos of the model's inputs and outputs, and of the tensors within it among ``names`` as inferred."""
    entering = inputs_of(model.graph)
    types = {value.name: value for value in (*model.graph.output, *entering)}
    if set(names) <= set(types):
        return types
    known = {value.name: given[value.name] for value in entering if value.name in given}
    try:
        graph = with_shapes(source, parse(source)[0], known).graph
    except ModelError:
        return types  # a shape may have been given
    return types | {value.name: value for value in graph.value_info if value.name in names}


# ---- the finished graph ----


def _graph(g: Builder, name: str, outputs: Sequence[str], halves: Set[str]) -> Graph:
    """``halves`` are outputs that leave as float16."""
    lengths = lengths_of(g, outputs)
    for output in outputs:
        _leave(g, output, outputs, output in halves)
    read = {name for node in g.nodes for name in node.inputs}
    constants = {name: array for name, array in g.constants.items() if name in read}
    qparams = {name: params for name, params in g.qparams.items() if name in constants}
    results = tuple(g.tensors[output] for output in outputs)
    return Graph(name, tuple(g.nodes), g.tensors, constants, g.inputs, results, qparams=qparams, lengths=lengths)


def _leave(g: Builder, output: str, outputs: Sequence[str], half: bool) -> None:
    """Make an activation under the name of an output: the tensor itself, a copy or its float16 form."""
    value = g.values[output]
    entered = {tensor.name for tensor in g.inputs}
    if output in entered:  # it leaves as it came
        return
    node = OnnxNode(output, "Identity", (), (output,), {}, 0)
    if not isinstance(value, Value):
        raise ModelError(f"output {output!r} is a sequence or an optional, expected a tensor")
    if isinstance(value, np.ndarray):
        one = value if value.size else np.zeros((1,) * value.ndim, value.dtype)
        kept = g.keep(one, g.fresh(f"{output}/constant"), infinite=True)
        value = g.emit(node, "expand", [kept], shape=value.shape)
    if half and g.dtype(value) == "float32":
        if value == output:
            value = g.fresh(f"{output}/float32")
            _rename(g, output, value)
        g.emit(node, "cast", [value], to="float16")
    elif value in entered or value in g.counts or (value != output and value in outputs):
        g.emit(node, "reshape", [value], shape=g.shape(value))
    elif value != output:
        _rename(g, value, output)


def _rename(g: Builder, old: str, new: str) -> None:
    """Gives an activation that a node makes another canonical name."""
    g.tensors[new] = replace(g.tensors.pop(old), name=new)
    if old in g.extents:
        g.extents[new] = g.extents.pop(old)
    for i, node in enumerate(g.nodes):
        if node.output == old or old in node.inputs:
            inputs = tuple(new if name == old else name for name in node.inputs)
            g.nodes[i] = replace(node, inputs=inputs, output=new if node.output == old else node.output)
    g.values.update({name: new for name, value in g.values.items() if isinstance(value, str) and value == old})
