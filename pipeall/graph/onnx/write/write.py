"""A graph as an ONNX file, written without the onnx package. The inverse of the import for the ops of ``write_ops``.

Quantized networks become QDQ files: ``fakequant`` is a pair of QuantizeLinear and DequantizeLinear, and constants that
lie on levels are stored as integers. One that computes with integers is written by what it means in real numbers.
"""

from __future__ import annotations

from math import inf
from pathlib import Path

from ....errors import ArgumentError
from ....files import write_whole
from ...ir import Graph, Node
from ...passes.dequantize import on_levels
from ...pointwise import UNARY
from ..read.wire import with_length
from .write_ops import RULES
from .writer import Writer, encoded_tensor, encoded_value, number

OPSET, IR_VERSION = 13, 8
RESIZED = {"half_pixel_symmetric": 19}  # coordinates of resize -> the first opset that has them


def onnx_bytes(graph: Graph) -> bytes:
    """The file's content: opset 13, or the first that has all operators; shapes, types and names as in the graph.

    Raises ArgumentError naming the node for an op without a rule, or with operands that ONNX cannot have.
    """
    graph = on_levels(graph)
    if reason := unwritable(graph):
        raise ArgumentError(reason)
    writer = Writer(graph, max([OPSET, *map(_first_opset, graph.nodes)]))
    for node in graph.nodes:
        _write(writer, node)
    body = b"".join(with_length(1, content) for content in writer.nodes)
    body += with_length(2, graph.name.encode())
    body += b"".join(with_length(5, encoded_tensor(name, array)) for name, array in writer.stored.items())
    for field, tensors in ((11, graph.inputs), (12, graph.outputs)):
        body += b"".join(with_length(field, encoded_value(t.name, t.dtype, t.shape)) for t in tensors)
    metadata = b"".join(
        with_length(14, with_length(1, key.encode()) + with_length(2, text.encode()))
        for key, text in graph.metadata.items()
    )
    head = number(1, IR_VERSION) + with_length(2, b"pipeall") + with_length(7, body)
    return head + with_length(8, number(2, writer.opset)) + metadata


def save_onnx(graph: Graph, path: str | Path) -> None:
    """Writes a network as an ONNX file: what ``load`` reads again.

    Parameters
    ----------
    graph
        The network.
    path
        The file. It is replaced as a whole.

    Raises
    ------
    ArgumentError
        Where the file cannot be written, and else as ``onnx_bytes``.
    """
    content = onnx_bytes(graph)
    write_whole(path, lambda file: file.write(content))


def unwritable(graph: Graph) -> str | None:
    """The first node whose op has no rule, and which have; None where all do. Operands may be refused all the same."""
    node = next((node for node in graph.nodes if node.op not in RULES), None)
    return node and f"node {node.name!r}: expected one of {', '.join(RULES)} to write as ONNX, got {node.op!r}"


def _write(w: Writer, node: Node) -> None:
    """Adds what a node means; a clamp behind it is a node of its own."""
    low, high = node.attrs.get("lo", -inf), node.attrs.get("hi", inf)
    if node.op == "clip" or (low, high) == (-inf, inf):
        RULES[node.op](w, node, node.output)
    else:
        inner = w.fresh(f"{node.output}/{node.op}")
        RULES[node.op](w, node, inner)
        w.clamp(inner, node.output, low, high)


def _first_opset(node: Node) -> int:
    """ONNX's first that has what a node needs."""
    if node.op == "resize":
        return max(RESIZED.get(node.attrs["coordinates"], OPSET), 18 if node.attrs["antialias"] else OPSET)
    if node.op == "gelu_tanh":
        return UNARY["gelu"].opset
    return UNARY[node.op].opset if node.op in UNARY else OPSET
