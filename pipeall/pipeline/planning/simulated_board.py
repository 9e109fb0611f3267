"""A board in a simulation: networks that share its units, and the loop over events.

It follows unit.c: a stage can begin where the ring before it has a frame and the ring after it a free slot. It computes
holding both, hands the frame on and frees the slot it read. A unit begins the frame that is due first, of those that
its stages can (``runtime.Frames.next_due``); a stage that takes frames together takes those that wait, and fewer than
it could only where no other stage of its lane can begin. Where the cut behind it floats, a stage also computes the
floating groups of a frame, as ``rings.goes_out_late`` says. The host submits as soon as there is room and takes results
at once. For ``predict`` every unit is always busy; here a stage is slowed down only while others compute, so its pace
changes with every event. Within a stage the pace is the mean over its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from random import Random

import numpy as np

from ...errors import ArgumentError
from .forks import links
from .plan import Plan
from .predict import StageSpan, check_runs, predict, spans
from .profile import Profile
from .rings import REORDER, in_turn, slots_behind, under_way
from .schedule_plan import AHEAD, HEAD_START_MS, RealUnit, real_units
from .simulated_lane import LaneState, StageState, Way
from .stage_costs import StageCosts
from .units import Unit


@dataclass(frozen=True, slots=True)
class Source:
    """Where a network's frames come from, and how they count among those of others.

    period_ms  between two frames; 0: one is always ready
    rate       frames per second that are due when they are submitted; None: all are
    priority   as of ``Demand``
    """

    period_ms: float = 0.0
    rate: float | None = None
    priority: int = 0


class NetworkState:
    """A network in the simulation: its lanes, what it has submitted, and what was delivered.

    done       (when each result was ready, the energy that the board had drawn by then, mJ), in that order
    delivered  when each frame was delivered in its turn, and ``latencies``: how long after its submit (ms)
    """

    def __init__(self, costs: StageCosts, units: Sequence[RealUnit], lanes: list[LaneState], source: Source):
        self.costs, self.units, self.lanes, self.source = costs, units, lanes, source
        self.done: list[tuple[float, float]] = []
        self.delivered: list[float] = []
        self.latencies: list[float] = []
        self._ahead = REORDER * len(lanes) if len(lanes) > 1 else inf
        self._ready: dict[int, float] = {}  # frames that wait for an earlier one, and when they were submitted
        self._submitted, self._due_ms = 0, 0.0

    @property
    def stages(self) -> list[StageState]:
        return [stage for lane in self.lanes for stage in lane.stages]

    @property
    def arrival_ms(self) -> float:
        """When the source has the next frame."""
        return self._submitted * self.source.period_ms

    def submit(self, now: float) -> None:
        """Submits what there is and has room."""
        while self.arrival_ms <= now and self._submitted - len(self.latencies) < self._ahead:
            room = [lane for lane in self.lanes if lane.under_way < lane.depth]
            if not room:
                break
            min(room, key=lambda lane: lane.under_way).submit(self._submitted, now, self._next_due_ms(now))
            self._submitted += 1

    def _next_due_ms(self, now: float) -> float:
        """When the next frame is due; it is submitted now. As ``runtime.Frames.next_due``."""
        period_ms = 1e3 / self.source.rate if self.source.rate else 0.0
        self._due_ms = max(now, min(self._due_ms + period_ms, now + AHEAD * period_ms))
        within = self._due_ms <= now + period_ms
        return self._due_ms - (self.source.priority * HEAD_START_MS if within else 0.0)

    def end(self, lane: LaneState, index: int, now: float, energy_mj: float) -> None:
        """Ends what a stage of a lane runs."""
        for ended in lane.end(index, now):
            frame, submitted_ms, _ = lane.submitted[ended]
            self.done.append((now, energy_mj))
            self._ready[frame] = submitted_ms

    def deliver(self, now: float) -> None:
        while len(self.latencies) in self._ready:
            self.latencies.append(now - self._ready.pop(len(self.latencies)))
            self.delivered.append(now)


def run(networks: Sequence[NetworkState], goes_on: Callable[[float], bool], idle_w: float) -> None:
    """Lets time pass from event to event while it ``goes_on``, which is asked with the time (ms) of each.

    idle_w: what the board draws with nothing running.
    """
    places = [
        (network, lane, index, stage)
        for network in networks
        for lane in network.lanes
        for index, stage in enumerate(lane.stages)
    ]
    now = energy_mj = 0.0
    while goes_on(now):
        for network in networks:
            network.submit(now)
        _begin(networks, now)
        running = [place for place in places if place[-1].running]
        computing = sum(1 << stage.position for *_, stage in running)
        loads = [stage.way.load(computing) for *_, stage in running]
        ends = [now + stage.left_ms * slower for (*_, stage), (slower, _) in zip(running, loads, strict=True)]
        arrivals = [network.arrival_ms for network in networks]
        then = min([*ends, *(arrival for arrival in arrivals if arrival > now)])
        energy_mj += (then - now) * (idle_w + sum(watts for _, watts in loads))
        for (network, lane, index, stage), (slower, _), end in zip(running, loads, ends, strict=True):
            if end > then:
                stage.left_ms -= (then - now) / slower
            else:
                network.end(lane, index, then, energy_mj)
        for network in networks:
            network.deliver(then)
        now = then


def _begin(networks: Sequence[NetworkState], now: float) -> None:
    """Lets every unit begin that can."""
    busy, ready, full = set(), [], set()
    for network in networks:
        numbers = iter(network.units)
        for lane in network.lanes:
            units = [next(numbers) for _ in lane.stages]
            busy.update(unit for unit, stage in zip(units, lane.stages, strict=True) if stage.running)
            for fewer, due, frame, index in lane.waiting(now):
                ready.append((due, frame, fewer, lane, index, units[index]))
                if not fewer:
                    full.add((lane, units[index]))
    for _, _, fewer, lane, index, unit in sorted(ready, key=lambda one: one[:2]):
        if unit not in busy and not (fewer and (lane, unit) in full):
            busy.add(unit)
            lane.begin(index, now)


def networks_of(
    profiles: Sequence[Profile],
    plans: Sequence[Plan],
    sources: Sequence[Source],
    *,
    slots: int,
    depth: int | None,
    paced: bool,
    seed: int | None,
) -> list[NetworkState]:
    """The networks of a board before they begin. ``seed``: of what varies from frame to frame; None: nothing does.

    Raises ArgumentError where a plan does not fit its profile or cannot run.
    """
    every = [(unit, real) for plan in plans for unit, real in zip(plan.units, real_units(plan), strict=True)]
    networks, first = [], 0
    for profile, plan, source in zip(profiles, plans, sources, strict=True):
        predict(profile, plan)  # raises where the plan does not fit
        check_runs(profile, plan)
        costs = StageCosts.of(profile, plan, alone=in_turn(plan, depth))
        neighbours = _Neighbours(costs, real_units(plan), first, every, paced)
        lanes = []
        for planned, lane in zip(plan.lanes, spans(profile, plan), strict=True):
            stages = [_stage(neighbours, plan, span) for span in lane]
            ends = links(planned)
            room = [
                slots_behind(planned, sender, slots) if min(sender, receiver) >= 0 else inf for sender, receiver in ends
            ]
            lanes.append(LaneState(stages, ends, room, under_way(planned, depth)))
        networks.append(NetworkState(costs, real_units(plan), lanes, source))
        first += len(plan.units)
        if seed is not None:
            for stage in networks[-1].stages:
                stage.random = Random(f"{seed} {stage.position}")
    return networks


class _Neighbours:
    """What slows down the stages of a network: its own units, and those of others.

    first  its first position among the stages of all networks, whose units are ``every`` (name, unit)
    """

    def __init__(
        self,
        costs: StageCosts,
        own: Sequence[RealUnit],
        first: int,
        every: Sequence[tuple[Unit, RealUnit]],
        paced: bool,
    ):
        self.costs, self.first, self._every = costs, first, every
        foreign = {real: number for number, (_, real) in reversed(list(enumerate(every))) if real not in own}
        self._foreign = tuple(foreign.values()) if paced else None

    def slowdowns(self, position: int) -> dict[int, np.ndarray]:
        """Of a stage by its place in the plan: place among all stages -> how many times as long it takes, per group."""
        own = range(len(self.costs.units))
        found = {self.first + other: self.costs.slowdown(position, other) for other in own if other != position}
        for number, (unit, _) in enumerate(self._every):
            if number - self.first not in own:
                found[number] = self.costs.profile.slowdown(self.costs.units[position], unit)
        return found

    def always(self, position: int) -> int | None:
        """The stages that slow it down whether they compute or not, as a bit mask; None: only those that compute."""
        if self._foreign is None:
            return None
        own = (self.first + other for other in self.costs.others[position])
        return sum(1 << number for number in (*own, *self._foreign))


def _stage(neighbours: _Neighbours, plan: Plan, span: StageSpan) -> StageState:
    costs, unit = neighbours.costs, plan.units[span.position]
    slowdowns, always = neighbours.slowdowns(span.position), neighbours.always(span.position)

    def way(groups: tuple[int, int], handover_ms: float, frames: int = 1) -> Way:
        return Way(costs, span.position, groups, handover_ms, slowdowns, always, frames)

    first, first_late, last, last_late = span.groups
    ways = {}
    for came_late in {False, first_late > first}:
        for goes_late in {False, last_late > last}:
            handover_ms = sum(span.handover_ms(costs, 1.0 - came_late, float(goes_late)))
            if not isfinite(handover_ms):
                raise ArgumentError(f"plan {plan}: expected {unit} next to no other OpenCL device")
            groups = first_late if came_late else first, last_late if goes_late else last
            ways[came_late, goes_late] = way(groups, handover_ms)
    handover_ms = sum(span.handover_ms(costs, 1.0, 0.0))
    together = [way((first, last), handover_ms, frames) for frames in range(2, unit.batch + 1)]
    return StageState(neighbours.first + span.position, unit, (first, last), ways, together, span.share)


def used(networks: Iterable[NetworkState], begin_ms: float, end_ms: float) -> Mapping[RealUnit, float]:
    """The share of the time (begin, end] that each unit computed."""
    found: dict[RealUnit, float] = {}
    for network in networks:
        for unit, stage in zip(network.units, network.stages, strict=True):
            found[unit] = found.get(unit, 0.0) + stage.stats(begin_ms, end_ms).use
    return found
