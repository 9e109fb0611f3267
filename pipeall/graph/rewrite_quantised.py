"""A rule of ``rewrite`` on fake quantisation: values that lie on its levels already stay as they are."""

from __future__ import annotations

from math import inf

from .draft import Draft
from .ir import Node

MOVES = ("reshape", "transpose", "slice", "shuffle", "expand", "concat", "maxpool")  # every value is one that they read


def drop_fakequant(draft: Draft, node: Node) -> bool:
    """Removes a fakequant of values that moves, maxima and ReLU have taken from fakequants of the same levels."""
    return node.op == "fakequant" and _on_levels(draft, node) and draft.bypass(node)


def _on_levels(draft: Draft, node: Node) -> bool:
    waiting, seen = [node.inputs[0]], set()
    while waiting:
        made = draft.nodes.get(waiting.pop())
        if made is None:
            return False
        if made.output in seen or (made.op == "fakequant" and made.attrs == node.attrs):
            continue
        seen.add(made.output)
        relu = made.op == "clip" and made.attrs["lo"] in (0, -inf) and made.attrs["hi"] == inf  # 0 is a level
        if not relu and made.op not in MOVES:
            return False
        waiting += made.inputs
    return True
