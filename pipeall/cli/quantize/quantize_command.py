"""``pipeall quantize``: a network of 8-bit integers for one of floats, by what it makes of photos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...graph.onnx.read.inputs import Shapes
from ...journal import remove
from ...quantization.gptq import ROUNDINGS
from ...quantization.qparams import METHODS
from ...quantization.quantize import ALL_METHODS
from ...quantization.quantize import quantize as to_integers
from ...quantization.quantize_report import LayerRow, Report
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
HEADINGS = ("layer", "op", ">MACs", "computes with", ">error", ">ms in floats", ">ms quantized", ">gain")


@click.command(cls=Command)
@model_argument
@click.argument("words", metavar="PHOTO...", nargs=-1, required=True, shell_complete=complete.any_file)
@file_option("-o", "--output", help="The .onnx file to write; default MODEL.int8.onnx here.")
@click.option(
    "--method",
    type=click.Choice(ALL_METHODS),
    default="auto",
    metavar="METHOD",
    help=f"How levels are chosen: {', '.join(METHODS)}; default auto, for each tensor by the error of the answers.",
)
@click.option(
    "--rounding",
    type=click.Choice(ROUNDINGS),
    default="auto",
    metavar="ROUNDING",
    help="How weights are rounded: nearest, or gptq: by the effect on the outputs of layers; default auto: gptq for a "
    "detector.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(0, 100, max_open=True),
    metavar="PERCENT",
    help="Most that may be lost: photos or pixels that change their class, boxes that come or go; for other networks "
    "the relative error of the outputs. The layers that cost most stay floats.",
)
@click.option("--keep", multiple=True, metavar="LAYER", help="Stays floats, with its activation; may be given again.")
@click.option("--layers", is_flag=True, help="Measure and show what each layer costs, and what it gains.")
@file_option("--plot", help="Draw error and gain of each layer as PNG.")
@click.option("--recursive", is_flag=True, help="Also the pictures of folders in folders.")
@file_option("--report", help="Write all that was chosen to this .json file.")
@click.option("--again", is_flag=True, help="Measure all of it, whatever an interrupted run has measured.")
@picture_options
@under("How the model is read", shape_option, value_option)
@json_option
def quantize(
    model: str,
    words: tuple[str, ...],
    output: str | None,
    method: str,
    rounding: str,
    max_drop: float | None,
    keep: tuple[str, ...],
    layers: bool,
    plot: str | None,
    recursive: bool,
    report: str | None,
    again: bool,
    input_shape: Shapes | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Make a network of 8-bit integers.

    \b
    pipeall quantize resnet50.onnx photos/ -o resnet50.int8.onnx
    pipeall quantize net.onnx photos/ --max-drop 0.5 --layers
    pipeall quantize net.onnx frames.npy --method percentile

    A PHOTO is a picture, a folder of pictures, or an .npy or .npz file of what the network reads: one frame or many, in
    an .npz by the names of the inputs. A hundred or more, of what the network will see. Writes standard ONNX (QDQ),
    which pipeall, onnxruntime and OpenVINO run. A run that was interrupted goes on where it stopped.
    """
    if plot is not None:
        from .quantize_plot import draw_layers  # before anything is measured in vain
    graph = load_model(model, input_shape)
    photos, picture = samples_given(graph, words, recursive, pixels_given(reading))
    output = output or f"{Path(model).stem}.int8.onnx"
    journal = Path(f"{output}.journal")
    if again:
        remove(journal)
    with progress() as bar:
        made = to_integers(
            graph, photos, input=picture, method=method, rounding=rounding, keep=keep,
            layers=layers or plot is not None, journal=journal, progress=counted(bar),
            max_drop=None if max_drop is None else max_drop / 100,
        )  # fmt: skip
    try:
        if as_json:
            print_json("quantize", model=model, output=output, **made.report.to_dict())
        else:
            _show_report(made.report, layers)
    finally:  # what cannot be printed is written all the same
        if report is not None:
            made.report.save(report)
        if plot is not None:
            draw_layers(plot, made.report)
        made.save(output)  # last: it removes the journal, by which the command goes on where a file cannot be written
    if not as_json:
        print_text(f"{output}: {Path(output).stat().st_size / 1e6:.1f} MB")
        _show_slower(made.report, model)


def _show_report(report: Report, layers: bool) -> None:
    integer = sum(not row.floats for row in report.layers)
    channels = ", channels equalized" if report.equalized else ""
    rounding = ", rounding gptq" if report.rounding == "gptq" else ""
    print_text(
        f"{report.network}: {integer} of {len(report.layers)} layers of integers, {100 * report.integer_macs:.1f} % of "
        f"the MACs; levels by {report.method}{channels}{rounding}; {report.samples} samples"
    )
    if report.agreement is not None:
        print_text(f"{SAME[report.agreement_of]}: {100 * report.agreement:.1f} %")
    print_text(f"relative error of the outputs {report.error:.4f}")
    print_text(f"{report.floats_ms:.3f} ms in floats, {report.quantized_ms:.3f} ms quantized, on the first CPU")
    if layers:
        title = "Error of the outputs where a layer alone is quantized; times with its activation, on the first CPU"
        print_table(title, HEADINGS, map(_row, report.layers))


def _row(row: LayerRow) -> tuple[str | None, ...]:
    figures = ((row.error, ".5f"), (row.floats_ms, ".3f"), (row.quantized_ms, ".3f"), (row.gain, ".2f"))
    shown = (None if value is None else format(value, form) for value, form in figures)
    return row.name, row.op, f"{row.macs:,}", "floats" if row.floats else "integers", *shown


def _show_slower(report: Report, model: str) -> None:
    """What to do with a network that gains no time."""
    if report.quantized_ms >= report.floats_ms:
        print_text(
            f"The quantized network is not faster here. Run {model} as it is, try half precision (--plan big@fp16), or "
            "allow a larger --max-drop, so that more layers compute with integers; --layers shows what each one gains."
        )
