"""All cores of a board in one step: what their clusters cost each other, as published, and what each step costs beside.

    python -m tools.board_models.shared_steps [PRICES] [--data DATA]

ncnn and ARM Compute Library give each thread the same share of a step: the slowest core decides. With one more cluster
at work a cluster thus takes its own time, times its part of the cores, times the board's contention. Beside that comes
a time for each step, which is fitted here. Shows the published times beside the modelled ones, each network left out of
the fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.common import DATA, Record, parser
from bench.kernels.core_errors import deviation, interval_of
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.planning.uncertainty import DEVIATIONS, four_of_five
from tools.board_models import price_table
from tools.board_models.fit_boards import build
from tools.board_models.price_table import PRICES, Row

ABOUT = [
    "all cores as one team: each step divided among them by the runtime's rule, clusters slowed down by each other as "
    "in a pipeline",
    "for each step beside that: the middle of what 14 published times of all cores ask for, of other libraries, which "
    "give each core the same share (RK3588, RK3399Pro)",
]


class Shared(NamedTuple):
    """Published ms of networks on ``alone`` LITTLE cores, and on these with others: ``together`` cores.

    core, unit  whose priced steps are counted
    """

    core: str
    unit: str
    alone: int
    together: int
    ms: Mapping[str, tuple[float, float]]


# ncnn's benchmark/README.md, Orange Pi 5, minima; ARM-CO-UP's Profiling/Todaes/TodaesThreads.csv, task times by LITTLE
PUBLISHED = {
    "RK3588, ncnn": Shared("rk3588-little", "big@fp16", 4, 8, {
        "alexnet": (31.83, 19.92), "googlenet": (46.96, 26.62), "mobilenet": (15.92, 9.08), "resnet50": (78.0, 42.96),
        "squeezenet": (10.91, 6.22),
    }),
    "RK3588, ncnn, int8": Shared("rk3588-little", "big@int8", 4, 8, {
        "googlenet": (49.56, 28.27), "mobilenet": (14.71, 7.89), "resnet50": (89.12, 54.46),
        "squeezenet": (14.26, 7.93),
    }),
    "RK3399Pro, ARM Compute Library": Shared("rk3399-little", "big", 4, 6, {
        "alexnet": (126.34, 104.41), "googlenet": (167.51, 125.13), "mobilenet": (103.83, 73.17),
        "resnet50": (364.15, 266.97), "squeezenet": (107.54, 84.17),
    }),
}  # fmt: skip


class Pair(NamedTuple):
    """A published time of all cores: the modelled one without a time for each step, and the number of steps."""

    source: str
    network: str
    published: float
    shared: float
    steps: int

    def modelled(self, barrier_ms: float) -> float:
        return self.shared + self.steps * barrier_ms


def pairs(rows: Iterable[Row], board: BoardModel) -> list[Pair]:
    """All that is published, with the contention between clusters of a board on which pipelines were measured."""
    contention = board.contention["little"]["big"]
    counts: dict[tuple[str, str, str], int] = {}
    for row in rows:
        counts[row.soc, row.unit, row.network] = counts.get((row.soc, row.unit, row.network), 0) + 1
    return [
        Pair(name, network, all_, contention * alone * own.alone / own.together, counts[own.core, own.unit, network])
        for name, own in PUBLISHED.items()
        for network, (alone, all_) in own.ms.items()
    ]


def barrier_ms(known: Iterable[Pair]) -> float:
    """The time for each step that is in the middle of what the pairs ask for."""
    return max(0.0, float(np.median([(pair.published - pair.shared) / pair.steps for pair in known])))


def left_out(known: Iterable[Pair]) -> list[float]:
    """(modelled - published) / published of each pair, by the time for each step that other networks ask for."""
    known = list(known)
    fitted = {
        network: barrier_ms(pair for pair in known if pair.network != network)
        for network in dict.fromkeys(pair.network for pair in known)
    }
    return [pair.modelled(fitted[pair.network]) / pair.published - 1 for pair in known]


def with_all_cores(model: BoardModel, rates: Mapping[str, Sequence[float]], known: Sequence[Pair]) -> BoardModel:
    """The model with all its clusters as one team, and how far its times may be off.

    rates: precision, "" for floats -> networks a millisecond of each cluster

    Times of its clusters are off together. Each counts by its part of their speed; beside that comes what the published
    times of all cores are off, each network left out of the fit.
    """
    error, team = dict(model.error), deviation(left_out(known))
    for precision, speeds in rates.items():
        word = f"@{precision}" if precision else ""
        if all(name + word in error for name in model.cores):
            logarithms = np.log1p([error[name + word] for name in model.cores])
            own = float(np.average(logarithms, weights=speeds)) / DEVIATIONS
            error[f"cpu{word}"] = round(interval_of(own, team), 3)
    about = {**model.about, "barrier_ms": ABOUT}
    return replace(model, error=error, barrier_ms=round(barrier_ms(known), 4), about=about)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("prices", nargs="?", type=Path, default=PRICES, metavar="PRICES")
    options.add_argument("--data", type=Path, default=DATA)
    options = options.parse_args()
    known = pairs(price_table.load(options.prices), build(options.data)["rk3399pro"])
    errors = left_out(known)
    columns = "all cores of", "network", "published [ms] .2f", "modelled [ms] .2f", "error [%] +.0f"
    with Record(options, *columns, keys=2) as record:
        for pair, off in zip(known, errors, strict=True):
            record.add(pair.source, pair.network, pair.published, (1 + off) * pair.published, 100 * off)
        record.say(f"{1000 * barrier_ms(known):.1f} us a step; four of five within {100 * four_of_five(errors):.0f} %.")


if __name__ == "__main__":
    main()
