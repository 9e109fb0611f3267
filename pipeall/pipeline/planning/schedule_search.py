"""The best plans for several networks that share a board, by what they do together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from ...arguments import a, by_name, checked, optional, several, text, whole
from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.given import network
from .profile import Profile, profile_of
from .schedule_division import Choice, Division, Networks
from .schedule_plan import Demand, SchedulePlan
from .search import MAX_STAGES_GIVEN, search
from .simulate_schedule import ScheduleSimulation, simulate_schedule
from .unit_set import MAX_STAGES
from .units import Unit, unit_sets

SIMULATED = 16  # choices, the best by level
FRAMES, MOST_FRAMES = 120, 6000  # of the slowest network, and of all together at most, in each simulation
HELD = 0.02  # of a rate: what a simulation may lack of it, beside one frame
EQUAL = 0.005  # of the level: choices nearer to the best tie with it
UNITS = 9  # at once, at most

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class ScheduleSearch:
    """What a search for several networks found.

    plan       a plan of each, and the rates that it is planned for
    alone      frames per second of each with the board to itself, by its own best plan
    level      what networks without ``fps`` do, as a share of what each does alone; where all have one, how many times
               these rates would fit
    bound      no plans of lanes of so many stages have a higher level
    simulated  what the plan does
    evaluated  choices of a plan for each network that were evaluated
    exact      whether the level is the highest of all lanes with cuts that do not float: choices of a lower bound alone
               were left out
    """

    plan: SchedulePlan
    alone: Mapping[str, float]
    level: float
    bound: float
    simulated: ScheduleSimulation
    evaluated: int
    exact: bool

    @property
    def rates(self) -> dict[str, float]:
        """Frames per second of each network, simulated."""
        return {name: found.fps for name, found in self.simulated.networks.items()}

    @property
    def latencies_ms(self) -> dict[str, float]:
        """The time within which 99 of 100 frames of each network are done, simulated."""
        return {name: found.latency_p99_ms for name, found in self.simulated.networks.items()}

    @property
    def gain(self) -> float:
        """The sum of each network's simulated rate by its rate alone: 1 is what time slices of the board would do."""
        return sum(rate / self.alone[name] for name, rate in self.rates.items())

    @property
    def gap(self) -> float:
        """How far the level is from its bound, as a share of the bound."""
        return 1.0 - self.level / self.bound

    def __repr__(self) -> str:
        rates = ", ".join(f"{name} {fps:.1f} FPS" for name, fps in self.rates.items())
        return f"<ScheduleSearch: {self.plan}; {rates}, {self.gain:.2f} of time slices, {self.gap:.1%} from the bound>"


@checked(
    graphs=by_name(network, "a dict of networks by name"),
    profiles=by_name(profile_of, "a dict of profiles by network"),
    demands=optional(by_name(a(Demand, "a pipeall.Demand"), "a dict of demands by network")),
    units=optional(several(text, "a list of units")),
    cores=optional(by_name(whole(1), "a dict of numbers of cores by component")),
    stages=whole(1, MAX_STAGES_GIVEN),
)
def schedule_search(
    graphs: Mapping[str, Graph],
    profiles: Mapping[str, Profile],
    demands: Mapping[str, Demand] | None = None,
    *,
    units: Iterable[str] | None = None,
    cores: Mapping[str, int] | None = None,
    stages: int = MAX_STAGES,
) -> ScheduleSearch:
    """The best plans for several networks that share a board. Deterministic.

    Networks with ``fps`` get their rate. The others share what is left: each does the same share of what it does alone,
    and this level is to be as high as can be. Where all have ``fps``, the units are to have as much time left as can
    be. Each network has one lane, or equal lanes on equal units. The best plans by what units have time for are
    simulated, and the best that keeps all rates and limits is taken; of equals the one of fewest stages.

    Parameters
    ----------
    graphs, profiles
        By name: the networks, and the times of each on the board's units.
    demands
        What each is to reach; default as much as can be.
    units, cores
        As for ``search``; default the units that all profiles have.
    stages
        The most of a lane.

    Returns
    -------
    ScheduleSearch
        The plans, and how good they are.

    Raises
    ------
    ArgumentError
        For names that do not agree, a profile of another network, an unknown unit, where a network cannot be run, and
        for rates and limits that cannot be kept, with what is possible.
    """
    demands = dict.fromkeys(graphs, Demand()) | dict(demands or {})
    _check_names(graphs, profiles, demands)
    for name, graph in graphs.items():
        profiles[name].check_network(graph)
    task = _Task(dict(graphs), {name: profiles[name] for name in graphs}, {name: demands[name] for name in graphs})
    sets = unit_sets(_units(task.profiles, units), UNITS, cores)
    alone = {
        name: search(graph, profiles[name], units=units, cores=cores, top=1, stages=stages).ranked[0].prediction.fps
        for name, graph in graphs.items()
    }
    divisions = [Division(task.networks(alone), one, stages) for one in sets]
    choices, bound = _best(divisions, task.least)
    if bound < task.least:
        raise _too_much(task, sets, stages)
    found = [task.tried(choice, alone) for choice in choices]
    able = [one for one in found if one.held]
    if not found:
        raise _too_much(task, sets, stages)
    if not able:
        raise _not_held(task, found)
    best = max(one.level for one in able)
    first = min(
        (one for one in able if one.level >= (1 - EQUAL) * best), key=lambda one: (one.choice.stages, -one.level)
    )
    evaluated, exact = sum(one.evaluated for one in divisions), all(one.exact for one in divisions)
    log.debug("schedule search: %s, level %.3f of at most %.3f", first.plan, first.choice.level, bound)
    return ScheduleSearch(first.plan, alone, first.choice.level, bound, first.simulation, evaluated, exact)


