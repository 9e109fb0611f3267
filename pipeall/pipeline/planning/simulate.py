"""What a plan will do, frame by frame, from a profile: a discrete-event model of the runtime's threads and rings.

It follows stage.c: a stage takes the oldest frame of the ring before it, waits for a free slot of the ring after it,
computes holding both, hands the frame on and frees the slot it read. Where the cut behind it floats, it also computes
the floating groups of a frame, as ``rings.goes_out_late`` says. The host submits as soon as there is room and takes
results at once. For ``predict`` every unit is always busy; here a stage is slowed down only while others compute, so
its pace changes with every event. Within a stage the pace is the mean over its groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf, isfinite, log1p, sqrt
from random import Random
from typing import Any

import numpy as np

from ...arguments import checked, number, optional, switch, whole
from ...errors import ArgumentError
from .plan import Plan, plan_of
from .predict import StageCosts, check_runs, predict, spans
from .profile import Profile, profile_of
from .rings import MAX_DEPTH, MAX_SLOTS, REORDER, FrameTimes, full_load, goes_out_late, slots_behind

MAX_FRAMES = 1_000_000  # some minutes
MAX_PERIOD_MS = 1e9  # eleven days
WARM_UP = 200  # frames before those that count: the rings fill and find their rhythm
QUARTILE = 0.6745  # of the normal distribution, in standard deviations


@dataclass(frozen=True, slots=True)
class SimulatedStage:
    """What one stage did, as ``StageStats`` of a run. Times are means per frame.

    groups       [first, last)
    busy_ms      computing, hand-over included
    wait_in_ms   waiting for input
    wait_out_ms  waiting for a free slot
    handover_ms  handing over, without jitter
    use          the share of the time that it computed
    """

    unit: str
    groups: tuple[int, int]
    frames: int
    busy_ms: float
    wait_in_ms: float
    wait_out_ms: float
    handover_ms: float
    use: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated run did, as ``Stats`` of a run, in the steady state: for the frames after a warm-up.

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
    depth=optional(whole(1, MAX_DEPTH)),
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
        cuts.
    period_ms
        Time between two frames of the source (a camera); 0: one is always ready. A frame that finds no room waits
        outside: its latency counts from its submit, as in a run.
    jitter
        Whether each stage's time varies from frame to frame as the profile says: log-normal with the same mean; groups
        vary independently.
    paced
        Every stage takes the time that ``predict`` says, as on an emulated board: all others always slow it down.
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
    done = _run(lanes, WARM_UP + frames, period_ms, idle_w)
    (begin_ms, _, begin_mj), (end_ms, _, end_mj) = done[WARM_UP - 1].tolist(), done[-1].tolist()
    p50, p95, p99 = np.percentile(done[WARM_UP:, 1], (50, 95, 99))
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


class _Way:
    """One way to run a frame on a stage: the groups that it then computes.

    A set of units is a bit mask over their positions in the plan. ``always``: the units that slow it down whether they
    compute or not; None: only those that compute do.
    """

    def __init__(
        self, costs: StageCosts, position: int, groups: tuple[int, int], handover_ms: float, always: int | None
    ):
        self.position, self.handover_ms, self.always = position, handover_ms, always
        profile, span = costs.profile, slice(*groups)
        times = profile.units[costs.units[position]]
        self._ms = np.array(times.ms[span])
        self._extra_w = np.zeros(len(self._ms))  # of each group, beyond the idle board
        if times.power_w is not None and profile.idle_w is not None:
            self._extra_w = np.maximum(np.array(times.power_w[span]) - profile.idle_w, 0.0)
        self._slowdown = [costs.slowdown(position, other)[span] for other in range(len(costs.units))]
        self._loads: dict[int, tuple[float, float]] = {}
        self.alone_ms = float(self._ms.sum()) + handover_ms
        deviation_ms = sqrt(sum((spread / QUARTILE) ** 2 for spread in times.half_iqr_ms[span]))
        self.sigma = sqrt(log1p((deviation_ms / self.alone_ms) ** 2)) if self.alone_ms else 0.0

    def load(self, computing: int) -> tuple[float, float]:
        """How many times as long it takes while these units compute, and what it then draws (W beyond idle)."""
        computing = computing if self.always is None else self.always
        if computing not in self._loads:
            ms = self._ms
            for other, slowdown in enumerate(self._slowdown):
                if other != self.position and computing >> other & 1:
                    ms = ms * slowdown
            loaded_ms = float(ms.sum()) + self.handover_ms
            slower = loaded_ms / self.alone_ms if self.alone_ms else 1.0
            watts = float(ms @ self._extra_w) / loaded_ms if loaded_ms else 0.0
            self._loads[computing] = slower, watts
        return self._loads[computing]


class _StageState:
    """A stage in the simulation, and what it did.

    A cut that floats has an early and a late border; a frame crosses it early or late.

    ways  (the frame comes in late, it goes out late) -> what is computed. Only a cut that floats has late ways
    late  whether each frame goes out late, for every frame that was begun
    runs  [taken, begun, ended] of every frame, ms; the last one may have no end yet
    """

    def __init__(self, position: int, unit: str, groups: tuple[int, int], ways: Mapping[tuple[bool, bool], _Way]):
        self.position, self.unit, self.groups, self.ways = position, unit, groups, ways
        self.way = ways[False, False]
        self.floats = (False, True) in ways
        self.random: Random | None = None
        self.left_ms = 0.0  # what the frame inside would still take alone
        self.running = False
        self.taken_ms: float | None = None
        self.late: list[bool] = []
        self.came_late, self.scatter = False, 1.0
        self.runs: list[list[float]] = []

    def begin(self, now: float, came_late: bool) -> None:
        self.came_late = came_late
        self.way = way = self.ways[came_late, False]
        self.late.append(False)
        self.scatter = self.random.lognormvariate(-(way.sigma**2) / 2, way.sigma) if self.random else 1.0
        self.left_ms = way.alone_ms * self.scatter
        self.running = True
        self.runs.append([self.taken_ms, now, inf])

    def go_on(self) -> None:
        """Lets the frame that could go out early go out late."""
        early, self.way = self.way, self.ways[self.came_late, True]
        self.late[-1] = True
        self.left_ms = max(0.0, self.way.alone_ms - early.alone_ms) * self.scatter

    def end(self, now: float) -> None:
        self.running, self.taken_ms = False, None
        self.runs[-1][2] = now

    @property
    def finished(self) -> int:
        return len(self.runs) - self.running

    def stats(self, begin: float, end: float) -> SimulatedStage:
        """The stage's figures over (begin, end]: means over the frames that it finished then."""
        taken, begun, ended = np.array(self.runs or [[inf, inf, inf]]).T
        idle = np.concatenate(([0.0], ended[:-1]))
        inside = (begin < ended) & (ended <= end)
        frames = int(inside.sum())

        def mean(first: np.ndarray, last: np.ndarray) -> float:
            return float((last[inside] - first[inside]).sum()) / max(1, frames)

        return SimulatedStage(
            unit=self.unit,
            groups=self.groups,
            frames=frames,
            busy_ms=mean(begun, ended),
            wait_in_ms=mean(idle, taken),
            wait_out_ms=mean(taken, begun),
            handover_ms=self.ways[False, False].handover_ms,
            use=float((ended.clip(begin, end) - begun.clip(begin, end)).sum()) / (end - begin),
        )


