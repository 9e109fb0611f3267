"""Another network or plan in the middle of a run, again and again: how long is the gap, is a frame lost, is all freed?

    python -m bench.pipelines.swaps [--swaps 1000] [--seconds 0.2]

Frames are mapped as fast as the pipeline takes them, while another thread calls ``Pipeline.replace`` each ``seconds``:
between two networks of one input (SqueezeNet and MobileNet), and between two plans of one. A swap's gap is the time
from the last result of the old one to the first of the new one; a frame time, the mean time between two results of the
slower one. ``elsewhere`` is the time between two results far from a swap: how calm the machine is. Each result is
compared with that of an engine. ``grown`` is resident memory at the end, less that at a tenth of the swaps.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.common import Record, frame, network, parser, resident_bytes, two_cores
from pipeall import Engine, Graph, Pipeline, Plan

COLUMNS = (
    "swap between", "swaps", "frames", "lost", "wrong", "frame time [ms] .1f", "gap p50 [frame times] .2f",
    "p95 [frame times] .2f", "p99 [frame times] .2f", "longest [frame times] .2f", "below two [%] .1f",
    "elsewhere p99 [frame times] .2f", "below two there [%] .1f", "grown [MB] .1f",
)  # fmt: skip
NETWORKS = "squeezenet", "mobilenet"
PLANS = ("big", "little"), ("little", "big")  # stages of about equal MACs


class Side(NamedTuple):
    """What a swap turns to."""

    graph: Graph
    plan: Plan


class Swapper(threading.Thread):
    """Turns from one side to the other ``swaps`` times; ``firsts``: the first frame of each turn."""

    def __init__(self, pipe: Pipeline, sides: Sequence[Side], swaps: int, seconds: float):
        super().__init__()
        self._pipe, self._sides, self._swaps, self._seconds = pipe, sides, swaps, seconds
        self.firsts: list[int] = [0]
        self.resident: list[int] = []
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            for turn in range(1, self._swaps + 1):
                time.sleep(self._seconds)
                self._pipe.replace(*self._sides[turn % 2])
                self.firsts.append(self._pipe.moves[-1].frame)
                if turn in (self._swaps // 10, self._swaps):
                    self.resident.append(resident_bytes())
            time.sleep(self._seconds)
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()


def run(sides: Sequence[Side], swaps: int, seconds: float) -> list[Any]:
    """The cells of a row but its name."""
    x = frame(sides[0].graph)
    expected = [Engine(side.graph, "big")(x) for side in sides]
    handed, ready_ns, which = 0, [], []

    def source() -> Iterator[np.ndarray]:
        nonlocal handed
        while not swapper.done.is_set():
            handed += 1
            yield x

    with Pipeline(*sides[0], two_cores()) as pipe:
        swapper = Swapper(pipe, sides, swaps, seconds)
        swapper.start()
        for seen in pipe.stream(source(), "none"):
            ready_ns.append(seen.ready_ns)
            which.append([np.array_equal(seen.result, y) for y in expected])
        swapper.join()
    if swapper.error:
        raise swapper.error
    turns = [*swapper.firsts, len(ready_ns)]
    wrong = sum(
        not which[number][turn % 2]
        for turn, (first, end) in enumerate(zip(turns, turns[1:], strict=False))
        for number in range(first, end)
    )
    frame_ms, gaps, elsewhere = measured(np.maximum.accumulate(ready_ns) / 1e6, turns)
    shares = [100 * float((times < 2).mean()) for times in (gaps, elsewhere)]
    frames, grown = len(ready_ns), (swapper.resident[-1] - swapper.resident[0]) / 1e6
    cells = *np.percentile(gaps, (50, 95, 99)), gaps.max(), shares[0], np.percentile(elsewhere, 99), shares[1]
    return [swaps, frames, handed - frames, wrong, frame_ms, *cells, grown]


def measured(ready_ms: np.ndarray, turns: Sequence[int]) -> tuple[float, np.ndarray, np.ndarray]:
    """The frame time in ms; in such times: the gap at each turn, and the times between two results far from one.

    ready_ms: when each frame could be handed out, which is in order.
    """
    between = np.diff(ready_ms)
    gaps = np.array([between[first - 1] for first in turns[1:-1] if 0 < first < len(ready_ms)])
    sides: list[list[float]] = [[], []]
    for turn, (first, end) in enumerate(zip(turns, turns[1:], strict=False)):
        sides[turn % 2] += between[first + (end - first) // 4 : end - 1].tolist()
    frame_ms = [float(np.mean(side)) for side in sides]
    elsewhere = np.concatenate([np.array(side) / ms for side, ms in zip(sides, frame_ms, strict=True)])
    return max(frame_ms), gaps / max(frame_ms), elsewhere


def main() -> None:
    options = parser(__doc__, seconds=0.2)
    options.add_argument("--swaps", type=int, default=1000)
    given = options.parse_args()
    first, second = map(network, NETWORKS)
    pairs = {
        "two networks": [Side(graph, Plan.balanced(PLANS[0], graph)) for graph in (first, second)],
        "two plans": [Side(first, Plan.balanced(units, first)) for units in PLANS],
    }
    with Record(given, *COLUMNS, board=two_cores()) as record:
        for name, sides in pairs.items():
            record.add(name, *run(sides, given.swaps, given.seconds))


if __name__ == "__main__":
    main()
