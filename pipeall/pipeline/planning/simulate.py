"""What a plan will do, frame by frame, from a profile: a discrete-event model of the runtime's threads and rings.

It follows unit.c: a stage can begin where the ring before it has a frame and the ring after it a free slot. It computes
holding both, hands the frame on and frees the slot it read. A unit begins the oldest frame that its stages can; one
that takes frames together takes those that wait, and fewer than it could only where nothing else can begin. Where
the cut behind it floats, a stage also computes the floating groups of a frame, as ``rings.goes_out_late`` says. The
host submits as soon as there is room and takes results at once. For ``predict`` every unit is always busy; here a stage
is slowed down only while others compute, so its pace changes with every event. Within a stage the pace is the mean over
its groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from random import Random
from typing import Any

import numpy as np

from ...arguments import checked, number, optional, switch, whole
from ...errors import ArgumentError
from .forks import links
from .plan import Plan, plan_of
from .predict import check_runs, predict, spans
from .profile import Profile, profile_of
from .rings import MAX_DEPTH, MAX_SLOTS, REORDER, FrameTimes, in_turn, slots_behind, under_way
from .simulated_lane import LaneState, SimulatedStage, StageState, Way
from .stage_costs import StageCosts

MAX_FRAMES = 1_000_000  # some minutes
MAX_PERIOD_MS = 1e9  # eleven days
WARM_UP = 200  # frames before those that count: the rings fill and find their rhythm


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated run did, as ``Stats`` of a run, in the steady state: for the frames after a warm-up.

    latency    from submit to when the result can be taken: in the order of frames, after those of slower lanes
    energy_mj  of the board per frame, None where the profile knows no power
    times      of every frame that was finished, those of the warm-up too, in the order of frames
    """

    frames: int
    seconds: float
    fps: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    energy_mj: float | None
    stages: tuple[SimulatedStage, ...]
    times: tuple[FrameTimes, ...] = field(repr=False)

    def __repr__(self) -> str:
        use = ", ".join(f"{stage.unit} {stage.use:.0%}" for stage in self.stages)
        return (
            f"<Simulation of {self.frames} frames: {self.fps:.1f} FPS, latency p50 {self.latency_p50_ms:.2f} ms; {use}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, without ``times``."""
        content = asdict(self)
        del content["times"]
        return content


@checked(
    profile=profile_of,
    plan=plan_of,
    frames=whole(1, MAX_FRAMES),
    slots=whole(1, MAX_SLOTS),
    depth=optional(whole(0, MAX_DEPTH)),
    period_ms=number(0, MAX_PERIOD_MS),
    jitter=switch,
    paced=switch,
    seed=whole(0),
)
def simulate(
    profile: Profile,
    plan: Plan,
    frames: int = 1000,
    slots: int = 2,
    depth: int | None = None,
    period_ms: float = 0.0,
    jitter: bool = True,
    paced: bool = False,
    seed: int = 0,
) -> Simulation:
    """A simulated run of a plan, after a warm-up.

    Parameters
    ----------
    profile, plan
        The times, and what runs.
    frames
        How many to count.
    slots
        Per ring, as in Pipeline.
    depth
        Frames under way in one lane, from submit to result; default one more than the lane has stages and floating
        cuts. 0: as many as it has units, so that a frame hardly waits.
    period_ms
        Time between two frames of the source (a camera); 0: one is always ready. A frame that finds no room waits
        outside: its latency counts from its submit, as in a run.
    jitter
        Whether each stage's time varies from frame to frame as the profile says: log-normal with the same mean; groups
        vary independently.
    paced
        Every stage takes the time that ``predict`` says, as on an emulated board: all others always slow it down,
        unless frames come in turn (one lane, ``depth`` 1).
    seed
        The same seed gives the same run.

    Returns
    -------
    Simulation
        Throughput, latency and energy, and when each stage ran each frame.

    Raises
    ------
    ArgumentError
        Where the plan does not fit the profile or cannot run, and for a number out of its range.
    """
    costs, lanes = _build(profile, plan, slots, depth, paced)
    if jitter:
        for stage in _stages(lanes):
            stage.random = Random(f"{seed} {stage.position}")
    idle_w = profile.idle_w if costs.energy_known else 0.0
    done, latencies = _run(lanes, costs.unit_of, WARM_UP + frames, period_ms, idle_w)
    (begin_ms, begin_mj), (end_ms, end_mj) = done[WARM_UP - 1].tolist(), done[-1].tolist()
    p50, p95, p99 = np.percentile(latencies[WARM_UP:], (50, 95, 99))
    return Simulation(
        frames=frames,
        seconds=(end_ms - begin_ms) / 1e3,
        fps=1e3 * frames / (end_ms - begin_ms),
        latency_p50_ms=float(p50),
        latency_p95_ms=float(p95),
        latency_p99_ms=float(p99),
        energy_mj=(end_mj - begin_mj) / frames if costs.energy_known else None,
        stages=tuple(stage.stats(begin_ms, end_ms) for stage in _stages(lanes)),
        times=tuple(sorted((times for lane in lanes for times in lane.times()), key=lambda times: times.frame)),
    )


def _begin(lanes: list[LaneState], unit_of: Sequence[int], now: float) -> None:
    """Lets every unit begin that can."""
    busy = {unit_of[stage.position] for stage in _stages(lanes) if stage.running}
    waiting = [(fewer, frame, lane, index) for lane in lanes for fewer, frame, index in lane.waiting(now)]
    for _, _, lane, index in sorted(waiting, key=lambda one: one[:2]):
        number = unit_of[lane.stages[index].position]
        if number not in busy:
            busy.add(number)
            lane.begin(index, now)


def _run(
    lanes: list[LaneState], unit_of: Sequence[int], frames: int, period_ms: float, idle_w: float
) -> tuple[np.ndarray, np.ndarray]:
    """(frames, 2): when results were ready (ms), in the order in which they were, and the energy (mJ) that was drawn by
    then; and the latency (ms) of every frame, in the order of frames."""
    places = [(lane, index, stage) for lane in lanes for index, stage in enumerate(lane.stages)]
    ahead = REORDER * len(lanes) if len(lanes) > 1 else inf
    done: list[tuple[float, float]] = []  # one event may end several frames
    ready: dict[int, float] = {}  # frames that wait for an earlier one, and when they were submitted
    latencies: list[float] = []
    submitted = 0
    now = energy_mj = 0.0
    while len(latencies) < frames:
        while submitted * period_ms <= now and submitted - len(latencies) < ahead:
            room = [lane for lane in lanes if lane.under_way < lane.depth]
            if not room:
                break
            min(room, key=lambda lane: lane.under_way).submit(submitted, now)
            submitted += 1
        _begin(lanes, unit_of, now)
        running = [place for place in places if place[2].running]
        computing = sum(1 << stage.position for _, _, stage in running)
        loads = [stage.way.load(computing) for _, _, stage in running]
        ends = [now + stage.left_ms * slower for (_, _, stage), (slower, _) in zip(running, loads, strict=True)]
        arrival = submitted * period_ms
        then = min([*ends, arrival] if arrival > now else ends)
        energy_mj += (then - now) * (idle_w + sum(watts for _, watts in loads))
        for (lane, index, stage), (slower, _), end in zip(running, loads, ends, strict=True):
            if end > then:
                stage.left_ms -= (then - now) / slower
                continue
            for ended in lane.end(index, then):
                frame, submitted_ms = lane.submitted[ended]
                done.append((then, energy_mj))
                ready[frame] = submitted_ms
        while len(latencies) in ready:
            latencies.append(then - ready.pop(len(latencies)))
        now = then
    return np.array(done[:frames]), np.array(latencies[:frames])


def _build(
    profile: Profile, plan: Plan, slots: int, depth: int | None, paced: bool
) -> tuple[StageCosts, list[LaneState]]:
    predict(profile, plan)  # raises where the plan does not fit
    check_runs(profile, plan)
    costs = StageCosts.of(profile, plan, alone=in_turn(plan, depth))
    lanes = []
    for planned, lane in zip(plan.lanes, spans(profile, plan), strict=True):
        stages = []
        for span in lane:
            unit, (first, first_late, last, last_late) = plan.units[span.position], span.groups
            always = sum(1 << other for other in costs.others[span.position]) if paced else None
            ways = {}
            for came_late in {False, first_late > first}:
                for goes_late in {False, last_late > last}:
                    handover_ms = sum(span.handover_ms(costs, 1.0 - came_late, float(goes_late)))
                    if not isfinite(handover_ms):
                        raise ArgumentError(f"plan {plan}: expected {unit} next to no other OpenCL device")
                    groups = first_late if came_late else first, last_late if goes_late else last
                    ways[came_late, goes_late] = Way(costs, span.position, groups, handover_ms, always)
            handover_ms = sum(span.handover_ms(costs, 1.0, 0.0))
            together = [
                Way(costs, span.position, (first, last), handover_ms, always, frames)
                for frames in range(2, unit.batch + 1)
            ]
            stages.append(StageState(span.position, unit, (first, last), ways, together, span.share))
        ends = links(planned)
        room = [
            slots_behind(planned, sender, slots) if min(sender, receiver) >= 0 else inf for sender, receiver in ends
        ]
        lanes.append(LaneState(stages, ends, room, under_way(planned, depth)))
    return costs, lanes


def _stages(lanes: list[LaneState]) -> list[StageState]:
    return [stage for lane in lanes for stage in lane.stages]
