"""A lane and its stages in a simulation: what they hold, what they did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log1p, sqrt
from random import Random

import numpy as np

from .rings import FrameTimes, goes_out_late, in_share
from .stage_costs import StageCosts

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


class Way:
    """One way to run a frame, or frames together, on a stage: the groups that it then computes.

    A set of stages is a bit mask over their numbers, those of all networks.

    slowdowns  number of another stage -> how many times as long each group takes while that one computes
    always     the stages that slow it down whether they compute or not; None: only those that compute do
    """

    def __init__(
        self,
        costs: StageCosts,
        position: int,
        groups: tuple[int, int],
        handover_ms: float,
        slowdowns: Mapping[int, np.ndarray],
        always: int | None,
        frames: int = 1,
    ):
        self.handover_ms, self.always = frames * handover_ms, always
        profile, span = costs.profile, slice(*groups)
        times = profile.units[costs.units[position]]
        self._ms = profile.together_ms(costs.units[position], frames)[span]
        self._extra_w = np.zeros(len(self._ms))  # of each group, beyond the idle board
        if times.power_w is not None and profile.idle_w is not None:
            self._extra_w = np.maximum(np.array(times.power_w[span]) - profile.idle_w, 0.0)
        self._slowdowns = [(1 << number, slowdown[span]) for number, slowdown in slowdowns.items()]
        self._loads: dict[int, tuple[float, float]] = {}
        self.alone_ms = float(self._ms.sum()) + self.handover_ms
        deviation_ms = frames * sqrt(sum((spread / QUARTILE) ** 2 for spread in times.half_iqr_ms[span]))
        self.sigma = sqrt(log1p((deviation_ms / self.alone_ms) ** 2)) if self.alone_ms else 0.0

    def load(self, computing: int) -> tuple[float, float]:
        """How many times as long it takes while these stages compute, and what it then draws (W beyond idle)."""
        computing = computing if self.always is None else self.always
        if computing not in self._loads:
            ms = self._ms
            for other, slowdown in self._slowdowns:
                if other & computing:
                    ms = ms * slowdown
            loaded_ms = float(ms.sum()) + self.handover_ms
            slower = loaded_ms / self.alone_ms if self.alone_ms else 1.0
            watts = float(ms @ self._extra_w) / loaded_ms if loaded_ms else 0.0
            self._loads[computing] = slower, watts
        return self._loads[computing]


class StageState:
    """A stage in the simulation, and what it did.

    A cut that floats has an early and a late border; a frame crosses it early or late.

    ways      (the frame comes in late, it goes out late) -> what is computed. Only a cut that floats has late ways
    together  what is computed for two frames together, for three ..: as many as it takes
    inside    frames that are computed now
    late      whether each frame goes out late, for every frame that was begun
    runs      [taken, begun, ended] of every frame, ms; those inside have no end yet
    first     whether each was the first of those that were computed together
    """

    def __init__(
        self,
        position: int,
        unit: str,
        groups: tuple[int, int],
        ways: Mapping[tuple[bool, bool], Way],
        together: Sequence[Way],
        share: int | None,
    ):
        self.position, self.unit, self.groups, self.ways, self.share = position, unit, groups, ways, share
        self.way, self.together = ways[False, False], together
        self.floats = (False, True) in ways
        self.random: Random | None = None
        self.left_ms = 0.0  # what the frame inside would still take alone
        self.inside = 0
        self.taken_ms: float | None = None
        self.late: list[bool] = []
        self.first: list[bool] = []
        self.came_late, self.scatter = False, 1.0
        self.runs: list[list[float]] = []

    @property
    def running(self) -> bool:
        return self.inside > 0

    @property
    def most(self) -> int:
        """Frames that it takes together."""
        return 1 + len(self.together)

    def begin(self, now: float, came_late: bool, frames: int) -> None:
        self.came_late = came_late
        self.way = way = self.together[frames - 2] if frames > 1 else self.ways[came_late, False]
        self.late += [False] * frames
        self.first += [True] + [False] * (frames - 1)
        self.scatter = self.random.lognormvariate(-(way.sigma**2) / 2, way.sigma) if self.random else 1.0
        self.left_ms = way.alone_ms * self.scatter
        self.inside = frames
        self.runs += [[self.taken_ms, now, inf] for _ in range(frames)]

    def go_on(self) -> None:
        """Lets the frame that could go out early go out late."""
        early, self.way = self.way, self.ways[self.came_late, True]
        self.late[-1] = True
        self.left_ms = max(0.0, self.way.alone_ms - early.alone_ms) * self.scatter

    def end(self, now: float) -> int:
        """Ends what is inside; returns how many frames."""
        frames, self.inside, self.taken_ms = self.inside, 0, None
        for run in self.runs[-frames:]:
            run[2] = now
        return frames

    @property
    def finished(self) -> int:
        return len(self.runs) - self.inside

    def stats(self, begin: float, end: float) -> SimulatedStage:
        """The stage's figures over (begin, end]: means over the frames that it finished then."""
        taken, begun, ended = np.array(self.runs or [[inf, inf, inf]]).T
        idle = np.concatenate(([0.0], ended[:-1]))
        inside = (begin < ended) & (ended <= end)
        frames, first = int(inside.sum()), np.array(self.first or [True])

        def mean(start: np.ndarray, stop: np.ndarray) -> float:
            return float((stop[inside & first] - start[inside & first]).sum()) / max(1, frames)

        return SimulatedStage(
            unit=self.unit,
            groups=self.groups,
            frames=frames,
            busy_ms=mean(begun, ended),
            wait_in_ms=mean(idle, taken),
            wait_out_ms=mean(taken, begun),
            handover_ms=self.ways[False, False].handover_ms,
            use=float((ended.clip(begin, end) - begun.clip(begin, end))[first].sum()) / (end - begin),
        )


