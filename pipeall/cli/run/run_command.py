"""``pipeall run``: photos, videos and cameras through the pipeline."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...errors import ArgumentError
from ...files import same_file
from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...media import camera, sources
from ...media.draw import Drawing
from ...pipeline.boards.board import Board
from ...pipeline.boards.machine import describe
from ...pipeline.boards.profile_cache import measured_on
from ...pipeline.lease import CORES, board_for
from ...pipeline.live import DROPS
from ...pipeline.measuring.peak_memory import peak_memory
from ...pipeline.pipeline import Pipeline
from ...pipeline.planning.operating_points import Clocks, clocks_text
from ...pipeline.planning.plan import Plan
from ...pipeline.planning.profile import Profile
from ...pipeline.planning.rings import MAX_SLOTS
from .. import complete
from ..model_argument import ZOO, Finer
from ..options import (
    Command,
    Written,
    cores_option,
    file_option,
    given,
    json_option,
    model_argument,
    model_options,
    together,
    under,
)
from ..output import print_json_line, tell
from ..picture_options import TASK, picture_options, pixels_given, read_model, task_options
from ..plans import chosen_plan, plan_option
from ..tables import print_text
from .run_loop import Choice, HandOn, Ran, run_frames
from .run_text import Shown, print_figures, print_line

if TYPE_CHECKING:
    from .live_page import LivePage


@click.command(cls=Command)
@model_argument
@click.argument("words", metavar="SOURCE...", nargs=-1, required=True, shell_complete=complete.any_file)
@under(
    "Sources and what is written",
    together("Also folders in folders; stop at a picture that cannot be read.", "--recursive", "--strict"),
    click.option(
        "--drop",
        type=click.Choice(DROPS),
        help="Where a source is faster: by default oldest for cameras, none for files.",
    ),
    click.option("--repeat", type=click.IntRange(1), default=1, help="Run files so many times, decoding included."),
    click.option(
        "--draw",
        cls=Written,
        metavar="DIR|FILE.mp4",
        shell_complete=complete.any_file,
        help="Write the pictures with what is seen drawn in.",
    ),
    click.option(
        "--view",
        metavar="[HOST:]PORT",
        help="Serve a live page here; with HOST, to the network behind a token.",
    ),
)
@task_options
@picture_options
@under(
    "The pipeline",
    plan_option("peak, parallel, G-B-L (equal MACs), G-B-L:3,5, Bx2-L:3 or a .json."),
    cores_option(*CORES),
    click.option("--slots", type=click.IntRange(1, MAX_SLOTS), default=2, show_default=True, help="Per hand-over."),
    click.option(
        "--rebalance",
        metavar="PROFILE",
        shell_complete=complete.files(".json"),
        help="Move the plan when a component gets slower than this profile.",
    ),
    file_option("--trace", help="Write what every stage did, for ui.perfetto.dev."),
    together("Meanwhile: the plan's clocks; real-time priority and locked memory.", "--apply", "--realtime"),
)
@model_options
@json_option
def run(
    model: str,
    words: tuple[str, ...],
    recursive: bool,
    strict: bool,
    drop: str | None,
    draw: str | None,
    view: str | None,
    repeat: int,
    plan: str | None,
    cores: str,
    slots: int,
    rebalance: str | None,
    trace: str | None,
    apply: bool,
    realtime: bool,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
    **reading: Any,
) -> None:
    """See what is in pictures, videos or a camera.

    \b
    pipeall run yolox_nano.onnx camera:0 --view 8080
    pipeall run yolox_nano.onnx street.mp4 --draw seen.mp4 --threshold 0.4
    pipeall run squeezenet1.1.onnx photos/ --labels synset_words.txt
    pipeall run net.onnx cat.jpg --preprocess caffe --plan G-B-L:3,5

    A SOURCE is a photo, folder, video, rtsp://... or camera:0:1280x720 (camera: lists them). The default plan is the
    fastest by profile, or of equal MACs. SIGHUP reads model and plan again.
    """
    if sources.CAMERAS in words:
        return _list_cameras()
    inputs = sources.find(words, recursive)
    _check_apart(trace, [model, *(source.name for source in inputs)])
    pixels, board = pixels_given(reading), board_for(Board.detect(), cores)
    drop = drop or ("oldest" if any(source.kind == "live" for source in inputs) else "none")
    frames = sources.Frames(inputs, repeat, None if strict else tell, paced=drop == "oldest")

    def chosen() -> Choice:
        graph, read = read_model(model, input_shape, finer, given(reading, TASK), pixels)
        return Choice(graph, read, chosen_plan(graph, board, plan, frames.total, copies=not rebalance))

    graph, read, first = chosen()
    with ExitStack() as open_files:
        open_files.enter_context(_clocks(board, first, apply))
        outputs: list[HandOn] = [open_files.enter_context(Drawing(draw, inputs))] if draw else []
        page = open_files.enter_context(_page(view)) if view else None
        options = {"slots": slots, "trace": trace or False, "realtime": realtime, "cores": cores}
        pipe = _pipeline(graph, first, board, rebalance, frames, input=read.fed(frames.layout), **options)
        if page is not None:
            page.pipe = pipe
            outputs.append(page)
        show = print_line if as_json else Shown()
        again = partial(_same_clocks, chosen, first.clocks) if apply else chosen
        ran = run_frames(pipe, frames, drop, read, show, outputs, again, quiet=sys.stdout.isatty())
        if model in ZOO and not as_json:
            print_text(f"{model} of the zoo has random weights: what it sees means nothing, its speed does.")
        about = _about(model, first, board, ran) | {"memory": peak_memory(graph, ran.plan, board, slots)}
        _end(ran, board, about, as_json)  # before a full disk may refuse files


def _list_cameras() -> None:
    for line in camera.table():
        print_text(line)


def _page(text: str) -> LivePage:
    from .live_page import LivePage  # and with it an HTTP server, which few runs have

    return LivePage(text)


def _check_apart(trace: str | None, read: list[str]) -> None:
    if trace and (source := same_file(trace, read)):
        raise ArgumentError(f"--trace {trace}: expected another place than that of the source {source}")


def _clocks(board: Board, plan: Plan, apply: bool) -> AbstractContextManager[None]:
    """What sets the plan's clocks; without ``apply`` it says that they are not set.

    Raises ArgumentError where there are none to apply.
    """
    if apply and not plan.clocks:
        raise ArgumentError(f"--apply: expected a plan with clocks, as search --clocks writes, got {plan}")
    if plan.clocks and not apply:
        warnings.warn(f"the plan is for {clocks_text(plan.clocks)}; --apply sets them", RuntimeWarning, 2)
    return board.at_clocks(dict(plan.clocks) if apply else {})


def _same_clocks(chosen: Callable[[], Choice], clocks: Clocks) -> Choice:
    """What is chosen, which has to want the clocks that are set."""
    choice = chosen()
    if choice.plan.clocks != clocks:
        raise ArgumentError(f"plan {choice.plan}: expected one for the clocks that are set, {clocks_text(clocks)}")
    return choice


def _pipeline(
    graph: Graph, plan: Plan, board: Board, rebalance: str | None, frames: sources.Frames, **more: Any
) -> Pipeline:
    frames.in_place = all(board.component(lane[0].unit.whole).device.reads_dma_buf for lane in plan.lanes)
    profile = Profile.load(rebalance) if rebalance else None
    if profile and not measured_on(profile, board):
        raise ArgumentError(f"--rebalance {rebalance}: expected a profile measured on this machine")
    return Pipeline(graph, plan, board, profile=profile, rebalance=profile is not None, **more)


def _about(model: str, plan: Plan, board: Board, ran: Ran) -> dict[str, Any]:
    used = dict.fromkeys(name for _, moved in ran.plans for name in moved.components)
    return {
        "machine": describe(board, used),
        "model": model,
        "plan": str(plan),
        "plans": [[frame, str(moved)] for frame, moved in ran.plans],
        "moves": [{"frame": move.frame, "plan": str(move.plan), "why": move.why} for move in ran.moves],
        "stand_ins": [name for name in plan.components if board.component(name).stand_in],
    }


def _end(ran: Ran, board: Board, about: dict[str, Any], as_json: bool) -> None:
    """Prints the figures, as JSON with ``about``, then raises what ended the run."""
    if as_json:
        print_json_line("run", **about, **ran.to_dict())
    else:
        print_figures(ran, board, about["memory"])
    if ran.broken and not ran.interrupted:
        raise ran.broken
    if ran.broken:
        tell(str(ran.broken))
    if ran.interrupted:
        raise click.Abort
