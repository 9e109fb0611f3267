"""``pipeall profile board``: all that can be measured of this board, as a board file and as a text to send."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ...graph.onnx.read.inputs import Shapes
from ...pipeline.boards.board import Board
from ...pipeline.measuring.report import board_report, model_of
from .. import complete
from ..bench.bench_command import NETS
from ..model_argument import Finer, load_model
from ..options import Command, file_option, json_option, model_options, seconds_option
from ..output import print_json, progress
from ..plans import times_lines
from ..tables import print_table, print_text


@click.command(cls=Command)
@click.argument("models", nargs=-1, shell_complete=complete.models)
@file_option("-o", "--output", required=True, help="The board model to write, for --board.")
@seconds_option
@model_options
@json_option
def board(
    models: tuple[str, ...],
    output: str,
    seconds: float,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Measure all of this board, and write a board model.

    \b
    pipeall profile board -o myboard.json

    Measures peaks, clocks, layers, heat, and pipelines at full load, of the zoo's five networks unless some are named.
    It takes some ten minutes on a board, and prints a text that names nobody.
    """
    graphs = [load_model(model, input_shape, finer) for model in models or NETS]
    here = Board.detect()
    with progress() as bar:
        task = bar.add_task("board report", total=None)
        report, ran = board_report(
            graphs,
            here,
            seconds=seconds,
            progress=lambda text, done, total: bar.update(task, description=text, completed=done, total=total),
        )
    with ExitStack() as files:
        files.callback(model_of(Path(output).stem, here, report, ran).save, output)
        if as_json:
            print_json("board-report", **report)
            return
        show(report)
        for line in dict.fromkeys(line for one in ran for line in times_lines(one.profile)):
            print_text(line)


def show(report: Mapping[str, Any]) -> None:
    """The text: nothing in it names the machine's host, a user or a file."""
    print_text(f"Board report: {report['model'] or 'unknown board'}, {report['cores']} cores, {report['machine']}")
    print_text(f"pipeall {report['pipeall']}, {report['date']}, {report['took_s'] / 60:.1f} minutes")
    print_table(
        "Components",
        ["component", "what", ">GFLOP/s", ">GB/s", ">int8 GOP/s", ">MHz", "governor"],
        [_component_row(report, unit, peak) for unit, peak in report["peaks"].items()],
    )
    states = [("before", report["before"]), *((row["network"], row["state"]) for row in report["networks"])]
    print_table(
        "Clocks, heat and load",
        ["when", "MHz", "degrees C", ">load"],
        [_state_row(when, state) for when, state in (*states, ("after", report["after"]))],
    )
    for network in report["networks"]:
        headings = [
            "what",
            "plan",
            ">FPS",
            ">+-%",
            ">latency ms",
            ">model FPS",
            ">off %",
            ">FPS at the end",
            "stages ms",
        ]
        print_table(network["network"], headings, [_plan_row(row) for row in network["plans"]])
        for unit, layers in network["layers"].items():
            slowest = sorted(layers, key=lambda layer: -layer["ms"])[:3]
            most = ", ".join(f"{layer['node']} ({layer['algorithm']}) {layer['ms']:.2f}" for layer in slowest)
            print_text(f"{unit}: {len(layers)} steps, {sum(layer['ms'] for layer in layers):.2f} ms; longest: {most}")


def _component_row(report: Mapping[str, Any], unit: str, peak: Mapping[str, Any]) -> tuple[object, ...]:
    state, integers = peak["state"], peak["integer_ops"]
    mhz = state.get("clocks_mhz", {}).get(unit)
    return (
        unit,
        report["components"][unit],
        f"{peak['flops'] / 1e9:.1f}",
        f"{peak['bytes'] / 1e9:.1f}",
        integers and f"{integers / 1e9:.1f}",
        mhz and f"{mhz:.0f}",
        state.get("governors", {}).get(unit),
    )


def _state_row(when: str, state: Mapping[str, Any]) -> tuple[object, ...]:
    clocks, heat = (
        ", ".join(f"{name} {value:.0f}" for name, value in state.get(key, {}).items()) or None
        for key in ("clocks_mhz", "temperature_c")
    )
    return when, clocks, heat, f"{state['load']:.1f}"


def _plan_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    end = row["fps_at_the_end"]
    return (
        row["mode"] + (" (BUSY)" if row["disturbed"] else ""),
        row["plan"],
        f"{row['fps']:.2f}",
        f"{100 * row['fps_spread']:.1f}",
        f"{row['latency_p50_ms']:.2f}",
        f"{row['predicted_fps']:.2f}",
        f"{row['error_percent']:+.1f}",
        end and f"{end:.2f}",
        " ".join(f"{stage['busy_ms']:.2f}" for stage in row["stages"]),
    )
