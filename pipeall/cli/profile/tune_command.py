"""``pipeall profile tune``: every way to compute each convolution timed on an OpenCL device, the fastest kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...pipeline.boards.board import Board
from ...pipeline.devices.device import Component, Tuned
from ...pipeline.lease import WRONG, leased
from .. import complete
from ..model_argument import Finer, load_model
from ..options import Command, export_option, json_option, model_options, models_argument
from ..output import print_json, progress
from ..plans import write_tuning
from ..tables import print_table


@click.command(cls=Command)
@models_argument
@click.option("--unit", default="gpu", show_default=True, shell_complete=complete.units, help="An OpenCL device.")
@export_option
@model_options
@json_option
def tune(
    models: tuple[str, ...],
    unit: str,
    export_tuning: str | None,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Time all algorithms of each convolution on a GPU.

    \b
    pipeall profile tune mobilenet

    The fastest ones are used from then on.
    """
    board = Board.detect()
    component = board.component(unit)
    graphs = [load_model(model, input_shape, finer) for model in models]
    with leased(board, [unit], ", ".join(graph.name for graph in graphs), effect=WRONG):
        _show_tuning(graphs, component, as_json)
    if export_tuning:
        write_tuning(export_tuning, as_json)


def _show_tuning(graphs: Sequence[Graph], component: Component, as_json: bool) -> None:
    results: list[list[Tuned]] = []
    with progress() as bar:
        for graph in graphs:
            task = bar.add_task(graph.name, total=None)

            def show(shape: str, done: int, total: int, task=task, name=graph.name) -> None:
                bar.update(task, description=f"{name}: {shape}", completed=done, total=total)

            results.append(component.device.tune(graph, show))
            bar.remove_task(task)
    if as_json:
        networks = [
            {"network": graph.name, "shapes": [asdict(tuned) for tuned in rows]}
            for graph, rows in zip(graphs, results, strict=True)
        ]
        print_json("gpu-tuning", component=component.description, networks=networks)
        return
    for graph, rows in zip(graphs, results, strict=True):
        headings = ["shape", "default", ">us", "fastest", ">us", ">gain"]
        title = f"{graph.name}: convolutions on {component.description}; the fastest are used from now on"
        print_table(title, headings, map(_row, rows))


def _row(tuned: Tuned) -> tuple[str, ...]:
    gain = f"{100 * (tuned.default_us / tuned.best_us - 1):.0f} %"
    return tuned.shape, tuned.default, f"{tuned.default_us:.0f}", tuned.best, f"{tuned.best_us:.0f}", gain
