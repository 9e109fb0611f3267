"""The best plans of a profile: every order and cut of up to three units at once, dynamic programming beyond.

Contention depends on which units run. Every set of units that can run at once thus has its own stage times;
within a set they are constants. Plans are pipelines; one unit alone (Peak) is a pipeline of one stage.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import comb, factorial, inf, isfinite, prod
from pathlib import Path

import numpy as np

from ...arguments import by_name, checked, number, one_of, optional, several, switch, text, whole
from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.given import network
from ...graph.onnx.read.source import ModelSource
from ...notebook import html_table
from .dynamic import Dynamic, Solution
from .floating import floating as float_cuts
from .latency import soonest
from .plan import OBJECTIVES, Goal, Plan
from .plan_table import PlanTable, PredictedPlan
from .predict import predict
from .profile import Profile, profile_of
from .stage_tables import ROUNDING, Costs, StageTables, handovers
from .uncertainty import share_ahead
from .units import Unit, traits_of, unit_sets

EXHAUSTIVE_STAGES = 3

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class SearchResult:
    """What a search found.

    ranked      the best plans by the objective and within its limit, best first. A set of more than three units adds
                only its best plan and those of its fronts
    pareto      plans that no other beats in throughput, latency and (where power is known for all units) energy,
                shortest period first, whatever the limits. Exact over everything evaluated; a larger unit set adds its
                exact fronts of period with latency and of period with energy
    evaluated   number of stages -> configurations that were evaluated one by one
    covered     number of stages -> configurations among which dynamic programming found the best
    simpler     the best plan of fewer stages than the first of ``ranked``, by the objective and within its limit; None
                where there is none
    parallel    for throughput: the whole network on every component at once, independently, each on its fastest unit;
                None where less than two can run it, or a frame takes longer than the limit
    graph, profile, goal  what was asked
    """

    goal: Goal
    ranked: tuple[PredictedPlan, ...]
    pareto: tuple[PredictedPlan, ...]
    evaluated: Mapping[int, int]
    covered: Mapping[int, int]
    simpler: PredictedPlan | None
    parallel: PredictedPlan | None
    graph: Graph
    profile: Profile

    @property
    def best(self) -> Plan:
        return self.ranked[0].plan

    @property
    def sure(self) -> float | None:
        """In what share of the cases that the profile's error allows the best is better than ``simpler``; None where
        the profile states no error."""
        if self.simpler is None or not self.profile.error:
            return None
        return share_ahead(self.profile, self.best, self.simpler.plan, self.goal)

    def __repr__(self) -> str:
        best = self.ranked[0]
        return (
            f"<SearchResult for {self.graph.name}, best {self.goal.objective}: {best}; {len(self.ranked)} ranked, "
            f"{len(self.pareto)} on the front, of {sum(self.evaluated.values()) + sum(self.covered.values()):,} plans>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (str(choice.plan), choice.prediction.fps, choice.prediction.latency_ms, choice.prediction.energy_mj or "")
            for choice in self.ranked
        ]
        return html_table(repr(self)[1:-1], ("plan", "FPS", "latency ms", "mJ a frame"), rows)


@checked(
    graph=network,
    profile=profile_of,
    objective=one_of(*OBJECTIVES),
    max_latency_ms=optional(number(0, above=True)),
    min_fps=optional(number(0, above=True)),
    power=optional(by_name(number(0), "a dict of watts by unit")),
    units=optional(several(text, "a list of units")),
    cores=optional(by_name(whole(1), "a dict of numbers of cores by component")),
    top=whole(1),
    floating=switch,
)
def search(
    graph: Graph | ModelSource,
    profile: Profile | str | Path,
    objective: str = "throughput",
    *,
    max_latency_ms: float | None = None,
    min_fps: float | None = None,
    power: Mapping[str, float] | None = None,
    units: Iterable[str] | None = None,
    cores: Mapping[str, int] | None = None,
    top: int = 10,
    floating: bool = False,
) -> SearchResult:
    """The best plans for a network, by predicted speed or energy. Deterministic.

    Of equals the plan with fewer stages comes first, then the one with less latency, then by its text. Where the
    profile states its error, ``SearchResult.sure`` says how likely the first is better than the best of fewer stages.

    Parameters
    ----------
    graph
        The network.
    profile
        Of this network, or the path of its file.
    objective
        "throughput": shortest period, with at most ``max_latency_ms``. "latency": least latency of a frame with no
        other under way, also with units that serve several stages; with ``min_fps`` of frames that come at that rate,
        at full load where one comes before another is done. "energy": least energy of a frame, at the plan's own full
        rate; with ``min_fps`` at just that rate, which a faster plan keeps by waiting (``PredictedPlan.energy_mj``).
    max_latency_ms, min_fps
        The limit of the objective, if it has one.
    power
        Watts that the board draws while a unit or component runs, and under "idle" with nothing running, in place of
        the profile's.
    units
        Those that may be used; default all of the profile.
    cores
        How many cores a component has; default as many as its largest unit in the profile ("bigx4": 4).
    top
        How many plans to rank.
    floating
        For throughput, also plans of up to three units whose cuts float. Those that simulate faster than the best of
        the others come before it: at most half of ``ranked``, and not counted.

    Returns
    -------
    SearchResult
        The ranked plans and the Pareto front.

    Raises
    ------
    ArgumentError
        Where the profile is not the graph's, for an unknown objective or unit, a limit that does not belong to the
        objective, energy without power, and where no plan is possible, with the reason.
    """
    profile.check_network(graph)
    names = _names(profile, units)
    if power is not None:
        profile = _with_power(profile, power)
    goal = Goal(objective, max_latency_ms, min_fps)
    limits = _limits(goal)
    energy = _power_known(profile, names, objective)
    if floating and objective != "throughput":
        raise ArgumentError(f"floating: expected objective 'throughput', got {objective!r}")

    possible = unit_sets(names, len(profile.groups), cores)
    candidates = PlanTable(profile, energy)
    evaluated, covered = _evaluate(candidates, possible, objective, limits)
    ranked = candidates.ranked(objective, limits.period_ms, limits.latency_ms, top)
    if objective == "latency":
        ranked = soonest(profile, possible, goal, ranked)
    if not ranked:
        raise _no_plan(graph, profile, names, cores, goal)
    if floating:
        small = [unit_set for unit_set in possible if 1 < len(unit_set) <= EXHAUSTIVE_STAGES]
        faster = float_cuts(profile, small, ranked[0].plan, max_latency_ms=limits.latency_ms, top=(top + 1) // 2)
        ranked = (*faster, *ranked)[:top]
    simpler = _simpler(candidates, ranked, goal, limits)
    log.debug("search for %s of %s: best %s, of %s", objective, graph.name, ranked[0], dict(evaluated + covered))
    return SearchResult(
        goal,
        _made_for(graph, ranked[:top], goal),
        _made_for(graph, candidates.pareto(), goal),
        dict(evaluated),
        dict(covered),
        next(iter(_made_for(graph, simpler, goal)), None),
        _parallel(profile, names, limits.latency_ms) if objective == "throughput" else None,
        graph,
        profile,
    )


def _simpler(
    candidates: PlanTable, ranked: Sequence[PredictedPlan], goal: Goal, limits: _Limits
) -> list[PredictedPlan]:
    """The best plan of fewer stages than the first of those that are ranked, if there is one."""
    fewer = len(ranked[0].plan.units)
    found = candidates.simpler(goal.objective, limits.period_ms, limits.latency_ms, fewer)
    if goal.objective == "latency":
        others = [one for one in (*ranked, found) if one and len(one.plan.units) < fewer]
        found = min(others, key=lambda one: one.prediction.times_ms(goal)[1], default=None)
    return [found] if found else []


def _made_for(graph: Graph, choices: Iterable[PredictedPlan], goal: Goal) -> tuple[PredictedPlan, ...]:
    return tuple(replace(choice, plan=replace(choice.plan.made_for(graph), goal=goal)) for choice in choices)


def _parallel(profile: Profile, names: Sequence[Unit], max_latency_ms: float) -> PredictedPlan | None:
    """The whole network on every component independently, each on its fastest unit."""
    fastest: dict[str, tuple[float, str]] = {}
    for unit in names:
        ms = sum(profile.units[unit].ms)
        if isfinite(ms) and not traits_of(unit.component).all:
            fastest[unit.component] = min(fastest.get(unit.component, (inf, "")), (ms, unit))
    if len(fastest) < 2:
        return None
    plan = Plan.parallel([unit for _, unit in fastest.values()])
    found = PredictedPlan(plan, predict(profile, plan))
    return found if found.prediction.latency_ms <= max_latency_ms else None


@dataclass(frozen=True, slots=True)
class _Limits:
    period_ms: float = inf
    latency_ms: float = inf


def _evaluate(
    candidates: PlanTable, possible: Sequence[Sequence[str]], objective: str, limits: _Limits
) -> tuple[Counter[int], Counter[int]]:
    """Adds the configurations of all sets, fewer units first; returns ``evaluated`` and ``covered``."""
    profile = candidates.profile
    fronts: dict[str, list[tuple[float, float]]] = {}  # total -> (period, total) pairs
    evaluated, covered = Counter(), Counter()
    links = handovers(profile, {unit for unit_set in possible for unit in unit_set})
    for unit_set in possible:
        tables = StageTables(profile, unit_set, links)
        if len(unit_set) <= EXHAUSTIVE_STAGES:
            evaluated[len(unit_set)] += _exhaustive(candidates, tables, unit_set)
            continue
        if not fronts:
            totals = ("latency_ms", "busy_mj") if candidates.energy else ("latency_ms",)
            fronts = {total: candidates.front(total) for total in totals}
        dynamic = Dynamic(tables)
        best = _best(dynamic, objective, limits, profile.idle_w)
        for solution in dict.fromkeys([best, *_new_on_fronts(dynamic, fronts)]):
            if solution is not None:
                _add(candidates, tables, solution)
        covered[len(unit_set)] += _count(tables, len(unit_set))
    return evaluated, covered


def _exhaustive(candidates: PlanTable, tables: StageTables, unit_set: Sequence[str]) -> int:
    """Evaluates every order and every cut of a unit set; returns how many there are."""
    cuts = np.array(list(combinations(range(1, tables.groups), len(unit_set) - 1)), int)
    orders = sorted(set(permutations(tables.units.index(unit) for unit in unit_set)))
    for order in orders:
        candidates.add([tables.units[unit] for unit in order], cuts, tables.evaluate(order, cuts))
    return len(orders) * len(cuts)


def _count(tables: StageTables, stages: int) -> int:
    """How many configurations a unit set has."""
    orders = factorial(stages) // prod(factorial(count) for count in tables.counts)
    return orders * comb(tables.groups - 1, stages - 1)


def _new_on_fronts(dynamic: Dynamic, fronts: dict[str, list[tuple[float, float]]]) -> list[Solution]:
    """The solutions of a unit set that are on a front; the fronts grow by them."""
    found = []
    for total, pairs in fronts.items():
        front = list(dynamic.front(total, pairs))
        pairs += [(solution.period_ms, getattr(solution, total)) for solution in front]
        found += front
    return found


def _best(dynamic: Dynamic, objective: str, limits: _Limits, idle_w: float | None) -> Solution | None:
    if objective == "throughput":
        return dynamic.fastest(limits.latency_ms)
    if objective == "latency":
        return dynamic.soonest(limits.period_ms)
    return dynamic.thriftiest(idle_w) if limits.period_ms == inf else dynamic.least_busy(limits.period_ms)


def _add(candidates: PlanTable, tables: StageTables, solution: Solution) -> None:
    costs = Costs(*(np.array([cost]) for cost in solution[2:]))
    candidates.add([tables.units[unit] for unit in solution.order], np.array([solution.cuts]), costs)


def _names(profile: Profile, units: Iterable[str] | None) -> list[Unit]:
    """The units to use, by the names that the profile has for them."""
    names = list(profile.units) if units is None else list(dict.fromkeys(map(Unit.parse, units)))
    for name in names or ["none"]:
        if name not in profile.units:
            raise ArgumentError(f"units: expected some of the profile ({', '.join(profile.units)}), got {name}")
    return names


def _limits(goal: Goal) -> _Limits:
    """The limits. Raises ArgumentError for a limit of another objective."""
    for name, value in goal.limits.items():
        if (name == "min_fps") == (goal.objective == "throughput"):
            raise ArgumentError(f"{name}: expected none with objective {goal.objective!r}, got {value}")
    exactly = 1 + ROUNDING  # a plan exactly at a limit is within it
    return _Limits(exactly * 1000.0 / goal.min_fps if goal.min_fps else inf, exactly * (goal.max_latency_ms or inf))


def _power_known(profile: Profile, names: Sequence[str], objective: str) -> bool:
    """Whether the profile knows the power of all units. Raises ArgumentError where the objective needs it."""
    without_power = [name for name in names if profile.units[name].power_w is None]
    known = profile.idle_w is not None and not without_power
    if objective == "energy" and not known:
        what = f"unit {without_power[0]!r}" if without_power else "the idle board"
        raise ArgumentError(f"objective 'energy': expected a profile with power, this one has none of {what}")
    return known


def _with_power(profile: Profile, power: Mapping[str, float]) -> Profile:
    """The profile with these watts in every group: a unit's own, or else its component's."""
    given = {"idle" if name == "idle" else Unit.parse(name): watts for name, watts in power.items()}
    units = {}
    for unit, times in profile.units.items():
        watts = given.get(unit, given.get(unit.whole))
        units[unit] = replace(times, power_w=None if watts is None else (watts,) * len(profile.groups))
    return replace(profile, units=units, idle_w=given.get("idle"))


def _no_plan(
    graph: Graph, profile: Profile, names: list[str], cores: Mapping[str, int] | None, goal: Goal
) -> ArgumentError:
    """Why no plan is possible: the limit, or the groups that cannot be run."""
    if goal.max_latency_ms is not None:
        least = min(choice.prediction.latency_ms for choice in search(graph, profile, units=names, cores=cores).pareto)
        return ArgumentError(
            f"max_latency_ms: expected at least {least:.3f}, the least of any plan; got {goal.max_latency_ms}"
        )
    if goal.min_fps is not None:
        most = search(graph, profile, units=names, cores=cores, top=1).ranked[0].prediction.fps
        return ArgumentError(f"min_fps: expected at most {most:.3f}, the most of any plan; got {goal.min_fps}")
    refused = {
        name: [index for index, ms in enumerate(profile.units[name].ms, 1) if not isfinite(ms)] for name in names
    }
    nowhere = set.intersection(*(set(indices) for indices in refused.values()))
    if nowhere:
        index = min(nowhere)
        reasons = (f"{name}: {profile.units[name].refused.get(index, 'no reason known')}" for name in names)
        more = f" (and {len(nowhere) - 1} more)" if len(nowhere) > 1 else ""
        return ArgumentError(
            f"no plan for {graph.name}: expected a unit for group {index} {profile.groups[index - 1]}{more}, "
            f"got {'; '.join(reasons)}"
        )
    lacking = "; ".join(
        f"{name} not groups {', '.join(map(str, indices))}" for name, indices in refused.items() if indices
    )
    return ArgumentError(f"no plan for {graph.name}: expected units that can each run consecutive groups; {lacking}")


def singles(profile: Profile, components: Sequence[str]) -> tuple[Plan, ...]:
    """The whole network on each component that can run it, the fastest (Peak) first.

    Raises ArgumentError where none can run the whole network.
    """
    able = [name for name in components if all(map(isfinite, profile.units[name].ms))]
    if not able:
        got = ", ".join(components)
        raise ArgumentError(f"{profile.network}: expected a component that can run all of it, got {got}")
    return tuple(sorted(map(Plan.single, able), key=lambda plan: predict(profile, plan).period_ms))
