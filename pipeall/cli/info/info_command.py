"""``pipeall info``: what a network is, where it can be cut, and what each stage of a plan holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from ...errors import ArgumentError, ModelError
from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...graph.partition import Cut, Group, configurations, main_layers, subgraph
from ...pipeline.boards.board import Board
from ...pipeline.measuring.footprint import footprint
from ...pipeline.planning.plan import Plan
from ...sizing import size_report as report
from ...sizing.size_network import Network
from ..cost.cost_text import COST_HEADINGS, KIB, MB, bytes_text, cost_cells, print_value, show_totals
from ..model_argument import Finer, read_network
from ..options import Command, json_option, model_argument, model_options
from ..output import print_json, shape_text
from ..plans import plan_option, read_plan
from ..tables import print_table, print_text


@click.command(cls=Command)
@model_argument
@plan_option("Show the sub-graph and the memory of each stage of this plan: G-B-L:3,5 or a .json.")
@click.option("--here", is_flag=True, help="With --plan: memory that the stages take on this machine's kernels.")
@model_options
@json_option
def info(
    model: str,
    plan: str | None,
    here: bool,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Show a network's groups, its cuts and what crosses them.

    \b
    pipeall info squeezenet
    pipeall info net.onnx --plan G-B-L:3,5

    A group is the smallest part that a component can be given; cut k stands after group k. No weight is read to count.
    What the network costs beyond that, to train for instance, is "pipeall cost".
    """
    if here and plan is None:
        raise ArgumentError("--here: expected --plan with it")
    network, graph, refusal = read_network(model, input_shape, finer)
    content = _describe(network, graph, refusal)
    if plan is not None:
        if graph is None:
            raise ModelError(refusal)
        stages = read_plan(plan, graph, Board.detect())
        content["plan"] = _stages(graph, stages)
        if here:
            content["here"] = [asdict(stage) | {"total": stage.total} for stage in footprint(graph, stages)]
    if as_json:
        print_json("info", **content)
    else:
        show(content)


def _describe(network: Network, graph: Graph | None, refusal: str) -> dict[str, Any]:
    content = report.network_report(network) | {"refused": refusal or None, "groups": [], "cuts": []}
    content["file_types"] = list(network.file_types)
    content |= {key: content["totals"][key] for key in ("parameters", "macs")}
    if graph is None:
        return content
    cost_of_nodes = report.parts_of(graph)
    groups = [_group(graph, group) | report.figures(cost_of_nodes(group.nodes)) for group in graph.groups]
    return content | {
        "groups": groups,
        "cuts": [_cut(cut, sum(group["macs"] for group in groups[: cut.index])) for cut in graph.cuts],
        "nodes": len(graph.nodes),
        "layers": main_layers(graph),
        "three_stage_configurations": configurations(len(graph.cuts)),
        "inference": report.stage_memory(graph),
    }


def _group(graph: Graph, group: Group) -> dict[str, Any]:
    return {
        "group": group.index,
        "name": group.name,
        "main": [node.name for node in group.nodes if node.is_main],
        "ops": [node.op for node in group.nodes],
        "output": report.tensor_row(graph.tensors[group.nodes[-1].output]),
    }


def _cut(cut: Cut, macs_before: int) -> dict[str, Any]:
    return {
        "cut": cut.index,
        "elements": cut.elements,
        "bytes": cut.nbytes,
        "macs_before": macs_before,
        "tensors": [report.tensor_row(tensor) for tensor in cut.tensors],
    }


def _stages(graph: Graph, plan: Plan) -> list[dict[str, Any]]:
    stages = []
    for stage in (stage for lane in plan.lanes for stage in lane):
        last = len(graph.groups) if stage.last is None else stage.last
        part = subgraph(graph, stage.first, last)
        stages.append(
            {
                "component": stage.unit.whole,
                "groups": [stage.first, last],
                "nodes": [asdict(row) for row in part.listing()],
                "cost": report.figures(report.parts_of(graph)(part.nodes)),
                "memory": report.stage_memory(part),
            }
        )
    return stages


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
        print_value("layers", f"{content['layers']} convolutions and products with weights; a grouped one is several")
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
