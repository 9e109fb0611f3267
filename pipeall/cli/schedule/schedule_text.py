"""What ``pipeall schedule`` prints: answers as they come, the figures at the end, and the plan of a dry run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import IO, Any

from ...errors import ArgumentError
from ...pipeline.live import LiveResult
from ...pipeline.planning.predict import predict
from ...pipeline.planning.profile import Profile
from ...pipeline.planning.schedule_plan import SchedulePlan
from ...pipeline.planning.simulate_schedule import ScheduleSimulation
from ..output import json_line, print_json_line
from ..run.run_text import Shown, content
from ..tables import print_table, print_text
from .schedule_loop import ScheduleRan

SIMULATED, ALONE = ("fps", "latency_p50_ms", "latency_p99_ms"), ("fps", "latency_ms")


def print_line(network: str, seen: LiveResult) -> None:
    """An answer as a line of JSON, its format first."""
    print_json_line("answer", network=network, **content(seen))


class Printed:
    """Prints answers for people, each network's beginning with its name."""

    def __init__(self, networks: Iterable[str]):
        self._shown = {name: Shown(name) for name in networks}

    def __call__(self, network: str, seen: LiveResult) -> None:
        self._shown[network](seen)


class Written(AbstractContextManager):
    """Writes answers to a file as they come, as lines of JSON."""

    def __init__(self, path: str, where: str):
        """``where``: the key that names the file, for errors. Raises ArgumentError where it cannot be written."""
        self._where = f"{where} {path}"
        try:
            self._file: IO[str] = open(path, "w", buffering=1)
        except OSError as error:
            raise ArgumentError(f"{self._where}: expected a file that may be written, got {error.strerror}") from None

    def __call__(self, network: str, seen: LiveResult) -> None:
        try:
            self._file.write(json_line("answer", network=network, **content(seen)) + "\n")
        except OSError as error:
            raise ArgumentError(f"{self._where}: cannot be written: {error.strerror}") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def print_figures(ran: ScheduleRan) -> None:
    """A row for each network, then one for each of several sources, then how busy the units were."""
    rows = [
        (
            name,
            one.frames,
            _rate(one.fps_wanted),
            f"{one.stats.fps:.2f}",
            *(f"{ms:.1f}" for ms in (one.stats.latency_p50_ms, one.stats.latency_p99_ms)),
            one.late,
            one.crops["dropped"] if one.crops else one.stats.dropped,
        )
        for name, one in ran.networks.items()
    ]
    headings = ["network", ">frames", ">FPS wanted", ">FPS", ">p50 ms", ">p99 ms", ">late", ">dropped"]
    print_table("Networks", headings, rows)
    for name, one in ran.networks.items():
        for source, of in one.stats.sources.items():
            print_text(
                f"{name}, {source}: {of.frames} frames, {of.fps:.2f} FPS, {of.dropped} dropped, from capture to answer "
                f"p50 {of.live_p50_ms:.1f} ms, p95 {of.live_p95_ms:.1f} ms",
                hang=4,
            )
    for unit, use in used(one.stats for one in ran.networks.values()).items():
        print_text(f"{unit}: use {use:.0%}")
    if ran.unread:
        print_text(f"{ran.unread} could not be read")


def used(stats: Iterable[Any]) -> dict[str, float]:
    """Unit -> the share of its time that it computes for all networks."""
    use: dict[str, float] = {}
    for one in stats:
        for unit in one.units:
            use[unit.unit] = min(1.0, use.get(unit.unit, 0.0) + unit.use)
    return use


def plan_rows(
    plan: SchedulePlan, profiles: Mapping[str, Profile], simulated: ScheduleSimulation | None
) -> dict[str, dict[str, Any]]:
    """Of each network what it shall do, what is planned, what its plan would do alone, and what a simulation says."""
    rows = {}
    for name, its_plan in plan.plans.items():
        rows[name] = {"plan": str(its_plan), **plan.demands[name].to_dict(), "fps_planned": plan.rates[name]}
        if name in profiles:
            alone = predict(profiles[name], its_plan)
            rows[name]["alone"] = {"fps": alone.fps, "latency_ms": alone.alone_ms}
        if simulated:
            run = simulated.networks[name]
            rows[name]["simulated"] = {
                "fps": run.fps,
                **{f"latency_{p}_ms": getattr(run, f"latency_{p}_ms") for p in ("p50", "p95", "p99")},
            }
    return rows


def print_plan(rows: Mapping[str, Mapping[str, Any]], simulated: ScheduleSimulation | None) -> None:
    cells = [
        (
            name,
            row["plan"],
            row["priority"],
            _rate(row.get("fps")),
            _rate(row["fps_planned"]),
            *([f"{row['simulated'][key]:.1f}" for key in SIMULATED] if simulated else []),
            row.get("max_latency_ms"),
            *([f"{row['alone'][key]:.1f}" for key in ALONE] if simulated else []),
        )
        for name, row in rows.items()
    ]
    headings = ["network", "plan", ">priority", ">FPS wanted", ">FPS planned"]
    headings += [">FPS simulated", ">p50 ms", ">p99 ms"] if simulated else []
    headings += [">cap ms", *([">FPS alone", ">ms alone"] if simulated else [])]
    print_table("Schedule", headings, cells)
    if simulated:
        busy = ", ".join(f"{unit} {share:.0%}" for unit, share in simulated.use.items())
        print_text(f"Simulated: {simulated.seconds:g} s of the board; use {busy}")
    else:
        print_text("No times are known of these networks here: pipeall profile measures them")


def _rate(fps: float | None) -> str | None:
    return None if fps is None else f"{fps:.2f}"
