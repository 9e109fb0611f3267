"""What a plan will do, from a profile: stage times, period, latency, energy. Search, simulation and emulation use it.

The model: a stage takes the sum of its groups' times, and what receiving and sending cost it. Each time is multiplied
by the slow-down that every other unit of the plan causes: a unit of the same lane computes other groups, one of another
lane the whole network. All units count as always busy, as in a balanced pipeline. The period is that of the slowest
unit: what all stages take that it serves. Latency is one frame's time through all stages, without waiting; of branches
side by side, the longest time of a unit; where a stage takes frames together, the time of all of them, and the first
waits until the last has come. A frame with no other under way is done sooner: units compute in turn, and only those of
branches slow each other down. Groups that float go to the stage before the cut for some share of the frames: the one
with which the slowest unit is fastest. The runtime gets there by itself, because that stage takes them whenever the
next one is not ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import inf, isfinite

import numpy as np

from ...errors import ArgumentError
from .forks import branch_bytes, forks, path_ms
from .linear import maximize
from .plan import Goal, Plan, StagePlan, borders
from .profile import Profile
from .stage_costs import StageCosts
from .units import Unit

ROUNDING = 1e-12  # relative: a stage that just fits may come out longer by its sums
BISECTIONS = 50  # of the period of a plan whose cuts float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a plan will do in the steady state at full load; infinity where a unit cannot run a group (``check_runs``).

    stage_ms    per lane, per stage: of a frame, where frames are computed together of one of them
    period_ms   time between two results, of all lanes together
    latency_ms  time of a frame through the slowest lane
    alone_ms    the same of a frame with no other under way
    energy_mj   of the board per frame at this period, None where the profile knows no power. With a slower source, what
                the idle board draws in the rest of the time comes on top: ``energy_at``
    idle_w      what the idle board draws, None where the profile does not know
    """

    stage_ms: tuple[tuple[float, ...], ...]
    period_ms: float
    latency_ms: float
    alone_ms: float
    energy_mj: float | None
    idle_w: float | None = None

    def __repr__(self) -> str:
        return f"<Prediction {self}>"

    def __str__(self) -> str:
        energy = "" if self.energy_mj is None else f", {self.energy_mj:.1f} mJ a frame"
        return f"{self.fps:.1f} FPS, latency {self.latency_ms:.2f} ms{energy}"

    @property
    def fps(self) -> float:
        return 1000.0 / self.period_ms

    def to_dict(self) -> dict[str, float | None]:
        """Ready for JSON; null stands for infinity."""
        return {
            "period_ms": finite(self.period_ms),
            "fps": self.fps,
            "latency_ms": finite(self.latency_ms),
            "alone_ms": finite(self.alone_ms),
            "energy_mj": self.energy_mj,
        }

    def times_ms(self, goal: Goal) -> tuple[float, float]:
        """(period, latency) that count for a goal: of frames in turn, or at full load."""
        if goal.in_turn(self.alone_ms):
            return self.alone_ms, self.alone_ms
        return self.period_ms, self.latency_ms

    def energy_at(self, fps: float | None) -> float | None:
        """mJ of the board per frame where frames come at this rate, idle in between; None: at the plan's own rate."""
        if self.energy_mj is None or fps is None:
            return self.energy_mj
        return self.energy_mj + self.idle_w * max(0.0, 1000.0 / fps - self.period_ms)


def finite(ms: float) -> float | None:
    """A time for JSON, which has no infinity."""
    return ms if isfinite(ms) else None


