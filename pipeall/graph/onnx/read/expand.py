"""Operators that ONNX itself defines by others: their definition is converted in the place of the node."""

from __future__ import annotations

from typing import Any

import numpy as np

from .build import Builder, OnnxNode
from .control import run
from .reader import Subgraph
from .tensors import package

IR_VERSION = 8  # any will do for one node


def expanded(g: Builder, n: OnnxNode) -> bool:
    """Convert the node by its definition; False where there is none."""
    onnx = package()
    if "." in n.op or not onnx.defs.has(n.op) or any(isinstance(value, Subgraph) for value in n.attrs.values()):
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
    for i, value in zip((i for i, name in enumerate(n.outputs) if name), values, strict=True):
        g.bind(n, value, i)
    return True


def _definition(g: Builder, n: OnnxNode, schema: Any) -> Any:
    """The GraphProto of the operator's definition for this node's types and attributes, None where there is none."""
    onnx = package()
    from onnx.inliner import inline_local_functions, inline_selected_functions

    model = _model(g, n, schema)
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


def _model(g: Builder, n: OnnxNode, schema: Any) -> Any:
    """A model of the node alone, with every attribute: the inliner knows no defaults."""
    onnx = package()
    attrs = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in n.attrs.items()
    }
    node = onnx.helper.make_node(n.op, n.inputs, n.outputs, **attrs)
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items() if name not in attrs}
    node.attribute.extend(value for value in defaults.values() if value.type)
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(_dtype(g, name))), g.shape_of(g.values[name])
        )
        for name in dict.fromkeys(filter(None, n.inputs))
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in n.outputs if name]
    opsets = [onnx.helper.make_opsetid("", n.opset)]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _dtype(g: Builder, name: str) -> str:
    value = g.values[name]
    return value.dtype.name if isinstance(value, np.ndarray) else g.dtype(value)
