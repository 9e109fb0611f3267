"""A component of a modelled board slows down in the middle of a run and recovers; the plan moves. On the twin.

    python bench/rebalance.py [NETWORK ...] [--board a311d] [--component big] [--factor 2] [--seconds 6]

Phases of ``seconds``: as modelled, throttled, as modelled. For each: its last plan and when its first frame came in,
FPS of the second half, the best plan for the board as it is then with its predicted FPS, FPS in percent of that (goal:
at least 95), and how long after the change that throughput was reached (goal: at most 3 s). ``late``: frames in percent
that took this machine longer than the modelled board; over 1 % the run says nothing. Three slots a ring, as threads of
a machine with fewer cores than the board wake up late now and then.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from pipeall import Board, Pipeline, search, zoo
from pipeall.graph.ir import Graph
from pipeall.pipeline.planning.names import parse_unit
from pipeall.pipeline.planning.profile import Profile

REACHED = 0.95  # of the best plan's FPS
SPAN_S, SPAN_FRAMES = 0.5, 6  # over which throughput is taken, whichever is longer


@dataclass(frozen=True)
class Phase:
    """``begin_s`` to ``end_s`` with a factor on the component."""

    factor: float
    begin_s: float
    end_s: float


def network(name: str) -> Graph:
    """resnet50 is the published one, slim."""
    return zoo.resnet50(variant="slim") if name == "resnet50" else getattr(zoo, name)()


def throttled(profile: Profile, component: str, factor: float) -> Profile:
    units = {
        name: replace(times, ms=tuple(ms * factor for ms in times.ms)) if parse_unit(name)[0] == component else times
        for name, times in profile.units.items()
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


def report(name: str, pipe: Pipeline, profile: Profile, component: str, phases: Sequence[Phase], late: float) -> None:
    # A result is there once all before it are: frames of a new plan may be ready before the last ones of the old
    done_s = np.array(list(accumulate((times.end_ns[-1] / 1e9 for times in pipe.times), max)))
    submitted_s = np.array([times.submitted_ns / 1e9 for times in pipe.times])
    in_order = [times.frame for times in pipe.times] == list(range(len(done_s)))
    print(
        f"{name}, {component} x {phases[1].factor:g}: {len(done_s)} frames, "
        f"{'none lost, all in order' if in_order else 'LOST OR OUT OF ORDER'}; late {100 * late:.1f} %"
    )
    for phase in phases:
        best = search(pipe.graph, throttled(profile, component, phase.factor), top=1).ranked[0]
        half = done_s[(done_s >= (phase.begin_s + phase.end_s) / 2) & (done_s < phase.end_s)]
        fps = (len(half) - 1) / (half[-1] - half[0])
        first, plan = [row for row in pipe.plans if submitted_s[row[0]] < phase.end_s][-1]
        moved = max(0.0, submitted_s[first] - phase.begin_s)
        print(
            f"  x {phase.factor:<4g} {plan!s:24} from {moved:4.2f} s {fps:6.2f} FPS   best {best.plan!s:24} "
            f"{best.prediction.fps:6.2f}   {100 * fps / best.prediction.fps:5.1f} % "
            f"after {reached_s(done_s, phase, best.prediction.fps):4.2f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet"])
    parser.add_argument("--board", default="a311d")
    parser.add_argument("--component", default="big")
    parser.add_argument("--factor", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    board = Board.load(options.board)
    for name in options.networks:
        graph = network(name)
        profile = board.model.profile(graph)
        frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
        plan = search(graph, profile, top=1).best
        with Pipeline(graph, plan, board=board, slots=3, pace=True, rebalance=True) as pipe:
            phases, late = run(pipe, frame, options.component, [1.0, options.factor, 1.0], options.seconds)
        report(name, pipe, profile, options.component, phases, late)


if __name__ == "__main__":
    main()
