"""``pipeall profile``: how long every group takes on every unit, what running side by side and handing over cost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import nan, sqrt
from pathlib import Path

import click
import numpy as np

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...pipeline.boards.board import Board
from ...pipeline.boards.default_units import default_units, real_components
from ...pipeline.boards.models.board_model import BoardModel
from ...pipeline.boards.profile_cache import measured_on
from ...pipeline.lease import WRONG, leased
from ...pipeline.planning.profile import Profile, UnitTimes
from ..default_group import DEFAULT, DefaultGroup
from ..model_argument import Finer, load_model
from ..options import (
    board_option,
    cores_option,
    export_option,
    file_option,
    json_option,
    model_options,
    models_argument,
    profile_seconds_option,
    units_option,
)
from ..output import print_json, progress
from ..plans import load_board, measured, times_lines, unit_names, write_tuning
from ..tables import print_table, print_text
from .board_command import board
from .layers_command import layers
from .tune_command import tune


@click.group(cls=DefaultGroup, subcommand_metavar="MODELS... | COMMAND ...")
def profile() -> None:
    """Measure networks' groups on every processor.

    \b
    pipeall profile squeezenet -o squeezenet.json
    pipeall profile net.onnx -o net.json --units Bx3,Bx1,L,G
    pipeall profile alexnet mobilenet -o profiles/ --save-board mine.json
    pipeall profile layers mobilenet --units big,gpu
    pipeall profile tune mobilenet
    pipeall profile board -o myboard.json

    Every unit is measured alone and beside each other unit, then the hand-over between them. A unit is a component, or
    some cores of one, such as Bx3. A profile is for one network and one machine; search and simulate plan from it. What
    --output has already is not measured again. The options are those of "pipeall profile MODELS"; COMMAND --help has
    the others.
    """


@profile.command(DEFAULT)
@models_argument
@file_option(
    "-o", "--output", help="Written after each part, and resumed; for several networks it is a folder.", folder=True
)
@units_option
@profile_seconds_option
@click.option("--again", is_flag=True, help="Measure all of it, whatever --output has.")
@cores_option("share", "refuse")
@board_option
@file_option("--save-board", help="Also write a board model of this machine, for --board.")
@export_option
@model_options
@json_option
def profile_model(
    models: tuple[str, ...],
    output: str | None,
    units: str | None,
    seconds: float | None,
    again: bool,
    cores: str,
    board: str | None,
    save_board: str | None,
    export_tuning: str | None,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Measure networks' groups on every processor.

    \b
    pipeall profile squeezenet -o squeezenet.json
    pipeall profile model squeezenet -o squeezenet.json
    """
    there = _board(board, save_board)
    names = unit_names(units) or (real_components(there) if save_board else None)
    graphs = [load_model(model, input_shape, finer) for model in models]
    paths = _files(output, graphs)
    about = ", ".join(graph.name for graph in graphs)
    with leased(there, names or default_units(there), about, cores, WRONG):
        profiles = _profiles(graphs, there, names, seconds, paths, again)
    with ExitStack() as files:  # after what is printed, which is not lost where they cannot be written
        for measured_profile, path in zip(profiles, paths, strict=True):
            if path:
                files.callback(measured_profile.save, path)
        if save_board:
            timed = list(zip(graphs, profiles, strict=True))
            files.callback(BoardModel.from_profiles(Path(save_board).stem, there.components, timed).save, save_board)
        _show_all(profiles, there, as_json)
    if export_tuning:
        write_tuning(export_tuning, as_json)


def _board(name: str | None, save_board: str | None) -> Board:
    there = load_board(name)
    if save_board and name:
        raise ArgumentError(f"--save-board: expected a board to measure, --board {name} is a model already")
    return there


def _show_all(profiles: Sequence[Profile], there: Board, as_json: bool) -> None:
    if not as_json:
        for one in profiles:
            _show(one)
            for line in times_lines(one, there):
                print_text(line)
    elif len(profiles) == 1:
        print_json("profile", **profiles[0].to_dict())
    else:
        print_json("profiles", profiles=[one.to_dict() for one in profiles])


def _profiles(
    graphs: Sequence[Graph],
    board: Board,
    units: Sequence[str] | None,
    seconds: float | None,
    files: Sequence[Path | None],
    again: bool,
) -> list[Profile]:
    """Measured, or modelled; of this machine only what the files lack."""
    profiles = []
    with progress() as bar:
        for graph, file in zip(graphs, files, strict=True):
            kept = _kept(file, board) if file and not again and file.exists() else None
            profiles.append(measured(graph, board, units, seconds, bar, kept if board.model is None else None, file))
    return profiles


def _kept(file: Path, board: Board) -> Profile:
    """What was measured before; ArgumentError where it is of another kind of board."""
    kept = Profile.load(file)
    if kept.modelled != (board.model is not None) or not (kept.modelled or measured_on(kept, board)):
        expected = "modelled" if board.model else "measured on this machine"
        raise ArgumentError(f"{file}: expected a profile {expected}; --again starts over")
    return kept


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


def _show(one: Profile) -> None:
    origin = "modelled" if one.modelled else "measured"
    headings = ["unit", ">ms", ">spread ms", *(f">x beside {other}" for other in one.units), ">W"]
    title = f"{one.network}, {len(one.groups)} groups, {origin}: whole network, alone"
    print_table(title, headings, [_unit_row(one, unit, times) for unit, times in one.units.items()])
    size = max(one.crossing_bytes[1:-1] or one.crossing_bytes)
    links = []
    for (sender, receiver), link in one.links.items():
        send, receive = link.at(np.array([size], float))
        links.append((sender, receiver, f"{send[0]:.3f}", f"{receive[0]:.3f}"))
    print_table(f"Hand-over of {size:,} bytes, the most that crosses", ["from", "to", ">send ms", ">receive ms"], links)
    refused = [
        (unit, index, one.groups[index - 1], reason)
        for unit, times in one.units.items()
        for index, reason in times.refused.items()
    ]
    if refused:
        print_table("Groups that a unit cannot run", ["unit", ">group", "name", "why"], refused)


def _unit_row(one: Profile, unit: str, times: UnitTimes) -> tuple[str | None, ...]:
    """Cells for a unit: ms, spread, slowdown beside each unit and watts, over the groups that it can run."""
    ms = np.array(times.ms)
    known = np.isfinite(ms)
    whole = f"{ms[known].sum():.2f}" + ("" if known.all() else f" ({known.sum()} of {len(ms)} groups)")
    spread = sqrt(sum(value**2 for value in times.half_iqr_ms))  # groups vary independently

    def mean(values: Sequence[float]) -> float:
        return np.average(np.array(values)[known], weights=ms[known]) if ms[known].any() else nan

    beside = [None if unit == other else f"{mean(one.slowdown(unit, other)):.3f}" for other in one.units]
    watts = None if times.power_w is None else f"{mean(times.power_w):.2f}"
    return unit, whole, f"{spread:.2f}", *beside, watts


for command in (layers, tune, board):
    profile.add_command(command)
