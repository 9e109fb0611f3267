"""The table of priced steps: what price.py writes, and fit_prices.py makes board models of."""

import csv
import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PRICES = Path(__file__).with_name("prices.csv.gz")


class Row(NamedTuple):
    """A step of a network on one core: its time, the MB that it read from and wrote to memory, and what it does.

    What it does is in the units of ``step_work.FEATURES``.
    """

    soc: str
    unit: str
    network: str
    step: int
    node: str
    kernel: str
    ms: float
    read_mb: float
    written_mb: float
    products: float
    others: float
    weights: float
    inputs: float
    outputs: float
    silu: float

    @property
    def features(self) -> tuple[float, ...]:
        return self.products, self.others, self.weights, self.inputs, self.outputs, self.silu, 1.0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.unit, self.network, self.soc


def load(path: Path) -> list[Row]:
    """The rows of a table; none where there is no file yet."""
    if not path.exists():
        return []
    with gzip.open(path, "rt", newline="") as file:
        return [Row(*(kind(cell) for kind, cell in zip(Row.__annotations__.values(), cells, strict=True)))
                for cells in list(csv.reader(file))[1:]]  # fmt: skip


def save(path: Path, rows: Iterable[Row]) -> None:
    """Writes them in order: the same table has the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([Row._fields, *sorted(rows, key=lambda row: (*row.key, row.step))])
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def replaced(rows: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """The rows with those of networks and cores that are priced anew in their place."""
    new = list(new)
    keys = {row.key for row in new}
    return [*(row for row in rows if row.key not in keys), *new]