class LaneState:
    """A lane in the simulation. ``inside``: frames in each ring but the last, with the one that its reader holds;
    ``slots``: of each; ``before``, ``behind``: the rings around each stage, by number; ``links``: their stages
    (``rings.links``)."""

    def __init__(self, stages: list[StageState], links: Sequence[tuple[int, int]], slots: Sequence[float], depth: int):
        self.stages, self.slots, self.depth = stages, slots, depth
        self.inside = [0] * len(links)
        numbers = range(len(links))
        self.before = [[ring for ring in numbers if links[ring][1] == index] for index in range(len(stages))]
        self.behind = [[ring for ring in numbers if links[ring][0] == index] for index in range(len(stages))]
        self.senders = [links[rings[0]][0] for rings in self.before]
        self.submitted: list[tuple[int, float, float]] = []  # frame number, when it was, when it is due (ms)

    @property
    def under_way(self) -> int:
        return len(self.submitted) - self.stages[-1].finished

    def submit(self, frame: int, now: float, due_ms: float) -> None:
        self.submitted.append((frame, now, due_ms))
        self.inside[0] += 1

    def waiting(self, now: float) -> Iterator[tuple[bool, float, int, int]]:
        """The stages that could begin a frame: whether fewer than they take together, when it is due, its number, and
        their index."""
        for index, stage in enumerate(self.stages):
            if stage.running or not all(self.inside[ring] for ring in self.before[index]):
                continue
            if stage.taken_ms is None:
                stage.taken_ms = now
            if frames := self._fitting(index):
                frame, _, due_ms = self.submitted[len(stage.runs)]
                yield frames < stage.most, due_ms, frame, index

    def begin(self, index: int, now: float) -> None:
        stage = self.stages[index]
        came_late = index > 0 and self.stages[self.senders[index]].late[len(stage.runs)]
        stage.begin(now, came_late, self._fitting(index))

    def _fitting(self, index: int) -> int:
        """Frames that a stage can begin together. The host takes results at once: behind the last stage is room."""
        there = min(self.inside[ring] for ring in self.before[index])
        room = min(self.slots[ring] - self.inside[ring] for ring in self.behind[index])
        return int(min(self.stages[index].most, there, room))

    def end(self, index: int, now: float) -> range:
        """Ends what stage ``index`` runs; behind the last stage, returns the numbers of the frames in this lane."""
        stage = self.stages[index]
        if stage.floats and not stage.late[-1] and self._goes_out_late(index):
            stage.go_on()
            return range(0)
        frames = stage.end(now)
        for ring in self.before[index]:
            self.inside[ring] -= frames
        if index + 1 == len(self.stages):
            return range(stage.finished - frames, stage.finished)
        for ring in self.behind[index]:
            self.inside[ring] += frames
        return range(0)

    def _goes_out_late(self, index: int) -> bool:
        stage = self.stages[index]
        if stage.share is not None:
            return in_share(len(stage.runs) - 1, stage.share)
        return goes_out_late(self.inside[self.behind[index][0]], self.inside[self.before[index][0]] - 1)

    def times(self) -> list[FrameTimes]:
        """The times of the frames that are finished."""
        found = []
        for (frame, at, _), *runs in zip(self.submitted, *(stage.runs for stage in self.stages), strict=False):
            _, begun, ended = zip(*runs, strict=True)
            if ended[-1] < inf:
                found.append(
                    FrameTimes(frame, nanoseconds(at), tuple(map(nanoseconds, begun)), tuple(map(nanoseconds, ended)))
                )
        return found


def nanoseconds(ms: float) -> int:
    return round(ms * 1e6)
