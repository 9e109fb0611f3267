"""``pipeall run``: photos through the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from ..errors import ArgumentError, PipeallError
from ..pipeline.boards.board import Board
from ..pipeline.boards.machine import describe
from ..pipeline.pipeline import Pipeline
from ..pipeline.planning.names import component_name, parse_unit
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile
from ..pipeline.planning.rings import MAX_SLOTS
from ..pipeline.stats import Stats
from .classes import Classes
from .images import PRESETS, find_images, preprocessing
from .model import Numbers, load_model, model_argument
from .output import component_text, file_option, json_option, print_json, print_table, progress
from .plans import chosen_plan, plan_options
from .profile import measured_on

THREE = Numbers(float, "0.485,0.456,0.406")


def image_options(command: Callable) -> Callable:
    """How the model wants its pixels: ``images.preprocessing`` takes them."""
    for option in (
        click.option("--std", type=THREE, help="Then they are divided by this."),
        click.option("--mean", type=THREE, help="Then this is subtracted."),
        click.option("--scale", type=float, help="Pixels of 0 to 255 are divided by this first."),
        click.option("--channels", type=click.Choice(["RGB", "BGR"]), help="Order of channels, --mean and --std."),
        click.option("--resize", type=click.IntRange(1), help="Short side before the crop; default 256/224 of SIZE."),
        click.option("--size", type=click.IntRange(1), help="Input side: --input-shape 1,3,SIZE,SIZE."),
        click.option(
            "--preprocess",
            type=click.Choice(list(PRESETS)),
            default="imagenet",
            show_default=True,
            help="How the model wants its pixels; the options after it replace parts.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@model_argument
@click.argument("images", nargs=-1, required=True)
@image_options
@click.option("--labels", metavar="FILE", help="Names of the classes, one a line; a WordNet id before it is dropped.")
@click.option("--first-class", type=int, default=0, help="Outputs before the first class: 1 skips a background class.")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="How many classes to show.")
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
@click.option("--rebalance", metavar="PROFILE", help="Move the plan when a component gets slower than this file says.")
@file_option("--trace", help="Write what every stage did with the latest frames; open it at ui.perfetto.dev.")
@json_option
def run(
    model: str,
    input_shape: tuple[int, ...] | None,
    finer: int | None,
    images: tuple[str, ...],
    preprocess: str,
    size: int | None,
    resize: int | None,
    channels: str | None,
    scale: float | None,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    labels: str | None,
    first_class: int,
    top: int,
    threads: str | None,
    slots: int,
    repeat: int,
    rebalance: str | None,
    trace: str | None,
    as_json: bool,
    **plan_parts: Any,
) -> None:
    """Classify images (files or folders) through the pipeline; show the best classes, throughput and latency.

    After an error, such as a picture that cannot be read, what was classified before it is shown first.
    Without a plan, all real processors of the board get about equal shares of the MACs, whatever their speed.

    \b
    pipeall run squeezenet1.1.onnx photos/ --labels synset_words.txt
    pipeall run net.onnx cat.jpg --preprocess caffe --order G-B-L --cuts 3,5
    pipeall run net.onnx photos/ --plan plan.json --trace trace.json
    """
    files = find_images(images)
    graph = load_model(model, _input_shape(input_shape, size), finer)
    prepare = preprocessing(graph.inputs[0].shape, preprocess, resize, channels, scale, mean, std)
    classes = Classes.of(graph, labels, first_class)
    board = Board.detect()
    plan = chosen_plan(graph, board, **plan_parts)
    limits = _threads(threads, plan)
    profile = Profile.load(rebalance) if rebalance else False
    if profile and not measured_on(profile, board):
        raise ArgumentError(f"--rebalance {rebalance}: expected a profile measured on this machine")
    found: list[list[dict[str, Any]]] = []
    broken: PipeallError | None = None
    with (
        Pipeline(graph, plan, board, slots, limits, trace=trace or False, rebalance=profile) as pipe,
        progress() as bar,
    ):
        frames = (prepare(file) for _ in range(repeat) for file in files)
        begin = time.perf_counter()
        try:
            for output in bar.track(pipe.map(frames), total=repeat * len(files), description=f"{graph.name} on {plan}"):
                if len(found) < len(files):
                    found.append(classes.top(output, top))
        except PipeallError as error:
            if not found:
                raise
            broken = error  # raised below, after what was found
        seconds = time.perf_counter() - begin
        stats = pipe.stats()
    results = [{"image": str(file), "top": best} for file, best in zip(files, found, strict=False)]
    with_decoding = {"seconds": seconds, "fps": stats.frames / seconds}
    if as_json:
        stand_ins = [name for name in plan.components if board.component(name).stand_in]
        plans = [[frame, str(moved)] for frame, moved in pipe.plans]
        about = {"machine": describe(board), "model": model, "plan": str(plan), "plans": plans, "stand_ins": stand_ins}
        failure = {"error": str(broken)} if broken else {}
        print_json("run", **about, images=results, with_decoding=with_decoding, stats=stats.to_dict(), **failure)
    else:
        _show(results, classes.score, with_decoding, stats, pipe.plan, board)
    if broken:
        raise broken


def _input_shape(input_shape: tuple[int, ...] | None, size: int | None) -> tuple[int, ...] | None:
    if size is None:
        return input_shape
    square = (1, 3, size, size)
    if input_shape not in (None, square):
        raise ArgumentError(f"--size {size} means --input-shape {square}, got {input_shape} beside it")
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


def _show(
    results: list[dict[str, Any]],
    score: str,
    with_decoding: dict[str, float],
    stats: Stats,
    plan: Plan,
    board: Board,
) -> None:
    for result in results:
        rows = [(f"{best[score]:.4f}", best["class"], best["label"] or "") for best in result["top"]]
        print_table(result["image"], [f">{score}", ">class", "label"], rows)
    click.echo(
        f"{plan}: {stats.frames} frames in {with_decoding['seconds']:.2f} s, {with_decoding['fps']:.2f} FPS "
        f"with decoding, latency p50 {stats.latency_p50_ms:.1f} ms, "
        f"p95 {stats.latency_p95_ms:.1f} ms, p99 {stats.latency_p99_ms:.1f} ms\n"
    )
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
