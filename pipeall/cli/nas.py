"""``pipeall nas``: a network that suits a data set and a board, found by genetic search."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import click

from ..errors import ArgumentError
from ..files import write_whole
from ..graph.onnx.write import onnx_bytes
from ..nas.data import DataSet
from ..nas.evaluate import Pruning, Training
from ..nas.evolve import Generation, Settings
from ..nas.fitness import Fitness, printed_score
from ..nas.genome import LEVELS, Hyper, Space
from ..nas.placement import MEMORY_BYTES, Target
from ..nas.search import Search, Winner, executor, winner
from ..nas.stages import StageSpace
from ..nas.tree import TreeSpace
from ..pipeline.boards.board import Board
from .model import Numbers
from .output import Bytes, json_option, positive_option, print_json, print_table, progress
from .plans import default_plan

HISTORY, NETWORKS, MODEL, PLAN, PLOT = "history.jsonl", "networks", "winner.onnx", "plan.json", "search.png"
THREE_RATES, THREE_CYCLES = Numbers(float, "0.01,0.03,0.1"), Numbers(int, "1,3,5")


@click.command()
@click.option("--data", "data_name", required=True, help="digits, or a .npz, .csv, .json or .txt file (.gz too).")
@click.option("--task", type=click.Choice(["classes", "numbers"]), help="Default: classes where all targets are whole.")
@click.option("--samples", type=click.IntRange(10), help="Train candidates on so many only.")
@click.option(
    "-o", "--output", metavar="FOLDER", help="For history and winner; default nas-DATA. Resumed if it is there."
)
@click.option("--space", type=click.Choice(["conv", "tree"]), help="Default: conv for pictures, else a tree of blocks.")
@click.option("--depth", type=click.IntRange(1, 12), default=5, show_default=True, help="Of the tree.")
@click.option("--units", type=click.IntRange(1), default=33, show_default=True, help="Of a block of the tree.")
@click.option("--nodes", type=Numbers(int, "3,4,4"), default="3,4,4", show_default=True, help="Of each stage of conv.")
@click.option("--widths", type=Numbers(int, "8,16,24,32"), default="8,16,24,32", show_default=True, help="Of stage 1.")
@click.option("--kernels", type=Numbers(int, "3,5"), default="3,5", show_default=True, help="Two sides of filters.")
@click.option("--board", help="Predict speed on it: a311d, rk3399pro, or a file of profile --save-board.")
@positive_option("--target-fps", help="With --board: slower networks are penalised.")
@positive_option("--speed-weight", help="Of that penalty: F + w (target / fps - 1).", default=0.1)
@click.option("--memory", type=Bytes(), default=f"{MEMORY_BYTES // 10**9}GB", show_default=True, help="Of the board.")
@click.option("--pareto", is_flag=True, help="With --board: the front of error, speed and memory (NSGA-II).")
@click.option(
    "--prune", type=click.FloatRange(0, 1, max_open=True), help="Fraction of the weights, such as 0.5 or 0.7."
)
@positive_option("--prune-below", help="The error at which pruning begins; default 3/4 of a constant guess's.")
@click.option("--fitness", type=click.Choice(["corrected", "printed"]), default="corrected", show_default=True)
@click.option("--reward-pruning", is_flag=True, help="The pruned fraction lowers F; printed is that it raises it.")
@click.option(
    "--start", type=click.Choice(["edge", "random"]), default="edge", show_default=True, help="Hyperparameters."
)
@click.option("--lam", help="Langton's lambda of the start, or sweep; default 0.881 of pictures, else 0.786.")
@click.option("--rates", type=THREE_RATES, help="Three learning rates; default 0.0001,0.01,1 (table I).")
@click.option("--cycles", type=THREE_CYCLES, help="Three numbers of passes over the samples; default 5,15,49.")
@click.option("--batch", type=click.IntRange(1), default=32, show_default=True, help="Samples of a training step.")
@click.option("--population", type=click.IntRange(2), default=10, show_default=True)
@click.option("--generations", type=click.IntRange(0), default=10, show_default=True)
@click.option("--stop", type=click.Choice(["generations", "predicted"]), default="generations", show_default=True)
@click.option(
    "--guided",
    type=click.IntRange(0),
    default=Settings.guided,
    show_default=True,
    help="A model proposes networks, until so many were no better.",
)
@click.option("--instances", type=click.IntRange(1), default=10, show_default=True, help="Of layer-wise competition.")
@click.option("--threshold", type=float, default=0.0, show_default=True, help="The search ends below this fitness.")
@click.option("--budget", type=click.IntRange(1), help="Networks to train at most; new starts until it is spent.")
@click.option(
    "--finish", type=click.IntRange(0), default=0, help="Passes over all samples that the winner gets on top."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes; changes no result.")
@click.option("--executor", "factory", help="In their place, such as mpi4py.futures:MPIPoolExecutor.")
@click.option("--plot", is_flag=True, help=f"Draw {PLOT}: generations, deviations, speed against error.")
@json_option
def nas(
    data_name: str, output: str | None, workers: int, factory: str | None, plot: bool, as_json: bool, **options: Any
) -> None:
    """Search for a network that fits a data set and a board: genetic search, pruning, layer-wise competition.

    The folder gets winner.onnx, a plan for it, history.jsonl and every trained network. The same command goes on with
    an interrupted search, to the same end.

    \b
    pipeall nas --data digits --cycles 1,3,5 --rates 0.01,0.03,0.1
    pipeall nas --data cifar10.npz --board a311d --target-fps 200 --prune 0.5 --samples 2000
    pipeall nas --data reviews.json.gz --start edge --lam sweep --workers 4
    mpirun -n 8 python -m mpi4py.futures -m pipeall nas --data digits --executor mpi4py.futures:MPIPoolExecutor
    """
    folder = Path(output or f"nas-{Path(data_name).name.split('.')[0]}")
    search = _search(data_name, folder, options)
    data = search.training.load()
    folder.mkdir(parents=True, exist_ok=True)
    said: list[Generation] = []
    with executor(workers, factory) as pool, progress() as bar:
        task = bar.add_task("generations", total=search.settings.generations + 1)
        archive = search.open(folder / HISTORY, pool)
        with archive.history:
            for generation in search.generations(archive):
                said.append(generation)
                bar.advance(task)
                if not as_json:
                    click.echo(_line(generation))
    found = winner(search.training, archive.best, options["finish"])
    content = onnx_bytes(found.graph)
    write_whole(folder / MODEL, lambda file: file.write(content))
    plan = found.placed.choice.plan if found.placed else default_plan(found.graph, Board.detect(gpu=False))
    plan.save(folder / PLAN, found.graph, {"board": options["board"] or "this machine"})
    if plot:
        from .plot_nas import draw_search

        draw_search(folder / PLOT, search.training, archive, said)
    front = archive.front if options["pareto"] else []
    if as_json:
        print_json(
            "nas",
            search=search.about(),
            generations=[{"generation": generation.number, **generation.record()} for generation in said],
            winner={"candidate": found.member.candidate.code, **found.member.score.record()},
            accuracy={"judged": found.judged, "tested": found.tested},
            model=str(folder / MODEL),
            plan=str(plan),
            front=[{"candidate": member.candidate.code, **member.score.record()} for member in front],
            run=_command(folder, data),
        )
        return
    click.echo(_observed(said, found.member.score.fitness))
    _show(found, str(plan), data)
    if front:
        rows = [
            (m.candidate.code, f"{m.score.error:.4f}", f"{m.score.fps:.1f}", f"{m.score.memory_bytes:,}") for m in front
        ]
        print_table("Pareto front", ["candidate", ">error", ">FPS", ">bytes"], rows)
    if command := _command(folder, data):
        click.echo(command)


def _search(data_name: str, folder: Path, options: dict[str, Any]) -> Search:
    board = options["board"]
    if board is None and (options["target_fps"] or options["pareto"]):
        raise ArgumentError("--target-fps, --pareto: expected --board beside them")
    if board is not None:
        Board.load(board)  # said at once if there is none, not after the first training
    if options["prune"] is None and (options["prune_below"] or options["reward_pruning"]):
        raise ArgumentError("--prune-below, --reward-pruning: expected --prune beside them")
    lam = options["lam"]
    try:
        lam = lam if lam in (None, "sweep") else float(lam)
    except ValueError:
        raise ArgumentError(f"--lam: expected a number or sweep, got {lam!r}") from None
    levels = _levels(options["rates"], options["cycles"])
    target = board and Target(board, options["target_fps"], options["speed_weight"], options["memory"])
    pruning = options["prune"] and Pruning(options["prune"], options["prune_below"])
    fitness = Fitness(variant=options["fitness"], prune_sign=-1 if options["reward_pruning"] else 1)
    given = {key: options[key] for key in ("samples", "task", "batch")}
    training = Training(
        TreeSpace(),
        data_name,
        str(folder / NETWORKS),
        levels=levels,
        fitness=fitness,
        pruning=pruning or None,
        target=target or None,
        **given,
    )
    settings = Settings(
        options["population"],
        options["generations"],
        selection="pareto" if options["pareto"] else "fitness",
        stop=options["stop"],
        guided=options["guided"],
        levels=levels,
    )
    about = {key: options[key] for key in ("seed", "start", "instances", "threshold", "budget")}
    return Search(replace(training, space=_space(training.load(), options)), settings, lam=lam, **about)


def _space(data: DataSet, options: dict[str, Any]) -> Space:
    if (options["space"] or ("conv" if data.pictures else "tree")) == "tree":
        return TreeSpace(options["depth"], options["units"])
    if not data.pictures:
        raise ArgumentError(f"--space conv: expected pictures, {data.name} has samples of shape {data.shape}")
    if len(options["widths"]) != 4 or len(options["kernels"]) != 2:
        raise ArgumentError("--widths, --kernels: expected four and two numbers")
    if min(data.shape[1:]) >> (len(options["nodes"]) - 1) < 1:
        raise ArgumentError(f"--nodes: expected fewer stages for pictures of {data.shape[1]} x {data.shape[2]}")
    return StageSpace(options["nodes"], options["widths"], options["kernels"])


def _levels(rates: tuple[float, ...] | None, cycles: tuple[int, ...] | None) -> Hyper:
    rates, cycles = rates or LEVELS.learning_rate, cycles or LEVELS.cycles
    if len(rates) != 3 or len(cycles) != 3 or min(rates) <= 0 or not isfinite(sum(rates)) or min(cycles) < 1:
        raise ArgumentError("--rates, --cycles: expected three numbers above 0 each")
    return LEVELS._replace(learning_rate=tuple(rates), cycles=tuple(cycles))


def _line(generation: Generation) -> str:
    best = generation.best.score
    speed = "" if best.fps is None else f", {best.fps:.0f} FPS"
    spread = ""
    if generation.phase == "evolution":
        spread = f", mean {generation.mean:.4f}, diversity {generation.diversity:.2f}, end by {generation.predicted.by}"
    return (
        f"{generation.phase} {generation.number}: F {best.fitness:.4f} (error {best.error:.4f}, "
        f"{best.weights:,} weights{speed}){spread}; {generation.evaluations} trained"
    )


def _observed(said: list[Generation], least: float) -> str:
    """The Markov chain's prediction from the first generation beside what happened; ``least``: the winner's fitness."""
    evolved = [generation for generation in said if generation.phase == "evolution"]
    first, last = evolved[0], evolved[-1]
    found = next(
        (generation.number for generation in said if generation.best.score.fitness == least), "the last, cut off"
    )
    fixed = next((g.number for g in evolved if g.diversity == 0), None)
    ended = (
        f"all bits fixed in {fixed}" if fixed is not None else f"diversity {last.diversity:.2f} left in {last.number}"
    )
    return (
        f"generations until selection and drift fix every bit: predicted {first.predicted.expected:.1f}, 95 % by "
        f"{first.predicted.by}; observed: {ended}, winner found in {found}"
    )


def _show(found: Winner, plan: str, data: DataSet) -> None:
    score, what = found.member.score, "accuracy" if data.task == "classes" else "R2"
    rows = [
        ("candidate", found.member.candidate.code),
        ("fitness, error", f"{score.fitness:.4f}, {score.error:.4f}"),
        ("score 100 (1 - F), as table II", f"{printed_score(score.fitness):.2f}"),
        (f"{what} judged, tested", f"{100 * found.judged:.2f} %, {100 * found.tested:.2f} %"),
        ("weights, pruned", f"{found.network.parameters:,}, {100 * score.pruned:.0f} %"),
        ("plan", plan),
    ]
    if found.placed:
        prediction = found.placed.choice.prediction
        rows.append(
            ("predicted", f"{prediction.fps:.1f} FPS, {prediction.latency_ms:.2f} ms, {score.memory_bytes:,} bytes")
        )
    print_table("Winner", ["", ">"], rows)


def _command(folder: Path, data: DataSet) -> str | None:
    """How to run the winner; None where it takes no pictures."""
    if not data.pictures:
        return None
    side = min(data.shape[1:])
    shape = f"--resize {side} --scale {data.scale:g}"
    return f"pipeall run {folder / MODEL} PICTURES --plan {folder / PLAN} --preprocess plain {shape}"
