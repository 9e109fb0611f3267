"""Which component runs which groups: the paper's pipelines, one component (Peak), all independently (Parallel).

A plan keeps the goal that it was found for: plans that it moves to have the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

from ...arguments import a, by_name, optional, refused, several
from ...arguments import text as as_text
from ...errors import ArgumentError
from ...files import JsonReader, naming, read_json, shown, write_json
from ...graph.ir import Graph
from ...graph.onnx.read.given import network as graph_of
from ...graph.ops import macs
from ...graph.partition import needs
from .forks import check_branches, floats_beside, forks, levels
from .operating_points import Clocks, clocks_from
from .plan_text import WORDS, Cuts, Order, cut_of, lanes_of, levels_of, order_text, units_of, word_of
from .units import Unit, unit_numbers

OBJECTIVES = ("throughput", "latency", "energy")


@dataclass(frozen=True, slots=True)
class Goal:
    """The objective of a plan, and the limits that it has to keep, as for ``search``."""

    objective: str = "throughput"
    max_latency_ms: float | None = None
    min_fps: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """Those that there are."""
        given = {"max_latency_ms": self.max_latency_ms, "min_fps": self.min_fps}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def rate(self) -> float | None:
        """The frames per second at which energy counts; None where it counts at each plan's own rate."""
        return self.min_fps if self.objective == "energy" else None

    @property
    def queue(self) -> bool:
        """Whether frames may wait in a trial: no, where the time they wait would count as latency."""
        return self.objective != "latency" and self.max_latency_ms is None

    def in_turn(self, alone_ms: float) -> bool:
        """Whether each frame is done before the next: for least latency they come at ``min_fps``, or singly."""
        return self.objective == "latency" and alone_ms <= 1000 / (self.min_fps or 1e-300)

    def value(self, period_ms: float, latency_ms: float, energy_mj: float | None) -> float:
        """What is to be small; infinity where a limit is broken."""
        if latency_ms > (self.max_latency_ms or inf) or period_ms > 1000 / (self.min_fps or 1e-300):
            return inf
        return {"throughput": period_ms, "latency": latency_ms}.get(self.objective, energy_mj or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Ready for a plan's file; nothing where it is the usual one."""
        return {} if self == Goal() else {"objective": self.objective, **self.limits}

    @classmethod
    def from_file(cls, content: Mapping[str, Any], read: JsonReader) -> Goal:
        """The inverse. Raises ArgumentError for what is no objective or no limit above 0."""
        objective = content.get("objective", "throughput")
        if objective not in OBJECTIVES:
            raise read.fail("objective", ", ".join(OBJECTIVES))
        limits = {}
        for name in ("max_latency_ms", "min_fps"):
            if content.get(name) is not None:
                limits[name] = read.number(name)
                if not 0 < limits[name] < inf:
                    raise read.fail(name, "a number above 0")
        return cls(objective, **limits)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage: a unit and its groups [first, last); ``last`` None means up to the network's end.

    Where the cut behind it floats, it also computes the ``floating`` groups after its last, for a frame that the next
    stage is not ready for, or, where ``share`` is given, for so many percent of the frames. Stages that take some cores
    of a component take successive ones, in the order of the plan; those that take it whole share it. One that is
    ``beside`` the stage before it runs at the same time: both are branches, and their groups do not need each other.
    """

    unit: Unit
    first: int = 0
    last: int | None = None
    floating: int = 0
    share: int | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Lanes of stages. A pipeline is one lane; Peak is one lane of one stage; Parallel is a lane per component.

    ``network`` is the one it was made for, where that is known: its name and number of groups. ``goal`` is what it was
    found for, which plans that it moves to keep. ``clocks`` are those of components, (name, MHz), that it was found
    for; of others, and without any, the highest.
    """

    lanes: tuple[tuple[StagePlan, ...], ...]
    network: tuple[str, int] | None = field(default=None, compare=False)
    goal: Goal = field(default=Goal(), compare=False)
    clocks: Clocks = ()

    def __post_init__(self) -> None:
        if not (isinstance(self.lanes, tuple) and self.lanes and all(map(_is_lane, self.lanes))):
            raise refused("lanes", "a tuple of tuples of stages", self.lanes)
        for lane in self.lanes:
            for before, behind in pairwise(lane):
                if before.floating and max(before.unit.batch, behind.unit.batch) > 1:
                    raise ArgumentError(
                        f"plan {_text(lane)}: expected no floating cut beside a stage that takes frames together"
                    )
        if self.network is not None and not (isinstance(self.network, tuple) and len(self.network) == 2):
            raise refused("network", "a name and a number of groups", self.network)
        a(Goal, "a Goal")("goal", self.goal)
        if not (isinstance(self.clocks, tuple) and all(isinstance(row, tuple) for row in self.clocks)):
            raise refused("clocks", "a tuple of (component, MHz)", self.clocks)

    @classmethod
    def pipeline(cls, order: Order, cuts: Cuts) -> Plan:
        """A pipeline of stages.

        Parameters
        ----------
        order
            Units such as "big", "L" or "Bx3", from the first stage to the last. A tuple of units has one stage each,
            which run side by side: their groups are branches that do not need each other.
        cuts
            Cumulative group counts, one fewer. A cut (3, 4) floats: group 4 belongs to either stage, frame by frame, so
            that neither waits for the other.

        Returns
        -------
        Plan
            One lane.

        Raises
        ------
        ArgumentError
            Where the numbers do not fit together, or a component is given twice; some cores of one may be given several
            times.
        """
        order = several(word_of, WORDS)("order", order)
        units, cuts = units_of([order])[0], several(cut_of, "a list of group counts")("cuts", cuts)
        if len(cuts) != len(units) - 1:
            hint = "" if cuts else "; --order, or Plan.balanced, makes stages of about equal MACs"
            raise ArgumentError(
                f"cuts {list(cuts)}: expected {len(units) - 1} for {len(units)} stages, got {len(cuts)}{hint}"
            )
        pairs = [cut[:2] if isinstance(cut, tuple) else (cut, cut) for cut in cuts]
        shares = [*(cut[2] if isinstance(cut, tuple) and len(cut) == 3 else None for cut in cuts), None]
        ends = [0, *(end for early, late in pairs for end in ([early, late] if early != late else [early]))]
        if any(second <= first for first, second in pairwise(ends)):
            raise ArgumentError(f"cuts {list(cuts)}: expected increasing group counts from 1")
        borders = [(0, 0), *pairs, (None, None)]
        beside = [bool(index) for words in levels_of(order) for index in range(len(words))]
        stages = [
            StagePlan(unit, first, last, late - last if last else 0, share, branch)
            for unit, ((first, _), (last, late)), share, branch in zip(
                units, pairwise(borders), shares, beside, strict=True
            )
        ]
        if floats_beside(stages):
            raise ArgumentError(f"order {order_text(order)!r}: expected no cut that floats beside branches")
        return cls((tuple(stages),))

    @classmethod
    def single(cls, component: str) -> Plan:
        """The whole network on one component (the paper's Peak, when it is the fastest)."""
        return cls.pipeline([component], [])

    @classmethod
    def parallel(cls, components: Iterable[str]) -> Plan:
        """The whole network on each component, independently, fed from one source (the paper's Parallel)."""
        lanes = units_of([[word] for word in several(as_text, WORDS)("components", components)])
        return cls(tuple((StagePlan(unit),) for (unit,) in lanes))

    @classmethod
    def balanced(cls, order: Sequence[str], graph: Graph) -> Plan:
        """A pipeline in ``order`` whose stages have about equal MACs: what to begin with where no times are known.

        Raises ArgumentError where the network has fewer groups than there are stages.
        """
        order, graph = several(as_text, WORDS)("order", order), graph_of("graph", graph)
        units_of([order])
        return cls.pipeline(order, balanced_cuts(graph, [1.0] * len(order))).made_for(graph)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """``G-B-L:3,5`` (order, cumulative group counts), ``big``, ``Bx3-Bx1:4`` or ``B+L+G``; letters or names.

        ``B-L:3~4`` has a cut that floats: group 4 belongs to either stage, frame by frame; ``3~4@60``: to the first for
        60 % of the frames. In ``B-G-B:2,9`` a component serves two stages. ``(B-G-B:2,9)+L`` has two lanes, which take
        frames independently; in ``4*Bx1`` and ``2*(Bx2-Lx2:9)`` lanes are alike. In ``B-(B|G)-B:3,4,6`` groups 4 and
        5 to 6 are branches, which run at the same time. ``Bx1-Bx1*2:5``: the second stage takes two waiting frames
        together. ``G@fp16`` and ``G@mixed`` are the gpu in half precision (board.Component).
        """
        text = as_text("plan", text)
        lanes = [lane for word in re.split(r"\+(?![^(]*\))", text) for lane in lanes_of(word)]
        if len(lanes) == 1:
            return cls.pipeline(*lanes[0])
        units_of([order for order, _ in lanes])
        return cls(tuple(cls.pipeline(order, cuts).lanes[0] for order, cuts in lanes))

    def with_cores(self, cores: Mapping[str, int]) -> Plan:
        """The plan with these numbers of cores for components that it takes whole. Raises ArgumentError for others."""
        limits = {Unit.parse_whole(component): count for component, count in cores.items()}
        whole = {unit.whole for unit in self.units if unit.cores is None}
        if unknown := limits.keys() - whole:
            raise ArgumentError(f"cores: expected whole components of plan {self}, got {', '.join(sorted(unknown))}")
        if several_times := [unit for unit in limits if self.components.count(unit) > 1]:
            raise ArgumentError(f"cores: expected a component that plan {self} has once, got {several_times[0]}")

        def limited(unit: Unit) -> Unit:
            count = limits.get(unit.whole) if unit.cores is None else None
            return unit if count is None else Unit(unit.component, count, unit.precision, unit.batch)

        lanes = (tuple(replace(stage, unit=limited(stage.unit)) for stage in lane) for lane in self.lanes)
        return replace(self, lanes=tuple(lanes))

    def made_for(self, graph: Graph) -> Plan:
        """The same plan, which now knows its network."""
        graph = graph_of("graph", graph)
        return replace(self, network=(graph.name, len(graph.groups)))

    def check_network(self, graph: Graph) -> None:
        """Raises ArgumentError where it was made for a network with other groups."""
        graph = graph_of("graph", graph)
        if self.network and self.network[1] != len(graph.groups):
            name, groups = self.network
            raise ArgumentError(
                f"plan {self}: expected a plan for the {len(graph.groups)} groups of {graph.name}, "
                f"got one for {groups} groups of {shown(name)}"
            )
        for lane in self.lanes:
            if forks(lane):
                check_branches(lane, needs(graph), self)

    def save(self, path: str | Path, graph: Graph | None = None, about: Mapping[str, Any] | None = None) -> None:
        """Writes a small JSON file: the plan's text, the network it is for, and ``about`` it (such as predictions).

        The network is the graph's if one is given, else the one that the plan was made for, if it is known.
        Raises ArgumentError where the plan was made for another network, or the file cannot be written.
        """
        if graph is not None:
            graph = graph_of("graph", graph)
            self.check_network(graph)
        about = optional(by_name(lambda key, value: value, "a dict of what JSON can say"))("about", about) or {}
        name, groups = (graph.name, len(graph.groups)) if graph is not None else self.network or (None, None)
        network = {"network": name, "groups": groups} if name is not None else {}
        clocks = {"clocks_mhz": dict(self.clocks)} if self.clocks else {}
        write_json(path, "plan", {"plan": str(self), **clocks, **network, **self.goal.to_dict(), **about})

    @classmethod
    def load(cls, path: str | Path, graph: Graph | None = None) -> Plan:
        """The plan of a file, which keeps naming its network: with a graph it is checked now, else when it is used.

        Raises ArgumentError where the file is malformed or for a network with other groups.
        """
        graph = None if graph is None else graph_of("graph", graph)
        content = read_json(path, "plan")
        read = JsonReader(content, str(path))
        if not isinstance(content.get("plan"), str):
            raise ArgumentError(f"{path}: expected the text of a plan under 'plan', got {shown(content.get('plan'))}")
        with naming(path):
            goal, clocks = Goal.from_file(content, read), clocks_from(content, read)
            plan = replace(cls.parse(content["plan"]), goal=goal, clocks=clocks)
            if content.get("groups") is not None:
                if (groups := read.number("groups", 1)) != int(groups):
                    raise read.fail("groups", "a whole number")
                plan = replace(plan, network=(read.word("network"), int(groups)))
            if graph is not None:
                plan.check_network(graph)
            return plan

    @property
    def components(self) -> tuple[Unit, ...]:
        """The component of every stage, in its precision."""
        return tuple(unit.whole for unit in self.units)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The unit of every stage."""
        return tuple(stage.unit for lane in self.lanes for stage in lane)

    @property
    def unit_of(self) -> tuple[int, ...]:
        """The number of the unit that serves each stage. A component that comes several times whole is one unit."""
        return unit_numbers(self.units)

    @property
    def lacks_shares(self) -> bool:
        """Whether a cut floats, without a share, in a lane where a unit serves several stages."""
        return any(
            repeats(lane) and any(stage.floating and stage.share is None for stage in lane) for lane in self.lanes
        )

    @property
    def floats(self) -> bool:
        """Whether one of its cuts floats."""
        return any(stage.floating for lane in self.lanes for stage in lane)

    def __repr__(self) -> str:
        return f"<Plan {self}{f' of {self.network[0]}' if self.network else ''}>"

    def __str__(self) -> str:
        if len(self.lanes) == 1:
            return _text(self.lanes[0])
        counted = [(_text(lane), len(list(equal))) for lane, equal in groupby(self.lanes)]
        lanes = [(f"({text})" if ":" in text else text, count) for text, count in counted]
        return "+".join(text if count == 1 else f"{count}*{text}" for text, count in lanes)


def repeats(lane: Sequence[StagePlan]) -> bool:
    """Whether a unit serves several of its stages."""
    whole = [stage.unit.component for stage in lane if stage.unit.cores is None]
    return len(set(whole)) < len(whole)


def _text(lane: Sequence[StagePlan]) -> str:
    cuts = ",".join(
        f"{stage.last}~{stage.last + stage.floating}" + ("" if stage.share is None else f"@{stage.share}")
        if stage.floating
        else str(stage.last)
        for stage in lane[:-1]
    )
    order = [tuple(lane[index].unit for index in level) for level in levels(lane)]
    return order_text([units if len(units) > 1 else units[0] for units in order]) + (f":{cuts}" if cuts else "")


def borders(stages: Sequence[StagePlan], groups: int, network: str) -> list[tuple[int, int, int, int]]:
    """(first, first_late, last, last_late) of every stage of a lane, cumulative group counts.

    A stage always computes the groups between the two in the middle. The others it computes where a cut floats and a
    frame comes in early or goes out late.

    Raises ArgumentError where the network has not as many groups.
    """
    found, floating = [], 0
    for stage in stages:
        last = groups if stage.last is None else stage.last
        ends = (stage.first, stage.first + floating, last, last + stage.floating)
        if not ends[1] < last or ends[3] > groups - (stage.floating > 0):
            plan = Plan((tuple(stages),))
            raise ArgumentError(f"plan {plan}: expected cuts between 1 and {groups - 1} for {network}")
        found.append(ends)
        floating = stage.floating
    return found


def _is_lane(lane: Any) -> bool:
    return isinstance(lane, tuple) and bool(lane) and all(isinstance(stage, StagePlan) for stage in lane)


def plan_of(name: str, value: Any) -> Plan:
    """A rule for arguments: a plan, its text, or the path of its file."""
    if isinstance(value, PathLike) or (isinstance(value, str) and value.endswith(".json")):
        return Plan.load(value)
    if isinstance(value, str):
        return Plan.parse(value)
    if not isinstance(value, Plan):
        raise refused(name, "a pipeall.Plan, its text or the path of its file", value)
    return value


def balanced_cuts(graph: Graph, speeds: Sequence[float]) -> list[int]:
    """The cuts whose slowest stage is fastest, where stage i computes MACs at ``speeds[i]`` (any unit).

    Raises ArgumentError where the network has fewer groups than there are stages.
    """
    if len(speeds) > len(graph.groups):
        raise ArgumentError(
            f"{graph.name} has {len(graph.groups)} groups, expected at least {len(speeds)}, one a stage"
        )
    done = [0, *accumulate(sum(macs(node, graph) for node in group.nodes) for group in graph.groups)]
    # best[n]: time of the slowest stage and the cuts, with the first n groups on the stages looked at so far
    best: list[tuple[float, tuple[int, ...]]] = [(total / speeds[0], ()) for total in done]
    best[0] = (inf, ())
    for speed in speeds[1:]:
        best = [(inf, ())] + [
            min((max(best[cut][0], (total - done[cut]) / speed), (*best[cut][1], cut)) for cut in range(n))
            for n, total in enumerate(done[1:], 1)
        ]
    return list(best[-1][1])