@dataclass(frozen=True, slots=True)
class StageSpan:
    """The groups of one stage, and its neighbours.

    Groups float before and behind it. The stage computes those before for a share ``before`` of the frames, and those
    behind for a share ``behind``.

    position   of its unit among the plan's; sender, receiver: those of its neighbours, None for the host
    groups     (first, first_late, last, last_late): the two in the middle bound what it always computes
    given, taken  before a join, and at a fork: (position, bytes) of each branch that it receives from, or sends to, in
               place of its one neighbour
    """

    position: int
    sender: int | None
    receiver: int | None
    groups: tuple[int, int, int, int]
    share: int | None = None
    given: tuple[tuple[int, int], ...] = ()
    taken: tuple[tuple[int, int], ...] = ()

    def total(self, values: np.ndarray, before: float, behind: float) -> float:
        """The mean over the frames of the sum over its groups.

        Infinite where one of them is: it must also be able to compute a group whose share is 0.
        """
        total = float(values[self.groups[0] : self.groups[3]].sum())
        if not isfinite(total):
            return inf
        first, first_late, last, last_late = self.groups
        left_out = (1 - before) * values[first:first_late].sum() + (1 - behind) * values[last:last_late].sum()
        return total - float(left_out)

    def handover_ms(self, costs: StageCosts, before: float, behind: float) -> tuple[float, float]:
        """(receiving, sending): the means over the frames."""
        first, first_late, last, last_late = self.groups
        if self.given:
            receive_ms = sum(costs.handed_ms(sender, self.position, size)[1] for sender, size in self.given)
        else:
            receiving = costs.handover(self.sender, self.position)[1]
            receive_ms = _between(receiving[first_late], receiving[first], before)
        if self.taken:
            send_ms = sum(costs.handed_ms(self.position, receiver, size)[0] for receiver, size in self.taken)
        else:
            sending = costs.handover(self.position, self.receiver)[0]
            send_ms = _between(sending[last], sending[last_late], behind)
        return receive_ms, send_ms

    def ms(self, costs: StageCosts, before: float, behind: float) -> float:
        """The mean time of a frame: groups and hand-overs; infinite where its unit may not have these groups."""
        if not costs.may_be(self.position, self.groups):
            return inf
        return self.total(costs.loaded_ms[self.position], before, behind) + sum(self.handover_ms(costs, before, behind))

    def together_ms(self, costs: StageCosts, frames: int) -> float:
        """The time of so many frames that are computed together; no cut floats beside such a stage."""
        if not costs.may_be(self.position, self.groups):
            return inf
        ms = self.total(costs.together_ms(self.position, frames), 1.0, 0.0)
        return ms + frames * sum(self.handover_ms(costs, 1.0, 0.0))


def spans(profile: Profile, plan: Plan) -> list[list[StageSpan]]:
    """The stages of every lane. Raises ArgumentError where they do not fit the profile's network."""
    position, lanes = 0, []
    for lane in plan.lanes:
        begin = position
        lanes.append([])
        for index, ends in enumerate(borders(lane, len(profile.groups), profile.network)):
            sender = position - 1 if index else None
            receiver = position + 1 if index + 1 < len(lane) else None
            lanes[-1].append(StageSpan(position, sender, receiver, ends, lane[index].share))
            position += 1
        if forks(lane):
            lanes[-1] = _with_branches(profile, lane, lanes[-1], begin)
    return lanes


def _with_branches(profile: Profile, lane: Sequence[StagePlan], row: list[StageSpan], begin: int) -> list[StageSpan]:
    """The stages of a lane with what those at forks and joins hand over. ``begin``: the position of the first."""
    row = list(row)
    for level in forks(lane):
        ends = [row[index].groups[0] for index in level] + [row[level[-1]].groups[2]]
        read, made = profile.crossing_bytes[ends[0]], branch_bytes(profile.crossing_bytes, ends)
        fork, join = level.start - 1, level.stop
        branches = [begin + index for index in level]
        row[fork] = replace(row[fork], taken=tuple((position, read) for position in branches))
        row[join] = replace(row[join], given=tuple(zip(branches, made, strict=True)))
        for index, size in zip(level, made, strict=True):
            given, taken = ((begin + fork, read),), ((begin + join, size),)
            row[index] = replace(row[index], given=given, taken=taken)
    return row


def check_runs(profile: Profile, plan: Plan) -> None:
    """Raises ArgumentError for a plan with groups on a unit that cannot run them, with the profile's reason."""
    for span in chain.from_iterable(spans(profile, plan)):
        unit = plan.units[span.position]
        times = profile.units[unit]
        if times.ranges is not None and not times.ranges.may_be(span.groups):
            raise ArgumentError(f"plan {plan}: {times.ranges.refusal(unit, span.groups, str(plan), profile.network)}")
        for index in range(span.groups[0], span.groups[3]):
            if not isfinite(times.ms[index]):
                reason = times.refused.get(index + 1, "no time was measured")
                raise ArgumentError(
                    f"plan {plan}: expected groups that {unit} can run, got group {index + 1}, "
                    f"{profile.groups[index]}: {reason}"
                )


