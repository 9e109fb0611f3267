"""``pipeall profile``: how long every group takes on every unit, what running side by side and handing over cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan, sqrt
from pathlib import Path
from statistics import fmean

import click
import numpy as np
from rich.progress import Progress

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.boards.machine import describe
from ..pipeline.boards.model import BoardModel
from ..pipeline.measuring import measure
from ..pipeline.planning.names import parse_unit
from ..pipeline.planning.profile import Profile
from .layers import show_layers
from .model import load_model, model_options
from .output import file_option, json_option, positive_option, print_json, print_table, progress
from .plans import unit_names
from .tune_gpu import show_tuning

board_option = click.option("--board", metavar="NAME", help="Model of another board: a311d, rk3399pro or a .json file.")
seconds_option = positive_option("--seconds", default=1.0, help="How long each unit, pair and plan is measured.")
units_option = click.option("--units", help="Such as big,little,Bx3; default all real components.")


@click.command()
@click.argument("models", nargs=-1, required=True)
@model_options
@file_option("-o", "--output", help="Written after each part, and resumed; for several networks it is a folder.")
@click.option("--again", is_flag=True, help="Measure all of it, whatever --output has.")
@units_option
@seconds_option
@click.option("--layers", is_flag=True, help="Instead: what bounds each layer on units, by default the first CPU.")
@click.option("--tune-gpu", is_flag=True, help="Instead: time the kernels' tiles for each convolution, keep the best.")
@board_option
@file_option("--save-board", help="Also write a board model of this machine, for --board.")
@json_option
def profile(
    models: tuple[str, ...],
    input_shape: tuple[int, ...] | None,
    finer: int | None,
    output: str | None,
    again: bool,
    units: str | None,
    seconds: float,
    layers: bool,
    tune_gpu: bool,
    board: str | None,
    save_board: str | None,
    as_json: bool,
) -> None:
    """Measure networks' groups on every unit alone, units side by side, and the hand-over between them.

    A unit is a component, or some cores of one, such as Bx3. A profile is for one network and one machine; search and
    simulate plan from it. What --output has already is not measured again.

    \b
    pipeall profile squeezenet -o squeezenet.json
    pipeall profile net.onnx -o net.json --units Bx3,Bx1,L,G
    pipeall profile alexnet mobilenet resnet50 -o profiles/ --save-board myboard.json
    pipeall profile mobilenet --layers --units big,gpu
    pipeall profile mobilenet --tune-gpu
    """
    names = unit_names(units)
    if layers or tune_gpu:
        mode = "--layers" if layers else "--tune-gpu"
        others = {"--output": output, "--again": again, "--board": board, "--save-board": save_board}
        others["--tune-gpu"] = layers and tune_gpu
        if given := [option for option, value in others.items() if value]:
            raise ArgumentError(
                f"{mode}: expected no {given[0]} beside it, it measures layers here and makes no profile"
            )
        graphs = [load_model(model, input_shape, finer) for model in models]
        if layers:
            show_layers(graphs, names, seconds, as_json)
        else:
            show_tuning(graphs, names, as_json)
        return
    there = load_board(board)
    if save_board and board:
        raise ArgumentError(f"--save-board: expected a board to measure, --board {board} is a model already")
    if units and board:
        raise ArgumentError(f"--units: expected none beside --board {board}, a model has its own")
    graphs = [load_model(model, input_shape, finer) for model in models]
    files = _files(output, graphs)
    profiles = []
    with progress() as bar:
        for graph, file in zip(graphs, files, strict=True):
            kept = None
            if file and not again and file.exists():
                kept = Profile.load(file)
                if kept.modelled != (there.model is not None) or not (kept.modelled or measured_on(kept, there)):
                    expected = "modelled" if there.model else "measured on this machine"
                    raise ArgumentError(f"{file}: expected a profile {expected}; --again starts over")
            profiles.append(measured(graph, there, names, seconds, bar, kept if there.model is None else None, file))
            if file:
                profiles[-1].save(file)
    if save_board:
        timed = list(zip(graphs, profiles, strict=True))
        model = BoardModel.from_profiles(Path(save_board).stem, there.components, timed)
        model.save(save_board)
    if not as_json:
        for found in profiles:
            _show(found)
            for line in times_lines(found, there):
                click.echo(line)
    elif len(profiles) == 1:
        print_json("profile", **profiles[0].to_dict())
    else:
        print_json("profiles", profiles=[found.to_dict() for found in profiles])


def _files(output: str | None, graphs: Sequence[Graph]) -> list[Path | None]:
    """Where each profile goes: the file itself, or NAME.json in a folder, which is made where it is absent."""
    if output is None:
        return [None] * len(graphs)
    path = Path(output)
    if len(graphs) == 1 and not path.is_dir():
        return [path]
    files = [path / f"{graph.name}.json" for graph in graphs]
    if twice := [file.name for file in files if files.count(file) > 1]:
        raise ArgumentError(f"--output {output}: expected networks of different names, got {twice[0]} twice")
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"--output {output}: expected a folder: {error.strerror}") from None
    return list(files)


def load_board(name: str | None) -> Board:
    """This machine, or the model of another board."""
    return Board.load(name) if name is not None else Board.detect()


def measured(
    graph: Graph,
    board: Board,
    units: Sequence[str] | None,
    seconds: float,
    bar: Progress,
    kept: Profile | None = None,
    path: Path | None = None,
) -> Profile:
    """The profile of a network; with a bar while it is measured, and saved at ``path`` after each part."""
    task = bar.add_task(graph.name, total=None)
    found = measure.profile(
        graph,
        board,
        units,
        seconds=seconds,
        kept=kept,
        checkpoint=lambda so_far: so_far.save(path) if path else None,
        progress=lambda text, done, total: bar.update(
            task, description=f"{graph.name}: {text}", completed=done, total=total
        ),
    )
    bar.remove_task(task)
    return found


def measured_on(found: Profile, board: Board) -> bool:
    """Whether these are times of this very kind of machine: the components that it knows have the same description."""
    there, here = found.about.get("components"), describe(board)["components"]
    names = {parse_unit(unit)[0] for unit in found.units}
    return not found.modelled and isinstance(there, Mapping) and all(there.get(n) == here.get(n, "") for n in names)


def times_lines(found: Profile, board: Board | None = None) -> list[str]:
    """One line that says where modelled times are from, with the board's errors of a regression; none if measured."""
    if not found.modelled:
        return []
    line = f"times of {found.about.get('board')}: {found.about.get('times')}"
    if board and board.model and found.about.get("times") == "regression":
        errors = {unit: fmean(map(abs, row.values())) for unit, row in board.model.errors.items() if row}
        if errors:
            shares = ", ".join(f"{unit} {error:.0%}" for unit, error in errors.items())
            line += f"; off by {shares} on average for networks left out of its fit"
    return [line]


