"""The options of ``pipeall nas`` under headings, and the search that they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

import click

from ...errors import ArgumentError
from ...graph.onnx.read.read import load
from ...nas.architecture_search import Search
from ...nas.datasets import DataSet
from ...nas.placement import MEMORY_BYTES, Limits, Target
from ...nas.search.evolve import Settings
from ...nas.spaces.conv_space import ConvSpace
from ...nas.spaces.detector_space import DetectorSpace
from ...nas.spaces.genome import LEVELS, Hyper, Space
from ...nas.spaces.mobile_space import MobileSpace
from ...nas.spaces.modern_space import ModernSpace
from ...nas.spaces.staged_space import StagedSpace
from ...nas.spaces.tree_space import TreeSpace
from ...nas.training.augment import TrainingRecipe
from ...nas.training.evaluation import Pruning, Training
from ...nas.training.fitness import Fitness
from ...nas.training.halving import Halving
from ...nas.training.proxies import PROXIES
from ...nas.training.supernet import Supernet
from ...nas.training.training_loop import BFLOAT16, has_bfloat16
from ...pipeline.boards.board import Board
from ..options import Bytes, Numbers, together, under

# Where nothing is said: a first network is there in seconds, and a search ends in minutes
BUDGET = 30
SAMPLES, FINISH = 2000, 10  # of more samples networks train on the first; the winner then so many passes more on all
BOARD = "rpi5"  # that speed is predicted for
ONE, NONE = click.IntRange(1), click.IntRange(0)  # at least
ABOVE_0 = click.FloatRange(min=0, min_open=True, max=float("inf"), max_open=True)
SHARE = click.FloatRange(0, 1, max_open=True)
SIZES = {  # options of each space
    "conv": ("nodes", "widths", "kernels"),
    "mobile": ("stages", "widths", "kernels", "blocks"),
    "modern": ("stages", "widths", "kernels", "blocks"),
    "tree": ("depth", "neurons", "grow"),
}
STAGED: dict[str, type[StagedSpace]] = {"mobile": MobileSpace, "modern": ModernSpace}
BLOCKS = list(dict.fromkeys(blocks for space in STAGED.values() for blocks in space.FIELDS))
OF_STAGED = ("pretrained", "presets")  # options of these spaces alone
NOT_OF_BOXES = ("crop", "flip", "smoothing", "prune", "supernet", *OF_STAGED)
space_options = under(
    "The space of networks",
    click.option(
        "--space",
        type=click.Choice(list(SIZES)),
        help="Default: modern for square pictures, conv for others; tree.",
    ),
    together(
        "conv: nodes of stages (3,4,4), four widths, filters (3,5).",
        ("--nodes", Numbers(int, "3,4,4")),
        ("--widths", Numbers(int, "8,16,24,32")),
        ("--kernels", Numbers(int, "3,5")),
    ),
    together(
        "mobile, modern: stages (3), kinds of block; also widths, kernels.",
        ("--stages", click.IntRange(1, 6)),
        ("--blocks", click.Choice(BLOCKS)),
    ),
    together(
        "tree: its depth (5), neurons of a block (33); begin with one block.",
        ("--depth", click.IntRange(1, 12)),
        ("--neurons", ONE),
        "--grow",
    ),
)
target_options = under(
    "What a network has to do on --board",
    together(
        "Slower networks get a penalty of this weight (0.1).", ("--target-fps", ABOVE_0), ("--target-weight", ABOVE_0)
    ),
    together(
        "Other networks are not trained.",
        ("--min-fps", ABOVE_0),
        ("--max-latency-ms", ABOVE_0),
        ("--max-energy-mj", ABOVE_0),
    ),
    together("Of the board (4GB); the front of error, speed and memory.", ("--memory", Bytes()), "--pareto"),
)
training_options = under(
    "How a network is trained",
    together(
        "So many samples only (2000); cycles (2,4,8), passes of each (1).",
        ("--samples", click.IntRange(10)),
        ("--cycles", Numbers(int, "1,3,5")),
        ("--epochs", ONE),
    ),
    together(
        "Rates (0.01,0.03,0.1) that stay; samples of a step (32); end.",
        ("--lr", Numbers(float, "0.01,0.03,0.1")),
        "--steady",
        ("--batch", ONE),
        ("--until", ABOVE_0),
    ),
    together("Pictures move by pixels, are mirrored, lose a square.", ("--crop", NONE), "--flip", ("--cutout", NONE)),
    together(
        "Regularization; half numbers.",
        ("--mixup", click.FloatRange(0)),
        ("--label-smoothing", "smoothing", SHARE),
        ("--weight-decay", "decay", click.FloatRange(0)),
        "--bfloat16",
    ),
    together(
        "mobile: begin with an .onnx, with shared weights.",
        ("--pretrained", str),
        ("--supernet", ONE),
        ("--tune", NONE),
    ),
    together(
        "Networks whose weights a child tries (1); more passes for the winner.",
        ("--inherit", NONE),
        ("--finish", NONE),
    ),
    together(
        "Share to remove; below which error; it improves F.",
        ("--prune", SHARE),
        ("--prune-below", ABOVE_0),
        "--prune-reward",
    ),
)
evolution_options = under(
    "How networks are searched",
    together(
        "Networks at a time (10); at most (10); in all (30).",
        ("--population", click.IntRange(2)),
        ("--generations", NONE),
        ("--budget", ONE),
    ),
    together(
        "Proposals that may fail (20); of competition (10); its time.",
        ("--guided", NONE),
        ("--instances", ONE),
        ("--compete", click.Choice(["end", "each"])),
    ),
    together(
        "Rates (default: genes); chance that fixes a bit at 0.",
        ("--crossover", click.FloatRange(0, 1)),
        ("--mutation", click.FloatRange(0, 1)),
        ("--sever", click.FloatRange(0.5, 1)),
    ),
    together(
        f"First networks: by {', '.join(PROXIES)}; known ones (of stages).",
        ("--proxy", click.Choice(list(PROXIES))),
        "--presets",
    ),
    together(
        "The best 1 / N go on; end predicted, at F (0).",
        ("--halving", click.IntRange(2)),
        ("--stop", click.Choice(["generations", "predicted"])),
        ("--threshold", float),
    ),
    together(
        "Edge of chaos (lambda, sweep), random; F; all as printed.",
        ("--start", click.Choice(["edge", "random"])),
        ("--lambda", "lam", str),
        ("--fitness", click.Choice(["corrected", "printed"])),
        "--paper",
    ),
)
DEFAULTS: dict[str, Any] = {"start": "random", "lr": (0.01, 0.03, 0.1), "cycles": (2, 4, 8)}
PAPER: dict[str, Any] = {  # of paper 003: table I, algorithm 1, section III
    "space": "tree", "population": 10, "generations": 10, "guided": 0, "compete": "each", "start": "edge",
    "fitness": "printed", "batch": 1, "steady": True, "lr": LEVELS.learning_rate, "cycles": LEVELS.cycles, "epochs": 10,
    "mutation_levels": (0.0, 0.5, 1.0),
}  # fmt: skip


def search_of(data_name: str, networks: Path, options: Mapping[str, Any]) -> Search:
    """The search that the options of the command ask for; ``networks`` keeps what it trains.

    Raises ArgumentError where options contradict each other or the data.
    """
    options = {name: value for name, value in options.items() if value is not None and value is not False}
    options = (PAPER if "paper" in options else DEFAULTS | ({"start": "edge"} if "lam" in options else {})) | options
    levels = _levels(options)
    training = Training(
        TreeSpace(),
        data_name,
        str(networks),
        levels=levels,
        fitness=Fitness(variant=options.get("fitness", "corrected"), prune_sign=-1 if "prune_reward" in options else 1),
        pruning=Pruning(options["prune"], options.get("prune_below")) if "prune" in options else None,
        target=_target(options),
        samples=options.get("samples"),
        targets=options.get("task"),
        recipe=TrainingRecipe(**_some(options, *(field.name for field in fields(TrainingRecipe)))),
        halving=Halving(options["halving"]) if "halving" in options else None,
        **_some(options, "inherit"),
    )
    if "pareto" in options and training.halving:
        raise ArgumentError("--halving: expected no --pareto; it compares trainings by their error alone")
    settings = Settings(
        levels=levels,
        selection="pareto" if "pareto" in options else "fitness",
        crossover_rate=options.get("crossover"),
        mutation_rate=options.get("mutation"),
        **_some(options, "population", "generations", "stop", "compete", "guided", "sever"),
    )
    about = _some(options, "start", "instances", "threshold", "proxy", "presets") | _budget(options)
    lam = _lam(options.get("lam"))
    if "prune" not in options and (wrong := _some(options, "prune_below", "prune_reward")):
        raise ArgumentError(f"--{next(iter(wrong)).replace('_', '-')}: expected --prune beside it")
    data = training.load()
    if len(data.train) > SAMPLES and not options.keys() & {"samples", "paper"}:
        training = replace(training, samples=SAMPLES)
    if training.recipe.of_pictures and not data.pictures:
        raise ArgumentError(f"--crop, --flip, --cutout: expected pictures, {data.name} has {data.shape}")
    space = _space(data, options)
    if data.targets == "boxes" and (wrong := _some(options, *NOT_OF_BOXES)):
        option = {"smoothing": "label-smoothing"}.get(first := next(iter(wrong)), first)
        raise ArgumentError(f"--{option}: expected classes or numbers, {data.name} has boxes")
    _check_training(options, space)
    if "pretrained" in options:
        load(options["pretrained"])  # reported at once if it cannot be read, not in the first training
    supernet = None
    if "supernet" in options:
        supernet = Supernet(options["supernet"], seed=options["seed"], **_some(options, "tune"))
    if supernet:  # its networks do not differ by the genes of training
        settings = replace(settings, evolve_hyper=False)
    training = replace(training, space=space, pretrained=options.get("pretrained"), supernet=supernet)
    return Search(training, settings, options["seed"], lam=lam, **about)


def _check_training(options: Mapping[str, Any], space: Space) -> None:
    """Raises ArgumentError where the options of trainings do not suit the space, each other or this machine."""
    staged = isinstance(space, StagedSpace)
    if "prune" in options and staged:
        raise ArgumentError("--prune: expected --space conv or tree; channels of residual blocks depend on each other")
    for name in OF_STAGED:
        if name in options and not staged:
            raise ArgumentError(f"--{name}: expected --space {' or '.join(STAGED)}")
    if "supernet" in options and not isinstance(space, MobileSpace):
        raise ArgumentError("--supernet: expected --space mobile")
    if "tune" in options and "supernet" not in options:
        raise ArgumentError("--tune: expected --supernet beside it")
    if "bfloat16" in options and not has_bfloat16():
        raise ArgumentError(f"--bfloat16: expected a CPU that has {' or '.join(sorted(BFLOAT16))}, or a GPU")


def _budget(options: Mapping[str, Any]) -> dict[str, Any]:
    """``BUDGET`` where nothing else limits the size of the search."""
    sized = options.keys() & {"population", "generations", "guided", "budget"}
    return _some(options, "budget") if sized else {"budget": BUDGET}


def _some(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def finish_of(search: Search, options: Mapping[str, Any]) -> int:
    """Passes more for the winner: ``FINISH`` where nothing is said and the search has not all samples."""
    given = options["finish"]
    return given if given is not None else FINISH if search.training.samples and options["samples"] is None else 0


def _target(options: Mapping[str, Any]) -> Target | None:
    asked = ("target_fps", "target_weight", "memory", "min_fps", "max_latency_ms", "max_energy_mj", "pareto")
    if "board" not in options:
        if wrong := _some(options, *asked):
            raise ArgumentError(f"--{next(iter(wrong)).replace('_', '-')}: expected --board beside it")
        return None if "paper" in options else Target(BOARD)
    limits = Limits(*(options.get(name) for name in ("min_fps", "max_latency_ms", "max_energy_mj")))
    Board.load(options["board"])  # reported at once if there is none, not after the first training
    weight, memory = options.get("target_weight", 0.1), options.get("memory", MEMORY_BYTES)
    return Target(options["board"], options.get("target_fps"), weight, memory, limits)


def _lam(text: str | None) -> float | str | None:
    try:
        return text if text in (None, "sweep") else float(text)
    except ValueError:
        raise ArgumentError(f"--lambda: expected a number or sweep, got {text!r}") from None


def _space(data: DataSet, options: Mapping[str, Any]) -> Space:
    boxes = data.targets == "boxes"
    square = data.pictures and data.shape[1] == data.shape[2]
    head = options.get("space", "modern" if boxes or square else "conv" if data.pictures else "tree")
    if boxes and head not in STAGED:
        raise ArgumentError(f"--space {head}: expected {' or '.join(STAGED)}, {data.name} has boxes")
    sizes = _some(options, *dict.fromkeys(sum(SIZES.values(), ())))
    if other := [key for key in sizes if key not in SIZES[head]]:
        raise ArgumentError(f"--space {head}: expected {', '.join(SIZES[head])}, got {other[0]}")
    if head == "tree":
        return TreeSpace(**sizes)
    if not data.pictures:
        raise ArgumentError(f"--space {head}: expected pictures, {data.name} has samples of shape {data.shape}")
    for key, count in {"widths": 4, **({"kernels": 2} if head == "conv" else {})}.items():
        if key in sizes and len(sizes[key]) != count:
            raise ArgumentError(f"--{key}: expected {count} numbers, got {','.join(map(str, sizes[key]))}")
    if head in STAGED:
        if not square:
            raise ArgumentError(f"--space {head}: expected square pictures, {data.name} has {data.shape[1:]}")
        staged = STAGED[head](**sizes, side=data.shape[1])
        return DetectorSpace(staged) if boxes else staged
    space = ConvSpace(**sizes)
    if min(data.shape[1:]) >> (len(space.nodes) - 1) < 1:
        raise ArgumentError(f"--nodes: expected fewer stages for pictures of {data.shape[1]} x {data.shape[2]}")
    return space


def _levels(options: Mapping[str, Any]) -> Hyper:
    rates, cycles = options["lr"], options["cycles"]
    if len(rates) != 3 or len(cycles) != 3 or min(rates) <= 0 or not isfinite(sum(rates)) or min(cycles) < 1:
        raise ArgumentError("--lr, --cycles: expected three numbers above 0 each")
    passes = tuple(options.get("epochs", 1) * count for count in cycles)
    mutation = options.get("mutation_levels", LEVELS.mutation_rate)
    return LEVELS._replace(learning_rate=tuple(rates), cycles=passes, mutation_rate=mutation)
