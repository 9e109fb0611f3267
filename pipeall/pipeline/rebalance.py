"""Plans that move while the pipeline runs: when a component gets slower or faster than its profile says.

Stage times are compared with what the profile predicts for the present plan. Their ratio is what a unit has drifted
by; with the ratios applied, another plan may be better. Noise moves nothing: ratios have to agree over two windows and
differ from those that were judged before, and the gain has to be worth a move.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..errors import ArgumentError, PipeallError
from ..graph.ir import Graph
from .plan import Plan
from .predict import predict
from .profile import Profile
from .search import search
from .stats import StageCounters

GAIN = 0.04  # of throughput, that is worth a move
STEADY = 0.05  # relative difference of a ratio that is no change
WINDOW_FRAMES = 4  # per stage, at least
WINDOW_S = 0.25
RETRY_S, MOST_RETRY_S = 10.0, 640.0  # after which a component that was left out is thought to be well again
KEPT = 100  # latest plans that were left

Ratios = dict[str, float]


class Drift:
    """Compares measured stage times with the profile and says when another plan is better.

    A component that is left out cannot be watched: after RETRY_S it is taken to be as profiled and tried again, and
    left alone twice as long each time that this was wrong. Nor is a plan gone back to that was left under the same
    circumstances. Raises ArgumentError for a plan that is no pipeline, or a profile of another network.
    """

    def __init__(self, graph: Graph, profile: Profile, plan: Plan):
        if len(plan.lanes) != 1:
            raise ArgumentError(f"rebalance: expected a pipeline, got {plan}")
        profile.check_network(graph)
        predict(profile, plan)
        self.graph, self.profile, self.plan = graph, profile, plan
        self._ratios: Ratios = dict.fromkeys(profile.units, 1.0)
        self._judged: Ratios = dict(self._ratios)
        self._before: Ratios | None = None
        self._left: OrderedDict[str, Ratios] = OrderedDict()
        self._retry: dict[str, tuple[float, float]] = {}  # unit -> when to try it again, and the pause until then

    def observe(self, stage_ms: Sequence[float], now_s: float) -> Plan | None:
        """Takes the mean stage times of one window; the plan to move to, if it is time to. ``now_s``: any clock."""
        predicted = predict(self.profile, self.plan).stage_ms[0]
        seen: dict[str, list[float]] = {}
        for unit, ms, expected in zip(self.plan.units, stage_ms, predicted, strict=True):
            seen.setdefault(unit, []).append(ms / expected)
        ratios = {unit: sum(values) / len(values) for unit, values in seen.items()}
        before, self._before = self._before, ratios
        if before is None or _differ(ratios, before, STEADY):
            return None
        self._ratios |= ratios
        for unit, (when, _) in self._retry.items():
            if unit not in ratios and now_s >= when:
                self._ratios[unit] = 1.0
        if not _differ(self._ratios, self._judged, STEADY):
            return None
        self._judged = dict(self._ratios)
        best = search(self.graph, self._drifted(), top=1).ranked[0]
        if max(stage_ms) / best.prediction.period_ms < 1 + GAIN or self._left_like_this(best.plan):
            return None
        self._leave(best.plan, now_s)
        return best.plan

    def _drifted(self) -> Profile:
        """The profile with every unit slower by its ratio."""
        units = {
            name: replace(times, ms=tuple(ms * self._ratios[name] for ms in times.ms))
            for name, times in self.profile.units.items()
        }
        return replace(self.profile, units=units)

    def _left_like_this(self, plan: Plan) -> bool:
        left = self._left.get(str(plan))
        return left is not None and not _differ(self._ratios, left, 2 * STEADY)

    def _leave(self, plan: Plan, now_s: float) -> None:
        self._left[str(self.plan)] = dict(self._ratios)
        while len(self._left) > KEPT:
            self._left.popitem(last=False)
        for unit in self.profile.units:
            if unit in self.plan.units and unit not in plan.units:
                was_well = abs(self._ratios[unit] - 1) <= STEADY
                pause = RETRY_S if was_well or unit not in self._retry else 2 * self._retry[unit][1]
                self._retry[unit] = now_s + min(pause, MOST_RETRY_S), pause
        self.plan, self._before = plan, None


def _differ(ratios: Mapping[str, float], others: Mapping[str, float], share: float) -> bool:
    return any(abs(ratio / others[unit] - 1) > share for unit, ratio in ratios.items())


class Rebalancer:
    """A thread that watches a running pipeline and moves its plan.

    counters    gives the counters of the stages of the present plan
    move        runs the plan from now on
    time_scale  how many times as long as in the profile everything takes
    """

    def __init__(
        self,
        drift: Drift,
        counters: Callable[[], Sequence[StageCounters]],
        move: Callable[[Plan], None],
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
        while not self._stop.wait(WINDOW_S):
            counters = self._counters()
            if counters is None:  # the pipeline is gone
                return
            now = counters()
            del counters
            if [row.lane for row in begin] != [row.lane for row in now]:
                begin = now
                continue
            frames = [row.frames - old.frames for row, old in zip(now, begin, strict=True)]
            if min(frames) < WINDOW_FRAMES:
                continue
            busy = [(row.busy_ns - old.busy_ns) / 1e6 for row, old in zip(now, begin, strict=True)]
            begin = now
            means = [ms / count / self._time_scale for ms, count in zip(busy, frames, strict=True)]
            if (plan := self._drift.observe(means, time.monotonic())) is not None and not self._try_move(plan):
                return

    def _try_move(self, plan: Plan) -> bool:
        move = self._move()
        try:
            if move is not None:
                move(plan)
        except PipeallError as error:
            # The stream goes on with the old cuts; whoever runs it hears of it.
            warnings.warn(f"rebalancing to {plan} failed, the cuts stay as they are: {error}", RuntimeWarning, 1)
            return False
        return move is not None
