"""Peak, Parallel, Pipe-All and the best of all plans on one network, and averages beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from statistics import mean
from typing import Any

from ...graph.ir import Graph
from ...progress import Progress, silent
from ..boards.board import Board
from ..boards.default_units import cores_of
from ..planning.plan import Plan
from ..planning.plan_table import PredictedPlan
from ..planning.predict import Prediction, predict
from ..planning.profile import Profile, disturbed
from ..planning.search import search, singles
from ..planning.simulate import simulate
from ..planning.uncertainty import interval
from ..planning.units import traits_of
from .footprint import footprint
from .trial import Trial, compare
from .verify import run_choices

RUN = 3  # best plans of a search that run, to choose of them
MAX_LATE = 0.01  # of the frames of an emulated board may take longer to compute here than the board takes
MARGIN = 1.5  # of a --time-scale that fits, over the mean frame: single ones take longer
SIMULATED = 500  # frames: without jitter, the rhythm of a few is that of all

MODES = {  # in JSON: in text
    "single": "Single",
    "peak": "Peak",
    "parallel": "Parallel",
    "pipe-all": "Pipe-All",
    "floating": "Floating",
    "best": "Best",
}
SEARCHES: dict[str, dict[str, Any]] = {  # mode -> what its plans may be, as for ``search``
    "pipe-all": {"plans": "pipelines"},
    "floating": {"plans": "pipelines", "floating": True},
    "best": {"plans": "all"},
}
MAY_BE = {  # mode -> those whose plans are of its kind too
    "pipe-all": ("single",),
    "floating": ("single", "pipe-all"),
    "best": ("single", "parallel", "pipe-all", "floating"),
}

# Figure, mode, what it is compared with, and percent of the paper (its section 6, five networks on a Khadas VIM3)
PAPER = (
    ("fps", "pipe-all", "peak", 75.88),
    ("fps", "pipe-all", "parallel", 5.42),
    ("latency_worst_ms", "pipe-all", "peak", 55.59),
    ("latency_worst_ms", "parallel", "peak", 419.87),
    ("latency_p50_ms", "parallel", "peak", None),
)


@dataclass(frozen=True, slots=True)
class Baselines:
    """The plans that run against each other, by what a profile says.

    single      the whole network on each component that can run it (Peak is the fastest), the fastest first; also on
                "cpu", all cores at once, where it is one of the components
    parallel    the whole network on all of those but "cpu" at once, independently; None where there are not two of them
    searched    the best plans for throughput, best first, by mode of ``SEARCHES``: of Pipe-All each component has one
                stage at most, and with "floating" its cuts may float; "best" is any plan. They may leave components
                out, or all but one; of a component alone Pipe-All is all there is
    """

    single: tuple[Plan, ...]
    parallel: Plan | None
    searched: Mapping[str, tuple[PredictedPlan, ...]]


def baselines(
    graph: Graph,
    profile: Profile,
    components: Sequence[str],
    top: int = 1,
    modes: Sequence[str] = tuple(SEARCHES),
    cores: Mapping[str, int] | None = None,
) -> Baselines:
    """The baselines of these components; ``top`` is the number of plans of each of the searched ``modes``.

    The best plan may also have some of their ``cores``, as many as ``search`` is told there are, where the profile has
    times of such units.

    Raises ArgumentError where the profile lacks a component, none can run the whole network, or no plan is possible.
    """
    several = [name for name in components if not traits_of(name).all]
    some = [unit for unit in profile.units if unit.cores and unit.whole in components]
    searched = {
        mode: search(
            graph, profile, units=_units_of(mode, components, some), cores=cores, top=top, **SEARCHES[mode]
        ).ranked
        for mode in (modes if len(components) > 1 or some else ("pipe-all",))
    }
    single = singles(profile, components)
    able = [name for name in several if Plan.single(name) in single]
    return Baselines(single, Plan.parallel(able) if len(able) > 1 else None, searched)


def _units_of(mode: str, components: Sequence[str], some: Sequence[str]) -> Sequence[str]:
    """Those that plans of a searched mode may have: pipelines, as the paper means them, are of single components."""
    if SEARCHES[mode]["plans"] == "all":
        return [*components, *some]
    return [name for name in components if not traits_of(name).all] or components


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the modes did.

    Attributes
    ----------
    rows : list of dict
        One for each mode and plan, ready for JSON: ``single`` or ``peak``, ``parallel``, ``pipe-all``, ``floating`` and
        ``best``.
    refused : mapping of str to str
        Plans of a search that did not run, and why.
    slower : tuple of str
        In words: the plans of a search that ran slower than another of their kind, which took their place.
    """

    rows: list[dict[str, Any]]
    refused: Mapping[str, str]
    slower: tuple[str, ...]


