"""``pipeall slice``: parts of a network as files of their own, for tools that compile them ahead of time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click

from ...errors import ArgumentError
from ...files import read_json
from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...pipeline.boards.board import Board
from ...pipeline.devices.network_slices import KIND, ranges_worth_having
from ...pipeline.planning.plan import borders
from ...quantization.record_slices import write_slices
from .. import complete
from ..model_argument import Finer, load_model
from ..options import Command, json_option, model_argument, model_options
from ..output import counted, print_json, progress
from ..picture_options import picture_options, pixels_given
from ..plans import plan_option, read_plan, unit_names
from ..samples import samples_given
from ..tables import print_table, print_text

HEADINGS = (">groups", "file", "reads", "makes")


@click.command(cls=Command)
@model_argument
@click.argument("words", metavar="[PHOTO]...", nargs=-1, shell_complete=complete.any_file)
@click.option("-o", "--output", metavar="FOLDER", required=True, help="Where the files go.")
@plan_option("What the stages of this plan compute: B-N-L:4,9 or a .json.")
@click.option(
    "--units",
    shell_complete=complete.units,
    help="With --plan: the stages of these units alone. Without: every part worth having, for one of them.",
)
@click.option("--recursive", is_flag=True, help="Also the pictures of folders in folders.")
@picture_options
@model_options
@json_option
def slice(
    model: str,
    words: tuple[str, ...],
    output: str,
    plan: str | None,
    units: str | None,
    recursive: bool,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
    **reading: Any,
) -> None:
    """Write parts of a network as files, for tools that compile them.

    \b
    pipeall slice resnet50.onnx photos/ --plan B-N-L:4,9 --units N -o slices/
    pipeall slice net.int8.onnx photos/ --units N -o slices/

    Each part is an ONNX file of its own. What it reads of the photos, or of .npy and .npz files of what the network
    reads, goes beside it as .npz and .raw, for tools that calibrate. manifest.json says what is what.
    """
    if plan is None and units is None:
        raise ArgumentError("slice: expected --plan, or --units for every part worth having")
    graph = load_model(model, input_shape, finer)
    chosen = set(unit_names(units) or ())
    ranges = ranges_worth_having(graph) if plan is None else _of_plan(graph, plan, chosen)
    samples, picture = samples_given(graph, words, recursive, pixels_given(reading)) if words else ((), None)
    with progress() as bar:
        manifest = write_slices(graph, ranges, output, samples, input=picture, progress=counted(bar))
    content = read_json(manifest, KIND)
    if as_json:
        print_json("slice", manifest=str(manifest), slices=content["slices"])
        return
    print_table(f"{graph.name}: {manifest}", HEADINGS, map(_row, content["slices"]))
    if not words:
        print_text("Without photos there is nothing to calibrate with: give some where the tool quantizes.")


def _of_plan(graph: Graph, text: str, units: Collection[str]) -> list[tuple[int, int]]:
    """What the stages of a plan compute, those of some units alone where some are given."""
    plan = read_plan(text, graph, Board.detect())
    ranges = []
    for lane in plan.lanes:
        for stage, (first, first_late, last, last_late) in zip(
            lane, borders(lane, len(graph.groups), graph.name), strict=True
        ):
            if (first, last) != (first_late, last_late):
                raise ArgumentError(f"plan {plan}: expected cuts that do not float, a slice has its groups for good")
            if not units or stage.unit in units:
                ranges.append((first, last))
    if not ranges:
        raise ArgumentError(f"--units: expected a unit of plan {plan}, got {', '.join(sorted(units))}")
    return ranges


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    first, last = entry["groups"]
    return (
        f"{first}-{last}",
        entry["file"],
        *(", ".join(t["name"] for t in entry[end]) for end in ("inputs", "outputs")),
    )
