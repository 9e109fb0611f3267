"""``bench-table``: a record of a benchmark as a table, with the command that made it, the machine and the date."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from generated import Generated, table
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from pipeall.files import read_json

RECORDS = Path(__file__).resolve().parents[1] / "results" / "records"
LOG = logging.getLogger(__name__)


class BenchTable(Generated):
    """The record of this name in docs/results/records."""

    required_arguments = 1

    def markdown(self) -> str:
        name = self.arguments[0]
        path = RECORDS / f"{name}.json"
        self.env.note_dependency(path)
        shown_records(self.env).setdefault(self.env.docname, set()).add(name)
        record = read_json(path, "record")
        return rows_of(record) + "".join(f"- {line}\n" for line in (*record.get("about", ()), *origin(record))) + "\n"


def rows_of(record: dict[str, Any]) -> str:
    """The record's table, in Markdown; numbers of a column have as many digits after the point."""
    head = [", ".join(filter(None, (column["name"], column.get("unit")))) for column in record["columns"]]
    columns = list(zip(*record["rows"], strict=True))
    numbers = [index for index, cells in enumerate(columns) if not any(isinstance(cell, str) for cell in cells)]
    shown = [_alike(cells) if index in numbers else cells for index, cells in enumerate(columns)]
    return table(head, zip(*shown, strict=True), numbers)


def _alike(cells: Sequence[float | None]) -> list[str]:
    known = [Decimal(repr(cell)).normalize() for cell in cells if cell is not None]
    digits = max((-int(cell.as_tuple().exponent) for cell in known), default=0)
    return ["" if cell is None else f"{cell:.{max(digits, 0)}f}" for cell in cells]


def origin(record: dict[str, Any]) -> list[str]:
    """Where the record's figures come from, a line of Markdown each."""
    machine = record["machine"]
    cores = f"{machine['cores']} cores" if machine.get("cores") else None
    return [
        f"Command: `{record['command']}`",
        "Machine: " + ", ".join(filter(None, (machine.get("model"), cores, machine.get("machine")))),
        f"Date: {record['date'][:10]}, commit `{record['commit'] or 'unknown'}`, version {record['version']}",
    ]


def shown_records(env: BuildEnvironment) -> dict[str, set[str]]:
    """Page -> names of the records on it."""
    if not hasattr(env, "bench_records"):
        env.bench_records = {}
    return env.bench_records


def forget(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    shown_records(env).pop(page, None)


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warns of a record that no page shows."""
    shown = set().union(*shown_records(env).values())
    for path in sorted(RECORDS.glob("*.json")):
        if path.stem not in shown:
            LOG.warning("no page of docs/results shows the record %s", path.name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("bench-table", BenchTable)
    app.connect("env-purge-doc", forget)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": False}
