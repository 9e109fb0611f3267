"""Several networks on one board at once: a pipeline for each, on units that they share."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ..arguments import a, checked, one_of, optional, refused, whole
from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.onnx.read.given import network
from ..graph.onnx.read.source import ModelSource
from ..picture import Picture
from .arrangement import divided_graph
from .boards.board import Board, board_of
from .boards.default_plan import balanced, known_times
from .boards.default_units import cores_of, default_units, real_components, units_to_search
from .lease import CORES, Lease, board_for
from .pipeline import FACTOR, Pipeline
from .planning.plan import Plan, plan_of
from .planning.profile import Profile, profile_of
from .planning.rings import MAX_SLOTS
from .planning.schedule_plan import Demand, SchedulePlan, schedule_plan_of
from .planning.schedule_search import schedule_search
from .planning.units import Unit
from .shared_units import Place, SharedUnits
from .stats import Stats

DEMAND = ("fps", "priority", "max_latency_ms")
OPTIONS = {
    "plan": optional(plan_of),
    "profile": optional(profile_of),
    "input": optional(a(Picture, "a pipeall.Picture")),
}

log = logging.getLogger(__name__)


class Schedule:
    """Runs several networks at once, each as a ``Pipeline``: ``schedule["det"].submit(x)``.

    A unit of the board serves all of them. Of frames that wait for it, those of the higher priority go first, but a
    frame that came a second earlier for each level goes before these; and what a network computes beyond its rate
    waits for what others compute within theirs. No frame that has begun is interrupted. A network that fails ends, the
    others go on.

    Use it as a context manager, or call ``close``.

    Parameters
    ----------
    networks : dict
        By name, each a model as for ``load``, or a tuple of it and a dict of options: ``fps``, ``priority`` and
        ``max_latency_ms`` as of ``Demand``; ``plan``, ``profile`` and ``input`` as of ``Pipeline``.
    board : Board, str or path, optional
        As for Pipeline.
    plan : SchedulePlan or path, optional
        A plan for each network. Default: the plans of the networks' options, else what ``schedule_search`` finds by
        their profiles, which ``pipeall.profile`` keeps, or the board's model; without these, all components with
        about equal MACs for each.
    slots : int
        As for Pipeline.
    time_scale : float
        As for Pipeline.
    cores : str
        As for Pipeline: what to do about pipelines beside the schedule's own.

    Raises
    ------
    ArgumentError
        For an option that there is not, for plans that do not fit the networks or divide the board in different ways,
        and for demands that cannot be met.
    DeviceError
        For a component that is absent or does not start, or that others hold, as ``cores`` says.
    """

    @checked(
        board=board_of,
        plan=optional(schedule_plan_of),
        slots=whole(1, MAX_SLOTS),
        time_scale=FACTOR,
        cores=one_of(*CORES),
    )
    def __init__(
        self,
        networks: Mapping[str, ModelSource | Graph | tuple[ModelSource | Graph, Mapping[str, Any]]],
        board: Board | str | Path | None = None,
        plan: SchedulePlan | str | Path | None = None,
        slots: int = 2,
        time_scale: float = 1.0,
        cores: str = "share",
    ):
        board = board_for(board, cores)
        self._pipelines: dict[str, Pipeline] = {}
        given = _given(networks)
        self.plan = plan = _plan(given, board) if plan is None else _with_names(plan, given)
        units, self._lease = SharedUnits(), Lease(cores)
        try:
            if board.model is None:
                components = chain.from_iterable(chain(*board.units(one)) for one in plan.plans.values())
                self._lease.hold("all", components, ", ".join(f"{name} on {one}" for name, one in plan.plans.items()))
            with self._lease.covers():
                for name, one in given.items():
                    place = Place(units, plan.rates[name], plan.demands[name].priority, plan.beside(name))
                    options = {"profile": one.profile, "input": one.input, "slots": slots, "time_scale": time_scale}
                    own = _Placed(place, one.graph, plan.plans[name], board, cores=cores, **options)
                    self._pipelines[name] = own
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Schedule of {'; '.join(f'{name}: {pipe.about}' for name, pipe in self._pipelines.items())}>"

    def __getitem__(self, name: str) -> Pipeline:
        """The pipeline of a network. Raises ArgumentError for a name that there is not."""
        if name not in self._pipelines:
            raise ArgumentError(f"network: expected one of {', '.join(self._pipelines)}, got {name!r}")
        return self._pipelines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pipelines)

    def __len__(self) -> int:
        return len(self._pipelines)

    def stats(self) -> dict[str, Stats]:
        """``Pipeline.stats`` of each network."""
        return {name: pipe.stats() for name, pipe in self._pipelines.items()}

    def close(self) -> None:
        """Closes the pipeline of each network. Safe to call twice."""
        for pipe in self._pipelines.values():
            pipe.close()
        self._lease.close()

    def __enter__(self) -> Schedule:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Placed(Pipeline):
    """The pipeline of a network beside others."""

    def __init__(self, place: Place, *arguments: Any, **options: Any):
        self._place = place
        super().__init__(*arguments, **options)


class _Given:
    """A network as it is given."""

    graph: Graph
    demand: Demand
    plan: Plan | None
    profile: Profile | None
    input: Picture | None

    def __init__(self, name: str, entry: Any):
        model, options = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, {})
        if not isinstance(options, Mapping):
            raise refused(f"options of {name}", "a dict", options)
        if unknown := [key for key in options if key not in (*DEMAND, *OPTIONS)]:
            raise ArgumentError(f"options of {name}: expected {', '.join((*DEMAND, *OPTIONS))}, got {unknown[0]!r}")
        try:
            self.graph = network("model", model)
            self.demand = Demand(**{key: options[key] for key in DEMAND if key in options})
            for key, rule in OPTIONS.items():
                setattr(self, key, rule(key, options.get(key)))
        except ArgumentError as error:
            raise ArgumentError(f"network {name}: {error}") from None


def planned(networks: Mapping[str, Any], board: Board) -> SchedulePlan:
    """What ``Schedule`` would run these networks by. Nothing is started. Raises ArgumentError as it does."""
    return _plan(_given(networks), board)


def _given(networks: Any) -> dict[str, _Given]:
    if not isinstance(networks, Mapping) or not networks or not all(isinstance(name, str) for name in networks):
        raise refused("networks", "a dict of models by name", networks)
    return {name: _Given(name, entry) for name, entry in networks.items()}


def _with_names(plan: SchedulePlan, given: Mapping[str, _Given]) -> SchedulePlan:
    if set(plan) != set(given):
        raise ArgumentError(f"plan: expected one for {', '.join(given)}, got one for {', '.join(plan)}")
    return plan


def _plan(given: Mapping[str, _Given], board: Board) -> SchedulePlan:
    """The plans of the networks' options, else those that are found by their times."""
    demands = {name: one.demand for name, one in given.items()}
    plans = {name: one.plan for name, one in given.items() if one.plan is not None}
    if plans and (missing := [name for name in given if name not in plans]):
        raise ArgumentError(f"plan: expected one for every network or for none, got none for {', '.join(missing)}")
    if not plans:
        graphs = {name: divided_graph(one.graph, one.input) for name, one in given.items()}
        profiles = {name: one.profile or times_of(graphs[name], board) for name, one in given.items()}
        known = {name: profile for name, profile in profiles.items() if profile}
        if len(known) == len(given):
            units = [unit for unit in _units(board) if all(unit in profile.units for profile in known.values())]
            return schedule_search(graphs, known, demands, units=units, cores=cores_of(board)).plan
        log.debug("no schedule search: no profile is kept of %s", ", ".join(profiles.keys() - known.keys()))
        plans = {name: balanced(graph, board) for name, graph in graphs.items()}
    return SchedulePlan(plans, demands, {name: demand.fps for name, demand in demands.items()})


def times_of(graph: Graph, board: Board, units: Sequence[Unit] = ()) -> Profile | None:
    """What is known of a network on a board: of a model on these units, and on those that a search takes."""
    if board.model is None:
        return known_times(graph, board)
    return board.model.profile(graph, [*_units(board), *units])


def _units(board: Board) -> list[Unit]:
    """What a search takes by itself: components, and of one cluster alone its cores. Elsewhere these add little, and
    there are ten times as many ways to divide the board."""
    alone = board.model is not None and len(real_components(board)) == 1
    return units_to_search(board) if alone else default_units(board)
