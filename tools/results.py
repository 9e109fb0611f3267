"""Writes the tables of the documentation from the records that benchmarks wrote.

    python tools/results.py            write every table anew
    python tools/results.py --check    name the pages whose tables are not those of their records

A page says where a table stands, by the name of a file in docs/results/records:

    <!-- bench-table: gemm -->
    <!-- end -->
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the tree's own pipeall, built or not

from pipeall.files import read_json  # noqa: E402

RECORDS = ROOT / "docs" / "results" / "records"
MOST_DIGITS = 5  # after the point; columns with smaller numbers have two digits and a power of ten
TABLE = re.compile(r"(<!-- bench-table: (?P<name>[a-z\d-]+) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """The Markdown pages that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shown(page: Path) -> list[str]:
    """The records that a page shows."""
    return [match["name"] for match in TABLE.finditer(page.read_text())]


def with_tables(text: str) -> str:
    """A page's text, each table as its record has it."""
    return TABLE.sub(lambda match: match[1] + section(match["name"]) + match[4], text)


def section(name: str) -> str:
    """A record's table, what there is to say about it, and where its figures come from."""
    record = read_json(RECORDS / f"{name}.json", "record")
    notes = "".join(f"- {line}\n" for line in (*record.get("about", ()), *origin(record)))
    return f"{table_of(record)}{notes}"


def table_of(record: dict[str, Any]) -> str:
    """Numbers of a column have as many digits after the point, unless they are small."""
    head = [", ".join(filter(None, (column["name"], column.get("unit")))) for column in record["columns"]]
    columns = list(zip(*record["rows"], strict=True))
    numbers = [index for index, cells in enumerate(columns) if not any(isinstance(cell, str) for cell in cells)]
    aligned = [_with_equal_digits(cells) if index in numbers else cells for index, cells in enumerate(columns)]
    return table(head, zip(*aligned, strict=True), numbers)


def _with_equal_digits(cells: Sequence[float | None]) -> list[str]:
    known = [Decimal(repr(cell)).normalize() for cell in cells if cell is not None]
    digits = max((-int(cell.as_tuple().exponent) for cell in known), default=0)
    if digits > MOST_DIGITS:
        return ["" if cell is None else f"{cell:.2g}" for cell in cells]
    return ["" if cell is None else f"{cell:.{max(digits, 0)}f}" for cell in cells]


def origin(record: dict[str, Any]) -> list[str]:
    """Command, machine, date and commit, a line of Markdown each."""
    machine = record["machine"]
    cores = f"{machine['cores']} cores" if machine.get("cores") else None
    commit = f"commit `{record['commit'] or 'unknown'}`"
    return [
        f"`{record['command']}`",
        ", ".join(filter(None, (machine.get("model"), cores, machine.get("machine"), record["date"][:10], commit))),
    ]


def table(head: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()) -> str:
    """A Markdown table; the columns ``numbers`` (from 0) are set to the right."""
    right = set(numbers)
    marks = ["---:" if index in right else "---" for index in range(len(head))]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in (head, marks, *rows)) + "\n"


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")


def main(arguments: Sequence[str]) -> int:
    stale = [(page, text) for page in pages() if (text := with_tables(page.read_text())) != page.read_text()]
    for page, text in stale:
        print(page.relative_to(ROOT))
        if "--check" not in arguments:
            page.write_text(text)
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