class _LaneState:
    """A lane in the simulation. ``inside``: frames in each ring but the last, with the one that its reader holds."""

    def __init__(self, stages: list[_StageState], slots: int, depth: int):
        self.stages, self.slots, self.depth = stages, slots, depth
        self.inside = [0] * len(stages)
        self.submitted: list[tuple[int, float]] = []  # frame number, ms

    @property
    def under_way(self) -> int:
        return len(self.submitted) - self.stages[-1].finished

    def submit(self, frame: int, now: float) -> None:
        self.submitted.append((frame, now))
        self.inside[0] += 1

    def begin(self, now: float) -> None:
        """Lets every stage begin that can."""
        for index, stage in enumerate(self.stages):
            if stage.running or not self.inside[index]:
                continue
            if stage.taken_ms is None:
                stage.taken_ms = now
            if self._has_free_slot(index):
                stage.begin(now, index > 0 and self.stages[index - 1].late[len(stage.runs)])

    def _has_free_slot(self, index: int) -> bool:
        """Whether the ring behind a stage has one. The host takes results at once: the last stage's always has."""
        if index + 1 == len(self.stages):
            return True
        return self.inside[index + 1] < slots_behind(self.stages[index].floats, self.slots)

    def end(self, index: int, now: float) -> int | None:
        """Ends what stage ``index`` runs; behind the last stage, returns the number of the frame in this lane."""
        stage = self.stages[index]
        if stage.floats and not stage.late[-1]:
            if goes_out_late(self.inside[index + 1], self.inside[index] - 1):
                stage.go_on()
                return None
        stage.end(now)
        self.inside[index] -= 1
        if index + 1 == len(self.stages):
            return self.stages[index].finished - 1
        self.inside[index + 1] += 1
        return None

    def times(self) -> list[FrameTimes]:
        """The times of the frames that are finished."""
        found = []
        for (frame, at), *runs in zip(self.submitted, *(stage.runs for stage in self.stages), strict=False):
            _, begun, ended = zip(*runs, strict=True)
            if ended[-1] < inf:
                found.append(FrameTimes(frame, _ns(at), tuple(map(_ns, begun)), tuple(map(_ns, ended))))
        return found