def compare_modes(
    graph: Graph,
    board: Board,
    profile: Profile,
    components: Sequence[str],
    *,
    seconds: float = 2.0,
    turns: int = 5,
    time_scale: float | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Runs the network on each component alone, on all of them independently, and by the best plans of searches.

    Pipe-All is the best pipeline of distinct components, "floating" that with cuts that may float, "best" any plan.
    On this machine the best plans of each search run first, to make sure. Throughput and stage times are of a full
    load, latency is of as many frames under way as there are units, until a frame is delivered in its turn.

    Parameters
    ----------
    graph
        The network.
    board
        This machine, or the model of another.
    profile
        Of the network on the board.
    components
        Names of those that take part.
    seconds, turns
        That each plan runs at each load, and in how many turns.
    time_scale
        Where the board is a model: how many times as long everything takes here. Figures are the board's.
    progress
        Called with what runs, how much of it is done, and how much there is.

    Returns
    -------
    Comparison
        The figures of every mode.

    Raises
    ------
    PipeallError
        As ``search`` and ``compare``.
    """
    entries, refused = _entries(graph, board, profile, components, seconds, progress)
    plans = list(dict.fromkeys(plan for _, plan in entries))
    full, single = (
        compare(graph, plans, board, turns=turns, seconds=seconds / turns, queue=queue, what=what, progress=progress,
                time_scale=time_scale or 1.0)
        for what, queue in (("full load", True), ("latency", False))
    )  # fmt: skip
    loaded, unloaded = (dict(zip(plans, trials, strict=True)) for trials in (full, single))
    entries, slower = settled(entries, loaded)
    bytes_of = {plan: sum(stage.total for stage in footprint(graph, plan, board)) for plan in plans}
    return Comparison(rows(graph.name, profile, entries, loaded, unloaded, bytes_of, time_scale), refused, slower)


def _entries(
    graph: Graph,
    board: Board,
    profile: Profile,
    components: Sequence[str],
    seconds: float,
    progress: Progress,
) -> tuple[list[tuple[str, Plan]], dict[str, str]]:
    """Mode and plan of what runs against each other, those of searches last, where there are several components; and
    plans that did not run, with the reason."""
    options = baselines(graph, profile, components, RUN, cores=cores_of(board))
    entries = [("single", plan) for plan in options.single]
    if len(options.searched) == 1:
        return entries, {}
    entries += [("parallel", options.parallel)] if options.parallel else []
    refused: dict[str, str] = {}
    for mode, choices in options.searched.items():
        best = choices[0]
        if board.model is None:
            ran, failed = run_choices(graph, choices, board, seconds=seconds, progress=progress)
            best, refused = ran[0].choice, refused | failed
        entries.append((mode, best.plan))
    return entries, refused


def rows(
    net: str,
    profile: Profile,
    entries: Sequence[tuple[str, Plan]],
    full: Mapping[Plan, Trial],
    single: Mapping[Plan, Trial],
    bytes_of: Mapping[Plan, int],
    time_scale: float | None,
) -> list[dict[str, Any]]:
    """One row per mode and plan of a network, the fastest component alone being the "peak" that ratios refer to.

    full, single  trials at full load, and with as many frames under way as units
    bytes_of      the memory that plans take; of an emulated board as this machine's kernels pack and compute them
    time_scale    of an emulated board, else None: times are divided by it, so that all are the board's
    """
    table = [
        {"net": net, "mode": mode}
        | _row(profile, full[plan], single[plan], time_scale)
        | {"memory_bytes": bytes_of[plan]}
        for mode, plan in entries
    ]
    peak = max((row for row in table if row["mode"] == "single"), key=lambda row: row["fps"])
    peak["mode"] = "peak"
    return [
        row
        | {"fps_to_peak": row["fps"] / peak["fps"]}
        | {"latency_to_peak": row["latency_worst_ms"] / peak["latency_worst_ms"]}
        for row in table
    ]


def _row(profile: Profile, full: Trial, single: Trial, time_scale: float | None) -> dict[str, Any]:
    """At full load: FPS, spread, stages. From ``single``: latency; latency_worst_ms is the mean of the slowest lane."""
    prediction = predict(profile, full.plan)
    scale = time_scale or 1.0
    loaded, one = full.to_dict(), single.to_dict()
    busy = iter(stage["busy_ms"] for stage in one["stages"])
    lanes = [sum(islice(busy, len(lane))) for lane in full.plan.lanes]
    worst_ms = max(lanes) if len(lanes) > 1 else one["latency_p50_ms"]
    latencies = {key: one[key] / scale for key in one if key.startswith("latency")}
    late = max(full.late_share, single.late_share)
    others = max((trial.others_cores for trial in (full, single) if trial.others_cores is not None), default=None)
    emulated = {}
    if time_scale:
        simulated, waiting = (
            simulate(profile, full.plan, SIMULATED, depth=depth, jitter=False, paced=True) for depth in (None, 0)
        )
        emulated = {
            "simulated_fps": simulated.fps,
            "simulated_error_percent": 100 * (simulated.fps / (loaded["fps"] * scale) - 1),
            "simulated_latency_p50_ms": waiting.latency_p50_ms,
            "simulated_latency_p99_ms": waiting.latency_p99_ms,
        }
        emulated |= {"fitting_time_scale": fitting(prediction, (full, single), scale) if late > MAX_LATE else scale}
    return {
        "plan": loaded["plan"],
        "fps": loaded["fps"] * scale,
        "fps_spread": loaded["fps_spread"],
        "predicted_fps": prediction.fps,
        **likely(profile, full.plan),
        **emulated,
        **latencies,
        "latency_worst_ms": worst_ms / scale,
        "energy_mj": prediction.energy_mj,
        "late_share": late,
        "valid": late <= MAX_LATE,
        "others_cores": others,
        "disturbed": time_scale is None and disturbed(others),  # an emulation keeps the pace, or is not valid
        "stages": [
            {key: value / scale if key.endswith("_ms") else value for key, value in stage.items()}
            for stage in loaded["stages"]
        ],
    }


def fitting(prediction: Prediction, trials: Sequence[Trial], scale: float) -> int:
    """The time scale at which an emulation that was late keeps the pace, by its stages' times beside the model's."""
    modelled_ms = [ms for lane in prediction.stage_ms for ms in lane]
    took_ms = [[stage.busy_ms for stage in trial.stages] for trial in trials]
    over = [took / ms for row in took_ms for took, ms in zip(row, modelled_ms, strict=True) if ms > 0]
    return ceil(MARGIN * max([scale, *over]))


def settled(
    entries: Sequence[tuple[str, Plan]], full: Mapping[Plan, Trial]
) -> tuple[list[tuple[str, Plan]], tuple[str, ...]]:
    """The entries, each mode of a search with the fastest plan of its kind that was faster than its own beyond the
    spread of both, and a note of each such change."""
    found: list[tuple[str, Plan]] = []
    notes = []
    for mode, plan in entries:
        others = {other: full[other] for way, other in found if way in MAY_BE.get(mode, ())}
        rate, most = full[plan].median("fps"), full[plan].median("fps") * (1 + full[plan].spread)
        faster = {one: ran.median("fps") for one, ran in others.items() if most < ran.median("fps") * (1 - ran.spread)}
        if faster:
            fastest = max(faster, key=faster.__getitem__)
            rates = f"{rate:.2f} and {faster[fastest]:.2f} FPS"
            notes.append(f"{plan} ran slower than {fastest} ({rates}): {MODES[mode]} is {fastest}")
            plan = fastest
        found.append((mode, plan))
    return found, tuple(notes)


def likely(profile: Profile, plan: Plan) -> dict[str, list[float]]:
    """Between which figures the plan will be in four of five cases, where the profile states its error."""
    known = interval(profile, plan)
    return {"likely_fps": list(known.fps), "likely_latency_ms": list(known.latency_ms)} if known else {}


def averages(table: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The paper's comparisons, mean percent over the networks whose modes are all there and valid; none: no rows."""
    nets: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in table:
        nets.setdefault(row["net"], {})[row["mode"]] = row
    complete = [
        modes
        for modes in nets.values()
        if all(mode in modes and modes[mode]["valid"] for mode in ("peak", "parallel", "pipe-all"))
    ]
    return [
        {
            "figure": figure,
            "mode": mode,
            "over": over,
            "networks": len(complete),
            "percent": 100 * (mean(modes[mode][figure] / modes[over][figure] for modes in complete) - 1),
            "paper_percent": paper,
        }
        for figure, mode, over, paper in (PAPER if complete else ())
    ]
