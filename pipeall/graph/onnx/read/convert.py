"""What becomes of an ONNX node: a constant, canonical nodes, or a refusal that names it.

All operators are registered by the modules that are imported here.
"""

from __future__ import annotations

import numpy as np

from ....errors import ModelError, PipeallError
from ..operators import (  # noqa: F401  register their operators
    attention_nodes,
    composed,
    fourier,
    grids,
    index_nodes,
    microsoft,
    microsoft_attention,
    movement,
    nchwc,
    normalization,
    pointwise_nodes,
    pools,
    products,
    quantized,
    random,
    recurrent_nodes,
    reductions,
    resize_nodes,
    slices,
    windows,
)  # fmt: skip
from ..operators.masks import FILL, fill
from ..operators.sequences import HOLDERS
from . import control, lengths_carry, lengths_index  # noqa: F401  register their operators
from .build import OPERATORS, Builder, OnnxNode, Value
from .fold import FOLD, RESHAPE, fold
from .lengths import check_attributes, converted
from .narrow import narrow_type, narrowed
from .reference import can_evaluate, emptied, evaluate, expanded

SUPPORTED = frozenset({*FOLD, *OPERATORS})


def convert(g: Builder, n: OnnxNode) -> None:
    """Evaluate a node whose inputs are all constant, else add its canonical nodes; ModelError where neither can be."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # the builder refuses weights that are not finite
            _convert(g, n)
    except (PipeallError, UnicodeDecodeError):
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # a file may give a node any attributes and shapes, and some fit nothing that its converter looks at
        n.fail(f"its attributes and inputs do not fit together: {' '.join(str(error).split()):.200}")


def _convert(g: Builder, n: OnnxNode) -> None:
    if converted(g, n):
        return
    values = [g.values[name] for name in n.inputs if name]
    whole = n.op not in (FILL, "Identity", *HOLDERS)
    constant = whole and all(isinstance(value, np.ndarray) for value in values)
    if whole and not all(isinstance(value, Value) for value in values):
        n.fail("expected tensors, got a sequence or an optional without an element")
    if n.op == "Identity":
        g.hold(n, values[0])
    elif constant and (n.op in FOLD or n.op in RESHAPE):
        fold(g, n)
    elif constant and can_evaluate(n):
        evaluate(g, n)
    elif n.op == FILL:
        fill(g, n)
    elif n.op in OPERATORS:
        check_attributes(n)
        if whole and emptied(g, n):
            return
        if narrow := narrow_type(g, n) if whole else None:
            narrowed(g, n, narrow, OPERATORS[n.op].convert)
        else:
            OPERATORS[n.op].convert(g, n)
    elif not expanded(g, n):
        raise Unsupported(n)


class Unsupported(ModelError):
    """A node whose operator nothing is known of, or nothing but what it makes of constants."""

    def __init__(self, node: OnnxNode):
        self.node = node
        only = "operator supported on constants only" if node.op in FOLD else "operator not supported"
        super().__init__(f"node {node.name!r} ({node.op}): {only}")


def is_known(n: OnnxNode) -> bool:
    """Whether there is a way to convert a node of this operator."""
    return n.op in OPERATORS or n.op in FOLD or n.op == FILL or can_evaluate(n)