def _run(lanes: list[_LaneState], frames: int, period_ms: float, idle_w: float) -> np.ndarray:
    """(frames, 3): when each result was ready (ms), its latency (ms), and the energy (mJ) that was drawn by then."""
    places = [(lane, index, stage) for lane in lanes for index, stage in enumerate(lane.stages)]
    ahead = REORDER * len(lanes) if len(lanes) > 1 else inf
    done: list[tuple[float, float, float]] = []  # one event may end several frames
    ready: set[int] = set()  # frames that wait for an earlier one
    submitted = delivered = 0
    now = energy_mj = 0.0
    while len(done) < frames:
        while submitted * period_ms <= now and submitted - delivered < ahead:
            room = [lane for lane in lanes if lane.under_way < lane.depth]
            if not room:
                break
            min(room, key=lambda lane: lane.under_way).submit(submitted, now)
            submitted += 1
        for lane in lanes:
            lane.begin(now)

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
            number = lane.end(index, then)
            if number is not None:
                frame, submitted_ms = lane.submitted[number]
                done.append((then, then - submitted_ms, energy_mj))
                ready.add(frame)
        while delivered in ready:
            ready.remove(delivered)
            delivered += 1
        now = then
    return np.array(done[:frames])


def _build(
    profile: Profile, plan: Plan, slots: int, depth: int | None, paced: bool
) -> tuple[StageCosts, list[_LaneState]]:
    predict(profile, plan)  # raises where the plan does not fit
    check_runs(profile, plan)
    costs = StageCosts.of(profile, plan)
    always = (1 << len(plan.units)) - 1 if paced else None
    lanes = []
    for planned, lane in zip(plan.lanes, spans(profile, plan), strict=True):
        stages = []
        for span in lane:
            unit, (first, first_late, last, last_late) = plan.units[span.position], span.groups
            ways = {}
            for came_late in {False, first_late > first}:
                for goes_late in {False, last_late > last}:
                    handover_ms = sum(span.handover_ms(costs, 1.0 - came_late, float(goes_late)))
                    if not isfinite(handover_ms):
                        raise ArgumentError(f"plan {plan}: expected {unit} next to no other OpenCL device")
                    groups = first_late if came_late else first, last_late if goes_late else last
                    ways[came_late, goes_late] = _Way(costs, span.position, groups, handover_ms, always)
            stages.append(_StageState(span.position, unit, (first, last), ways))
        lanes.append(_LaneState(stages, slots, depth or full_load(planned)))
    return costs, lanes


def _stages(lanes: list[_LaneState]) -> list[_StageState]:
    return [stage for lane in lanes for stage in lane.stages]


def _ns(ms: float) -> int:
    return round(ms * 1e6)
