"""What the onnx package knows of a single node: its definition by other operators, its results' shapes and values.

``fold`` evaluates what exporters write most. What else does not depend on the model's input is evaluated here, by
canonical nodes or by the package's reference implementation. Sizes are known, from shape inference, before anything is
computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Any

import numpy as np

from ....errors import PipeallError
from ...ir import Tensor
from ...ops import OPS
from ...ops.indexing_ops import COMBINE
from .build import OPERATORS, Builder, OnnxNode, Shape
from .control import run
from .element_types import TYPES
from .reader import has_subgraph
from .tensors import package

RANDOM = frozenset("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split())
BOUNDED = frozenset("Compress NonMaxSuppression NonZero Unique".split())  # results are never far larger than inputs
MAX_ELEMENTS = 2**24  # of one node: the reference is slow
MAX_NUMBERS = 4096  # of an operand whose elements may say how large the result is
IR_VERSION = 8  # any will do for one node


def can_evaluate(n: OnnxNode) -> bool:
    """Whether the operator is one of ONNX's own that always gives the same, by no subgraph."""
    return (
        bool(n.inputs) and n.op not in RANDOM and "." not in n.op and not has_subgraph(n) and package().defs.has(n.op)
    )


def evaluate(g: Builder, n: OnnxNode) -> None:
    """Bind the outputs of a node whose inputs are all constant; ModelError where that cannot be."""
    feeds = {f"x{i}": np.asarray(g.constant(n, i)) for i, name in enumerate(n.inputs) if name}
    size = sum(array.size for array in feeds.values())
    try:
        results = [None if shape is None else prod(shape) for shape, _ in shapes_of(n, feeds)]
        if None in results and n.op not in BOUNDED:
            n.fail("cannot evaluate on constants: the size of its result is not known")
        size += sum(filter(None, results))
        if size > MAX_ELEMENTS:
            n.fail(f"cannot evaluate on constants: {size} elements, expected at most {MAX_ELEMENTS}")
        g.afford(n, size)
        with np.errstate(all="ignore"):  # what is not finite is refused where it is kept
            arrays = _converted(g, n, feeds) or _evaluated(n, feeds)
    except Exception as error:  # the reference raises whatever NumPy does
        if type(error).__module__.startswith("pipeall"):
            raise
        n.fail(f"cannot evaluate on constants: {' '.join(str(error).split()):.200}")
    for i, array in zip(n.made, arrays, strict=True):
        if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "fiub":
            n.fail("cannot evaluate on constants: its result is no tensor of numbers")
        if n.op.endswith("Pool") and feeds["x0"].size and not array.size:
            n.fail("the kernel exceeds the padded input")
        g.bind(n, np.asarray(array), i)


