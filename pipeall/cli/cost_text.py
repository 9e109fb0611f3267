"""What ``pipeall info`` prints for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from .output import print_table, shape_text

KIB, MB, MIB = 1024, 1e6, 2**20
COST = [">parameters", ">million MACs", ">weights MB", ">out KiB", ">FLOP/byte"]


def show(content: Mapping[str, Any], layers: bool, explain: bool) -> None:
    """``content`` as ``pipeall info --json`` gives it; ``layers`` adds a table of them, ``explain`` the terms."""
    _show_totals(content)
    if layers:
        rows = [(r["layer"], r["op"], shape_text(r["output"]), *_cost(r)) for r in content["layers"]]
        print_table(f"Layers of {content['name']}", ["layer", "op", "output", *COST], rows)
    if content["refused"] is None:
        _show_parts(content)
    for number, stage in enumerate(content.get("plan", []), 1):
        _show_stage(number, stage)
    if "here" in content:
        _show_here(content["here"])
    if "operations" in content:
        _show_operations(content["operations"], explain)
    if "algorithms" in content:
        _show_algorithms(content["algorithms"])
    for processor, rows in content.get("formats", {}).items():
        cells = [
            (r["format"], bytes_text(r["weight_bytes"]), bytes_text(r["activation_bytes"]), _rate(r["rate"]))
            for r in rows
        ]
        print_table(f"Number formats on {processor}", ["format", ">weights", ">activations", "arithmetic"], cells)
    if "epoch" in content:
        _show_epoch(content["epoch"])
    if "training" in content:
        _show_training(content["training"])


def bytes_text(size: float) -> str:
    return f"{size / MB:,.2f} MB ({size / MIB:,.2f} MiB)"


def _line(name: str, value: str) -> None:
    click.echo(f"{name:<26} {value}")


def _show_totals(content: Mapping[str, Any]) -> None:
    totals, memory = content["totals"], content["memory"]
    for direction in ("inputs", "outputs"):
        _line(direction, ", ".join(f"{t['name']} {shape_text(t['shape'])}" for t in content[direction]))
    statistics = f" and {totals['statistics']:,} means and variances" if totals["statistics"] else ""
    _line("parameters", f"{totals['parameters']:,}{statistics}")
    _line("MACs", f"{totals['macs']:,} (1 MAC = 2 FLOP)")
    _line("other operations", f"{totals['element_ops']:,}")
    _line("weights", bytes_text(memory["model_bytes"]))
    _line("activations", f"{bytes_text(memory['activation_bytes_per_sample'])} written by all layers together")
    if content["refused"] is not None:
        _line("runs", f"no: {content['refused']}\n")
        return
    arena = content["inference"]
    planned, naive, least = (bytes_text(arena[f"arena_bytes{which}"]) for which in ("", "_naive", "_least"))
    _line("arena of a frame", f"{planned}; {naive} without reuse, at least {least}")
    _line("cuts", str(len(content["cuts"])))
    _line("three-stage configurations", f"{content['three_stage_configurations']}\n")


def _cost(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['parameters']:,}",
        f"{row['macs'] / 1e6:.1f}",
        f"{row['weight_bytes'] / MB:.2f}",
        f"{row['written_bytes'] / KIB:,.1f}",
        f"{row['intensity']:.1f}",
    )


def _show_parts(content: Mapping[str, Any]) -> None:
    groups = [
        (g["group"], g["name"], _counted(g["ops"]), shape_text(g["output"]["shape"]), *_cost(g))
        for g in content["groups"]
    ]
    print_table(f"Groups of {content['name']}", [">group", "name", "ops", "output", *COST], groups)
    cuts = [
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
    headings = [">k", "tensor", "shape", ">elements", ">KiB", ">% of MACs before"]
    print_table("Cuts: what crosses after group k", headings, cuts)


def _show_stage(number: int, stage: Mapping[str, Any]) -> None:
    first, last = stage["groups"]
    nodes = [(n["kind"], n["name"], n["detail"], shape_text(n["shape"])) for n in stage["nodes"]]
    title = f"Stage {number}: {stage['component']}, groups {first + 1} to {last}"
    print_table(title, ["node", "name", "op, or node of a constant", "shape"], nodes)
    memory = stage["memory"]
    parts = (
        ("weights", "weight_bytes"),
        ("arena", "arena_bytes"),
        ("slot in", "slot_in_bytes"),
        ("out", "slot_out_bytes"),
    )
    click.echo(f"MACs {stage['cost']['macs']:,}; " + ", ".join(f"{n} {bytes_text(memory[k])}" for n, k in parts) + "\n")


def _show_here(stages: list[Mapping[str, Any]]) -> None:
    parts = ("weights", "arena", "scratch", "rings", "overhead", "total")
    rows = [(stage["unit"], *(f"{stage[part] / MB:.2f}" for part in parts)) for stage in stages]
    rows.append(("all", *(f"{sum(stage[part] for stage in stages) / MB:.2f}" for part in parts)))
    print_table("Memory on this machine, MB", ["stage", *(f">{part}" for part in parts)], rows)


def _show_operations(found: Mapping[str, Any], explain: bool) -> None:
    more = found["value"] / found["macs"] - 1 if found["macs"] else 0.0
    click.echo(f"{found['convention']} counts {found['value']:,}, {100 * more:+.2f} % beside {found['macs']:,} MACs\n")
    if explain:
        rows = [
            (t["meaning"], f"{t['quantity']:,}", f"x {t['factor']}", f"{t['value']:,}", f"{t['beyond_macs']:+,}")
            for t in found["terms"]
        ]
        rows.append(("all", None, None, f"{found['value']:,}", f"{found['value'] - found['macs']:+,}"))
        headings = ["term", ">quantity", ">factor", ">counted", ">beyond MACs"]
        print_table(f"Why {found['convention']} differs", headings, rows)


def _show_algorithms(rows: list[Mapping[str, Any]]) -> None:
    keys = "fewer_operations", "fewer_with_prepare", "more_activations", "more_weights"
    cells = [
        (r["layer"], r["algorithm"], f"{r['flops'] / 1e6:,.1f}", *(f"x {r[key]:.2f}" for key in keys)) for r in rows
    ]
    headings = ["layer", "algorithm", ">MFLOP", ">fewer", ">with kernels", ">activations", ">weights"]
    print_table("Beside direct convolution; with kernels: transformed each time", headings, cells)


def _rate(rate: float | None) -> str:
    return "none: widened to fp32, memory alone is saved" if rate is None else f"x {rate:g} of fp32, nominal"


def _show_epoch(found: Mapping[str, Any]) -> None:
    parts = ", ".join(
        f"{name.removesuffix('_s')} {found[name]:,.3g} s" for name in ("load_s", "transfer_s", "compute_s")
    )
    how = "the slowest, with prefetch" if found["prefetch"] else "their sum"
    kind = "training" if found["training"] else "inference"
    click.echo(f"Epoch of {kind}: {parts}; {how}: {found['total_s']:,.3g} s, bound by the {found['bottleneck']}\n")


def _show_training(found: Mapping[str, Any]) -> None:
    for name, what in (("lecture", "model + batch x (data + 2 x activations)"), ("exact", "by liveness")):
        row = found[name]
        click.echo(
            f"Training, {name} ({what}), {found['optimizer']}: batch {row['batch']} needs {bytes_text(row['bytes'])}"
        )
        for memory, share in row.get("shares", {}).items():
            click.echo(f"  {100 * share:.0f} % of the {memory}'s memory")
        if fit := row.get("largest_batch"):
            limit = bytes_text(fit["limit_bytes"][fit["binding"]])
            click.echo(f"  largest batch {fit['batch']}: one more would exceed {limit} of the {fit['binding']}")
    parts = [
        (name.removesuffix("_bytes").replace("_", " "), bytes_text(n)) for name, n in found["exact"]["parts"].items()
    ]
    click.echo()
    print_table(f"Exact, batch {found['exact']['batch']}", ["part", ">bytes"], parts)


def _counted(ops: list[str]) -> str:
    """ "conv x 4, maxpool, concat": every op in order of appearance, with its number where it is not 1."""
    return ", ".join(op if ops.count(op) == 1 else f"{op} x {ops.count(op)}" for op in dict.fromkeys(ops))
