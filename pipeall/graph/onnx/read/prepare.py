"""A model in the form that the reader knows: local functions inlined, opsets before 6 converted to it.

Both are done by the onnx package, on a model without its large weights. What would grow beyond bounds or recur without
end is refused before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....errors import ModelError
from .tensors import package
from .tidy import OWN_DOMAINS, VERSIONED, subgraphs

FIRST_OPSET = 6  # older ones are converted to it
MAX_NODES = 2**17  # of a model whose functions are inlined


def prepared(model: Any, opset: int) -> Any:
    own = list(model.metadata_props)  # which the onnx package may drop
    if model.functions:
        from onnx.inliner import inline_local_functions

        _check_calls(model)
        _mark(model, opset)
        model = _tried("its functions cannot be inlined", inline_local_functions, model)
    if opset < FIRST_OPSET:
        from onnx.version_converter import convert_version

        _check_nodes(model, opset)
        what = f"opset {opset} cannot be converted to {FIRST_OPSET}"
        model.ir_version = max(model.ir_version, 4)  # initializers need be no inputs
        model = _tried(what, convert_version, model, FIRST_OPSET)
    if not model.metadata_props:
        model.metadata_props.extend(own)
    return model


def _mark(model: Any, opset: int) -> None:
    """Gives the nodes of functions that import another opset than the model a domain that says so: the inliner takes
    functions of the model's own opset alone."""
    for function in model.functions:
        for entry in function.opset_import:
            if entry.domain in OWN_DOMAINS and entry.version != opset:
                domain = f"{VERSIONED}{entry.version}"
                for node in _nodes(function.node):
                    node.domain = domain if node.domain in OWN_DOMAINS else node.domain
                entry.version = opset
                for imports in (function.opset_import, model.opset_import):
                    if all(known.domain != domain for known in imports):
                        imports.add(domain=domain, version=1)


def _tried(what: str, function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except UnicodeDecodeError:
        raise
    except Exception as error:  # of C++, which raises many kinds
        raise ModelError(f"{what}: {' '.join(str(error).split()):.200}") from None


def _nodes(nodes: Any) -> Iterator[Any]:
    """Nodes, and those within their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _nodes(graph.node)


def _check_calls(model: Any) -> None:
    """Refuse functions that call themselves, or that grow to more than MAX_NODES nodes."""
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    entered: set[tuple[str, str]] = set()

    def size(key: tuple[str, str]) -> int:
        if key in sizes:
            return sizes[key]
        if key in entered:
            raise ModelError(f"function {key[1]!r} calls itself")
        entered.add(key)
        sizes[key] = total(functions[key].node)
        return sizes[key]

    def total(nodes: Any) -> int:
        calls = ((node.domain, node.op_type) for node in _nodes(nodes))
        return sum(size(call) if call in functions else 1 for call in calls)

    if (count := total(model.graph.node)) > MAX_NODES:
        raise ModelError(f"its functions grow to {count} nodes, expected at most {MAX_NODES}")


def _check_nodes(model: Any, opset: int) -> None:
    """The converter trusts its model: every node must fit its operator's schema."""
    onnx = package()
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {entry.domain: entry.version for entry in model.opset_import} | {"": opset}
    for node in model.graph.node:
        try:
            onnx.checker.check_node(node, context)
        except onnx.checker.ValidationError as error:
            message = (str(error).strip().splitlines() or ["is malformed"])[0]
            name = node.name or next(iter(node.output), "")  # bytes where they are no UTF-8
            raise ModelError(f"node {name!r} ({node.op_type}): {message}") from None
