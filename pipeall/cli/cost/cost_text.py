"""How costs are printed for people: bytes, the columns of a table, and what ``pipeall cost`` says of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..output import shape_text
from ..tables import print_table, print_text

KIB, MB, MIB = 1024, 1e6, 2**20
COST_HEADINGS = [">parameters", ">million MACs", ">weights MB", ">out KiB", ">FLOP/byte"]
NAME_WIDTH = 26  # of the names that values stand behind


def bytes_text(size: float) -> str:
    return f"{size / MB:,.2f} MB ({size / MIB:,.2f} MiB)"


def print_value(name: str, value: str) -> None:
    print_text(f"{name:<{NAME_WIDTH}} {value}", hang=NAME_WIDTH + 1)


def cost_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells under ``COST_HEADINGS``; ``row`` has what ``size_report.figures`` gives."""
    return (
        f"{row['parameters']:,}",
        f"{row['macs'] / 1e6:.1f}",
        f"{row['weight_bytes'] / MB:.2f}",
        f"{row['written_bytes'] / KIB:,.1f}",
        f"{row['intensity']:.1f}",
    )


def show_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print_text(f"Note: {note}", hang=2)


def show_totals(content: Mapping[str, Any]) -> None:
    """Inputs, outputs, parameters, operations and memory; ``content`` as of ``size_report.network_report``."""
    totals, memory = content["totals"], content["memory"]
    for direction in ("inputs", "outputs"):
        print_value(direction, ", ".join(f"{t['name']} {shape_text(t['shape'])}" for t in content[direction]))
    statistics = f" and {totals['statistics']:,} means and variances" if totals["statistics"] else ""
    print_value("parameters", f"{totals['parameters']:,}{statistics}")
    print_value("MACs", f"{totals['macs']:,} (1 MAC = 2 FLOP)")
    print_value("other operations", f"{totals['element_ops']:,}")
    print_value("weights", bytes_text(memory["model_bytes"]))
    activations = bytes_text(memory["activation_bytes_per_sample"])
    print_value("activations", f"{activations} written by all layers together")
    show_notes(content["notes"])


def show_layers(content: Mapping[str, Any]) -> None:
    rows = [(row["layer"], row["op"], shape_text(row["output"]), *cost_cells(row)) for row in content["layers"]]
    print_table(f"Layers of {content['name']}", ["layer", "op", "output", *COST_HEADINGS], rows)


def show_operations(operations: Mapping[str, Any], explain: bool) -> None:
    """What a tool counts; with ``explain`` why."""
    more = operations["value"] / operations["macs"] - 1 if operations["macs"] else 0.0
    print_text(
        f"{operations['convention']} counts {operations['value']:,}, {100 * more:+.2f} % beside "
        f"{operations['macs']:,} MACs"
    )
    print_text()
    if not explain:
        return
    rows = [
        (t["meaning"], f"{t['quantity']:,}", f"x {t['factor']}", f"{t['value']:,}", f"{t['beyond_macs']:+,}")
        for t in operations["terms"]
    ]
    rows.append(("all", None, None, f"{operations['value']:,}", f"{operations['value'] - operations['macs']:+,}"))
    headings = ["term", ">quantity", ">factor", ">counted", ">beyond MACs"]
    print_table(f"Why {operations['convention']} differs", headings, rows)


def show_algorithms(rows: list[Mapping[str, Any]]) -> None:
    keys = "fewer_operations", "fewer_with_prepare", "more_activations", "more_weights"
    cells = [
        (row["layer"], row["algorithm"], f"{row['flops'] / 1e6:,.1f}", *(f"x {row[key]:.2f}" for key in keys))
        for row in rows
    ]
    headings = ["layer", "algorithm", ">MFLOP", ">fewer", ">with kernels", ">activations", ">weights"]
    print_table("Beside direct convolution; with kernels: transformed each time", headings, cells)


def show_formats(processor: str, rows: list[Mapping[str, Any]]) -> None:
    cells = [
        (row["format"], bytes_text(row["weight_bytes"]), bytes_text(row["activation_bytes"]), _rate(row))
        for row in rows
    ]
    print_table(f"Number formats on {processor}", ["format", ">weights", ">activations", "arithmetic"], cells)


def _rate(row: Mapping[str, Any]) -> str:
    if row["rate"] is not None:
        return f"x {row['rate']:g} of fp32, nominal"
    if row["format"] == "fp64":
        return "none: has to become fp32, with fewer digits"
    return "none: widened to fp32, memory alone is saved"
