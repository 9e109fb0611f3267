"""``pipeall train``: a multilayer perceptron on one process, or on the ranks that mpirun starts."""

from __future__ import annotations

import os
from math import isfinite
from typing import Any

import click

from ..errors import ArgumentError, PipeallError
from ..mlp import checkpoint, data
from ..mlp.comm import Comm
from ..mlp.export import to_graph, write_onnx
from ..mlp.functions import ACTIVATIONS, LOSSES, SOFTMAX
from ..mlp.layout import MODES
from ..mlp.network import GHOST_GRADIENTS, Perceptron
from ..mlp.train import DivergedError, EpochResult, report
from ..mlp.train import train as run
from .output import file_option, json_option, positive_option, print_json, print_table, progress

LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")  # what Open MPI, MPICH and Intel MPI set


@click.command()
@click.argument("data_name", metavar="DATA")
@click.option("--hidden", default="128", show_default=True, help="Neurons of the hidden layers, such as 512-256.")
@click.option("--activation", type=click.Choice(tuple(ACTIVATIONS)), default="relu", show_default=True)
@click.option("--output", type=click.Choice((*ACTIVATIONS, SOFTMAX)), default=SOFTMAX, show_default=True)
@click.option("--loss", type=click.Choice(LOSSES), default="cross-entropy", show_default=True)
@click.option("--epochs", type=click.IntRange(1), default=10, show_default=True)
@click.option("--batch", type=click.IntRange(1), default=32, show_default=True, help="Samples of an iteration.")
@positive_option("--rate", default=0.1, help="Step along the gradient.")
@click.option("--momentum", type=click.FloatRange(0, 1, max_open=True), default=0.0, show_default=True)
@click.option("--mode", type=click.Choice(MODES), default="full", show_default=True, help="How layers are split.")
@click.option("--ghost-width", type=click.IntRange(1), default=1, show_default=True, help="Ghost mode: neurons a side.")
@click.option("--ghost-gradient", type=click.Choice(GHOST_GRADIENTS), default="drop", show_default=True)
@click.option("--master", is_flag=True, help="Rank 0 holds no neurons.")
@click.option("--bit-equal", is_flag=True, help="The same bits on any number of ranks.")
@click.option("--engine", type=click.Choice(("pipeall", "numpy")), default="pipeall", show_default=True)
@click.option("--dtype", type=click.Choice(("float32", "float64")), default="float32", show_default=True)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Of a rank.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@file_option("--save", help="Checkpoint after every epoch.")
@click.option("--resume", metavar="FILE", help="Go on from a checkpoint, on any number of ranks.")
@file_option("--onnx", "onnx_path", help="Write the trained network as ONNX.")
@click.option("--report", "with_report", is_flag=True, help="What an iteration cost: work, messages, waiting.")
@json_option
def train(data_name: str, hidden: str, as_json: bool, **options: Any) -> None:
    """Train a multilayer perceptron to classify DATA: digits, a .npz (x_train, y_train, x_test, y_test; or x, y), or a
    .csv whose last column is the label.

    \b
    pipeall train digits
    mpirun -n 8 pipeall train mnist.npz --hidden 512-256 --save mnist.ckpt --report
    mpirun -n 2 pipeall train mnist.npz --hidden 512-256 --resume mnist.ckpt --epochs 20 --onnx mnist.onnx
    mpirun -n 8 pipeall train mnist.npz --hidden 512-256 --mode ghost --ghost-width 8
    """
    comm = _comm()
    net, first, failure = None, 0, None
    try:
        samples, test = data.load(data_name)
        net = _network([samples.x.shape[1], *_sizes(hidden), samples.classes], comm, options)
        if options["resume"]:
            first = checkpoint.load(options["resume"], net)
        if first >= options["epochs"]:
            raise ArgumentError(f"--epochs: expected more than the checkpoint's {first}, got {options['epochs']}")
    except PipeallError as error:
        failure = error
    except BaseException as error:
        comm.abort(error)
        raise
    comm.agree(failure)
    try:
        history, cost = _trained(net, samples, test, first, options, as_json)
    except DivergedError:
        raise
    except BaseException as error:
        comm.abort(error)
        raise
    if comm.rank == 0:
        _show(net, history, cost if options["with_report"] else None, as_json)