def _converted(g: Builder, n: OnnxNode, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What the canonical nodes of an operator compute, as they would of an activation: the reference implementation
    differs from onnxruntime, and has not all attributes. None where there are no such nodes."""
    x = feeds.get("x0")
    if n.op not in OPERATORS or x is None or x.dtype != np.float32 or not x.size:
        return None
    constants = {name: g.constant(n, i) for i, name in enumerate(n.inputs) if name and name != n.inputs[0]}
    alone = Builder([Tensor(n.inputs[0], x.shape)], constants, g.reserved, g.convert_node)
    try:
        alone.convert(n)
    except PipeallError:
        return None
    values = {n.inputs[0]: x, **alone.constants}
    for node in alone.nodes:
        operands = [values[name] for name in node.inputs]
        wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in operands]
        values[node.output] = OPS[node.op].compute(node.attrs, *wide)
    made = [alone.values[name] for name in n.outputs if name]
    return [
        value if isinstance(value, np.ndarray) else values[value].astype(alone.dtype(value), copy=False)
        for value in made
    ]


def _evaluated(n: OnnxNode, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    if n.op in INDEXED:
        return [INDEXED[n.op](n, *feeds.values())]
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(_model(n, feeds, {})).run(None, feeds)


# ---- what the reference does element by element ----


def _gather_nd(n: OnnxNode, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    batch = np.indices(indices.shape[:-1], sparse=True)[: n.get("batch_dims", int, 0)]
    return x[(*batch, *np.moveaxis(indices, -1, 0))]


def _scatter_nd(n: OnnxNode, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    return _scattered(n, x, tuple(np.moveaxis(indices, -1, 0)), updates)


def _scatter_elements(n: OnnxNode, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    at = list(np.indices(indices.shape, sparse=True))
    at[n.axis_of(x.ndim, 0)] = indices
    return _scattered(n, x, tuple(at), updates)


def _scattered(n: OnnxNode, x: np.ndarray, at: tuple[np.ndarray, ...], updates: np.ndarray) -> np.ndarray:
    made, reduction = x.copy(), n.get("reduction", str, "none")
    if reduction != "none":
        COMBINE[reduction].at(made, at, updates)
    else:
        made[at] = updates
    return made


INDEXED = {
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements,
}


def _model(n: OnnxNode, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray]) -> Any:
    """A model of the node alone, on x0, x1, ...; those of ``inputs`` by their shapes and types."""
    onnx = package()
    names = [f"x{i}" if name else "" for i, name in enumerate(n.inputs)]
    node = onnx.helper.make_node(
        n.op, names, [f"y{i}" if name else "" for i, name in enumerate(n.outputs)], **_attrs(n)
    )
    kinds = {name: (array.dtype, array.shape) for name, array in inputs.items()}
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    return _alone(n, node, kinds, tensors)


def _attrs(n: OnnxNode) -> dict[str, Any]:
    to_proto = package().numpy_helper.from_array
    return {name: to_proto(value) if isinstance(value, np.ndarray) else value for name, value in n.attrs.items()}


def _alone(n: OnnxNode, node: Any, kinds: Mapping[str, tuple[np.dtype, Shape]], constants: Sequence[Any] = ()) -> Any:
    """The model of one NodeProto; ``kinds`` are the types and shapes of its inputs."""
    helper, value_info = package().helper, package().ValueInfoProto
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
        for name, (dtype, shape) in kinds.items()
    ]
    graph = helper.make_graph(
        [node], "node", inputs, [value_info(name=name) for name in node.output if name], constants
    )
    opsets = [helper.make_opsetid("", n.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def shapes_of(
    n: OnnxNode, feeds: dict[str, np.ndarray], computed: Set[str] = frozenset()
) -> list[tuple[tuple[int, ...] | None, int]]:
    """Shape, None where inference does not tell, and ONNX element type of each output that has a name.

    Inference reads small operands, but for those that are ``computed``.
    """
    small = {name: array for name, array in feeds.items() if array.size <= MAX_NUMBERS and name not in computed}
    model = _model(n, {name: array for name, array in feeds.items() if name not in small}, small)
    inferred = package().shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    return [_described(output.type.tensor_type) for output in inferred.graph.output]


def _described(kind: Any) -> tuple[tuple[int, ...] | None, int]:
    known = kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim)
    return tuple(dim.dim_value for dim in kind.shape.dim) if known else None, kind.elem_type


# ---- tensors without elements, of which no kernel knows ----

JOINS = ("Concat", "Resize", "Upsample")  # those to which one without elements adds or says nothing


def emptied(g: Builder, n: OnnxNode) -> bool:
    """Binds the outputs of a node where an operand has no elements and they have none; False where it is another."""
    values = {f"x{i}": g.values[name] for i, name in enumerate(n.inputs) if name}
    if "." in n.op or n.op in JOINS or not any(isinstance(v, np.ndarray) and not v.size for v in values.values()):
        return False
    arrays = {
        name: value if isinstance(value, np.ndarray) else np.broadcast_to(np.zeros((), g.dtype(value)), g.shape(value))
        for name, value in values.items()
    }
    computed = frozenset(name for name, value in values.items() if isinstance(value, str))
    try:
        results = shapes_of(n, arrays, computed)
    except Exception:  # of C++, which raises many kinds: whoever converts the node says what does not fit
        return False
    if any(shape is None or 0 not in shape for shape, _ in results):
        return False
    for i, (shape, elem_type) in zip(n.made, results, strict=True):
        g.bind(n, np.zeros(shape, TYPES.get(elem_type, np.float32)), i)
    return True


# ---- definitions ----


def expanded(g: Builder, n: OnnxNode) -> bool:
    """Convert the node by its definition; False where there is none."""
    onnx = package()
    if "." in n.op or not onnx.defs.has(n.op) or has_subgraph(n):
        return False
    try:
        schema = onnx.defs.get_schema(n.op, n.opset)
    except onnx.defs.SchemaError:
        return False
    if not (schema.has_function or schema.has_context_dependent_function):
        return False
    graph = _definition(g, n, schema)
    if graph is None:
        return False
    body = g.subgraph(graph)
    values = run(g, n, body, {})
    for i, value in zip(n.made, values, strict=True):
        g.bind(n, value, i)
    return True


def _definition(g: Builder, n: OnnxNode, schema: Any) -> Any:
    """The GraphProto of the operator's definition for this node's types and attributes, None where there is none."""
    onnx = package()
    from onnx.inliner import inline_local_functions, inline_selected_functions

    model = _model_of_types(g, n, schema)
    try:
        if "" in n.inputs and schema.has_context_dependent_function:  # the inliner asks for their types
            node, types = model.graph.node[0], {value.name: value.type for value in model.graph.input}
            known = [types.get(name, onnx.TypeProto()).SerializeToString() for name in n.inputs]
            body = schema.get_context_dependent_function(node.SerializeToString(), known)
            model.functions.append(onnx.FunctionProto.FromString(body))
            graph = inline_local_functions(model).graph
        else:
            graph = inline_selected_functions(model, [("", n.op)], inline_schema_functions=True).graph
    except Exception as error:  # of C++; or of a package that cannot do it yet
        n.fail(f"operator not supported, its definition cannot be used: {' '.join(str(error).split()):.200}")
    if any(node.op_type == n.op for node in graph.node):
        return None
    del graph.input[:]
    return graph


def _model_of_types(g: Builder, n: OnnxNode, schema: Any) -> Any:
    """A model of the node alone, with every attribute: the inliner knows no defaults."""
    node = package().helper.make_node(n.op, n.inputs, n.outputs, **_attrs(n))
    defaults = {name: entry.default_value for name, entry in schema.attributes.items() if name not in n.attrs}
    node.attribute.extend(value for value in defaults.values() if value.type)
    values = {name: g.values[name] for name in dict.fromkeys(filter(None, n.inputs))}
    return _alone(n, node, {name: (np.dtype(g.type_of(value)), g.shape_of(value)) for name, value in values.items()})
