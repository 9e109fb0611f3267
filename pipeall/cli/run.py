"""``pipeall run``: photos through the pipeline."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from ..errors import ArgumentError, PipeallError
from ..graph.onnx.shapes import Shapes
from ..pipeline.boards.board import Board
from ..pipeline.boards.kept import measured_on
from ..pipeline.boards.machine import describe
from ..pipeline.pipeline import Pipeline
from ..pipeline.planning.names import component_name, parse_unit
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile
from ..pipeline.planning.rings import MAX_SLOTS
from ..pipeline.stats import Stats
from . import complete
from .classes import Classes
from .images import PRESETS, Preprocess, find_images, preprocessing
from .model import load_model
from .options import KeyValues, Numbers, file_option, json_option, model_argument, model_options
from .output import component_text, print_json, progress
from .plans import chosen_plan, plan_options
from .tables import print_table, print_text

THREE = Numbers(float, "0.485/0.456/0.406")
PREPROCESS = KeyValues(
    click.Choice(list(PRESETS)),
    size=(click.IntRange(1), "side of the input"),
    resize=(click.IntRange(1), "short side before the crop (8/7 of size)"),
    channels=(click.Choice(["RGB", "BGR"]), "RGB or BGR; mean and std are in it too"),
    scale=(float, "0 to 255 are divided by this"),
    mean=(THREE, "then this is subtracted"),
    std=(THREE, "then they are divided by this"),
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What the pipeline did: the best classes of each image, times, its last plan and all, and what ended it early."""

    found: list[list[dict[str, Any]]]
    with_decoding: dict[str, float]
    stats: Stats
    plan: Plan
    plans: list[tuple[int, Plan]]
    broken: PipeallError | None


@click.command()
@model_argument
@click.argument("images", nargs=-1, required=True, shell_complete=complete.any_file)
@click.option(
    "--labels",
    metavar="FILE",
    shell_complete=complete.any_file,
    help="Names of the classes, one a line; a WordNet id before a name is dropped.",
)
@PREPROCESS.option(
    "--preprocess",
    default="imagenet",
    help=f"How the model wants its pixels: imagenet (the default), {', '.join(list(PRESETS)[1:])}; keys replace parts, "
    "such as caffe:resize=256,mean=104/117/123.",
)
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="How many classes to show.")
@click.option("--first-class", type=int, default=0, help="Outputs before the first class: 1 skips a background class.")
@plan_options
@click.option("--threads", metavar="COUNTS", help="Cores of a CPU component, such as big=2,little=1; default all.")
@click.option(
    "--slots",
    type=click.IntRange(1, MAX_SLOTS),
    default=2,
    show_default=True,
    help="Frames each hand-over can hold.",
)
@click.option("--repeat", type=click.IntRange(1), default=1, help="Run the images so many times, decoding included.")
@click.option(
    "--rebalance",
    metavar="PROFILE",
    shell_complete=complete.files(".json"),
    help="Move the plan when a component gets slower than this file says.",
)
@file_option("--trace", help="Write what every stage did with the latest frames; open it at ui.perfetto.dev.")
@model_options
@json_option
def run(
    model: str,
    images: tuple[str, ...],
    labels: str | None,
    preprocess: dict[str, Any],
    top: int,
    first_class: int,
    threads: str | None,
    slots: int,
    repeat: int,
    rebalance: str | None,
    trace: str | None,
    input_shape: Shapes | None,
    finer: int | None,
    as_json: bool,
    **plan_parts: Any,
) -> None:
    """Classify pictures through the pipeline.

    \b
    pipeall run squeezenet1.1.onnx photos/ --labels synset_words.txt
    pipeall run net.onnx cat.jpg --preprocess caffe --order G-B-L --cuts 3,5
    pipeall run net.onnx photos/ --plan plan.json --trace trace.json

    IMAGES are files or folders. Shows the best classes, throughput and latency. After an error, such as a picture that
    cannot be read, what was classified before it is shown first. Without a plan, the
    best by the network's profile runs where pipeall profile has measured one here; else all real processors of the
    board get about equal shares of the MACs, whatever their speed.
    """
    files = find_images(images)
    preset, size = preprocess.pop("head"), preprocess.pop("size", None)
    graph = load_model(model, _input_shape(input_shape, size), finer)
    prepare = preprocessing(graph.inputs[0].shape, preset, **preprocess)
    classes = Classes.of(graph, labels, first_class)
    board = Board.detect()
    plan = chosen_plan(graph, board, **plan_parts)
    limits = _threads(threads, plan)
    profile = Profile.load(rebalance) if rebalance else False
    if profile and not measured_on(profile, board):
        raise ArgumentError(f"--rebalance {rebalance}: expected a profile measured on this machine")
    pipe = Pipeline(graph, plan, board, slots, limits, trace=trace or False, rebalance=profile)
    done = _run(pipe, graph.name, files, repeat, prepare, classes, top)
    results = [{"image": str(file), "top": best} for file, best in zip(files, done.found, strict=False)]
    if as_json:
        _print(model, plan, board, results, done)
    else:
        _show(results, classes.score, done, board)
    if done.broken:
        raise done.broken


