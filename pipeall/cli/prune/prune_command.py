"""``pipeall prune``: a network with zeros that the CPU leaves out, for a dense one, by what it makes of photos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...graph.onnx.read.inputs import Shapes
from ...pruning.prune_network import PrunedLayer, PruneReport
from ...pruning.prune_network import prune as to_sparse
from .. import complete
from ..model_argument import load_model
from ..options import Command, file_option, json_option, model_argument, shape_option, under, value_option
from ..output import counted, print_json, progress
from ..picture_options import picture_options, pixels_given
from ..samples import samples_given
from ..tables import print_table, print_text

SAME = {
    "classes": "Samples whose class stays",
    "boxes": "Clear boxes that both networks find",
    "pixels": "Pixels whose class stays",
}
HEADINGS = ("layer", "op", ">weights", ">zeros")


@click.command(cls=Command)
@model_argument
@click.argument("words", metavar="PHOTO...", nargs=-1, required=True, shell_complete=complete.any_file)
@file_option("-o", "--output", help="The .onnx file to write; default MODEL.pruned.onnx here.")
@click.option(
    "--sparsity",
    type=click.FloatRange(0.01, 0.99),
    default=0.7,
    metavar="SHARE",
    help="Of the weights of these layers, and of their multiply-adds, that go; default 0.7.",
)
@click.option(
    "--fine-tune",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="Train what is left for so long, to answer as the dense network; needs pipeall[nas].",
)
@click.option("--layers", is_flag=True, help="Show the zeros of each layer.")
@click.option("--recursive", is_flag=True, help="Also the pictures of folders in folders.")
@picture_options
@under("How the model is read", shape_option, value_option)
@json_option
def prune(
    model: str,
    words: tuple[str, ...],
    output: str | None,
    sparsity: float,
    fine_tune: float | None,
    layers: bool,
    recursive: bool,
    input_shape: Shapes | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Make a network with zeros that CPUs leave out.

    \b
    pipeall prune mobilenet.onnx photos/ --sparsity 0.7 -o pruned.onnx
    pipeall prune mobilenet.onnx photos/ --fine-tune 20

    A PHOTO is as for quantize: a picture, a folder, or arrays of what the network reads, a hundred or more. Blocks of
    eight filters and one channel become zeros, in 1x1 convolutions and in products of several rows. Writes standard
    ONNX.
    """
    graph = load_model(model, input_shape)
    photos, picture = samples_given(graph, words, recursive, pixels_given(reading))
    output = output or f"{Path(model).stem}.pruned.onnx"
    with progress() as bar:
        made = to_sparse(graph, photos, sparsity=sparsity, input=picture, fine_tune=fine_tune, progress=counted(bar))
    made.save(output)
    if as_json:
        print_json("prune", model=model, output=output, **made.report.to_dict())
        return
    _show_report(made.report, layers)
    print_text(f"{output}: {Path(output).stat().st_size / 1e6:.1f} MB")


def _show_report(report: PruneReport, layers: bool) -> None:
    print_text(
        f"{report.network}: {100 * report.zeros:.1f} % of the weights of {len(report.layers)} layers are zeros; "
        f"{report.samples} samples"
    )
    if report.agreement is not None:
        print_text(f"{SAME[report.agreement_of]}: {100 * report.agreement:.1f} %")
    print_text(f"relative error of the outputs {report.error:.4f}")
    print_text(f"{report.dense_ms:.3f} ms dense, {report.pruned_ms:.3f} ms pruned, on the first CPU")
    if layers:
        print_table("Zeros of each layer", HEADINGS, map(_row, report.layers))


def _row(row: PrunedLayer) -> tuple[str, ...]:
    return row.name, row.op, f"{row.weights:,}", f"{100 * row.zeros:.1f} %"