def balanced(costs: StageCosts, lane: Sequence[StageSpan]) -> list[float]:
    """The share of the frames for which each stage computes the groups that float behind it.

    These are the shares with which the slowest unit of the lane is fastest.
    """
    if any(span.share is not None for span in lane):
        return [(span.share or 0) / 100 for span in lane]
    if len({costs.unit_of[span.position] for span in lane}) < len(lane):
        return _balanced_units(costs, lane)
    found = [0.0] * len(lane)
    shortest, longest = 0.0, _slowest(costs, lane, found)
    if longest == inf or all(span.groups[2] == span.groups[3] for span in lane):
        return found
    for _ in range(BISECTIONS):
        middle = (shortest + longest) / 2
        tried = _largest_shares(costs, lane, middle)
        if _slowest(costs, lane, tried) <= middle * (1 + ROUNDING):
            longest, found = middle, tried
        else:
            shortest = middle
    return found


def _balanced_units(costs: StageCosts, lane: Sequence[StageSpan]) -> list[float]:
    """``balanced`` where a unit serves several stages: the most frames per ms, r, of which share s_i goes out late.

    A linear program in r and r s_i: no unit may be busy for more than 1 ms a ms, and no share be above 1.
    """
    floating = [index for index, span in enumerate(lane) if span.groups[2] < span.groups[3]]
    shares = [0.0] * len(lane)
    if not floating or _slowest(costs, lane, shares) == inf:
        return shares
    numbers = list(dict.fromkeys(costs.unit_of[span.position] for span in lane))
    busy = np.zeros((len(numbers), 1 + len(floating)))
    for index, span in enumerate(lane):
        row = busy[numbers.index(costs.unit_of[span.position])]
        early = span.ms(costs, 1.0, 0.0)
        row[0] += early
        if index in floating:
            row[1 + floating.index(index)] += span.ms(costs, 1.0, 1.0) - early
        if index - 1 in floating:
            row[1 + floating.index(index - 1)] += span.ms(costs, 0.0, 0.0) - early
    bounds = np.hstack([-np.ones((len(floating), 1)), np.eye(len(floating))])
    objective, most = np.eye(1, 1 + len(floating))[0], np.array([1.0] * len(numbers) + [0.0] * len(floating))
    (rate, *late), _ = maximize(objective, np.vstack([busy, bounds]), most)
    for index, amount in zip(floating, late, strict=True):
        shares[index] = min(max(amount / rate, 0.0), 1.0)
    return shares


def with_shares(profile: Profile, plan: Plan) -> Plan:
    """The plan with the shares of its floating cuts, in percent, in lanes where a unit serves several stages.

    The runtime's own rule, by frames that wait, finds the shares of a lane of distinct units only.
    """
    costs = StageCosts.of(profile, plan)
    lanes = []
    for stages, lane in zip(plan.lanes, spans(profile, plan), strict=True):
        repeats = len({costs.unit_of[span.position] for span in lane}) < len(lane)
        shares = balanced(costs, lane) if repeats else [0.0] * len(lane)
        lanes.append(
            tuple(
                replace(stage, share=round(100 * share)) if repeats and stage.floating else stage
                for stage, share in zip(stages, shares, strict=True)
            )
        )
    return replace(plan, lanes=tuple(lanes))


def unit_times(costs: StageCosts, lane: Sequence[StageSpan], stage_ms: Sequence[float]) -> dict[int, float]:
    """What each unit of a lane takes for a frame: the sum over the stages that it serves."""
    times: dict[int, float] = {}
    for span, ms in zip(lane, stage_ms, strict=True):
        number = costs.unit_of[span.position]
        times[number] = times.get(number, 0.0) + ms
    return times


def _largest_shares(costs: StageCosts, lane: Sequence[StageSpan], period_ms: float) -> list[float]:
    """The largest shares with which each stage ends within the period, if there are any."""
    found: list[float] = []
    before = 1.0
    for span in lane:
        least, most = span.ms(costs, before, 0.0), span.ms(costs, before, 1.0)
        if span.groups[2] == span.groups[3]:
            share = 0.0
        elif most <= max(period_ms, least):  # it fits, or costs nothing
            share = 1.0
        else:
            share = min(max((period_ms - least) / (most - least), 0.0), 1.0)
        found.append(share)
        before = 1.0 - share
    return found


