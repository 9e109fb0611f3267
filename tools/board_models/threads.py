"""How many times as fast several cores are as one, by a model that nobody fitted to the board, and as published.

    python -m tools.board_models.threads [PRICES]

All cores take the root of the sum of the squares of two times, which overlap in part: their share of one core's, at
some loss, and what the memory takes for bytes of weights, inputs and outputs, and of operands of products, by its rate.
The loss and the share of both kinds of bytes hold for all boards. Shows the published speed-ups beside those by the
other boards' three numbers, and how many are within the error that those boards tell. MobileNetV2, V3 and YOLOv4-tiny
are not among them: nobody priced their steps. A barrier for each step, of up to 6 us, made nothing better.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.common import Record, parser
from bench.kernels.core_errors import effective_number
from pipeall.pipeline.boards.models.price_list import CONVOLUTIONS
from pipeall.pipeline.planning.uncertainty import four_of_five
from tools.board_models import price_table
from tools.board_models.fit_prices import PRICES
from tools.board_models.price_table import Row
from tools.board_models.priced_cores import OF_WIRE, STREAM_PI4

COLUMNS = (
    "alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet",
    "googlenet@int8", "mobilenet@int8", "resnet50@int8", "squeezenet@int8",
)  # fmt: skip
HALVES, FLOATS, INTEGERS = "big@fp16", "big", "big@int8"
BYTES = {FLOATS: 4, HALVES: 2, INTEGERS: 1}
LOSS, BYTES_MOVED, OPERANDS = np.arange(1, 1.31, 0.025), np.arange(0, 0.61, 0.025), np.arange(0.03, 0.141, 0.004)
GRID = np.array(np.meshgrid(LOSS, BYTES_MOVED, OPERANDS, indexing="ij")).reshape(3, -1)


class Threads(NamedTuple):
    """A cluster that ncnn's benchmark/README.md has with one thread and with ``count``: GB/s of its board's memory.

    core    it is priced as this one of price_table, which runs at ``clock`` of its own clock
    unit    the precision of its floats
    """

    core: str
    unit: str
    clock: float
    count: int
    shared_gb_s: float
    speedups: Sequence[float]


# The Android rows of ncnn's RK3588; a UNO Q has 32 bits of LPDDR4X at 3608 MT/s, an RK3566 32 bits of LPDDR4 at 2112
CLUSTERS = {
    "Raspberry Pi 5, A76": Threads(
        "rpi5", HALVES, 1, 4, OF_WIRE * 17.1, (1.66, 1.93, 2.25, 1.94, 1.75, 2.04, 1.66, 1.99, 1.67)
    ),
    "RK3588, A76": Threads(
        "rk3588-big", HALVES, 1, 4, OF_WIRE * 33.8, (3.22, 3.51, 3.74, 3.48, 3.31, 3.21, 3.66, 3.41, 3.12)
    ),
    "Raspberry Pi 4, A72": Threads(
        "rpi4", FLOATS, 1, 4, STREAM_PI4, (1.84, 2.07, 2.04, 2.04, 1.58, 2.08, 2.48, 2.17, 1.64)
    ),
    "A311D, A73": Threads(
        "a311d-big", FLOATS, 1, 4, OF_WIRE * 12.9, (2.32, 2.80, 2.65, 2.86, 2.20, 2.69, 2.97, 2.70, 2.10)
    ),
    "RK3399, A53": Threads(
        "rk3399-little", FLOATS, 1, 4, OF_WIRE * 14.9, (3.89, 3.15, 3.18, 3.28, 2.69, 3.24, 3.57, 3.49, 2.87)
    ),
    "QRB2210, A53": Threads(
        "rk3399-little", FLOATS, 2.0 / 1.5, 4, OF_WIRE * 14.4, (3.45, 3.20, 3.06, 3.36, 2.65, 3.14, 3.64, 3.34, 2.47)
    ),
    "RK3588, A55": Threads(
        "rk3588-little", HALVES, 1, 4, OF_WIRE * 33.8, (3.71, 3.57, 3.64, 3.69, 3.27, 3.48, 3.50, 3.61, 3.28)
    ),
    "RK3566, A55": Threads(
        "rk3588-little", HALVES, 1, 4, OF_WIRE * 8.4, (2.34, 2.38, 2.22, 2.41, 1.98, 2.52, 2.09, 2.58, 2.08)
    ),
    "RK3399, A72": Threads(
        "rk3399-big", FLOATS, 1, 2, OF_WIRE * 14.9, (1.52, 1.74, 1.73, 1.73, 1.63, 1.74, 1.86, 1.77, 1.59)
    ),
}


def logarithms(rows: Iterable[Row]) -> dict[str, np.ndarray]:
    """cluster -> of modelled by published speed-ups, the logarithm: (points of ``GRID``, ``COLUMNS``)."""
    totals: dict[tuple[str, str, str], np.ndarray] = {}
    for row in rows:
        if row.unit in BYTES:
            operands = row.products * 1e3 * BYTES[row.unit] * (_family(row.kernel) in CONVOLUTIONS)
            key = row.soc, row.unit, row.network
            totals[key] = totals.get(key, np.zeros(3)) + (row.ms, row.weights + row.inputs + row.outputs, operands)
    loss, moved, operands = GRID[..., None]
    found = {}
    for name, own in CLUSTERS.items():
        units = [INTEGERS if column.endswith("@int8") else own.unit for column in COLUMNS]
        known = [totals[own.core, unit, column.partition("@")[0]] for unit, column in zip(units, COLUMNS, strict=True)]
        ms, mb, operand_mb = np.transpose(known)
        alone = ms / own.clock
        shared = (moved * mb + operands * operand_mb) / own.shared_gb_s
        all_ = np.hypot(loss * alone / own.count, shared)
        found[name] = np.log(np.minimum(own.count, alone / all_) / own.speedups)
    return found


def left_out(known: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """cluster -> (predicted - published) / published speed-ups, by the point that is best for the other boards."""
    errors = {}
    for name, own in known.items():
        others = [np.abs(rows).sum(axis=1) for other, rows in known.items() if _board(other) != _board(name)]
        errors[name] = np.expm1(own[np.argmin(np.sum(others, axis=0))])
    return errors


def interval(known: Mapping[str, np.ndarray], name: str) -> float:
    """The error that holds four of five speed-ups of a board, by what the other boards are off, each left out."""
    others = {other: rows for other, rows in known.items() if _board(other) != _board(name)}
    table = np.array(list(left_out(others).values()))
    return four_of_five(table.ravel(), effective_number(np.log1p(table)))


def _family(kernel: str) -> str:
    return kernel.rpartition(":")[2].partition(" ")[0]


def _board(cluster: str) -> str:
    return cluster.partition(",")[0]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("prices", nargs="?", type=Path, default=PRICES, metavar="PRICES")
    options = options.parse_args()
    known = logarithms(price_table.load(options.prices))
    errors, inside = left_out(known), 0
    with Record(
        options, "cluster", "network", "modelled [x] .2f", "published [x] .2f", "error [%] +.0f", keys=2
    ) as record:
        for name, row in errors.items():
            width = interval(known, name)
            inside += int((np.abs(np.log1p(row)) <= np.log1p(width)).sum())
            for column, off, published in zip(COLUMNS, row, CLUSTERS[name].speedups, strict=True):
                record.add(name, column, (1 + off) * published, published, 100 * off)
            record.say(f"{name}: four of five within {100 * width:.0f} %, as the other boards tell.")
        off = np.abs(np.concatenate(list(errors.values())))
        record.say(f"{inside} of {off.size} are inside; the median error is {100 * np.median(off):.1f} %.")
        best = GRID[:, np.argmin(np.sum([np.abs(rows).sum(axis=1) for rows in known.values()], axis=0))]
        record.say("Of all boards: loss {:.3f}, {:.3f} of the bytes, {:.3f} of those of operands.".format(*best))


if __name__ == "__main__":
    main()
