"""``pipeall cost epoch``: the time of one pass over a data set, and whether disk, bus or device bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ...errors import ArgumentError
from ...graph.onnx.read.inputs import Shapes
from ...sizing import residence
from ...sizing.size_report import epoch_report
from ..model_argument import Finer, read_network
from ..options import Command, Numbers, json_option, model_argument, model_options, positive_option
from ..output import print_json
from ..tables import print_text

LINK = {"type": click.Choice(list(residence.LINKS)), "metavar": "LINK"}


@click.command(cls=Command)
@model_argument
@click.option("--samples", type=click.IntRange(1), required=True, help="Of the data set; ImageNet has 1281167.")
@positive_option("--gmacs", help="10^9 MACs a second that the device reaches.", required=True)
@click.option("--training", "trains", is_flag=True, help="Backward passes too, not inference alone.")
@click.option(
    "--disk", **LINK, default="sata3", show_default=True, help=f"Where samples lie: {', '.join(residence.LINKS)}."
)
@click.option("--bus", **LINK, help="To the GPU, one of the same; without, the CPU computes.")
@click.option(
    "--channels",
    type=Numbers(int, "4,1,4"),
    default="1,1,1",
    show_default=True,
    help="How many workers, disk channels and controller channels load at once.",
)
@click.option(
    "--sample-type",
    type=click.Choice(list(residence.SAMPLE_TYPES)),
    default="float32",
    show_default=True,
    help="Of an element of a sample on disk. On the bus it is float32.",
)
@click.option("--prefetch", is_flag=True, help="Loading, moving and computing overlap.")
@click.option("--folded", is_flag=True, help="The network as it runs: BatchNorm folded into convolutions.")
@model_options
@json_option
def epoch(
    model: str,
    samples: int,
    gmacs: float,
    trains: bool,
    disk: str,
    bus: str | None,
    channels: tuple[int, ...],
    sample_type: str,
    prefetch: bool,
    folded: bool,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Show the time of one pass over a data set, and what bounds it.

    \b
    pipeall cost epoch net.onnx --samples 1281167 --gmacs 50
    pipeall cost epoch net.onnx --samples 1281167 --gmacs 4000 --bus pcie3x16

    Samples have the network's own size and are not compressed: pictures of 8 bits are --sample-type uint8.
    """
    if len(channels) != 3:
        raise ArgumentError(f"--channels: expected three numbers, got {len(channels)}")
    network, _, _ = read_network(model, input_shape, finer, folded)
    times = epoch_report(network, samples, disk, bus, 1e9 * gmacs, channels, sample_type, prefetch, trains)
    if as_json:
        print_json("epoch-cost", name=network.name, **times)
    else:
        _show(times)


def _show(times: Mapping[str, Any]) -> None:
    parts = ", ".join(
        f"{name.removesuffix('_s')} {times[name]:,.3g} s" for name in ("load_s", "transfer_s", "compute_s")
    )
    how = "the slowest, with prefetch" if times["prefetch"] else "their sum"
    kind = "training" if times["training"] else "inference"
    print_text(f"Model, once: load {times['model_load_s']:,.3g} s, transfer {times['model_transfer_s']:,.3g} s")
    print_text(f"Epoch of {kind}: {parts}; {how}: {times['total_s']:,.3g} s, bound by the {times['bottleneck']}")
