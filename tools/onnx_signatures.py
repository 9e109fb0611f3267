"""The table of ONNX's operators that nodes are checked by, from the schemas of the installed onnx package.

    python -m tools.onnx_signatures > pipeall/graph/onnx/read/signatures.tsv

A line: operator, the opset that it is of and later ones, inputs and outputs as LEAST:KINDS or ALLOWED,...:KINDS,
attributes as NAME=TYPE, with a "!" behind the name of one that must be there. An operator that is gone from an opset on
has no more than the first two. Which numbers of operands are allowed, schemas do not tell: the checker is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx
from onnx import NodeProto
from onnx.defs import OpSchema

from pipeall.graph.onnx.read.prepare import checker_context, misfit

DOMAIN = ""
KINDS = {
    OpSchema.FormalParameterOption.Single: "s",
    OpSchema.FormalParameterOption.Optional: "o",
    OpSchema.FormalParameterOption.Variadic: "v",
}


def signatures() -> Iterator[str]:
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == DOMAIN]
    yield f"opset {max(schema.since_version for schema in schemas)}"
    for schema in sorted(schemas, key=lambda schema: (schema.name, -schema.since_version)):
        cells = [schema.name, str(schema.since_version)]
        if not schema.deprecated:
            cells.append(_operands(schema, "input", schema.min_input, schema.inputs))
            cells.append(_operands(schema, "output", schema.min_output, schema.outputs))
            attributes = sorted(schema.attributes.items())
            words = (f"{name}{'!' * entry.required}={entry.type.value}" for name, entry in attributes)
            cells.append(" ".join(words))
        yield "\t".join(cells)


def _operands(schema: OpSchema, side: str, least: int, given: Sequence[Any]) -> str:
    kinds = "".join(KINDS[operand.option] for operand in given)
    counts = range(least, len(kinds) + 1)
    allowed = [count for count in counts if not _refused(schema, side, count)]
    few = str(least) if kinds.endswith("v") or allowed == [*counts] else ",".join(map(str, allowed))
    return f"{few}:{kinds}"


def _refused(schema: OpSchema, side: str, count: int) -> bool:
    node = NodeProto(op_type=schema.name, input=["x"] * schema.min_input, output=["y"] * schema.min_output)
    getattr(node, side)[:] = ["z"] * count
    return f"not in allowed {side} sizes" in misfit(node, checker_context(8, {DOMAIN: schema.since_version}))


if __name__ == "__main__":
    print(*signatures(), sep="\n")