@dataclass(frozen=True)
class _Task:
    """Networks, and what they are to reach."""

    graphs: Mapping[str, Graph]
    profiles: Mapping[str, Profile]
    demands: Mapping[str, Demand]

    @property
    def all_fixed(self) -> bool:
        return all(demand.fps for demand in self.demands.values())

    @property
    def least(self) -> float:
        """The level that is needed."""
        return 1.0 if self.all_fixed else 0.0

    def networks(self, alone: Mapping[str, float]) -> Networks:
        rates = [self.demands[name].fps or alone[name] for name in self.graphs]
        fixed = tuple(bool(self.demands[name].fps) and not self.all_fixed for name in self.graphs)
        limits = tuple(self.demands[name].max_latency_ms or inf for name in self.graphs)
        priorities = tuple(self.demands[name].priority for name in self.graphs)
        return Networks(tuple(self.profiles.values()), tuple(rate / 1e3 for rate in rates), fixed, limits, priorities)

    def tried(self, choice: Choice, alone: Mapping[str, float]) -> _Simulated:
        """A choice simulated; where its level is not reached, planned for the one that is, if any is."""
        first = self.simulated(choice, alone, choice.level)
        if not 0 < first.level < (1 - HELD) * choice.level:
            return first
        again = self.simulated(choice, alone, first.level)
        return again if again.level >= (1 - EQUAL) * first.level else first

    def simulated(self, choice: Choice, alone: Mapping[str, float], level: float) -> _Simulated:
        """A choice with networks without ``fps`` planned for this level."""
        rates = {name: self.demands[name].fps or level * alone[name] for name in self.graphs}
        plans = {
            name: plan.made_for(graph) for (name, graph), plan in zip(self.graphs.items(), choice.plans, strict=True)
        }
        plan = SchedulePlan(plans, self.demands, rates)
        seconds = min(FRAMES / min(rates.values()), MOST_FRAMES / sum(rates.values()))
        simulation = simulate_schedule(self.profiles, plan, seconds)
        return _Simulated(choice, plan, simulation, alone)


@dataclass(frozen=True)
class _Simulated:
    """A choice, and what it does when it is simulated."""

    choice: Choice
    plan: SchedulePlan
    simulation: ScheduleSimulation
    alone: Mapping[str, float]

    @property
    def level(self) -> float:
        """Of the networks without a rate; of all, where there are none, the planned one."""
        free = [name for name, demand in self.plan.demands.items() if not demand.fps]
        return min((self.simulation.networks[name].fps / self.alone[name] for name in free), default=self.choice.level)

    def lacking(self) -> dict[str, str]:
        """The networks that do not reach what they are to reach, and what they do."""
        found = {}
        for name, demand in self.plan.demands.items():
            did = self.simulation.networks[name]
            if demand.fps and did.frames < (1 - HELD) * demand.fps * did.seconds - 1:
                found[name] = f"{did.fps:.2f} FPS"
            elif demand.max_latency_ms and did.latency_p99_ms > demand.max_latency_ms:
                found[name] = f"{did.latency_p99_ms:.1f} ms"
        return found

    @property
    def held(self) -> bool:
        return not self.lacking()


