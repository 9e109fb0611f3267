"""The best plans of a profile.

Contention depends on which units run. Every set of units that can run at once thus has its own stage times;
within a set they are constants. Pipelines in which every unit has one stage are searched whole: every order and cut of
up to three units, dynamic programming beyond. One unit alone (Peak) is such a pipeline. For throughput, plans of any
kind (``partitions.py``) are ranked among them, the best few by simulation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path

from ...arguments import by_name, checked, function, number, one_of, optional, several, switch, text, whole
from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.given import network
from ...graph.onnx.read.source import ModelSource
from ...graph.partition import needs
from ...notebook import html_table
from .configurations import Limits, evaluate
from .delivery import by_delivery
from .latency import soonest
from .memory_limit import ASKED, BytesOf, MemoryLimit
from .operating_points import Points
from .partitions import Fastest, fastest
from .plan import OBJECTIVES, Goal, Plan
from .plan_table import PlanTable, PredictedPlan
from .predict import predict
from .profile import Profile, profile_of
from .stage_tables import ROUNDING
from .uncertainty import share_ahead
from .unit_set import MAX_STAGES, Kind
from .units import Unit, traits_of, unit_sets

PLANS = ("all", "pipelines")
ONCE = 3  # plans in which each component has one stage that are simulated at least
MAX_STAGES_GIVEN = 8  # orders of three units: 382

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
    given_up    the share of the simulated throughput that the first of ``ranked`` gives up, being simpler than the best
    bound_ms    for throughput, where plans of any kind or with cuts that float are ranked: no plan that was asked for
                has a shorter period, found or not; else None
    kind        plans that were ranked beside pipelines in which each unit has one stage; None: none were
    graph, profile, goal  what was asked
    """

    goal: Goal
    ranked: tuple[PredictedPlan, ...]
    pareto: tuple[PredictedPlan, ...]
    evaluated: Mapping[int, int]
    covered: Mapping[int, int]
    simpler: PredictedPlan | None
    parallel: PredictedPlan | None
    given_up: float
    bound_ms: float | None
    kind: Kind | None
    graph: Graph
    profile: Profile

    @property
    def best(self) -> Plan:
        return self.ranked[0].plan

    @property
    def gap(self) -> float | None:
        """How far the best is from the bound, as a share of the bound's throughput; None where there is none."""
        return None if self.bound_ms is None else 1.0 - self.bound_ms / self.ranked[0].prediction.period_ms

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
    max_memory_mb=optional(number(0, above=True)),
    memory=optional(function),
    power=optional(by_name(number(0), "a dict of watts by unit")),
    units=optional(several(text, "a list of units")),
    cores=optional(by_name(whole(1), "a dict of numbers of cores by component")),
    top=whole(1),
    plans=one_of(*PLANS),
    floating=optional(switch),
    clocks=switch,
    stages=whole(1, MAX_STAGES_GIVEN),
)
def search(
    graph: Graph | ModelSource,
    profile: Profile | str | Path,
    objective: str = "throughput",
    *,
    max_latency_ms: float | None = None,
    min_fps: float | None = None,
    max_memory_mb: float | None = None,
    memory: BytesOf | None = None,
    power: Mapping[str, float] | None = None,
    units: Iterable[str] | None = None,
    cores: Mapping[str, int] | None = None,
    top: int = 10,
    plans: str = "all",
    floating: bool | None = None,
    clocks: bool = False,
    stages: int = MAX_STAGES,
) -> SearchResult:
    """The best plans for a network, by predicted speed or energy. Deterministic.

    Of equals the plan with fewer stages comes first, then the one with less latency, then by its text. Where lanes,
    repeated components or floating cuts may be, the first are ranked by simulated throughput: of those within half a
    percent of the fastest the one of fewest stages comes first, then the one that delivers 99 of 100 frames sooner;
    ``SearchResult.given_up`` says what that costs. Where the profile states its error, ``SearchResult.sure`` says how
    likely the first is better than the best of fewer stages.

    Parameters
    ----------
    graph
        The network.
    profile
        Of this network, or the path of its file.
    objective
        "throughput": shortest period, with at most ``max_latency_ms``. "latency": least latency of a frame with no
        other under way, also with units that serve several stages, and where groups are branches (``in_branches``) with
        these side by side; with ``min_fps`` of frames that come at that rate,
        at full load where one comes before another is done. "energy": least energy of a frame, at the plan's own full
        rate; with ``min_fps`` at just that rate, which a faster plan keeps by waiting (``PredictedPlan.energy_mj``);
        with at most ``max_latency_ms``, then exact for up to three units at once.
    max_latency_ms, min_fps
        The limits of the objective, if it has any.
    max_memory_mb, memory
        The most that a plan may take, in MB, and the bytes that a plan takes: a function, such as the sum over
        ``footprint``. It is asked for the best 100 at most. Ranked plans tell their memory.
    power
        Watts that the board draws while a unit or component runs, and under "idle" with nothing running, in place of
        the profile's.
    units
        Those that may be used; default all of the profile.
    cores
        How many cores a component has; default as many as its largest unit in the profile ("bigx4": 4).
    top
        How many plans to rank.
    plans
        "all": for throughput, a component may serve several stages, and units may be divided among lanes, each of which
        may be a pipeline. "pipelines": each unit has one stage of one pipeline, or none, as for the other objectives.
    floating
        For throughput, also plans whose cuts float; default with "all".
    clocks
        For energy, choose the clock of each component that has operating points (``Profile.points``) too: plans then
        tell them (``Plan.clocks``). Exact for up to three units at once; more keep their highest clocks.
    stages
        The most in a lane where a component serves several.

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
    profile = profile if power is None else _with_power(profile, power)
    goal, room = Goal(objective, max_latency_ms, min_fps), MemoryLimit(max_memory_mb, memory)
    limits = _limits(goal)
    energy = _power_known(profile, names, objective)
    kind = _kind(objective, plans, floating, stages)

    possible = unit_sets(names, len(profile.groups), cores)
    candidates = PlanTable(profile, energy)
    evaluated, covered = evaluate(candidates, possible, objective, limits, _points(profile, objective, clocks))
    parallel = _parallel(profile, names, limits.latency_ms) if objective == "throughput" else None
    parallel = next(iter(room.first([parallel] if parallel else [], 1)), None)
    faster = fastest(profile, possible, kind, limits.latency_ms) if kind else Fastest((), None)
    others, lost = room.first(faster.plans, len(faster.plans)), 0.0
    needed = needs(graph) if objective == "latency" else []
    ranked = _ranked(candidates, possible, goal, limits, room, top, needed)
    if kind:
        always = [parallel] if parallel and kind.lanes else []
        if kind.repeats:  # cuts that float by waiting frames may do better than predicted, shares do not
            alike = replace(kind, lanes=False, repeats=False)
            always += room.first(fastest(profile, possible, alike, limits.latency_ms).plans, ONCE)
        ranked, lost = by_delivery(profile, [*ranked, *others, *always], [one.plan for one in always])
    room.check(ranked)
    if not ranked:
        raise _no_plan(graph, profile, names, cores, goal)
    log.debug("search for %s of %s: best %s, of %s", objective, graph.name, ranked[0], dict(evaluated + covered))
    simpler = _simpler(candidates, [*ranked, *others], goal, limits, room)
    shown = (room.told(ranked[:top]), candidates.pareto(faster.plans), simpler)
    best, front, simpler = (_made_for(graph, choices, goal) for choices in shown)
    counts, first = (dict(evaluated), dict(covered)), next(iter(simpler), None)
    return SearchResult(goal, best, front, *counts, first, parallel, lost, faster.bound_ms, kind, graph, profile)


def _ranked(
    candidates: PlanTable,
    possible: Sequence[Sequence[Unit]],
    goal: Goal,
    limits: Limits,
    room: MemoryLimit,
    top: int,
    needed: Sequence[frozenset[int]],
) -> list[PredictedPlan]:
    """The best of the table that fit; for latency also plans in which units serve several stages."""
    at_most = limits.period_ms, limits.latency_ms
    ranked = candidates.ranked(goal.objective, *at_most, ASKED // 2 if room.given else top)
    if room.given:
        ranked = tuple(dict.fromkeys([*ranked, *candidates.ranked_orders(goal.objective, *at_most)]))
    if goal.objective == "latency":
        ranked = soonest(candidates.profile, possible, goal, ranked, needed)
    return room.first(ranked, top if room.given else len(ranked))


def _points(profile: Profile, objective: str, clocks: bool) -> Points:
    """The clocks to choose among. Raises ArgumentError where there are none, or the objective is not energy."""
    if not clocks:
        return {}
    if objective != "energy":
        raise ArgumentError(f"clocks: expected objective 'energy', got {objective!r}: the highest are the fastest")
    if not profile.points:
        raise ArgumentError("clocks: expected a profile with operating points, such as of the board 'rk3399pro'")
    return profile.points


def _kind(objective: str, plans: str, floating: bool | None, stages: int) -> Kind | None:
    """The plans to search beside pipelines in which each unit has one stage; None: there are none.

    Raises ArgumentError for cuts that are to float with another objective than throughput.
    """
    if floating and objective != "throughput":
        raise ArgumentError(f"floating: expected objective 'throughput', got {objective!r}")
    if objective != "throughput" or not (plans == "all" or floating):
        return None
    every = plans == "all"
    return Kind(stages, lanes=every, repeats=every, floating=every if floating is None else floating)


def _simpler(
    candidates: PlanTable, ranked: Sequence[PredictedPlan], goal: Goal, limits: Limits, room: MemoryLimit
) -> list[PredictedPlan]:
    """The best plan of fewer stages than the first of those that are ranked, if there is one."""
    fewer = len(ranked[0].plan.units)
    found = None if room.given else candidates.simpler(goal.objective, limits.period_ms, limits.latency_ms, fewer)
    if goal.objective != "energy":
        which = ("throughput", "latency").index(goal.objective)
        others = [one for one in (found, *ranked) if one and len(one.plan.units) < fewer]
        found = min(others, key=lambda one: one.prediction.times_ms(goal)[which], default=None)
    return [found] if found else []


def _made_for(graph: Graph, choices: Iterable[PredictedPlan], goal: Goal) -> tuple[PredictedPlan, ...]:
    return tuple(replace(choice, plan=replace(choice.plan.made_for(graph), goal=goal)) for choice in choices)


def _parallel(profile: Profile, names: Sequence[Unit], max_latency_ms: float) -> PredictedPlan | None:
    """The whole network on every component independently, each on its fastest unit."""
    fastest: dict[str, tuple[float, str]] = {}
    for unit in names:
        ms = sum(profile.units[unit].ms)
        if profile.units[unit].all_groups and not traits_of(unit.component).all:
            fastest[unit.component] = min(fastest.get(unit.component, (inf, "")), (ms, unit))
    if len(fastest) < 2:
        return None
    plan = Plan.parallel([unit for _, unit in fastest.values()])
    found = PredictedPlan(plan, predict(profile, plan))
    return found if found.prediction.latency_ms <= max_latency_ms else None


def _names(profile: Profile, units: Iterable[str] | None) -> list[Unit]:
    """The units to use, by the names that the profile has for them."""
    names = list(profile.units) if units is None else list(dict.fromkeys(map(Unit.parse, units)))
    for name in names or ["none"]:
        if name not in profile.units:
            raise ArgumentError(f"units: expected some of the profile ({', '.join(profile.units)}), got {name}")
    return names


def _limits(goal: Goal) -> Limits:
    """The limits. Raises ArgumentError for a limit of another objective."""
    for name, value in goal.limits.items():
        if goal.objective != "energy" and (name == "min_fps") == (goal.objective == "throughput"):
            raise ArgumentError(f"{name}: expected none with objective {goal.objective!r}, got {value}")
    exactly = 1 + ROUNDING  # a plan exactly at a limit is within it
    return Limits(exactly * 1000.0 / goal.min_fps if goal.min_fps else inf, exactly * (goal.max_latency_ms or inf))


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
        front = [choice.prediction for choice in search(graph, profile, units=names, cores=cores).pareto]
        latencies = [one.latency_ms for one in front if one.fps >= (goal.min_fps or 0.0)]
        if latencies:
            rate = f" at {goal.min_fps} FPS" if goal.min_fps else ""
            return ArgumentError(
                f"max_latency_ms: expected at least {min(latencies):.3f}, the least of any plan{rate}; "
                f"got {goal.max_latency_ms}"
            )
    if goal.min_fps is not None:
        most = search(graph, profile, units=names, cores=cores, top=1, plans="pipelines").ranked[0].prediction.fps
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
    able = [name for name in components if profile.units[name].all_groups]
    if not able:
        got = ", ".join(components)
        raise ArgumentError(f"{profile.network}: expected a component that can run all of it, got {got}")
    return tuple(sorted(map(Plan.single, able), key=lambda plan: predict(profile, plan).period_ms))
