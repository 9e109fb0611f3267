"""What ``pipeall info`` prints for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..cost.cost_text import COST_HEADINGS, KIB, MB, bytes_text, cost_cells, print_value, show_totals
from ..output import shape_text
from ..tables import print_table, print_text

STAGE_MEMORY = (
    ("weights", "weight_bytes"),
    ("arena", "arena_bytes"),
    ("slot in", "slot_in_bytes"),
    ("out", "slot_out_bytes"),
)


def show(content: Mapping[str, Any]) -> None:
    """``content`` as ``pipeall info --json`` gives it."""
    show_totals(content)
    _show_run(content)
    if content["refused"] is None:
        _show_groups(content)
        _show_cuts(content)
    for number, stage in enumerate(content.get("plan", []), 1):
        _show_stage(number, stage)
    if "here" in content:
        _show_here(content["here"])


def _show_run(content: Mapping[str, Any]) -> None:
    if content["file_types"]:
        print_value("computed in", f"float32; the file has {', '.join(content['file_types'])}")
    if content["refused"] is not None:
        print_value("runs", f"no: {content['refused']}")
    else:
        arena = content["inference"]
        planned, naive, least = (bytes_text(arena[f"arena_bytes{which}"]) for which in ("", "_naive", "_least"))
        print_value("arena of a frame", f"{planned}; {naive} without reuse, at least {least}")
        print_value("cuts", str(len(content["cuts"])))
        print_value("three-stage configurations", f"{content['three_stage_configurations']}")
    print_text()


def _show_groups(content: Mapping[str, Any]) -> None:
    rows = [
        (
            group["group"],
            group["name"],
            _counted(group["ops"]),
            shape_text(group["output"]["shape"]),
            *cost_cells(group),
        )
        for group in content["groups"]
    ]
    print_table(f"Groups of {content['name']}", ["k", "name", "ops", "output", *COST_HEADINGS], rows)


def _show_cuts(content: Mapping[str, Any]) -> None:
    rows = [
        (
            cut["cut"],
            ", ".join(tensor["name"] for tensor in cut["tensors"]),
            ", ".join(shape_text(tensor["shape"]) for tensor in cut["tensors"]),
            f"{cut['elements']:,}",
            f"{cut['bytes'] / KIB:.1f}",
            f"{100 * cut['macs_before'] / content['macs']:.0f}" if content["macs"] else "-",
        )
        for cut in content["cuts"]
    ]
    headings = ["k", "tensor", "shape", ">elements", ">KiB", ">% of MACs before"]
    print_table("Cuts: what crosses after group k", headings, rows)


def _show_stage(number: int, stage: Mapping[str, Any]) -> None:
    first, last = stage["groups"]
    nodes = [(n["kind"], n["name"], n["detail"], shape_text(n["shape"])) for n in stage["nodes"]]
    title = f"Stage {number}: {stage['component']}, groups {first + 1} to {last}"
    print_table(title, ["node", "name", "op, or node of a constant", "shape"], nodes)
    parts = ", ".join(f"{name} {bytes_text(stage['memory'][key])}" for name, key in STAGE_MEMORY)
    print_text(f"MACs {stage['cost']['macs']:,}; {parts}")
    print_text()


def _show_here(stages: list[Mapping[str, Any]]) -> None:
    parts = ("weights", "arena", "scratch", "rings", "overhead", "total")
    rows = [(stage["unit"], *(f"{stage[part] / MB:.2f}" for part in parts)) for stage in stages]
    rows.append(("all", *(f"{sum(stage[part] for stage in stages) / MB:.2f}" for part in parts)))
    print_table("Memory on this machine, MB", ["stage", *(f">{part}" for part in parts)], rows)


def _counted(ops: list[str]) -> str:
    """ "conv x 4, maxpool, concat": every op in order of appearance, with its number where it is not 1."""
    return ", ".join(op if ops.count(op) == 1 else f"{op} x {ops.count(op)}" for op in dict.fromkeys(ops))
