"""What ``pipeall quantize`` says of the network that it made."""

from __future__ import annotations

from ..quantization.report import LayerRow, Report
from .tables import print_table, print_text

HEADINGS = ("layer", "op", ">MACs", "computes with", ">error", ">ms in floats", ">ms quantised", ">gain")


def show_report(report: Report, layers: bool) -> None:
    integer = sum(not row.floats for row in report.layers)
    channels = ", channels equalised" if report.equalised else ""
    rounding = ", rounding learned" if report.rounding == "learned" else ""
    print_text(
        f"{report.network}: {integer} of {len(report.layers)} layers of integers, {100 * report.integer_macs:.1f} % of "
        f"the MACs; levels by {report.method}{channels}{rounding}; {report.photos} photos"
    )
    if report.agreement is not None:
        print_text(f"same class on {100 * report.agreement:.1f} % of them")
    print_text(f"relative error of the outputs {report.error:.4f}")
    if report.floats_ms is not None:
        print_text(f"{report.floats_ms:.3f} ms in floats, {report.quantised_ms:.3f} ms quantised, on the first CPU")
    if layers:
        title = "Error of the outputs where a layer alone is quantised; times with its activation, on the first CPU"
        print_table(title, HEADINGS, map(_row, report.layers))


def _row(row: LayerRow) -> tuple[str | None, ...]:
    figures = ((row.error, ".5f"), (row.floats_ms, ".3f"), (row.quantised_ms, ".3f"), (row.gain, ".2f"))
    shown = (None if value is None else format(value, form) for value, form in figures)
    return row.name, row.op, f"{row.macs:,}", "floats" if row.floats else "integers", *shown