def _comm() -> Comm:
    if not any(name in os.environ for name in LAUNCHED):
        return Comm()
    from ..mlp.comm_mpi import Mpi

    return Mpi()


def _sizes(hidden: str) -> list[int]:
    try:
        return [int(part) for part in hidden.split("-")]
    except ValueError:
        raise ArgumentError(f"--hidden: expected numbers such as 512-256, got {hidden!r}") from None


def _network(sizes: list[int], comm: Comm, options: dict[str, Any]) -> Perceptron:
    net = Perceptron(options["loss"], options["seed"], options["dtype"], options["engine"], options["threads"])
    net.add_layer("input", sizes[0])
    for neurons in sizes[1:-1]:
        net.add_layer("hidden", neurons, options["activation"])
    net.add_layer("output", sizes[-1], options["output"])
    net.initialize(
        comm, **{key: options[key] for key in ("mode", "ghost_width", "ghost_gradient", "master", "bit_equal")}
    )
    return net


def _trained(
    net: Perceptron,
    samples: data.LabelledSamples,
    test: data.LabelledSamples,
    first: int,
    options: dict[str, Any],
    as_json: bool,
) -> tuple[list[EpochResult], dict[str, Any]]:
    leads = net.comm.rank == 0
    with progress() as bar:
        task = bar.add_task("training", total=options["epochs"] - first, visible=leads)

        def told(epoch: EpochResult) -> None:
            bar.advance(task)
            if leads and not as_json:
                click.echo(
                    f"epoch {epoch.epoch}: loss {epoch.loss:.5f}, accuracy {100 * epoch.accuracy:.2f} %, "
                    f"{epoch.seconds:.2f} s"
                )

        fixed = (options["epochs"], options["batch"], options["rate"], options["momentum"], first, options["save"])
        history = run(net, samples, test, *fixed, told)
    cost = report(net, history, len(samples))
    if options["onnx_path"]:
        layers = net.gather()
        if layers is not None:
            write_onnx(options["onnx_path"], to_graph(layers, net.activations))
    return history, cost


def _show(net: Perceptron, history: list[EpochResult], cost: dict[str, Any] | None, as_json: bool) -> None:
    if as_json:
        rows = [{key: getattr(epoch, key) for key in epoch.__dataclass_fields__} for epoch in history]
        print_json("training", sizes=net.sizes, mode=net.mode, epochs=rows, report=cost)
        return
    if cost is None:
        return
    way = cost["communication_seconds"]
    overlap = cost["overlap"]
    rows = [
        ("weights, of the dense network's", f"{cost['weights']:,}, {100 * cost['weights_kept']:.1f} %"),
        ("weights of a rank", f"{cost['weights_of_a_rank']:,}"),
        ("FLOP a sample, GFLOP/s", f"{cost['flops']:,}, {cost['flops_per_second'] / 1e9:.2f}"),
        ("iteration", f"{1e6 * cost['iteration_seconds']:.1f} us"),
        ("messages, bytes of a rank", f"{cost['messages']:.1f}, {cost['bytes']:,.0f}"),
        (
            "communication max, mean, waiting",
            ", ".join(f"{1e6 * way[key]:.1f}" for key in ("max", "mean", "exposed")) + " us",
        ),
        ("communication max by iteration", f"{100 * way['share']:.1f} %"),
        ("overlap", None if overlap is None or not isfinite(overlap) else f"{100 * overlap:.0f} %"),
    ]
    print_table(f"{net.mode} mode on {cost['ranks']} ranks: an iteration", ["", ">"], rows)
