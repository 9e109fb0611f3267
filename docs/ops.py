"""Writes the table of ONNX operators that pipeall runs, from its own registry: `python docs/ops.py` (docs/ops.md)."""

from pathlib import Path

from onnx import defs

from pipeall.graph.onnx.fold import FOLD
from pipeall.graph.onnx.operators import OPERATORS
from pipeall.graph.onnx.read import OPSETS
from pipeall.graph.ops import OPS

FILE = Path(__file__).with_suffix(".md")
HEAD = """# Operators

Written by `python docs/ops.py` from the registry that reads models; a test keeps it current.

Opsets {first} to {last} of ONNX's own domain; batch 1, float32. A model is refused, in one line that names the node, if
it needs an operator, an attribute or a form that is not here. Nodes that the outputs do not depend on are not read.

| ONNX operator | opsets | attributes | limits |
|---|---|---|---|
"""
TAIL = """
Evaluated on constants while a model is read, whatever the attributes: {folded}.

A network is made of {count} canonical ops, which each device computes: {ops}.
"""


def first_opset(name: str) -> int:
    """The first opset that has the operator, not counting those that are too old to be read."""
    domain = ("", "ai.onnx")
    versions = [s.since_version for s in defs.get_all_schemas_with_history() if s.name == name and s.domain in domain]
    return max(OPSETS[0], min(versions))


def table() -> str:
    lines = []
    for name, entry in sorted(OPERATORS.items()):
        attributes = ", ".join(sorted(entry.attributes)) or "-"
        lines.append(f"| {name} | {first_opset(name)} to {OPSETS[1]} | {attributes} | {entry.limits or '-'} |\n")
    head = HEAD.format(first=OPSETS[0], last=OPSETS[1])
    tail = TAIL.format(folded=", ".join(sorted(FOLD)), count=len(OPS), ops=", ".join(OPS))
    return head + "".join(lines) + tail


if __name__ == "__main__":
    FILE.write_text(table())
