"""The options of ``pipeall nas`` that take several values, and the search that they ask for."""

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
from ...nas.spaces.genome import LEVELS, Hyper, Space
from ...nas.spaces.mobile_space import MobileSpace
from ...nas.spaces.tree_space import TreeSpace
from ...nas.training.augment import TrainingRecipe
from ...nas.training.evaluation import Pruning, Training
from ...nas.training.fitness import Fitness
from ...nas.training.halving import Halving
from ...nas.training.proxies import PROXIES
from ...nas.training.supernet import Supernet
from ...pipeline.boards.board import Board
from ..options import Bytes, KeyValues, Numbers

CYCLES, BUDGET = (1, 2, 4), 30  # so that a search whose size is not given ends in minutes; the paper's are larger
ABOVE_0 = click.FloatRange(min=0, min_open=True, max=float("inf"), max_open=True)
SPACE = KeyValues(
    click.Choice(["conv", "mobile", "tree"]),
    nodes=(Numbers(int, "3/4/4"), "conv: of each stage (3/4/4)"),
    widths=(Numbers(int, "8/16/24/32"), "of stage 1 (8/16/24/32, 16/24/32/48)"),
    kernels=(Numbers(int, "3/5"), "sides of filters (3/5, 3/5/7)"),
    stages=(click.IntRange(1, 6), "mobile: how many (3)"),
    blocks=(click.Choice(["both", "inverted", "residual"]), "mobile: as MobileNet, ResNet or (both)"),
    depth=(click.IntRange(1, 12), "tree: its depth (5)"),
    neurons=(click.IntRange(1), "tree: of a block (33)"),
)
TARGET = KeyValues(
    fps=(ABOVE_0, "slower networks are penalised"),
    weight=(ABOVE_0, "w of F + w (fps / speed - 1) (0.1)"),
    memory=(Bytes(), "of the board (4GB)"),
    min_fps=(ABOVE_0, "slower ones are not trained"),
    max_latency_ms=(ABOVE_0, "a limit too, of a frame"),
    max_energy_mj=(ABOVE_0, "a limit too, of a frame"),
)
TRAINING = KeyValues(
    rates=(Numbers(float, "0.01/0.03/0.1"), "three to learn at (0.0001/0.01/1)"),
    cycles=(Numbers(int, "1/3/5"), "three numbers of passes (1/2/4)"),
    batch=(click.IntRange(1), "samples of a step (32)"),
    crop=(click.IntRange(0), "move by up to so many pixels (0)"),
    flip=(bool, "half of them are mirrored"),
    cutout=(click.IntRange(0), "side of a square of zeros in each (0)"),
    mixup=(click.FloatRange(0), "alpha of mixing two samples (0)"),
    smoothing=(click.FloatRange(0, 1, max_open=True), "of labels (0)"),
    decay=(click.FloatRange(0), "of weights (0)"),
    warm=(str, "mobile: .onnx classifier to begin with"),
    supernet=(click.IntRange(1), "mobile: passes of weights all share"),
    tune=(click.IntRange(0), "passes of each from there on (1)"),
    inherit=(click.IntRange(0), "networks whose weights a child tries (1)"),
    finish=(click.IntRange(0), "more passes for the winner (0)"),
)
SIZES = {
    "conv": ("nodes", "widths", "kernels"),
    "mobile": ("stages", "widths", "kernels", "blocks"),
    "tree": ("depth", "neurons"),
}
EVOLUTION = KeyValues(
    population=(click.IntRange(2), "networks at a time (10)"),
    generations=(click.IntRange(0), "at most (10)"),
    budget=(click.IntRange(1), "networks to train (30)"),
    guided=(click.IntRange(0), "a model's failures in a row (20)"),
    instances=(click.IntRange(1), "of layer-wise competition (10)"),
    crossover=(click.FloatRange(0, 1), "rate for all (its gene)"),
    mutation=(click.FloatRange(0, 1), "rate of a bit (its gene)"),
    sever=(click.FloatRange(0.5, 1), "chance to vanish that drops a bit"),
    threshold=(float, "fitness that ends the search (0)"),
    proxy=(click.Choice(list(PROXIES)), "chooses the first networks"),
    presets=(bool, "mobile: known networks come first"),
    halving=(click.IntRange(2), "the best 1 / N train on (all)"),
    stop=(click.Choice(["generations", "predicted"]), "(generations) or predicted"),
    start=(click.Choice(["edge", "random"]), "hyperparameters: (edge) or random"),
    lam=(str, "lambda of edge, or sweep"),
    fitness=(click.Choice(["corrected", "printed"]), "(corrected) or printed"),
)
PRUNE = KeyValues(
    click.FloatRange(0, 1, max_open=True),
    below=(ABOVE_0, "error at which it begins"),
    reward=(bool, "the pruned share lowers F"),
)


