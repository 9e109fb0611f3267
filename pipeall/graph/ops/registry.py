"""The op table: of every op its inputs, attributes, output shape and type, NumPy reference and MACs.

A new op is one entry of ``OPS`` in the file of its family and a list of cases in ``cases.py``; that makes it correct
everywhere (import, costs, tests), and native code can follow. A pointwise op is an entry of ``pointwise.py`` instead.

``ir.py`` defines Node and Tensor. Semantics are those of the ONNX op of the same name, every default spelled out,
operands of the same rank, and a clamp [lo, hi] fused into the ops that compute sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...errors import ModelError
from . import element_ops as elements
from . import image_ops as images
from . import indexing_ops as indexing
from . import movement_ops as moves
from . import picture_ops as pictures
from . import recurrent_ops as recurrent
from . import reduction_ops as reductions
from . import region_ops as regions
from . import row_ops as rows
from . import sampling_ops as sampling
from .spec import GIVEN, Attrs, Misfit, OpSpec, Shape, Trait, require

# Refuse absurd models before anything is allocated
MAX_ELEMENTS = 2**31 - 1  # of one tensor
MAX_RANK = 8

OPS: dict[str, OpSpec] = images.OPS | rows.OPS | elements.OPS | moves.OPS | reductions.OPS
OPS |= indexing.OPS | sampling.OPS | regions.OPS | recurrent.OPS | pictures.OPS


def attributes(op: str, **given: Any) -> dict[str, Any]:
    """The attributes of a node of ``op``: those given, and the defaults of ONNX for the others."""
    return {name: value for name, value in OPS[op].attrs.items() if value is not GIVEN} | given


def has(op: str, trait: Trait) -> bool:
    """Whether an op has a trait; one that is not in the table has none."""
    return op in OPS and trait in OPS[op].traits


def infer_shape(op: str, attrs: Attrs, input_shapes: Sequence[Shape], node_name: str) -> Shape:
    """Output shape of a node; ``input_shapes`` covers constants too, in the node's order.

    Checks all that can be wrong with attributes and shapes; raises ModelError naming the node.
    """
    spec = OPS.get(op)
    if spec is None:
        raise ModelError(f"node {node_name!r}: unknown op {op!r}; known: {', '.join(OPS)}")
    try:
        least, most = spec.inputs
        require(least <= len(input_shapes) <= most, f"expected {least} to {most} inputs, got {len(input_shapes)}")
        expected = ", ".join(spec.attrs) or "none"
        require(set(attrs) == set(spec.attrs), f"expected attributes {expected}, got {', '.join(attrs) or 'none'}")
        for shape in input_shapes:
            require(all(n >= 1 for n in shape), f"input shape {shape} has a size below 1")
        out = spec.shape(attrs, *map(tuple, input_shapes))
        require(len(out) <= MAX_RANK, f"output {out} has more than {MAX_RANK} dimensions")
        require(prod(out) <= MAX_ELEMENTS, f"output {out} has more than {MAX_ELEMENTS} elements")
    except Misfit as error:
        raise ModelError(f"node {node_name!r} ({op}): {error}") from None
    return out


def infer_type(op: str, attrs: Attrs, input_types: Sequence[str], node_name: str) -> str:
    """Element type of a node's output, a key of ``steps.TYPES``; attributes and shapes have been checked.

    Raises ModelError naming the node where the types do not fit.
    """
    try:
        return OPS[op].types(attrs, *input_types)
    except Misfit as error:
        raise ModelError(f"node {node_name!r} ({op}): {error}") from None


def work(op: str, output_shape: Shape, input_shapes: Sequence[Shape]) -> int:
    """Multiply-accumulates of a node."""
    count = OPS[op].macs
    return 0 if count is None else count(output_shape, *input_shapes)
