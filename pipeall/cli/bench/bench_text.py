"""What ``pipeall bench`` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...pipeline.boards.board import Board
from ...pipeline.measuring.comparison import MAX_LATE, MODES, averages
from ..output import component_text
from ..plans import BUSY
from ..tables import print_table, print_text

NOTE = "gpu is a CPU stand-in: it shares the cores of the other components, and its figures say nothing about a GPU."
LATE = (
    f"INVALID: over {MAX_LATE:.0%} of the frames took longer to compute here than the board takes. By these runs "
    "--time-scale {scale:g} fits this machine; pipeall simulate shows the model's figures without a run."
)
FIGURES = {
    "fps": "throughput",
    "latency_worst_ms": "latency, Parallel's of its worst lane",
    "latency_p50_ms": "latency, Parallel's p50",
}


def show(
    about: Mapping[str, Any], board: Board, names: Sequence[str], runs: Sequence[dict[str, Any]], notes: Sequence[str]
) -> None:
    """``about`` the machine, the rows of all networks, and what is to be said of them."""
    _show_machine(about, board, names)
    _show_runs(runs)
    _show_stages(runs)
    _show_averages(runs)
    late = [row["fitting_time_scale"] for row in runs if not row["valid"]]
    for line in [*notes, *([LATE.format(scale=max(late))] if late else [])]:
        print_text(line)
    if others := [row["others_cores"] for row in runs if row["disturbed"]]:
        print_text(BUSY.format(what="these rows ran", cores=max(others)))


def _show_machine(about: Mapping[str, Any], board: Board, names: Sequence[str]) -> None:
    before, after = (about[key]["load"] for key in ("before", "after"))
    print_text(
        f"{about['model'] or 'unknown CPU'}, {about['machine']}, {about['cores']} cores, "
        f"load {before:.1f} to {after:.1f}; pipeall {about['pipeall']}, {about['date']}"
    )
    if about["board"]:
        print_text(f"Twin of {about['board']}, {about['time_scale']:g} times as slow, shown in the board's time:")
    for component in map(board.component, names):
        print_text(f"{component_text(component)}: {component.description}")
    if any(board.component(name).stand_in for name in names):
        print_text(NOTE)
    if len(names) == 1:
        print_text("One component: neither Parallel nor pipelines.")
    print_text()


def _show_runs(runs: Sequence[dict[str, Any]]) -> None:
    emulated, energy = (any(row.get(key) is not None for row in runs) for key in ("simulated_fps", "energy_mj"))
    headings = ["network", "mode", "plan", ">FPS", ">x Peak", ">spread %"]
    headings += [">simulated", ">differs %"] if emulated else []
    headings += [">p50 ms", ">p99 ms", ">worst lane", ">x Peak", ">MB"]
    headings += [">predicted mJ a frame"] if energy else []
    cells = [_run_cells(row, emulated, energy) for row in runs]
    print_table("Throughput at full load; latency without queueing", headings, cells)


def _run_cells(row: Mapping[str, Any], emulated: bool, energy: bool) -> tuple[object, ...]:
    return (
        row["net"],
        MODES[row["mode"]] + mark(row),
        row["plan"],
        f"{row['fps']:.2f}",
        f"{row['fps_to_peak']:.2f}",
        f"{100 * row['fps_spread']:.1f}",
        *((f"{row['simulated_fps']:.2f}", f"{row['simulated_error_percent']:+.1f}") if emulated else ()),
        *(f"{row[f'latency_{key}_ms']:.1f}" for key in ("p50", "p99", "worst")),
        f"{row['latency_to_peak']:.2f}",
        f"{row['memory_bytes'] / 1e6:.0f}",
        *((row["energy_mj"] and f"{row['energy_mj']:.0f}",) if energy else ()),
    )


def mark(row: Mapping[str, Any]) -> str:
    """What stands behind the mode of a row whose figures are not the machine's, or not the board's."""
    if not row["valid"]:
        return " INVALID"
    return " BUSY" if row["disturbed"] else ""


def _show_stages(runs: Sequence[dict[str, Any]]) -> None:
    stages = [
        (
            row["net"],
            MODES[row["mode"]],
            stage["unit"],
            f"{stage['groups'][0] + 1} to {stage['groups'][1]}",
            *(f"{stage[f'{key}_ms']:.2f}" for key in ("busy", "wait_in", "wait_out", "map", "copy")),
            f"{100 * stage['use']:.0f}",
        )
        for row in runs
        if row["mode"] in ("pipe-all", "best")
        for stage in row["stages"]
    ]
    if stages:
        headings = ["network", "mode", "unit", "groups", ">busy", ">wait in", ">wait out", ">map", ">copy", ">use %"]
        print_table("Stages of Pipe-All and Best at full load: mean ms a frame", headings, stages)


def _show_averages(runs: Sequence[dict[str, Any]]) -> None:
    means = averages(runs)
    rows = [
        (
            FIGURES[row["figure"]],
            f"{MODES[row['mode']]} over {MODES[row['over']]}",
            f"{row['percent']:+.2f} %",
            row["paper_percent"] and f"{row['paper_percent']:+.2f} %",
        )
        for row in means
    ]
    if rows and means[0]["networks"] > 1:  # of one network it says nothing that its rows do not
        title = f"Averages of {means[0]['networks']} networks beside the paper's"
        print_table(title, ["", "", ">here", ">paper"], rows)
