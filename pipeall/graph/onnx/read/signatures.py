"""What ONNX asks of a node: how many inputs and outputs, which attributes of which types.

The table beside this file, signatures.tsv, is written by ``tools/onnx_signatures.py`` from the schemas of the onnx
package. That package registers all of them when one is wanted, which takes 7 MB; a node that fits its line of the table
needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

TABLE = Path(__file__).with_name("signatures.tsv")
ABSENT = {"o", "v"}  # operands that may be "": optional ones, and any of a row of variable length
VALUES = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs"}
LISTS = range(6, 11)  # types of attributes that may be empty
BESIDE = {"name", "type", "doc_string"}  # fields of an attribute beside its value


class Operands(NamedTuple):
    """The least of them, or all counts that are allowed; and a letter for each: s(ingle), o(ptional), v(ariadic) for
    the last and all behind it."""

    counts: tuple[int, ...]
    kinds: str

    @classmethod
    def parse(cls, text: str) -> Operands:
        counts, _, kinds = text.partition(":")
        return cls(tuple(map(int, counts.split(","))), kinds)

    def fit(self, names: Sequence[str]) -> bool:
        kinds, count = self.kinds, len(names)
        if kinds.endswith("v"):
            kinds += "v" * (count - len(kinds))
        allowed = count in self.counts if len(self.counts) > 1 else self.counts[0] <= count <= len(kinds)
        return allowed and all(name or kind in ABSENT for name, kind in zip(names, kinds, strict=False))


class Signature(NamedTuple):
    """Attributes have the number of their type (``AttributeProto.type``)."""

    inputs: Operands
    outputs: Operands
    attributes: dict[str, int]
    required: frozenset[str]


@cache
def _lines() -> tuple[int, dict[str, list[str]]]:
    """The last opset that the table knows, and an operator's lines, the newest first."""
    first, *rest = TABLE.read_text().splitlines()
    lines: dict[str, list[str]] = {}
    for line in rest:
        op, _, signature = line.partition("\t")
        lines.setdefault(op, []).append(signature)
    return int(first.removeprefix("opset ")), lines


@lru_cache
def signature(op: str, opset: int) -> Signature | None:
    """None for an operator that ONNX does not have in that opset, or that the table does not know."""
    last, lines = _lines()
    for line in lines.get(op, ()) if opset <= last else ():
        since, *cells = line.split("\t")
        if int(since) <= opset:
            return _parsed(*cells) if cells else None
    return None


def _parsed(inputs: str, outputs: str, attributes: str) -> Signature:
    types = dict(word.split("=") for word in attributes.split())
    return Signature(
        Operands.parse(inputs),
        Operands.parse(outputs),
        {name.removesuffix("!"): int(type) for name, type in types.items()},
        frozenset(name.removesuffix("!") for name in types if name.endswith("!")),
    )


def fits(node: Any, opset: int) -> bool:
    """Whether a NodeProto of ONNX's own domain is sure to fit its operator. Where it is not, the checker says why."""
    known = signature(node.op_type, opset)
    return (
        known is not None
        and known.inputs.fit(node.input)
        and known.outputs.fit(node.output)
        and bool(node.input or node.output)
        and known.required <= {attr.name for attr in node.attribute}
        and all(_is_of(attr, known.attributes.get(attr.name)) for attr in node.attribute)
    )


def _is_of(attr: Any, type: int | None) -> bool:
    fields = {field.name for field, _ in attr.ListFields()} - BESIDE
    return attr.type == type and (fields == {VALUES.get(type)} or (not fields and type in LISTS))
