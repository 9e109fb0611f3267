"""Tensors without elements, of which no kernel knows: whatever is made of them is a constant without elements too."""

from __future__ import annotations

import numpy as np

from .build import Builder, OnnxNode
from .evaluate import shapes_of
from .fold import TYPES

JOINS = ("Concat", "Resize", "Upsample")  # those to which one without elements adds or says nothing


def emptied(g: Builder, n: OnnxNode) -> bool:
    """Binds the outputs of a node where an operand has no elements and they have none; False where it is another."""
    values = {f"x{i}": g.values[name] for i, name in enumerate(n.inputs) if name}
    if "." in n.op or n.op in JOINS or not any(isinstance(v, np.ndarray) and not v.size for v in values.values()):
        return False
    arrays = {
        name: value if isinstance(value, np.ndarray) else np.broadcast_to(np.zeros((), g.dtype(value)), g.shape(value))
        for name, value in values.items()
    }
    computed = frozenset(name for name, value in values.items() if isinstance(value, str))
    try:
        results = shapes_of(n, arrays, computed)
    except Exception:  # of C++, which raises many kinds: whoever converts the node says what does not fit
        return False
    if any(shape is None or 0 not in shape for shape, _ in results):
        return False
    made = (i for i, name in enumerate(n.outputs) if name)
    for i, (shape, elem_type) in zip(made, results, strict=True):
        g.bind(n, np.zeros(shape, TYPES.get(elem_type, np.float32)), i)
    return True
