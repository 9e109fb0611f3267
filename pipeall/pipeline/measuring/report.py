"""All that can be measured of a board with some networks: for its owner, and for a model of it that others plan with.

Peaks and clocks of the components, each network's groups, layers and pipelines, and all pipelines once more at the end,
when the board is as warm as this made it. It holds no name of the machine, of a user or of a file.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...progress import Progress, silent
from ..boards import machine
from ..boards.board import Board
from ..boards.default_units import real_components
from ..boards.models.board_model import BoardModel
from ..planning.plan import Plan
from ..planning.predict import predict
from ..planning.profile import Link, Profile, crossing_bytes, disturbed
from ..planning.uncertainty import four_of_five
from . import profiler
from .comparison import baselines
from .fit_to_trials import fit_to_trials
from .layers import layer_times
from .trial import Trial, compare

PIPELINES, TURNS = 3, 5  # the best by the profile, and how often every plan of a network runs
SINGLE, PARALLEL, PIPE_ALL, OTHER = "single", "parallel", "pipe-all", "pipeline"  # Peak is the fastest of SINGLE
PATH = re.compile(r"(?<!\w)(~|\.{1,2})?(/[^\s/:,;'\"]+){2,}/?")


@dataclass(frozen=True)
class Ran:
    """Plans of a network as they ran: ``again`` are the same, in the same order, when all else had been measured."""

    graph: Graph
    profile: Profile
    modes: tuple[str, ...]
    trials: tuple[Trial, ...]
    again: tuple[Trial, ...] = ()

    def __post_init__(self) -> None:
        if len(self.modes) != len(self.trials) or self.again and len(self.again) != len(self.trials):
            raise ArgumentError(f"{self.graph.name}: expected a mode for each plan that ran, and all of them again")

    def settled(self) -> Profile:
        """The profile that keeps the pace of what ran; its errors are those of the plans that it was not told.

        A unit is off by what it took longer, or less, when it ran again. Pipelines that are not Pipe-All are predicted.
        """
        told = [trial for mode, trial in zip(self.modes, self.trials, strict=True) if mode != OTHER]
        profile = replace(_anonymous(fit_to_trials(self.profile, told)), error={}, contention_error=0.0)
        unseen = [row["error_percent"] / 100 for row in self.rows(profile) if row["mode"] == OTHER]
        error = {trial.plan.units[0]: drift for trial, drift in self._drifts() if len(trial.plan.units) == 1}
        return replace(profile, error=error, contention_error=four_of_five(unseen) if unseen else 0.0)

    def rows(self, settled: Profile) -> list[dict[str, Any]]:
        """A row for each plan: what it did, what the settled profile says, and what it did at the end."""
        later = [trial.median("fps") for trial in self.again] or [None] * len(self.trials)
        return [
            {
                "mode": mode,
                **trial.to_dict(),
                "disturbed": disturbed(trial.others_cores),
                "predicted_fps": (said := predict(settled, trial.plan).fps),
                "error_percent": 100 * (trial.median("fps") / said - 1),
                "fps_at_the_end": end,
            }
            for mode, trial, end in zip(self.modes, self.trials, later, strict=True)
        ]

    def _drifts(self) -> list[tuple[Trial, float]]:
        """How many times as long, or as short, each plan took when it ran again, less one; empty where none did."""
        rates = ((trial.median("fps"), end.median("fps")) for trial, end in zip(self.trials, self.again, strict=False))
        return [(trial, max(a / b, b / a) - 1) for trial, (a, b) in zip(self.trials, rates, strict=False)]


def board_report(
    graphs: Sequence[Graph],
    board: Board,
    *,
    seconds: float = 1.0,
    progress: Progress = silent,
) -> tuple[dict[str, Any], list[Ran]]:
    """The report of this machine, ready for JSON, and what ran of each network: ``model_of`` makes a board of them.

    graphs   at least one; several kinds of network make the better model
    seconds  of each unit, pair and plan, as for ``profiler.profile``; twice that for a plan at full load

    Raises ArgumentError for a model of a board and where no component is real; else errors as for ``profiler.profile``.
    """
    units = real_components(board)
    if board.model is not None or not units or not graphs:
        raise ArgumentError("board report: expected networks, and this machine's own components, got a model or none")
    begun, before, done, total = time.monotonic(), machine.state(board), 0, 1 + 4 * len(graphs)

    def next_part(text: str) -> None:
        nonlocal done
        progress(text, done, total)
        done += 1

    next_part("peaks")
    peaks = {unit: _peak(board, unit) for unit in units}
    ran, layers, states = [], {}, {}
    for graph in graphs:
        next_part(f"{graph.name}: groups")
        profile = _profiled(graph, board, units, seconds, ran[-1].profile.links if ran else {})
        next_part(f"{graph.name}: layers")
        layers[graph.name] = {unit: _layers(graph, board, unit, seconds) for unit in _able(profile)}
        next_part(f"{graph.name}: plans")
        ran.append(_contest(graph, board, profile, seconds))
        states[graph.name] = machine.state(board)
    for index, one in enumerate(ran):
        next_part(f"{one.graph.name}: again")
        plans = [trial.plan for trial in one.trials]
        ran[index] = replace(one, again=tuple(compare(one.graph, plans, board, turns=TURNS, seconds=seconds / TURNS)))
    report = {
        **machine.describe(board),
        "seconds": seconds,
        "took_s": time.monotonic() - begun,
        "before": before,
        "after": machine.state(board),
        "peaks": peaks,
        "networks": [
            {"network": one.graph.name, "state": states[one.graph.name], "plans": one.rows(one.settled())}
            | {"layers": layers[one.graph.name]}
            for one in ran
        ],
    }
    return report, ran


def model_of(name: str, board: Board, report: Mapping[str, Any], ran: Sequence[Ran]) -> BoardModel:
    """The model of the board that a report is of, with the report in it. Errors as for ``BoardModel.from_profiles``."""
    profiles = [(one.graph, one.settled()) for one in ran]
    return replace(BoardModel.from_profiles(name, board.components, profiles), report=report)


def _profiled(
    graph: Graph, board: Board, units: Sequence[str], seconds: float, links: Mapping[tuple[str, str], Link]
) -> Profile:
    """``links`` are known already: they are of components, not of networks."""
    names = tuple(group.name for group in graph.groups)
    about = machine.describe(board)
    kept = Profile(graph.name, names, crossing_bytes(graph), {}, links=links, about=about)
    return profiler.profile(graph, board, units, seconds=seconds, kept=kept)


def _contest(graph: Graph, board: Board, profile: Profile, seconds: float) -> Ran:
    plans = baselines(graph, profile, list(profile.units), PIPELINES, ("pipe-all",))
    modes = dict.fromkeys(plans.single, SINGLE) | ({plans.parallel: PARALLEL} if plans.parallel else {})
    modes |= {choice.plan: OTHER for choice in plans.searched["pipe-all"] if choice.plan not in modes}
    trials = compare(graph, list(modes), board, turns=TURNS, seconds=2 * seconds / TURNS)
    return Ran(graph, profile, named(modes, trials), tuple(trials))


def named(modes: Mapping[Plan, str], trials: Sequence[Trial]) -> tuple[str, ...]:
    """The modes of trials; the fastest pipeline is Pipe-All, whatever was predicted."""
    pipelines = [trial for trial in trials if modes[trial.plan] == OTHER]
    best = max(pipelines, key=lambda trial: trial.median("fps"), default=None)
    return tuple(PIPE_ALL if trial is best else modes[trial.plan] for trial in trials)


def _able(profile: Profile) -> list[str]:
    return [unit for unit, times in profile.units.items() if times.all_groups]


def _peak(board: Board, unit: str) -> dict[str, Any]:
    most = board.component(unit).device.peak()
    return {"flops": most.flops, "bytes": most.bytes, "integer_ops": most.integer_ops, "state": machine.state(board)}


def _layers(graph: Graph, board: Board, unit: str, seconds: float) -> list[dict[str, Any]]:
    times = layer_times(graph, board, unit, seconds=seconds)
    return [
        {"node": layer.node, "algorithm": layer.algorithm, "ms": ms}
        for layer, ms in zip(times.layers, times.ms, strict=True)
    ]


def _anonymous(profile: Profile) -> Profile:
    """Reasons of a driver may name its files, which lie in somebody's folder."""
    units = {
        unit: replace(times, refused={index: PATH.sub("FILE", why) for index, why in times.refused.items()})
        for unit, times in profile.units.items()
    }
    return replace(profile, units=units)
