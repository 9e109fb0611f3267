"""A component of a modelled board slows down in the middle of a run and recovers; the plan moves. Emulated.

    python -m bench.pipelines.rebalance [NETWORK ...] [--board a311d] [--component big] [--factor 2] [--seconds 6]

Phases of ``seconds``: as modelled, throttled, as modelled. For each: its last plan and when its first frame came in,
FPS of the second half, the best plan for the board as it is then with its predicted FPS, FPS in percent of that (goal:
at least 95), and how long after the change that throughput was reached (goal: at most 3 s). ``late``: frames in percent
that took this machine longer than the modelled board; over 1 % the run says nothing. Three slots a ring, as threads of
a machine with fewer cores than the board wake up late now and then.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from bench.common import PUBLISHED, Record, frame, network, parser
from pipeall import Board, Pipeline, search
from pipeall.pipeline.planning.profile import Profile

REACHED = 0.95  # of the best plan's FPS
SPAN_S, SPAN_FRAMES = 0.5, 6  # over which throughput is taken, whichever is longer


COLUMNS = (
    "network", "factor [x] .1f", "plan", "from [s] .2f", "throughput [FPS] .2f", "best plan", "predicted [FPS] .2f",
    "of predicted [%] .1f", "reached after [s] .2f", "late [%] .1f",
)  # fmt: skip


@dataclass(frozen=True)
class Phase:
    """``begin_s`` to ``end_s`` with a factor on the component."""

    factor: float
    begin_s: float
    end_s: float


def throttled(profile: Profile, component: str, factor: float) -> Profile:
    units = {
        unit: replace(times, ms=tuple(ms * factor for ms in times.ms)) if unit.whole == component else times
        for unit, times in profile.units.items()
    }
    return replace(profile, units=units)


def run(
    pipe: Pipeline, frame: np.ndarray, component: str, factors: Sequence[float], seconds: float
) -> tuple[list[Phase], float]:
    """Streams frames through one phase per factor; the phases, and how many times a frame was late, per frame."""
    phases = []
    begin_s = time.monotonic()

    def source():
        nonlocal begin_s
        for factor in factors:
            pipe.throttle(component, factor)
            begin_s = time.monotonic()
            while time.monotonic() < begin_s + seconds:
                yield frame
            phases.append(Phase(factor, begin_s, time.monotonic()))

    late = {}  # of every stage of every lane: each has its own counters
    for _ in pipe.map(source()):
        late |= {(row.lane, row.stage): row.late for row in pipe.counters()}
    return phases, sum(late.values()) / len(pipe.times)


def reached_s(done_s: np.ndarray, phase: Phase, fps: float) -> float:
    """Seconds after the phase's begin when REACHED of ``fps`` was there, and was kept up to its end; nan if never.

    ``done_s``: when the results were there. Throughput at a moment is that of the span before it, all in the phase.
    """
    span = max(SPAN_FRAMES, round(SPAN_S * fps))
    last = int(np.searchsorted(done_s, phase.end_s)) - 1
    for index in range(span + int(np.searchsorted(done_s, phase.begin_s)), last - span):
        lately = span / (done_s[index] - done_s[index - span])
        from_now_on = (last - index) / (done_s[last] - done_s[index])
        if min(lately, from_now_on) >= REACHED * fps:
            return float(done_s[index] - phase.begin_s)
    return float("nan")


def report(
    record: Record, pipe: Pipeline, profile: Profile, component: str, phases: Sequence[Phase], late: float
) -> None:
    # A result is there once all before it are: frames of a new plan may be ready before the last ones of the old
    done_s = np.array(list(accumulate((times.end_ns[-1] / 1e9 for times in pipe.times), max)))
    submitted_s = np.array([times.submitted_ns / 1e9 for times in pipe.times])
    name, in_order = pipe.graph.name, [times.frame for times in pipe.times] == list(range(len(done_s)))
    record.say(f"{name}: {len(done_s)} frames, {'none lost, all in order' if in_order else 'LOST OR OUT OF ORDER'}")
    for phase in phases:
        best = search(pipe.graph, throttled(profile, component, phase.factor), top=1, plans="pipelines").ranked[0]
        half = done_s[(done_s >= (phase.begin_s + phase.end_s) / 2) & (done_s < phase.end_s)]
        fps, most = (len(half) - 1) / (half[-1] - half[0]), best.prediction.fps
        first, plan = [row for row in pipe.plans if submitted_s[row[0]] < phase.end_s][-1]
        moved, reached = max(0.0, submitted_s[first] - phase.begin_s), reached_s(done_s, phase, most)
        record.add(
            name, phase.factor, str(plan), moved, fps, str(best.plan), most, 100 * fps / most, reached, 100 * late
        )


def main() -> None:
    options = parser(__doc__, networks=PUBLISHED, seconds=6.0)
    options.add_argument("--board", default="a311d-armcl")
    options.add_argument("--component", default="big")
    options.add_argument("--factor", type=float, default=2.0)
    options = options.parse_args()
    board, factors = Board.load(options.board), [1.0, options.factor, 1.0]
    with Record(options, *COLUMNS, board=board, keys=2) as record:
        for name in options.networks:
            graph = network(name)
            profile = board.model.profile(graph)
            plan = search(graph, profile, top=1, plans="pipelines").best
            with Pipeline(graph, plan, board=board, slots=3, rebalance=True) as pipe:
                phases, late = run(pipe, frame(graph), options.component, factors, options.seconds)
            report(record, pipe, profile, options.component, phases, late)


if __name__ == "__main__":
    main()
