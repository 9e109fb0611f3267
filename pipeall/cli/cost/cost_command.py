"""``pipeall cost``: what a network costs, in space and operations; training, epochs and threads are sub-commands."""

from __future__ import annotations

from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from typing import Any

import click

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...pipeline.boards.board import Board
from ...pipeline.planning.profile import Profile
from ...sizing import size_report as report
from ...sizing.conventions import CONVENTIONS
from ...sizing.size_network import Network
from ..default_group import DEFAULT, DefaultGroup
from ..model_argument import Finer, read_network
from ..options import file_option, json_option, model_argument, model_options, profile_option
from ..output import print_json
from ..tables import print_text
from . import cost_text
from .epoch_command import epoch
from .memory_command import train
from .threads_command import threads


@click.group(cls=DefaultGroup, subcommand_metavar="MODEL | COMMAND ...")
def cost() -> None:
    """Show what a network costs: parameters, operations, memory.

    \b
    pipeall cost squeezenet
    pipeall cost net.onnx --layers --plot layers.png --roofline
    pipeall cost net.onnx --convention fvcore --explain
    pipeall cost train net.onnx --optimizer adam --memory 32GB --gpu-memory 11GB
    pipeall cost epoch net.onnx --samples 1281167 --gmacs 4000 --bus pcie3x16
    pipeall cost threads alexnet

    No weight is read to count but of quantized files, and a model that pipeall cannot run is counted too. The
    options are those of "pipeall cost MODEL"; COMMAND --help has the others.
    """


@cost.command(DEFAULT)
@model_argument
@click.option("--layers", is_flag=True, help="Show every layer.")
@click.option("--folded", is_flag=True, help="The network as it runs: BatchNorm folded into convolutions.")
@click.option(
    "--convention",
    type=click.Choice(list(CONVENTIONS)),
    metavar="TOOL",
    help=f"Count operations as this tool does: {', '.join(CONVENTIONS)}.",
)
@click.option("--explain", is_flag=True, help="With --convention: every term that makes it differ from plain MACs.")
@click.option("--algorithms", is_flag=True, help="What im2col, Winograd and FFT would make of each convolution.")
@click.option("--processor", "processors", multiple=True, help="Number formats on it, such as Cortex-A73 or Mali-G52.")
@file_option("--csv", help="Write every layer to this .csv file.")
@file_option("--plot", help="Draw layers and roofline to this .png file.")
@click.option("--roofline", is_flag=True, help="With --plot: under the peaks of this machine's CPUs, measured first.")
@profile_option("With --roofline: also its groups, at the rates that they reached.")
@model_options
@json_option
def model_cost(
    model: str,
    layers: bool,
    folded: bool,
    convention: str | None,
    explain: bool,
    algorithms: bool,
    processors: tuple[str, ...],
    csv: str | None,
    plot: str | None,
    roofline: bool,
    profile_path: str | None,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Show parameters, operations and memory of a network.

    \b
    pipeall cost squeezenet
    pipeall cost model squeezenet --layers
    """
    if explain and convention is None:
        raise ArgumentError("--explain: expected --convention with it")
    if roofline and plot is None:
        raise ArgumentError("--roofline: expected --plot with it")
    if profile_path is not None and not roofline:
        raise ArgumentError("--profile: expected --roofline with it")
    network, graph, refusal = read_network(model, input_shape, finer, folded)
    rows = report.layer_rows(network)
    content = report.network_report(network) | {"refused": refusal or None, "layers": rows}
    content |= _asked_for(network, graph, convention, algorithms, processors)
    with ExitStack() as files:  # after what is printed, which is not lost where they cannot be written
        if plot is not None:
            from .cost_plot import draw_cost

            totals = content["totals"]
            title = f"{Path(model).name}: {totals['macs']:,} MACs, {totals['parameters']:,} parameters"
            reached = _reached(graph, Profile.load(profile_path)) if profile_path else {}
            files.callback(draw_cost, plot, rows, title, _peaks() if roofline else {}, reached)
        if csv is not None:
            files.callback(report.write_csv, csv, rows)
        if as_json:
            print_json("cost", **content)
        else:
            _show(content, layers, explain)


def _peaks() -> dict[str, tuple[float, float]]:
    """CPU component of this machine -> FLOP/s and bytes/s that it reaches, measured in some seconds."""
    peaks = {name: component.device.peak() for name, component in Board.detect(gpu=False).components.items()}
    return {name: (peak.flops, peak.bytes) for name, peak in peaks.items()}


def _reached(graph: Graph | None, profile: Profile) -> dict[str, list[tuple[float, float]]]:
    """Unit -> FLOP for each byte and FLOP/s of each group that computes, by its time in a profile."""
    if graph is None:
        raise ArgumentError("--profile: expected a network that pipeall runs")
    profile.check_network(graph)
    cost_of_nodes = report.parts_of(graph)
    costs = [report.figures(cost_of_nodes(group.nodes)) for group in graph.groups]
    return {
        str(unit): [
            (cost["intensity"], 2e3 * cost["macs"] / ms)
            for cost, ms in zip(costs, times.ms, strict=True)
            if cost["macs"] and isfinite(ms) and ms
        ]
        for unit, times in profile.units.items()
    }


def _asked_for(
    network: Network, graph: Graph | None, convention: str | None, algorithms: bool, processors: tuple[str, ...]
) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if convention is not None:
        asked["operations"] = report.convention_report(network, convention)
    if algorithms:
        asked["algorithms"] = report.algorithm_rows(network)
    if processors:
        asked["formats"] = {name: report.format_rows(network, graph, name) for name in processors}
    return asked


def _show(content: dict[str, Any], layers: bool, explain: bool) -> None:
    cost_text.show_totals(content)
    print_text()
    if layers:
        cost_text.show_layers(content)
    if "operations" in content:
        cost_text.show_operations(content["operations"], explain)
    if "algorithms" in content:
        cost_text.show_algorithms(content["algorithms"])
    for processor, rows in content.get("formats", {}).items():
        cost_text.show_formats(processor, rows)


for command in (train, epoch, threads):
    cost.add_command(command)
