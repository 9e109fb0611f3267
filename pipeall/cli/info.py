"""``pipeall info``: what a network is, where it can be cut, and what each stage of a plan holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ..graph.ir import Graph, Tensor
from ..graph.ops import macs
from ..graph.partition import Group, configurations, subgraph
from ..pipeline.plan import Plan
from .model import load_model, model_argument
from .output import json_option, print_json, print_table, shape_text
from .plans import read_plan

KIB = 1024 / 4  # float32 elements


@click.command()
@model_argument
@click.option("--plan", help="Show the sub-graph of each stage of this plan: G-B-L:3,5 or a .json.")
@json_option
def info(model: str, input_shape: tuple[int, ...] | None, finer: int | None, plan: str | None, as_json: bool) -> None:
    """Show a network's groups, its cuts and what crosses them.

    A group is the smallest part that a component can be given; cut k stands after group k.

    \b
    pipeall info squeezenet
    pipeall info net.onnx --plan G-B-L:3,5
    """
    graph = load_model(model, input_shape, finer)
    content = _describe(graph)
    if plan is not None:
        content["plan"] = _stages(graph, read_plan(plan, graph))
    if as_json:
        print_json("info", **content)
    else:
        _show(content)


def _describe(graph: Graph) -> dict[str, Any]:
    groups = [_group(graph, group) for group in graph.groups]
    cuts = [
        {"cut": cut.index, "elements": cut.elements, "tensors": [_tensor(tensor) for tensor in cut.tensors]}
        for cut in graph.cuts
    ]
    return {
        "name": graph.name,
        "inputs": [_tensor(tensor) for tensor in graph.inputs],
        "outputs": [_tensor(tensor) for tensor in graph.outputs],
        "nodes": len(graph.nodes),
        "parameters": sum(array.size for array in graph.constants.values()),
        "macs": sum(group["macs"] for group in groups),
        "groups": groups,
        "cuts": cuts,
        "three_stage_configurations": configurations(len(cuts)),
    }


def _group(graph: Graph, group: Group) -> dict[str, Any]:
    return {
        "group": group.index,
        "name": group.name,
        "main": [node.name for node in group.nodes if node.is_main],
        "ops": [node.op for node in group.nodes],
        "macs": sum(macs(node, graph) for node in group.nodes),
        "output": _tensor(graph.tensors[group.nodes[-1].output]),
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return asdict(tensor) | {"elements": tensor.elements}


def _stages(graph: Graph, plan: Plan) -> list[dict[str, Any]]:
    stages = []
    for stage in (stage for lane in plan.lanes for stage in lane):
        last = len(graph.groups) if stage.last is None else stage.last
        rows = subgraph(graph, stage.first, last).listing()
        stages.append({"component": stage.component, "groups": [stage.first, last], "nodes": [asdict(r) for r in rows]})
    return stages


def _show(content: dict[str, Any]) -> None:
    for direction in ("inputs", "outputs"):
        tensors = ", ".join(f"{t['name']} {shape_text(t['shape'])}" for t in content[direction])
        click.echo(f"{direction:<26} {tensors}")
    click.echo(f"{'parameters':<26} {content['parameters']:,}")
    click.echo(f"{'MACs':<26} {content['macs']:,} (1 MAC = 2 FLOP)")
    click.echo(f"{'cuts':<26} {len(content['cuts'])}")
    click.echo(f"{'three-stage configurations':<26} {content['three_stage_configurations']}\n")
    groups = [
        (g["group"], g["name"], _counted(g["ops"]), f"{g['macs'] / 1e6:.1f}", shape_text(g["output"]["shape"]))
        for g in content["groups"]
    ]
    print_table(f"Groups of {content['name']}", [">group", "name", "ops", ">million MACs", "output"], groups)
    cuts = [
        (
            cut["cut"],
            ", ".join(tensor["name"] for tensor in cut["tensors"]),
            ", ".join(shape_text(tensor["shape"]) for tensor in cut["tensors"]),
            f"{cut['elements']:,}",
            f"{cut['elements'] / KIB:.1f}",
        )
        for cut in content["cuts"]
    ]
    print_table("Cuts: what crosses after group k", [">k", "tensor", "shape", ">elements", ">KiB"], cuts)
    for number, stage in enumerate(content.get("plan", []), 1):
        first, last = stage["groups"]
        nodes = [(n["kind"], n["name"], n["detail"], shape_text(n["shape"])) for n in stage["nodes"]]
        title = f"Stage {number}: {stage['component']}, groups {first + 1} to {last}"
        print_table(title, ["node", "name", "op, or node of a constant", "shape"], nodes)


def _counted(ops: list[str]) -> str:
    """ "conv x 4, maxpool, concat": every op in order of appearance, with its number where it is not 1."""
    return ", ".join(op if ops.count(op) == 1 else f"{op} x {ops.count(op)}" for op in dict.fromkeys(ops))
