"""A model in the form that the reader knows, as other tools write it otherwise.

Nodes that stand before what they read are moved behind it, "ai.onnx" is the domain without a name, an initializer that
is there twice is its last one, an output its first one. Local functions are inlined and opsets before 6 converted to it
by the onnx package, on a model without its large weights; what would grow beyond bounds is refused before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....errors import ModelError
from .tensors import package

# ---- order and names ----

OWN_DOMAINS = ("", "ai.onnx")
VERSIONED = "ai.onnx@"  # begins the domain of nodes that have an opset of their own, which follows
OTHER_VERSION = 1  # of a domain that nodes have and the file does not import


def opset_in(domain: str, default: int) -> int | None:
    """The opset of nodes of a domain, of a model whose own is ``default``; None where they are none of ONNX's own."""
    if domain in OWN_DOMAINS:
        return default
    version = domain.removeprefix(VERSIONED)
    return int(version) if domain.startswith(VERSIONED) and version.isdecimal() and len(version) < 3 else None


def captured(graph: Any) -> set[str]:
    """The names that a GraphProto within a node reads from around it."""
    made = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    made.update(tensor.values.name for tensor in graph.sparse_initializer)
    made.update(name for node in graph.node for name in node.output)
    read = {value.name for value in graph.output}
    for node in graph.node:
        read.update(read_by(node))
    return read - made - {""}


def subgraphs(node: Any) -> Iterator[Any]:
    """The GraphProtos within a NodeProto."""
    for attr in node.attribute:
        if attr.type in (attr.GRAPH, attr.GRAPHS):
            yield from (attr.g, *attr.graphs)


def read_by(node: Any) -> Iterable[str]:
    """The names that a NodeProto reads, its subgraphs included."""
    yield from node.input
    for graph in subgraphs(node):
        yield from captured(graph)


def tidy(model: Any, raw: list[Any]) -> list[Any]:
    """Tidies a ModelProto in place. ``raw`` has an entry for each initializer; those of the ones that stay."""
    imports = {entry.domain for entry in model.opset_import}
    _sort(model.graph)
    for node in _nodes(model.graph.node):
        _tidy_node(node)
        if node.domain not in imports and node.domain not in OWN_DOMAINS and isinstance(node.domain, str):
            imports.add(node.domain)
            model.opset_import.add(domain=node.domain, version=OTHER_VERSION)
    for function in model.functions:
        for node in _nodes(function.node):
            _tidy_node(node)
    _unique(model.graph.output)
    return _unique_initializers(model.graph, raw)


def _nodes(nodes: Any) -> Iterator[Any]:
    """Nodes, and behind each those within its subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _nodes(graph.node)


def _tidy_node(node: Any) -> None:
    if node.domain == OWN_DOMAINS[1]:
        node.domain = ""
    for graph in subgraphs(node):
        _sort(graph)


def _sort(graph: Any) -> None:
    """Puts nodes behind what they read. Those that nothing can be read before, in a circle, stay where they are."""
    producers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [[producers[name] for name in read_by(node) if name in producers] for node in graph.node]
    if all(max(before, default=-1) < i for i, before in enumerate(needs)):
        return
    order: list[int] = []
    done, open_ = set(), set()
    for first in range(len(needs)):
        stack = [first]
        while stack:
            i = stack[-1]
            waits = [j for j in needs[i] if j not in done and j not in open_] if i not in done else []
            open_.add(i)
            if waits:
                stack += waits[::-1]
                continue
            stack.pop()
            if i not in done:
                done.add(i)
                order.append(i)
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes[i] for i in order)


def _unique(values: Any) -> None:
    """Of entries with one name the first stays."""
    kept = list({value.name: value for value in reversed(values)}.values())[::-1]
    if len(kept) < len(values):
        del values[:]
        values.extend(kept)


def _unique_initializers(graph: Any, raw: list[Any]) -> list[Any]:
    """Of initializers with one name the last stays, as in onnxruntime."""
    last = {tensor.name: i for i, tensor in enumerate(graph.initializer)}
    if len(last) == len(raw):
        return raw
    kept = sorted(last.values())
    tensors = [graph.initializer[i] for i in kept]
    del graph.initializer[:]
    graph.initializer.extend(tensors)
    return [raw[i] for i in kept]


# ---- functions and early opsets ----

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
    imports = {entry.domain: entry.version for entry in model.opset_import} | {"": opset}
    context = checker_context(model.ir_version, imports)
    for node in model.graph.node:
        if message := misfit(node, context):
            name = node.name or next(iter(node.output), "")  # bytes where they are no UTF-8
            raise ModelError(f"node {name!r} ({node.op_type}): {message}")


def checker_context(ir_version: int, opsets: Mapping[str, int]) -> Any:
    """What the checker is told."""
    context = package().checker.C.CheckerContext()
    context.ir_version, context.opset_imports = ir_version, opsets
    return context


def misfit(node: Any, context: Any) -> str:
    """How a NodeProto does not fit its operator's schema; "" where it does."""
    try:
        package().checker.check_node(node, context)
    except package().checker.ValidationError as error:
        return (str(error).strip().splitlines() or ["is malformed"])[0]
    return ""
