"""``pipeall nas``: a network that suits a data set and a board, found by genetic search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from math import isfinite
from multiprocessing import active_children
from pathlib import Path
from time import monotonic
from typing import Any

import click

from ...errors import ArgumentError, PipeallError
from ...graph.onnx.write.write import save_onnx
from ...nas.architecture_search import Search, winner
from ...nas.datasets import DataSet
from ...nas.executors import dask_executor, executor
from ...nas.search.archive import Archive
from ...nas.search.evolve import Generation
from ...nas.spaces.genome import Candidate
from ...nas.training.fitness import baselines
from ...nas.training.score import Score
from ...nas.training.training_loop import device
from ...pipeline.boards.board import Board
from ...pipeline.boards.default_plan import default_plan
from .. import complete
from ..options import Command, board_option, json_option, seed_option
from ..output import print_json, progress
from ..tables import print_text
from . import nas_text
from .nas_options import evolution_options, finish_of, search_of, space_options, target_options, training_options

HISTORY, NETWORKS, MODEL, PLAN, PLOT = "history.jsonl", "networks", "winner.onnx", "plan.json", "search.png"


@click.command(cls=Command)
@click.option(
    "--data",
    "data_name",
    required=True,
    shell_complete=complete.files(".npz", ".csv", ".json", ".txt", ".gz", names=("digits", "digit-boxes")),
    help="digits, digit-boxes, or .npz, .csv, .json, .txt.",
)
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    shell_complete=complete.any_file,
    help="Default nas-DATA. Resumed if it is there.",
)
@board_option
@click.option("--task", type=click.Choice(["classes", "numbers"]), help="Default: classes where all targets are whole.")
@click.option(
    "--workers",
    default="1",
    show_default=True,
    help="Processes, or an executor: mpi4py.futures:MPIPoolExecutor.",
)
@click.option("--dask", metavar="ADDRESS", help="Of a scheduler, whose workers train.")
@click.option("--plot", is_flag=True, help=f"Draw {PLOT}.")
@seed_option
@json_option
@target_options
@space_options
@training_options
@evolution_options
def nas(
    data_name: str, output: str | None, workers: str, dask: str | None, plot: bool, as_json: bool, **options: Any
) -> None:
    """Search for a network that fits a data set and a board.

    \b
    pipeall nas --data digits
    pipeall nas --data cifar10.npz --board rpi5 --min-fps 200
    pipeall nas --data cifar10.npz --space conv --board a311d --prune 0.5

    The folder gets winner.onnx, its plan and all networks. The same command goes on with a search.
    """
    if plot:
        from .nas_plot import draw_search  # before anything is trained in vain
    folder = Path(output or f"nas-{Path(data_name).name.split('.')[0]}")
    search = search_of(data_name, folder / NETWORKS, options)
    _make_folder(folder)
    say = (lambda text: None) if as_json else print_text
    data, finish, begin = search.training.load(), finish_of(search, options), monotonic()
    say(nas_text.samples(search, finish))
    beside = baselines(data)
    say(nas_text.without_search(data, beside))
    archive, generations = _searched(search, folder, workers, dask, finish, say, as_json)
    hours = (monotonic() - begin) / 3600
    if not isfinite(archive.best.score.fitness):
        raise PipeallError(f"nas: none of {len(archive.members)} networks can be trained within the limits")
    say(nas_text.searched(search, hours, device(), finish))
    if finish:
        beside = baselines(search.training.whole())
    best = winner(search.training, archive.best, finish)
    plan = best.placed.choice.plan if options["board"] else default_plan(best.graph, Board.detect(gpu=False))[0]
    board = options["board"] or "this machine"
    front = archive.front if options["pareto"] else []
    command = _command(folder, data)
    with ExitStack() as files:
        if plot:
            files.callback(draw_search, folder / PLOT, search.training, archive, generations, beside)
        files.callback(plan.save, folder / PLAN, best.graph, {"board": board})
        files.callback(save_onnx, best.graph, folder / MODEL)
        if not as_json:
            nas_text.show(search, generations, best, beside, f"{plan}, for {board}", front, command)
            return
        print_json(
            "nas",
            search=search.about(),
            generations=[{"generation": generation.number, **generation.record()} for generation in generations],
            winner={
                "candidate": best.member.candidate.code,
                "connections": best.network.architecture.connections,
                **best.member.score.record(),
            },
            hours={device(): hours},
            accuracy={"judged": best.judged, "tested": best.tested},
            baselines={name: asdict(figures) for name, figures in beside.items()},
            model=str(folder / MODEL),
            plan=str(plan),
            front=[{"candidate": member.candidate.code, **member.score.record()} for member in front],
            run=command,
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = "a file" if isinstance(error, FileExistsError) else error.strerror
        raise ArgumentError(f"{folder}: expected a folder to write into, got {got}") from None


def _searched(
    search: Search,
    folder: Path,
    workers: str,
    dask: str | None,
    finish: int,
    say: Callable[[str], None],
    as_json: bool,
) -> tuple[Archive, list[Generation]]:
    """The search, with a line of a table for every network; for --json with a bar."""
    generations: list[Generation] = []
    with _executor(workers, dask) as pool, progress(quiet=not as_json) as bar:
        task = bar.add_task("networks trained", total=search.candidates)

        def trained(candidate: Candidate, score: Score) -> None:
            bar.advance(task)
            say(table.row(candidate, score))

        archive = search.open(folder / HISTORY, pool, trained)
        table = nas_text.Table(search, archive, finish)
        for line in table.head(folder / HISTORY):
            say(line)
        for generation in search.generations(archive):
            generations.append(generation)
            if nas_text.of_the_paper(search):
                say(nas_text.line(generation))
    return archive, generations


@contextmanager
def _executor(workers: str, dask: str | None) -> Iterator[Executor | None]:
    if workers.isdecimal() and not int(workers):
        raise ArgumentError("--workers: expected at least 1, got 0")
    if dask and workers != "1":
        raise ArgumentError("--dask: expected no --workers beside it; the scheduler's workers train")
    own = executor(int(workers)) if workers.isdecimal() else executor(factory=workers)
    with dask_executor(dask) if dask else own as pool:
        try:
            yield pool
        except KeyboardInterrupt:  # of this process alone, where it is a signal: the others would be waited for
            for child in active_children():
                child.terminate()
            raise


def _command(folder: Path, data: DataSet) -> str | None:
    """How to run the winner; None where it takes no pictures."""
    if not data.pictures:
        return None
    if data.targets == "boxes":  # the winner says what it reads
        return f"pipeall run {folder / MODEL} PICTURES --plan {folder / PLAN}"
    pixels = f"--preprocess plain --resize {min(data.shape[1:])} --scale {data.scale:g}"
    return f"pipeall run {folder / MODEL} PICTURES --plan {folder / PLAN} {pixels}"
