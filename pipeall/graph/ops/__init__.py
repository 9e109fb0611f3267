"""The op table (``table``), and what it says of the nodes of a graph: their work, and their results in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ..ir import Graph, Node, cut_to_lengths
from .registry import MAX_ELEMENTS, MAX_RANK, OPS, attributes, has, infer_shape, infer_type, work
from .spec import Trait

__all__ = [
    "MAX_ELEMENTS", "MAX_RANK", "OPS", "Trait", "attributes", "has", "infer_shape", "infer_type", "macs", "run_graph",
    "selects", "unclamped",
]  # fmt: skip


def macs(node: Node, graph: Graph) -> int:
    """Multiply-accumulates of one node (1 MAC = 2 FLOP); 0 for all but convolutions and products."""
    operands = (graph.constants[name] if name in graph.constants else graph.tensors[name] for name in node.inputs)
    return work(node.op, graph.tensors[node.output].shape, [operand.shape for operand in operands])


def selects(node: Node) -> bool:
    """Whether every value that a node makes is one that it reads."""
    return has(node.op, Trait.SELECTS) or (node.op == "resize" and node.attrs["mode"] == "nearest")


def unclamped(node: Node) -> bool:
    """Whether a node that ends in clamp(lo, hi) leaves all values as they are."""
    return (node.attrs["lo"], node.attrs["hi"]) == (-inf, inf)


# ---- execution ----


def run_graph(
    graph: Graph, inputs: Mapping[str, np.ndarray], dtype: Any = np.float64, all_tensors: bool = False
) -> dict[str, np.ndarray]:
    """Execute a graph with the NumPy references, floats in ``dtype`` and all else in its own type.

    ``inputs`` maps each input tensor's name to an array of its shape. Returns what leaves (``outputs`` and
    ``leaves``) by name, or every activation with ``all_tensors``. ArgumentError where an input is missing, unknown or
    of another shape.
    """
    expected = {tensor.name: tensor.shape for tensor in graph.inputs}
    given = {name: np.shape(array) for name, array in inputs.items()}
    if given != expected:
        raise ArgumentError(f"graph {graph.name!r}: expected inputs {expected}, got {given}")

    def operand(array: Any) -> np.ndarray:
        array = np.asarray(array)
        return array.astype(dtype, copy=False) if array.dtype.kind == "f" else array

    values = {name: operand(array) for name, array in inputs.items()}
    for node in graph.nodes:
        arrays = [values[name] if name in values else operand(graph.constants[name]) for name in node.inputs]
        values[node.output] = OPS[node.op].compute(node.attrs, *arrays)
    if all_tensors:
        return values
    left = (*graph.outputs, *graph.leaves)
    return cut_to_lengths((tensor.name for tensor in left), graph.lengths, values)
