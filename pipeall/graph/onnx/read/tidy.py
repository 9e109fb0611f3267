"""A file's graph in the order and with the names that the reader expects, as other tools write it otherwise.

Nodes that stand before what they read are moved behind it, "ai.onnx" is the domain without a name, an initializer that
is there twice is its last one, an output its first one, and inputs that the caller gives a value are initializers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

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
    for node in _tidied(model.graph):
        if node.domain not in imports and node.domain not in OWN_DOMAINS and isinstance(node.domain, str):
            imports.add(node.domain)
            model.opset_import.add(domain=node.domain, version=OTHER_VERSION)
    for function in model.functions:
        for _ in _nodes(function):
            pass
    _unique(model.graph.output)
    return _unique_initializers(model.graph, raw)


def _tidied(graph: Any) -> Iterator[Any]:
    """The nodes of a GraphProto and of those within it, each graph in order when its nodes have been taken."""
    yield from _nodes(graph)
    _sort(graph)


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        if node.domain == OWN_DOMAINS[1]:
            node.domain = ""
        for inner in subgraphs(node):
            yield from _tidied(inner)
        yield node


def _sort(graph: Any) -> None:
    """Puts nodes behind what they read. Those that nothing can be read before, in a circle, stay where they are."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [[makers[name] for name in read_by(node) if name in makers] for node in graph.node]
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