def _run(
    pipe: Pipeline, name: str, files: list[Path], repeat: int, prepare: Preprocess, classes: Classes, top: int
) -> Ran:
    """Runs the files and closes the pipeline. An error after the first result is kept, with what came before it."""
    found: list[list[dict[str, Any]]] = []
    broken: PipeallError | None = None
    with pipe, progress() as bar:
        frames = (prepare(file) for _ in range(repeat) for file in files)
        description = f"{name} on {pipe.plan}"
        begin = time.perf_counter()
        try:
            for output in bar.track(pipe.map(frames), total=repeat * len(files), description=description):
                if len(found) < len(files):
                    found.append(classes.top(output, top))
        except PipeallError as error:
            if not found:
                raise
            broken = error
        seconds = time.perf_counter() - begin
        stats = pipe.stats()
    return Ran(found, {"seconds": seconds, "fps": stats.frames / seconds}, stats, pipe.plan, list(pipe.plans), broken)


def _input_shape(input_shape: Shapes | None, size: int | None) -> Shapes | None:
    if size is None:
        return input_shape
    square = (1, 3, size, size)
    if input_shape not in (None, square):
        raise ArgumentError(f"--preprocess size={size} means --input-shape {square}, got {input_shape} beside it")
    return square


def _threads(text: str | None, plan: Plan) -> dict[str, int]:
    """ "big=2,L=1" as component name -> cores."""
    counts = {}
    for word in text.split(",") if text is not None else ():
        name, _, count = word.partition("=")
        if not count.isdecimal():
            raise ArgumentError(f"--threads: expected counts such as big=2,little=1, got {text!r}")
        name = component_name(name)
        if name not in plan.components:
            raise ArgumentError(f"--threads: expected components of the plan {plan}, got {name}")
        if name in counts:
            raise ArgumentError(f"--threads: expected each component once, got {name} twice")
        counts[name] = int(count)
    return counts


def _print(model: str, plan: Plan, board: Board, results: list[dict[str, Any]], done: Ran) -> None:
    about = {
        "machine": describe(board),
        "model": model,
        "plan": str(plan),
        "plans": [[frame, str(moved)] for frame, moved in done.plans],
        "stand_ins": [name for name in plan.components if board.component(name).stand_in],
    }
    failure = {"error": str(done.broken)} if done.broken else {}
    figures = {"with_decoding": done.with_decoding, "stats": done.stats.to_dict()}
    print_json("run", **about, images=results, **figures, **failure)


def _show(results: list[dict[str, Any]], score: str, done: Ran, board: Board) -> None:
    stats, with_decoding = done.stats, done.with_decoding
    for result in results:
        rows = [(f"{best[score]:.4f}", best["class"], best["label"] or "") for best in result["top"]]
        print_table(result["image"], [f">{score}", ">class", "label"], rows)
    print_text(
        f"{done.plan}: {stats.frames} frames in {with_decoding['seconds']:.2f} s, {with_decoding['fps']:.2f} FPS "
        f"with decoding, latency p50 {stats.latency_p50_ms:.1f} ms, "
        f"p95 {stats.latency_p95_ms:.1f} ms, p99 {stats.latency_p99_ms:.1f} ms"
    )
    print_text()
    rows = [
        (
            component_text(replace(board.component(parse_unit(stage.unit)[0]), name=stage.unit)),
            f"{stage.groups[0] + 1} to {stage.groups[1]}",
            *(f"{ms:.2f}" for ms in (stage.busy_ms, stage.wait_in_ms, stage.wait_out_ms, stage.map_ms, stage.copy_ms)),
            f"{100 * stage.use:.0f}",
        )
        for stage in stats.stages
    ]
    headings = ["component", "groups", ">busy", ">wait in", ">wait out", ">map", ">copy", ">use %"]
    print_table("Stages: mean ms a frame", headings, rows)