def _show(found: Profile) -> None:
    units = list(found.units)
    rows = []
    for unit, times in found.units.items():
        ms = np.array(times.ms)
        known = np.isfinite(ms)
        whole = f"{ms[known].sum():.2f}" + ("" if known.all() else f" ({known.sum()} of {len(ms)} groups)")
        spread = sqrt(sum(value**2 for value in times.spread_ms))  # groups vary independently

        def mean(values: Sequence[float], ms: np.ndarray = ms[known], known: np.ndarray = known) -> float:
            return np.average(np.array(values)[known], weights=ms) if ms.any() else nan

        beside = [None if unit == other else f"{mean(found.slowdown(unit, other)):.3f}" for other in units]
        watts = None if times.power_w is None else f"{mean(times.power_w):.2f}"
        rows.append((unit, whole, f"{spread:.2f}", *beside, watts))
    origin = "modelled" if found.modelled else "measured"
    headings = ["unit", ">ms", ">spread ms", *(f">x beside {other}" for other in units), ">W"]
    print_table(f"{found.network}, {len(found.groups)} groups, {origin}: whole network, alone", headings, rows)
    size = max(found.crossing_bytes[1:-1] or found.crossing_bytes)
    links = []
    for (sender, receiver), link in found.links.items():
        send, receive = link.at(np.array([size], float))
        links.append((sender, receiver, f"{send[0]:.3f}", f"{receive[0]:.3f}"))
    print_table(f"Hand-over of {size:,} bytes, the most that crosses", ["from", "to", ">send ms", ">receive ms"], links)
    refused = [
        (unit, index, found.groups[index - 1], reason)
        for unit, times in found.units.items()
        for index, reason in times.refused.items()
    ]
    if refused:
        print_table("Groups that a unit cannot run", ["unit", ">group", "name", "why"], refused)
