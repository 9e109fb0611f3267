"""What becomes of an ONNX node: a constant, canonical nodes, or a refusal that names it.

All operators are registered by the modules that are imported here.
"""

from __future__ import annotations

import numpy as np

from . import (  # noqa: F401  register their operators
    activations,
    attention,
    control,
    einsum,
    experimental,
    fourier,
    index,
    lengths_carry,
    lengths_index,
    microsoft,
    microsoft_products,
    ml,
    moves,
    normalise,
    pointwise,
    pools,
    products,
    quantised,
    recurrent,
    reduce,
    resize,
    windows,
)
from .build import OPERATORS, Builder, OnnxNode, check_attributes
from .evaluate import can_evaluate, evaluate
from .expand import expanded
from .fold import FOLD, RESHAPE, fold
from .lengths import converted
from .masks import FILL, fill

SUPPORTED = frozenset({*FOLD, *OPERATORS})


def convert(g: Builder, n: OnnxNode) -> None:
    """Evaluate a node whose inputs are all constant, else add its canonical nodes; ModelError where neither can be."""
    if converted(g, n):
        return
    constant = n.op != FILL and all(isinstance(g.values[name], np.ndarray) for name in n.inputs if name)
    if constant and (n.op in FOLD or n.op in RESHAPE):
        fold(g, n)
    elif constant and can_evaluate(n):
        evaluate(g, n)
    elif n.op == FILL:
        fill(g, n)
    elif n.op in OPERATORS:
        check_attributes(n)
        with np.errstate(over="ignore", invalid="ignore"):  # the builder refuses constants that are not finite
            OPERATORS[n.op].convert(g, n)
    elif not expanded(g, n):
        only = "operator supported on constants only" if n.op in FOLD else "operator not supported"
        n.fail(f"{only}; supported are {', '.join(sorted(OPERATORS))}")
