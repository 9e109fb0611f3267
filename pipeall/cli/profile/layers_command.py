"""``pipeall profile layers``: what each layer takes on a unit, beside what this can do at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...pipeline.boards.board import Board
from ...pipeline.measuring.layers import LayerTimes, layer_times
from ..model_argument import Finer, load_model
from ..options import (
    Command,
    export_option,
    file_option,
    json_option,
    model_options,
    models_argument,
    seconds_option,
    units_option,
)
from ..output import print_json, progress, shape_text
from ..plans import unit_names, write_tuning
from ..tables import print_table


@click.command(cls=Command)
@models_argument
@units_option
@seconds_option
@file_option("--plot", help="Draw the roofline with the layers as PNG.")
@export_option
@model_options
@json_option
def layers(
    models: tuple[str, ...],
    units: str | None,
    seconds: float,
    plot: str | None,
    export_tuning: str | None,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Show what bounds each layer on units, by default on the first CPU.

    \b
    pipeall profile layers mobilenet --units big,gpu --plot roofline.png
    pipeall profile layers net.onnx --export-tuning tuning.json
    """
    if plot:
        from .layers_plot import draw_layers  # before anything is measured in vain
    graphs = [load_model(model, input_shape, finer) for model in models]
    networks = _measured(graphs, unit_names(units), seconds)
    if as_json:
        print_json("layers", networks=[_content(times) for times in networks])
    else:
        for times in networks:
            _show(times)
    if plot:
        draw_layers(plot, networks)
    if export_tuning:
        write_tuning(export_tuning, as_json)


def _measured(graphs: Sequence[Graph], units: Sequence[str] | None, seconds: float) -> list[LayerTimes]:
    """The layers of networks on units; by default on the first CPU."""
    board = Board.detect()
    if units is None:
        units = [next(part.name for part in board.components.values() if part.device.cores)]
    runs = [(graph, unit) for graph in graphs for unit in units]
    networks = []
    with progress() as bar:
        task = bar.add_task("", total=len(runs))
        for graph, unit in runs:
            bar.update(task, description=f"{graph.name}: {unit}")
            networks.append(layer_times(graph, board, unit, seconds=seconds))
            bar.advance(task)
    return networks


def _content(times: LayerTimes) -> dict:
    whole = asdict(times) | {"layers": times.rows(), "totals": times.totals()}
    del whole["ms"]
    return whole


def _show(times: LayerTimes) -> None:
    threads = f"{times.threads} {times.worker}{'s' * (times.threads > 1)}"
    most = f"{times.peak_flops / 1e9:.1f} GFLOP/s, {times.peak_bytes / 1e9:.1f} GB/s from memory"
    if any(layer.dtype == "int8" for layer in times.layers):
        most = f"{times.peak_integer_ops / 1e9:.1f} GOP/s of int8, {most}"
    title = f"{times.network} on {times.unit}, {threads}; at most {most}"
    figures = [">ms", ">GFLOP/s", ">% of peak"]  # of the peak of its element type
    headings = ["kind", "node", "input", "output", "kernel", "algorithm", *figures, "bound", ">% of time"]
    print_table(title, headings, map(_layer_row, times.rows()))
    headings = ["algorithm", ">layers", ">% of all", *figures, ">% of time bound"]
    print_table("Totals; all GFLOP/s are of the direct convolution", headings, map(_total_row, times.totals()))


def _layer_row(row: Mapping) -> tuple[object, ...]:
    window = None
    if row["kernel"]:
        window = "x".join(map(str, row["kernel"]))
        window += f" / {max(row['strides'])}" if max(row["strides"]) > 1 else ""
        window += f", {row['groups']} groups" if row["groups"] > 1 else ""
    shapes = shape_text(row["input"]), shape_text(row["output"])
    bound = row["bound"], f"{100 * row['explained']:.0f}"
    return row["kind"], row["node"], *shapes, window, _algorithm(row), *_figures(row), *bound


def _total_row(row: Mapping) -> tuple[object, ...]:
    share, explained = (f"{100 * row[key]:.0f}" for key in ("time_share", "explained"))
    return _algorithm(row), row["layers"], share, *_figures(row), explained


def _algorithm(row: Mapping) -> str:
    """With the element type, where that is not the usual one: it says which peak counts."""
    return row["algorithm"] if row["dtype"] in (None, "float32") else f"{row['algorithm']} {row['dtype']}"


def _figures(row: Mapping) -> tuple[str | None, ...]:
    ms = f"{row['ms']:.3f}"
    return (ms, f"{row['gflops']:.1f}", f"{100 * row['peak_share']:.0f}") if row["gflops"] else (ms, None, None)
