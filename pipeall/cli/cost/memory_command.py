"""``pipeall cost train``: the memory that training a network takes, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from ...errors import ArgumentError
from ...graph.onnx.read.inputs import Shapes
from ...sizing import training
from ...sizing.residence import SHARE
from ...sizing.size_report import training_report
from ..model_argument import Finer, read_network
from ..options import Bytes, Command, json_option, model_argument, model_options, positive_option
from ..output import print_json
from ..tables import print_table, print_text
from .cost_text import bytes_text, show_notes


@click.command(cls=Command)
@model_argument
@click.option("--optimizer", type=click.Choice(list(training.OPTIMIZERS)), required=True, help="Its states count.")
@click.option("--batch", type=click.IntRange(1), help="Samples of a batch; else the largest that fits.")
@click.option("--memory", type=Bytes(), help="The memory that the CPU has, such as 8GB or 8GiB.")
@click.option("--gpu-memory", type=Bytes(), help="With --memory: that of the GPU that trains.")
@click.option("--system", type=Bytes(), help="What the operating system takes of --memory, such as 1.5GB.")
@positive_option("--share", help="Part of each memory that may be used.", default=SHARE)
@click.option("--float64", is_flag=True, help="All numbers in 64 bits, not 32.")
@click.option("--folded", is_flag=True, help="The network as it runs: BatchNorm folded into convolutions.")
@model_options
@json_option
def train(
    model: str,
    optimizer: str,
    batch: int | None,
    memory: float | None,
    gpu_memory: float | None,
    system: float | None,
    share: float,
    float64: bool,
    folded: bool,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Show the memory that training takes, and the largest batch.

    \b
    pipeall cost train net.onnx --optimizer adam --memory 32GB --gpu-memory 11GB
    pipeall cost train alexnet --optimizer sgd --batch 32
    """
    memories = {name: size for name, size in (("cpu", memory), ("gpu", gpu_memory)) if size is not None}
    if "gpu" in memories and "cpu" not in memories:
        raise ArgumentError("--gpu-memory: expected --memory with it: the CPU's holds the model and a batch of data")
    if system is not None:
        if not memories or system >= memories["cpu"]:
            raise ArgumentError(f"--system: expected less than --memory, which it is part of, got {system:g} bytes")
        memories["cpu"] -= system
    if batch is None and not memories:
        raise ArgumentError("cost train: expected --batch, or --memory (with --gpu-memory) to find the largest batch")
    network, _, _ = read_network(model, input_shape, finer, folded)
    if float64:
        network = replace(network, float_bytes=8)
    report = training_report(network, optimizer, batch, memories, share)
    if as_json:
        print_json("training-cost", name=network.name, **report, notes=list(network.notes))
    else:
        _show(report)
        show_notes(network.notes)


def _show(report: Mapping[str, Any]) -> None:
    for name, what in (("lecture", "model + batch x (data + 2 x activations)"), ("exact", "by liveness")):
        row = report[name]
        needs = f"batch {row['batch']} needs {bytes_text(row['bytes'])}"
        print_text(f"Training, {name} ({what}), {report['optimizer']}: {needs}")
        for memory, share in row.get("shares", {}).items():
            print_text(f"  {100 * share:.0f} % of the {memory}'s memory")
        if fit := row.get("largest_batch"):
            limit = bytes_text(fit["limit_bytes"][fit["binding"]])
            print_text(f"  largest batch {fit['batch']}: one more would exceed {limit} of the {fit['binding']}", hang=4)
    if recommended := report.get("recommended"):
        print_text(f"Recommended: batch {recommended['batch']}: {recommended['why']}")
    lie = report["residence"]
    places = [("disk", "disk_bytes"), ("CPU's memory", "cpu_bytes"), ("GPU's memory", "gpu_bytes")]
    held = ", ".join(f"{place} {bytes_text(lie[key])}" for place, key in places if lie[key])
    print_text(f"Where it lies, without the data set: {held}", hang=2)
    parts = [
        (name.removesuffix("_bytes").replace("_", " "), bytes_text(size))
        for name, size in report["exact"]["parts"].items()
    ]
    print_text()
    print_table(f"Exact, batch {report['exact']['batch']}", ["part", ">bytes"], parts)
