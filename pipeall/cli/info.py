"""``pipeall info``: what a network is and costs, where it can be cut, and what each stage of a plan holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ..cost import onnx_shapes
from ..cost.batch import SHARE
from ..cost.conventions import CONVENTIONS
from ..cost.network import Network, of_graph
from ..cost.residence import LINKS
from ..cost.training import OPTIMIZERS
from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph, Tensor
from ..graph.partition import configurations, subgraph
from ..pipeline.measuring.footprint import footprint
from ..pipeline.planning.plan import Plan
from . import cost_report as report
from .cost_text import show
from .model import ZOO, Numbers, load_model, model_argument
from .output import Bytes, file_option, json_option, positive_option, print_json
from .plans import read_plan


@click.command()
@model_argument
@click.option("--plan", help="Show the sub-graph and the memory of each stage of this plan: G-B-L:3,5 or a .json.")
@click.option("--here", is_flag=True, help="With --plan: memory that the stages take on this machine's kernels.")
@click.option("--folded", is_flag=True, help="Cost of the network as it runs: BatchNorm folded into convolutions.")
@click.option("--layers", is_flag=True, help="Show every layer, not groups alone.")
@click.option("--convention", type=click.Choice(list(CONVENTIONS)), help="Count operations as this tool does.")
@click.option("--explain", is_flag=True, help="With --convention: every term that makes it differ from plain MACs.")
@click.option("--algorithms", is_flag=True, help="What im2col, Winograd and FFT would make of each convolution.")
@click.option("--train", type=click.Choice(list(OPTIMIZERS)), help="Memory of training with this optimizer.")
@click.option("--batch", type=click.IntRange(1), help="With --train: samples of a batch; else the largest that fits.")
@click.option("--memory", type=Bytes(), help="With --train: the memory that the CPU has, such as 8GB or 8GiB.")
@click.option("--gpu-memory", type=Bytes(), help="With --train: the memory of the GPU that trains.")
@positive_option("--share", help="Part of each memory that may be used.", default=SHARE)
@click.option("--epoch", type=click.IntRange(1), metavar="SAMPLES", help="Time of a pass over so many samples.")
@click.option("--disk", type=click.Choice(list(LINKS)), default="sata3", show_default=True, help="With --epoch.")
@click.option("--bus", type=click.Choice(list(LINKS)), help="With --epoch: to the GPU; without, the CPU computes.")
@positive_option("--gmacs", help="With --epoch: 10^9 MACs a second that the device reaches.")
@click.option(
    "--channels", type=Numbers(int, "4,1,4"), default="1,1,1", help="With --epoch: workers, disk, controller."
)
@click.option("--prefetch", is_flag=True, help="With --epoch: loading, moving and computing overlap.")
@click.option("--processor", "processors", multiple=True, help="Number formats on it, such as Cortex-A73 or Mali-G52.")
@file_option("--csv", help="Write every layer to this .csv file.")
@file_option("--plot", help="Draw layers and roofline to this .png file.")
@click.option("--roofline", is_flag=True, help="With --plot: under the peaks of this machine's CPUs, measured first.")
@json_option
def info(
    model: str,
    input_shape: tuple[int, ...] | None,
    finer: int | None,
    plan: str | None,
    here: bool,
    folded: bool,
    layers: bool,
    convention: str | None,
    explain: bool,
    algorithms: bool,
    train: str | None,
    batch: int | None,
    memory: float | None,
    gpu_memory: float | None,
    share: float,
    epoch: int | None,
    disk: str,
    bus: str | None,
    gmacs: float | None,
    channels: tuple[int, ...],
    prefetch: bool,
    processors: tuple[str, ...],
    csv: str | None,
    plot: str | None,
    roofline: bool,
    as_json: bool,
) -> None:
    """Show what a network costs, its groups, its cuts and what crosses them.

    A group is the smallest part that a component can be given; cut k stands after group k. No weight is read to count.

    \b
    pipeall info squeezenet
    pipeall info net.onnx --plan G-B-L:3,5
    pipeall info net.onnx --convention fvcore --explain
    pipeall info net.onnx --train adam --memory 32GB --gpu-memory 11GB
    pipeall info net.onnx --epoch 1281167 --bus pcie3x16 --gmacs 4000 --channels 8,1,4 --prefetch
    """
    memories = {name: size for name, size in (("cpu", memory), ("gpu", gpu_memory)) if size is not None}
    if roofline and plot is None:
        raise ArgumentError("--roofline: expected --plot with it")
    if here and plan is None:
        raise ArgumentError("--here: expected --plan with it")
    _check_options(convention, explain, train, batch, memories)
    network, graph, refusal = _read(model, input_shape, finer, folded)
    content: dict[str, Any] = {
        "name": network.name,
        **_describe(network, graph, refusal),
        **report.network_report(network),
    }
    if plan is not None:
        if graph is None:
            raise ModelError(refusal)
        stages = read_plan(plan, graph)
        content["plan"] = _stages(graph, stages)
        if here:
            content["here"] = [asdict(stage) | {"total": stage.total} for stage in footprint(graph, stages)]
    if convention is not None:
        content["operations"] = report.convention_report(network, convention)
    if algorithms:
        content["algorithms"] = report.algorithm_rows(network)
    if train is not None:
        content["training"] = report.training_report(network, train, batch, memories, share)
    if epoch is not None:
        if gmacs is None or len(channels) != 3:
            raise ArgumentError("--epoch: expected --gmacs, and three numbers for --channels, with it")
        content["epoch"] = report.epoch_report(
            network, epoch, disk, bus, 1e9 * gmacs, channels, prefetch, train is not None
        )
    if processors:
        content["formats"] = {name: report.format_rows(network, graph, name) for name in processors}
    if csv is not None:
        report.write_csv(csv, content["layers"])
    if plot is not None:
        from .plot_cost import draw_cost

        title = f"{network.name}: {content['macs']:,} MACs, {content['parameters']:,} parameters"
        draw_cost(plot, content["layers"], title, report.peaks() if roofline else {})
    if as_json:
        print_json("info", **content)
    else:
        show(content, layers, explain)


def _check_options(
    convention: str | None, explain: bool, train: str | None, batch: int | None, memories: dict[str, float]
) -> None:
    if explain and convention is None:
        raise ArgumentError("--explain: expected --convention with it")
    if train is None and (batch is not None or memories):
        raise ArgumentError("--batch, --memory and --gpu-memory: expected --train with them")
    if train is not None and batch is None and not memories:
        raise ArgumentError("--train: expected --batch, or --memory (with --gpu-memory) to find the largest batch")
    if "gpu" in memories and "cpu" not in memories:
        raise ArgumentError("--gpu-memory: expected --memory with it: the CPU's holds the model and a batch of data")


def _read(
    model: str, input_shape: tuple[int, ...] | None, finer: int | None, folded: bool
) -> tuple[Network, Graph | None, str]:
    """The network as it was exported, the graph that would run, and why there is none."""
    if model in ZOO or folded or not model.lower().endswith(".onnx"):
        graph = load_model(model, input_shape, finer)
        return of_graph(graph), graph, ""
    network = onnx_shapes.read(model, input_shape)
    try:
        return network, load_model(model, input_shape, finer), ""
    except ModelError as error:
        return network, None, str(error)


def _describe(network: Network, graph: Graph | None, refusal: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "inputs": [_tensor(Tensor(name, network.shapes[name])) for name in network.inputs],
        "outputs": [_tensor(Tensor(name, network.shapes[name])) for name in network.outputs],
        "refused": refusal or None,
    }
    cost = report.network_cost(network)
    found |= {"parameters": cost.parameters, "macs": cost.macs, "groups": [], "cuts": []}
    if graph is None:
        return found
    cost_of_nodes = report.parts_of(graph)
    for group in graph.groups:
        found["groups"].append(
            {
                "group": group.index,
                "name": group.name,
                "main": [node.name for node in group.nodes if node.is_main],
                "ops": [node.op for node in group.nodes],
                "output": _tensor(graph.tensors[group.nodes[-1].output]),
            }
            | report.figures(cost_of_nodes(group.nodes))
        )
    done = 0
    for cut in graph.cuts:
        done += found["groups"][cut.index - 1]["macs"]
        tensors = [_tensor(tensor) for tensor in cut.tensors]
        found["cuts"].append(
            {
                "cut": cut.index,
                "elements": cut.elements,
                "bytes": cut.nbytes,
                "macs_before": done,
                "tensors": tensors,
            }
        )
    found["nodes"] = len(graph.nodes)
    found["three_stage_configurations"] = configurations(len(graph.cuts))
    found["inference"] = report.stage_memory(graph)
    return found


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {key: getattr(tensor, key) for key in ("name", "shape", "dtype", "elements")}


def _stages(graph: Graph, plan: Plan) -> list[dict[str, Any]]:
    stages = []
    for stage in (stage for lane in plan.lanes for stage in lane):
        last = len(graph.groups) if stage.last is None else stage.last
        part = subgraph(graph, stage.first, last)
        stages.append(
            {
                "component": stage.component,
                "groups": [stage.first, last],
                "nodes": [asdict(row) for row in part.listing()],
                "cost": report.figures(report.parts_of(graph)(part.nodes)),
                "memory": report.stage_memory(part),
            }
        )
    return stages