def _slowest(costs: StageCosts, lane: Sequence[StageSpan], shares: Sequence[float]) -> float:
    stage_ms = [span.ms(costs, before, behind) for span, before, behind in stage_shares(lane, shares)]
    return max(unit_times(costs, lane, stage_ms).values())


def stage_shares(lane: Sequence[StageSpan], shares: Sequence[float]) -> list[tuple[StageSpan, float, float]]:
    """(stage, before, behind): the shares of the frames for which it computes the groups that float around it."""
    before = [1.0, *(1.0 - share for share in shares)]
    return list(zip(lane, before, shares, strict=False))


def _between(first: float, second: float, share: float) -> float:
    """``share`` of the second and the rest of the first. A value without a share does not count, even if infinite."""
    of_first = first * (1 - share) if share < 1 else 0.0
    of_second = second * share if share else 0.0
    return float(of_first + of_second)


def waited_for(batches: Sequence[int]) -> int:
    """Frames that the first of those that stages take together waits for: a stage behind one that takes as many finds
    them all."""
    return sum(max(batch - before, 0) for before, batch in pairwise([1, *batches]))


def predict(profile: Profile, plan: Plan) -> Prediction:
    """What the plan will do. Raises ArgumentError where it does not fit the profile's network or units."""
    costs = StageCosts.of(profile, plan)
    lanes, busy_mj, periods = [], [], []
    for lane in spans(profile, plan):
        stages = stage_shares(lane, balanced(costs, lane))
        lanes.append(tuple(span.ms(costs, before, behind) for span, before, behind in stages))
        periods.append(max(unit_times(costs, lane, lanes[-1]).values()))
        if costs.energy_known:
            mj = (span.total(costs.loaded_mj[span.position], before, behind) for span, before, behind in stages)
            busy_mj.append(sum(mj))
    held = [[unit.batch * ms for unit, ms in zip(*row, strict=True)] for row in zip(_units(plan), lanes, strict=True)]
    latency = _latency_ms(plan, held, periods)
    if latency == inf:
        return Prediction(tuple(lanes), inf, inf, inf, None)
    if not all(periods):
        raise ArgumentError(f"plan {plan}: expected stages that take time, all of a lane take 0 ms in the profile")
    rates = [1.0 / period for period in periods]
    period = 1.0 / sum(rates)
    energy = None
    if costs.energy_known:
        energy = period * (profile.idle_w + sum(rate * mj for rate, mj in zip(rates, busy_mj, strict=True)))
    alone_ms = _latency_ms(plan, alone_stage_ms(profile, plan))
    return Prediction(tuple(lanes), period, latency, alone_ms, energy, profile.idle_w)


def _units(plan: Plan) -> list[list[Unit]]:
    """The units of each lane."""
    return [[stage.unit for stage in lane] for lane in plan.lanes]


def _latency_ms(plan: Plan, stage_ms: Sequence[Sequence[float]], periods_ms: Sequence[float] = ()) -> float:
    """The time of a frame through the slowest lane, of the times of its stages; where frames are computed together with
    what the first of them waits, by the period of each lane."""
    numbers = iter(plan.unit_of)
    longest = [path_ms(lane, [next(numbers) for _ in lane], ms) for lane, ms in zip(plan.lanes, stage_ms, strict=True)]
    for index, (units, period_ms) in enumerate(zip(_units(plan), periods_ms, strict=False)):
        if waits := waited_for([unit.batch for unit in units]):
            longest[index] += waits * period_ms
    return max(longest)


def alone_stage_ms(profile: Profile, plan: Plan) -> list[list[float]]:
    """Per lane and stage the time of a frame with no other under way: the next stage is always ready."""
    costs = StageCosts.of(profile, plan, alone=True)
    early = (stage_shares(lane, [(span.share or 0) / 100 for span in lane]) for lane in spans(profile, plan))
    return [[_single_ms(costs, *stage) for stage in stages] for stages in early]


def _single_ms(costs: StageCosts, span: StageSpan, before: float, behind: float) -> float:
    """A frame's time where no other is computed with it."""
    if Unit.parse(costs.units[span.position]).batch > 1:
        return span.together_ms(costs, 1)
    return span.ms(costs, before, behind)
