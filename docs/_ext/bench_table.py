"""``bench-table``: a record of a benchmark as a table, with the command that made it, the machine and the date."""

from __future__ import annotations

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
    """The record of this name in docs/results/records. ``:brief:`` leaves the command, machine and date out."""

    required_arguments = 1
    option_spec = {"brief": lambda _: True}

    def markdown(self) -> str:
        name = self.arguments[0]
        path = RECORDS / f"{name}.json"
        self.env.note_dependency(path)
        shown_records(self.env).setdefault(self.env.docname, set()).add(name)
        record = read_json(path, "bench")
        return rows_of(record) + ("" if "brief" in self.options else origin(record))


def rows_of(record: dict[str, Any]) -> str:
    """The record's table, in Markdown."""
    columns, rows = record["columns"], record["rows"]
    head = [f"{column['name']}, {column['unit']}" if column.get("unit") else column["name"] for column in columns]
    numbers = [index for index in range(len(head)) if all(_is_number(row[index]) for row in rows)]
    return table(head, [[_number(cell) for cell in row] for row in rows], numbers)


def origin(record: dict[str, Any]) -> str:
    """Where the record's figures come from, in Markdown."""
    machine = record["machine"]
    known = [machine.get("model") or "unknown machine", f"{machine['cores']} cores" if machine.get("cores") else None]
    lines = [
        f"`{record['command']}`",
        ", ".join(filter(None, [*known, machine.get("machine")])),
        f"{record['date']}, commit `{record['commit'] or 'unknown'}`, version {record['version']}",
        *record.get("about", ()),
    ]
    return "".join(f"- {line}\n" for line in lines) + "\n"


def _is_number(cell: object) -> bool:
    return cell is None or isinstance(cell, (int, float))


def _number(cell: object) -> object:
    """A float as it is said: four digits are more than any of these measurements can tell."""
    return f"{cell:.4g}" if isinstance(cell, float) and abs(cell) < 1e4 else cell


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
