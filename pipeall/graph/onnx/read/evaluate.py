"""Any standard operator on constants, by its canonical nodes or by the onnx package's reference implementation.

``fold`` evaluates what exporters write most; this is for the rest, so that whatever does not depend on the model's
input is a constant. Sizes are known, from shape inference, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import Any

import numpy as np

from ....errors import PipeallError
from ...ir import Tensor
from ...ops import OPS
from ...ops.indexing_ops import COMBINE
from .build import OPERATORS, Builder, OnnxNode
from .reader import Subgraph
from .tensors import package

RANDOM = frozenset("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split())
BOUNDED = frozenset("Compress NonMaxSuppression NonZero Unique".split())  # results are never far larger than inputs
MAX_ELEMENTS = 2**24  # of one node: the reference is slow
MAX_NUMBERS = 4096  # of an operand whose elements may say how large the result is
IR_VERSION = 8  # any will do for one node


def can_evaluate(n: OnnxNode) -> bool:
    """Whether the operator is one of ONNX's own that always gives the same, by no subgraph."""
    graphs = any(isinstance(value, Subgraph) for value in n.attrs.values())
    return bool(n.inputs) and n.op not in RANDOM and "." not in n.op and not graphs and package().defs.has(n.op)


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
    made = (i for i, name in enumerate(n.outputs) if name)
    for i, array in zip(made, arrays, strict=True):
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
    alone = g.apart(Tensor(n.inputs[0], x.shape), constants)
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

    return ReferenceEvaluator(_model(n, feeds)).run(None, feeds)


# ---- what the reference does element by element ----


def _gather_nd(n: OnnxNode, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    batch = np.indices(indices.shape[:-1], sparse=True)[: n.get("batch_dims", int, 0)]
    return x[(*batch, *np.moveaxis(indices, -1, 0))]


def _scatter_nd(n: OnnxNode, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    return _scattered(n, x, tuple(np.moveaxis(indices, -1, 0)), updates)


def _scatter_elements(n: OnnxNode, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    at = list(np.indices(indices.shape, sparse=True))
    at[n.axis(n.get("axis", int, 0), x.ndim)] = indices
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


def _model(n: OnnxNode, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray] | None = None) -> Any:
    onnx = package()
    attrs = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in n.attrs.items()
    }
    names = [f"x{i}" if name else "" for i, name in enumerate(n.inputs)]
    outputs = [f"y{i}" if name else "" for i, name in enumerate(n.outputs)]
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(n.op, names, outputs, **attrs)],
        "node",
        values,
        [onnx.ValueInfoProto(name=name) for name in outputs if name],
        [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [onnx.helper.make_opsetid("", n.opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


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
