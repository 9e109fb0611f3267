"""Which inputs decide what must be known before the network runs: what an error says of the way on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir import Node, Tensor

MOST = 16  # elements of an input that may be a setting


def way_on(inputs: Sequence[Tensor], nodes: Sequence[Node], value: Any) -> str:
    """Names the small inputs that a computed value depends on, and how to give them; "" where there are none."""
    if not isinstance(value, str):
        return ""
    makers = {node.output: node for node in nodes}
    open_, met = [value], {value}
    while open_:
        node = makers.get(open_.pop())
        for name in node.inputs if node else ():
            if name not in met:
                met.add(name)
                open_.append(name)
    scalars = [tensor.name for tensor in inputs if tensor.name in met and tensor.elements <= MOST]
    if not scalars:
        return ""
    first, which = scalars[0], ", ".join(map(repr, scalars))
    return (
        f"; it depends on input {which}: if that is the same for every frame, give its value, "
        f"values={{{first!r}: ...}} or --value {first}=..."
    )