def search_of(data_name: str, networks: Path, options: Mapping[str, Any]) -> Search:
    """The search that the options of the command ask for; ``networks`` keeps what it trains.

    Raises ArgumentError where options contradict each other or the data.
    """
    evolution, trained, prune = options["evolution"], options["training"], options["prune"]
    levels = _levels(trained.get("rates", LEVELS.learning_rate), trained.get("cycles", CYCLES))
    training = Training(
        TreeSpace(),
        data_name,
        str(networks),
        levels=levels,
        fitness=_fitness(evolution.get("fitness", "corrected"), prune),
        pruning=_pruning(prune),
        target=_target(options),
        samples=options["samples"],
        targets=options["task"],
        recipe=_recipe(trained),
        halving=Halving(evolution["halving"]) if "halving" in evolution else None,
        **_some(trained, "inherit"),
    )
    if options["pareto"] and training.halving:
        raise ArgumentError("--evolution halving: expected no --pareto; it compares trainings by their error alone")
    settings = Settings(
        levels=levels,
        selection="pareto" if options["pareto"] else "fitness",
        crossover_rate=evolution.get("crossover"),
        mutation_rate=evolution.get("mutation"),
        **_some(evolution, "population", "generations", "stop", "guided", "sever"),
    )
    about = _some(evolution, "start", "instances", "threshold", "proxy", "presets") | _budget(evolution)
    lam = _lam(evolution.get("lam"))
    data = training.load()
    if training.recipe.of_pictures and not data.pictures:
        raise ArgumentError(f"--training crop, flip, cutout: expected pictures, {data.name} has {data.shape}")
    space = _space(data, options["space"])
    if training.pruning and isinstance(space, MobileSpace):
        raise ArgumentError("--prune: expected --space conv or tree; channels of residual blocks depend on each other")
    for option, given, keys in (("training", trained, ("warm", "supernet")), ("evolution", evolution, ("presets",))):
        for key in keys:
            if key in given and not isinstance(space, MobileSpace):
                raise ArgumentError(f"--{option} {key}: expected --space mobile")
    if (warm := trained.get("warm")) is not None:
        load(warm)  # said at once if it cannot be read, not in the first training
    if "tune" in trained and "supernet" not in trained:
        raise ArgumentError("--training tune: expected supernet beside it")
    supernet = None
    if "supernet" in trained:
        supernet = Supernet(trained["supernet"], seed=options["seed"], **_some(trained, "tune"))
    if supernet:  # its networks do not differ by the genes of training
        settings = replace(settings, evolve_hyper=False)
    training = replace(training, space=space, pretrained=warm, supernet=supernet)
    return Search(training, settings, options["seed"], lam=lam, **about)


def _budget(evolution: Mapping[str, Any]) -> dict[str, Any]:
    """Of who gives no size of the search ``BUDGET``."""
    sized = evolution.keys() & {"population", "generations", "guided", "budget"}
    return _some(evolution, "budget") if sized else {"budget": BUDGET}


def _some(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _target(options: Mapping[str, Any]) -> Target | None:
    board, given = options["board"], options["target"] or {}
    limits = Limits(given.get("min_fps"), given.get("max_latency_ms"), given.get("max_energy_mj"))
    if board is None:
        if given or options["pareto"]:
            raise ArgumentError("--target, --pareto: expected --board beside them")
        return None
    Board.load(board)  # said at once if there is none, not after the first training
    return Target(board, given.get("fps"), given.get("weight", 0.1), given.get("memory", MEMORY_BYTES), limits)


def _pruning(prune: Mapping[str, Any] | None) -> Pruning | None:
    return Pruning(prune["head"], prune.get("below")) if prune and prune["head"] else None


def _fitness(variant: str, prune: Mapping[str, Any] | None) -> Fitness:
    return Fitness(variant=variant, prune_sign=-1 if prune and prune.get("reward") else 1)


def _lam(text: str | None) -> float | str | None:
    try:
        return text if text in (None, "sweep") else float(text)
    except ValueError:
        raise ArgumentError(f"--evolution lam: expected a number or sweep, got {text!r}") from None


def _recipe(trained: Mapping[str, Any]) -> TrainingRecipe:
    return TrainingRecipe(**_some(trained, *(field.name for field in fields(TrainingRecipe))))


def _space(data: DataSet, given: Mapping[str, Any] | None) -> Space:
    given = given or {"head": "conv" if data.pictures else "tree"}
    head, sizes = given["head"], {key: value for key, value in given.items() if key != "head"}
    if other := [key for key in sizes if key not in SIZES[head]]:
        raise ArgumentError(f"--space {head}: expected {', '.join(SIZES[head])}, got {other[0]}")
    if head == "tree":
        return TreeSpace(**sizes)
    if not data.pictures:
        raise ArgumentError(f"--space {head}: expected pictures, {data.name} has samples of shape {data.shape}")
    for key, count in {"widths": 4, **({"kernels": 2} if head == "conv" else {})}.items():
        if key in sizes and len(sizes[key]) != count:
            given = "/".join(map(str, sizes[key]))
            raise ArgumentError(f"--space {head}: {key}: expected {count} numbers with slashes, got {given}")
    if head == "mobile":
        if data.shape[1] != data.shape[2]:
            raise ArgumentError(f"--space mobile: expected square pictures, {data.name} has {data.shape[1:]}")
        return MobileSpace(**sizes, side=data.shape[1])
    space = ConvSpace(**sizes)
    if min(data.shape[1:]) >> (len(space.nodes) - 1) < 1:
        raise ArgumentError(f"--space nodes: expected fewer stages for pictures of {data.shape[1]} x {data.shape[2]}")
    return space


def _levels(rates: tuple[float, ...], cycles: tuple[int, ...]) -> Hyper:
    if len(rates) != 3 or len(cycles) != 3 or min(rates) <= 0 or not isfinite(sum(rates)) or min(cycles) < 1:
        raise ArgumentError("--training rates, cycles: expected three numbers above 0 each")
    return LEVELS._replace(learning_rate=tuple(rates), cycles=tuple(cycles))