def _best(divisions: Sequence[Division], least: float) -> tuple[list[Choice], float]:
    """The best choices of all divisions, and the bound of all."""
    found: list[Choice] = []
    bounds = [-inf]
    for division in sorted(divisions, key=lambda one: -one.quick_level):
        known = [choice.level for choice in found[SIMULATED - 1 : SIMULATED] if choice.in_time]
        at_least = max([least * (1 - EQUAL), *known])
        if division.quick_level <= at_least:
            continue
        bounds.append(division.bound.level)
        if division.bound.level > at_least:
            found += [division.refined(choice) for choice in division.best(SIMULATED // 2, at_least)]
            found.sort(key=Choice.rank)
    return found[:SIMULATED], max(bounds)


def _too_much(task: _Task, sets: Sequence[Sequence[Unit]], stages: int) -> ArgumentError:
    """Why no plan is possible, or found: a network that no units can run, or rates that are too high together."""
    asked = {name: demand.fps for name, demand in task.demands.items() if demand.fps}
    for name in task.graphs:
        one = Networks.alike([task.profiles[name]], [1e-3])
        if max(Division(one, units, stages).bound.level for units in sets) == -inf:
            return ArgumentError(f"{name}: expected units that can run all of {task.graphs[name].name} together")
    networks = Networks.alike([task.profiles[name] for name in asked], [fps / 1e3 for fps in asked.values()])
    most = max(Division(networks, units, stages).bound.level for units in sets)
    possible = " and ".join(f"{most * fps:.1f} of {name}" for name, fps in asked.items())
    together, got = " together" * (len(asked) > 1), ", ".join(f"{fps:g}" for fps in asked.values())
    if most >= 1:
        return ArgumentError(f"fps: expected less, no plan was found near the bound of {possible}{together}; got {got}")
    return ArgumentError(f"fps: expected at most {possible}{together}, got {got}")


def _not_held(task: _Task, found: Sequence[_Simulated]) -> ArgumentError:
    """Which rates or limits the plan that lacks least of them does not keep."""
    nearest = min(found, key=lambda one: (len(one.lacking()), -one.level))
    name, did = next(iter(nearest.lacking().items()))
    demand = task.demands[name]
    if did.endswith("FPS"):
        return ArgumentError(f"fps: expected at most {did[:-4]} of {name}, the most that was found; got {demand.fps:g}")
    asked = f"got {demand.max_latency_ms:g}"
    return ArgumentError(f"max_latency_ms: expected at least {did[:-3]} of {name}, the least that was found; {asked}")


def _units(profiles: Mapping[str, Profile], units: Iterable[str] | None) -> list[Unit]:
    """Those that may be used. Raises ArgumentError for one that a profile lacks, and where there is none."""
    first, *others = profiles.values()
    if units is None:
        found = [unit for unit in first.units if all(unit in profile.units for profile in others)]
        if not found:
            raise ArgumentError("profiles: expected some unit that all have, got none")
        return found
    found = list(dict.fromkeys(map(Unit.parse, units)))
    for name, profile in profiles.items():
        if missing := [unit for unit in found if unit not in profile.units]:
            has = ", ".join(profile.units)
            raise ArgumentError(f"units: expected some of the profile of {name} ({has}), got {missing[0]}")
    return found


def _check_names(graphs: Mapping[str, Any], *others: Mapping[str, Any]) -> None:
    if not graphs:
        raise ArgumentError("graphs: expected at least one network, got none")
    for what, named in zip(("profiles", "demands"), others, strict=True):
        if set(named) != set(graphs):
            got = ", ".join(named) or "none"
            raise ArgumentError(f"{what}: expected those of {', '.join(graphs)}, got {got}")
