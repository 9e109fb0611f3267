"""Plans that move while the pipeline runs: when a component gets slower or faster than its profile says.

Stage times are compared with what the profile predicts for the present plan. Their ratio is what a unit has drifted
by; with the ratios applied, another plan may be better by the goal that the present one was found for, within its
limits. It is a pipeline; components come again in it where they do in the first plan. Noise moves nothing: stage times
have to agree over two windows and differ from those that were judged before, and the gain has to be worth a move.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from ..errors import ArgumentError, PipeallError
from ..graph.ir import Graph
from .boards.board import Board
from .planning.forks import forks
from .planning.operating_points import clocks_text
from .planning.partitions import fastest
from .planning.plan import Goal, Plan, repeats
from .planning.predict import alone_stage_ms, predict
from .planning.profile import Profile
from .planning.search import search
from .planning.unit_set import Kind
from .planning.units import Unit, unit_sets
from .stats import NO_GROUPS, StageCounters

GAIN = 0.04  # of throughput, latency or energy, that is worth a move
CLEAR = 0.15  # that is worth one at once; a smaller one has to be seen twice
STEADY = 0.05  # relative difference of a time that is no change
WINDOW_FRAMES = 2  # per stage, at least: a change is seen within three windows, and stages may take 0.2 s
WINDOW_S = 0.25
POLL_S = 0.05
RETRY_S, MOST_RETRY_S = 10.0, 640.0
FIGURES = {"throughput": ("period", "ms"), "latency": ("latency", "ms"), "energy": ("energy", "mJ a frame")}


class Drift:
    """Compares measured stage times with the profile and says when another plan is better.

    What is not running cannot be watched. Plans that were left are believed to take what they took until the present
    one's times change, units that are left out to be as slow as they were; RETRY_S after a move, and twice as long each
    time that it was no use, both are forgotten. Raises ArgumentError for a plan that is no pipeline or that the profile
    says cannot run, or a profile of another network.
    """

    def __init__(self, graph: Graph, profile: Profile, plan: Plan):
        if len(plan.lanes) != 1:
            raise ArgumentError(f"rebalance: expected a pipeline, got {plan}")
        if _floats_freely(plan):
            raise ArgumentError(f"rebalance: expected a plan whose cuts do not float, or by given shares, got {plan}")
        if forks(plan.lanes[0]):
            raise ArgumentError(f"rebalance: expected a plan without branches side by side, got {plan}")
        profile.check_network(graph)
        if predict(profile, plan).period_ms == inf:
            raise ArgumentError(f"rebalance: expected a plan that the profile of {profile.network} can run, got {plan}")
        self.graph, self.profile, self.plan, self.goal = graph, profile, plan, plan.goal
        self._first = plan
        # Of a component that the plan takes in part, no more cores than it takes.
        taken = Counter()
        for unit in plan.units:
            taken[unit.whole] += unit.cores or 0
        self._cores = {component: cores for component, cores in taken.items() if cores}
        self._units = [unit for unit in profile.units if self._may_run(unit)]
        self._ratios = dict.fromkeys(profile.units, 1.0)  # unit -> measured by profiled time, when last seen
        self._judged: dict[str, float] | None = dict(self._ratios)  # None: judge whatever the ratios are
        self._before: tuple[float, ...] | None = None
        self._usual: tuple[float, ...] | None = None  # stage times of this plan, since it runs or since they changed
        self._tried: dict[Plan, float] = {}  # plans that were left -> what they did, by the goal
        self.why = ""  # of the latest move
        self._promising = False  # the latest judgement saw a gain
        self._forget_s, self._pause_s = inf, RETRY_S

    @classmethod
    def of(cls, graph: Graph, plan: Plan, board: Board, profile: Profile | None) -> Drift:
        """By the profile's units that are real, or that the plan names. Raises ArgumentError without a profile."""
        if plan.clocks:
            raise ArgumentError(f"rebalance: expected a plan without clocks, got one for {clocks_text(plan.clocks)}")
        if profile is None:
            raise ArgumentError(f"rebalance: expected a profile of {graph.name} on this board beside it, got none")
        real = {component.name for component in board.components.values() if not component.stand_in}
        here = {unit: times for unit, times in profile.units.items() if unit.whole in real | {*plan.components}}
        return cls(graph, replace(profile, units=here), plan)

    def refuse(self, plan: Plan, present: Plan) -> None:
        """``plan``, which ``observe`` gave, could not be moved to: ``present`` still runs."""
        self._tried[plan] = inf
        self.plan, self._before, self._usual, self._judged = present, None, None, None

    def _may_run(self, unit: Unit) -> bool:
        most = self._cores.get(unit.whole)
        return most is None or (unit.cores is not None and unit.cores <= most)

    def observe(self, stage_ms: Sequence[float], now_s: float) -> Plan | None:
        """Takes the mean stage times of one window; the plan to move to, if it is time to. ``now_s``: any clock."""
        latest = tuple(stage_ms)
        before, self._before = self._before, latest
        if before is None or _differ(latest, before, STEADY):
            return None
        predicted = self._stage_ms()
        believed = [ms * self._ratios[unit] for unit, ms in zip(self.plan.units, predicted, strict=True)]
        ms = tuple(sorted(values)[1] for values in zip(believed, before, latest, strict=True))  # what both windows show
        self._ratios |= self._ratios_of(ms, predicted)
        if self._usual is None:
            self._usual = ms
        elif _differ(ms, self._usual, 2 * STEADY):
            self._usual, self._pause_s = ms, RETRY_S
            self._tried.clear()
        if now_s >= self._forget_s:
            self._forget()
        if self._judged is not None and not _differ(self._ratios.values(), self._judged.values(), STEADY):
            return None
        self._judged = dict(self._ratios)
        present = self._value(ms)
        plan, value = self._best(present)
        gain = inf if value < present == inf else present / value - 1 if 0 < value < inf else 0.0
        seen, self._promising = self._promising, gain >= GAIN
        if gain < GAIN:
            return None
        if gain < CLEAR and not seen:
            self._judged = None
            return None
        self._tried[self.plan] = present
        self.why = self._reason(present, value)
        self._forget_s = now_s + self._pause_s
        self.plan, self._before, self._usual, self._promising = plan, None, None, False
        return plan

    def _stage_ms(self) -> Sequence[float]:
        """Of the present plan by the profile: of frames in turn, where the goal has them come so, else at full load."""
        prediction = predict(self.profile, self.plan)
        if self.goal.in_turn(prediction.alone_ms):
            return alone_stage_ms(self.profile, self.plan)[0]
        return prediction.stage_ms[0]

    def _ratios_of(self, stage_ms: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
        seen: dict[str, list[float]] = {}
        for unit, ms, expected in zip(self.plan.units, stage_ms, predicted, strict=True):
            if expected:
                seen.setdefault(unit, []).append(ms / expected)
        return {unit: sum(values) / len(values) for unit, values in seen.items()}

    def _forget(self) -> None:
        self._ratios |= {unit: 1.0 for unit in self.profile.units if unit not in self.plan.units}
        self._tried.clear()
        self._judged, self._forget_s, self._pause_s = None, inf, min(2 * self._pause_s, MOST_RETRY_S)

    def _drifted(self) -> Profile:
        """The profile as it seems to be now; what it says of its own error is of the past."""
        units = {
            name: replace(times, ms=tuple(ms * self._ratios[name] for ms in times.ms))
            for name, times in self.profile.units.items()
        }
        return replace(self.profile, units=units, error={})

    def _value(self, stage_ms: Sequence[float]) -> float:
        """What the present plan does by its goal, of its stages' times; energy as predicted for them."""
        energy = predict(self._drifted(), self.plan).energy_at(self.goal.min_fps)
        busy_ms = dict.fromkeys(self.plan.unit_of, 0.0)
        for number, ms in zip(self.plan.unit_of, stage_ms, strict=True):
            busy_ms[number] += ms
        return self.goal.value(max(busy_ms.values()), sum(stage_ms), energy)

    def _best(self, present: float) -> tuple[Plan, float]:
        """The best plan by the goal, as measured where it has run and as predicted elsewhere."""
        goal, drifted = self.goal, self._drifted()
        found = {plan: _predicted(drifted, plan, goal) for plan in (self._first, *self._of_its_shape(drifted))}
        try:
            result = search(
                self.graph,
                drifted,
                goal.objective,
                **goal.limits,
                units=self._units,
                cores=self._cores,
                top=1,
                plans="pipelines",
            )
            found[result.best] = _predicted(drifted, result.best, goal)
        except ArgumentError:  # none keeps the limits any more
            pass
        return min((found | self._tried | {self.plan: present}).items(), key=lambda item: item[1])

    def _of_its_shape(self, drifted: Profile) -> list[Plan]:
        """For throughput the fastest pipelines of no more stages than the first plan, where components repeat in that
        one. A search for latency finds such plans itself."""
        lane = self._first.lanes[0]
        if self.goal.objective != "throughput" or not repeats(lane):
            return []
        sets = unit_sets(self._units, min(len(lane), len(drifted.groups)), self._cores)
        kind = Kind(len(lane), lanes=False, floating=any(stage.floating for stage in lane))
        found = fastest(drifted, sets, kind, self.goal.max_latency_ms or inf)
        return [one.plan for one in found.plans if not _floats_freely(one.plan)]

    def _reason(self, present: float, value: float) -> str:
        """The units that have changed, and the reason of the move."""
        changed = {unit: ratio for unit, ratio in self._ratios.items() if abs(ratio - 1) > STEADY}
        off = [f"{unit} takes {ratio:.2f} x its profile" for unit, ratio in changed.items()]
        what, unit = FIGURES[self.goal.objective]
        before = f"{present:.2f} {unit}" if present < inf else "not within its limits"
        return f"{', '.join(off) or 'all as in the profile again'}; {what} {before}, expected {value:.2f} {unit}"


def _floats_freely(plan: Plan) -> bool:
    """Whether waiting frames decide where a cut is: how often they do is not known."""
    return any(stage.floating and stage.share is None for lane in plan.lanes for stage in lane)


def _predicted(profile: Profile, plan: Plan, goal: Goal) -> float:
    prediction = predict(profile, plan)
    return goal.value(*prediction.times_ms(goal), prediction.energy_at(goal.min_fps))


def _differ(some: Iterable[float], others: Iterable[float], share: float) -> bool:
    return any(abs(one - other) > share * other for one, other in zip(some, others, strict=True))


class Rebalancer:
    """A thread that watches a running pipeline and moves its plan.

    counters    gives the counters of the stages of the present plan
    move        runs the plan from now on, for the reason given
    time_scale  how many times as long as in the profile everything takes

    It lets go of whoever owns the two methods, and ends once they are gone.
    """

    def __init__(
        self,
        drift: Drift,
        counters: Callable[[], Sequence[StageCounters]],
        move: Callable[[Plan, str], None],
        time_scale: float = 1.0,
    ):
        self._drift, self._time_scale = drift, time_scale
        self._counters, self._move = weakref.WeakMethod(counters), weakref.WeakMethod(move)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pa-rebalance", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, after a move that is under way."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        begin: Sequence[StageCounters] = ()
        begin_s = 0.0
        while not self._stop.wait(POLL_S):
            counters = self._counters()
            if counters is None:  # the pipeline is gone
                return
            now = [row for row in counters() if row.groups != NO_GROUPS]
            now_s = time.monotonic()
            del counters
            if [row.lane for row in begin] != [row.lane for row in now]:
                begin, begin_s = now, now_s
                continue
            window = [row.since(begin) for row in now]
            if min(row.frames for row in window) < WINDOW_FRAMES or now_s - begin_s < WINDOW_S:
                continue
            begin, begin_s = now, now_s
            means = [row.mean_ms() / self._time_scale for row in window]
            present = self._drift.plan
            plan, move = self._drift.observe(means, now_s), self._move()
            if plan is None or move is None:
                continue
            try:
                move(plan, self._drift.why)
            except PipeallError as error:  # the stream goes on as it is; whoever runs it hears of it
                self._drift.refuse(plan, present)
                warnings.warn(f"rebalancing to {plan} failed, {present} runs on: {error}", RuntimeWarning, 1)
            del move
