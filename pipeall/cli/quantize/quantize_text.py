"""What ``pipeall quantize`` says of the network that it made."""

from __future__ import annotations

from ...quantization.quantize_report import LayerRow, Report
from ..tables import print_table, print_text

SAME = {
    "classes": "Samples whose class stays",
    "boxes": "Clear boxes that both networks find",
    "pixels": "Pixels whose class stays",
}
HEADINGS = ("layer", "op", ">MACs", "computes with", ">error", ">ms in floats", ">ms quantized", ">gain")


def show_report(report: Report, layers: bool) -> None:
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


def show_slower(report: Report, model: str) -> None:
    """What to do with a network that gains no time."""
    if report.quantized_ms >= report.floats_ms:
        print_text(
            f"The quantized network is not faster here. Run {model} as it is, try half precision (--plan big@fp16), or "
            "allow a larger --max-drop, so that more layers compute with integers; --layers shows what each one gains."
        )
