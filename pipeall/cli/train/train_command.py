"""``pipeall train``: a multilayer perceptron on one process, or on the ranks that mpirun starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from ...errors import ArgumentError, PipeallError
from ...graph.ir import Graph
from ...graph.onnx.write.write import save_onnx
from ...mlp import checkpoint, data
from ...mlp.checkpoint import Progress
from ...mlp.comm import Comm
from ...mlp.export import in_units, to_graph
from ...mlp.functions import ACTIVATIONS, LOSSES, OUTPUTS, SOFTMAX
from ...mlp.layout import MODES
from ...mlp.network import GHOST_GRADIENTS, Perceptron
from ...mlp.rules import RULES, SCHEDULES, Rule, Schedule
from ...mlp.train import DivergedError, EpochResult, report
from ...mlp.train import train as run
from .. import complete
from ..groups import DEFAULT, DefaultGroup
from ..options import KeyValues, file_option, json_option, positive_option, seed_option
from ..output import print_json, progress
from ..tables import print_table
from .scaling_command import scaling

if TYPE_CHECKING:
    from .train_log import EventFiles

LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")  # what Open MPI, MPICH and Intel MPI set


HIDDEN = KeyValues(str, activation=(click.Choice(tuple(ACTIVATIONS)), f"{', '.join(ACTIVATIONS)} (relu)"))
OUTPUT = KeyValues(
    click.Choice((*OUTPUTS, SOFTMAX)),
    loss=(click.Choice(LOSSES), f"{' or '.join(LOSSES)}, as fits"),
    targets=(click.IntRange(1), "last columns of a .csv (1)"),
)
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
EPOCHS = KeyValues(
    click.IntRange(1),
    validation=(SHARE, "share held out, which chooses the epoch"),
    patience=(click.IntRange(1), "end so many epochs after the best one"),
    tensorboard=(str, "folder for event files of every epoch"),
)
SPLIT = KeyValues(
    click.Choice(MODES),
    width=(click.IntRange(1), "ghost neurons a side (1)"),
    gradient=(click.Choice(GHOST_GRADIENTS), f"{', '.join(GHOST_GRADIENTS)} (drop)"),
    master=(bool, "rank 0 holds no neurons"),
    bit_equal=(bool, "the same bits on any number of ranks"),
)
ENGINE = KeyValues(
    click.Choice(("pipeall", "numpy")),
    dtype=(click.Choice(("float32", "float64")), "(float32) or float64"),
    threads=(click.IntRange(1, len(os.sched_getaffinity(0))), "of a rank (1), a core for each at least"),
)
MOMENTUM = click.FloatRange(0, 1, max_open=True)
RULE = KeyValues(
    click.Choice(RULES),
    momentum=(MOMENTUM, "of sgd (0)"),
    rate=(float, "of learning (0.1; adam: 0.001)"),
    decay=(float, "of the weights (0)"),
    clip=(float, "longest norm of a gradient"),
    schedule=(click.Choice(SCHEDULES), f"{', '.join(SCHEDULES)} (constant)"),
    every=(click.IntRange(1), "epochs of a step (10)"),
    factor=(float, "of a step (0.1)"),
    beta1=(float, "of adam, adamw (0.9)"),
    beta2=(float, "of adam, adamw (0.999)"),
    epsilon=(float, "of adam, adamw (1e-8)"),
)
RATES = {"sgd": 0.1, "adam": 0.001, "adamw": 0.001}


@click.group(cls=DefaultGroup, subcommand_metavar="DATA | COMMAND ...")
def train() -> None:
    """Train a multilayer perceptron to classify DATA, or to tell numbers.

    \b
    pipeall train digits
    pipeall train digits --epochs 50:validation=0.1 --plot digits.png
    pipeall train houses.csv --output linear --epochs 200:validation=0.1
    mpirun -n 8 pipeall train mnist.npz --hidden 512-256 --save mnist.ckpt
    mpirun -n 2 pipeall train mnist.npz --hidden 512-256 --resume mnist.ckpt
    mpirun -n 8 pipeall train mnist.npz --hidden 512-256 --mode ghost:width=8
    pipeall train scaling --ranks 1,2

    DATA is digits, a .npz (x_train, y_train, x_test, y_test; or x, y), or a .csv whose last column is the label.
    With --output linear, or a y of several columns, numbers are learned. The ranks that mpirun starts share the work.
    """


@train.command(DEFAULT)
@click.argument("data_name", metavar="DATA", shell_complete=complete.files(".npz", ".csv", names=("digits",)))
@HIDDEN.option("--hidden", default="128", help="Neurons of the hidden layers, such as 512-256 (default 128).")
@OUTPUT.option("--output", default=SOFTMAX, help=f"Of the last layer: {', '.join(OUTPUTS)} or {SOFTMAX} (default).")
@EPOCHS.option("--epochs", default="10", help="How many (default 10), such as 200:validation=0.1,patience=20.")
@click.option("--batch", type=click.IntRange(1), default=32, show_default=True, help="Samples of an iteration.")
@RULE.option(
    "--optimizer", default="sgd", help="sgd (default), adam or adamw, such as adam:schedule=cosine,decay=0.01."
)
@positive_option("--rate", hidden=True, help="Short for --optimizer sgd:rate=...")
@click.option("--momentum", type=MOMENTUM, hidden=True, help="Short for --optimizer sgd:momentum=...")
@SPLIT.option("--mode", default="full", help="How ranks split layers: full (default) or ghost, such as ghost:width=8.")
@ENGINE.option("--engine", default="pipeall", help="What computes: pipeall (default) or numpy.")
@file_option("--save", resumed="resume", help="Checkpoint after every epoch.")
@click.option(
    "--resume",
    metavar="FILE",
    shell_complete=complete.any_file,
    help="Go on from a checkpoint, on any number of ranks.",
)
@file_option("--onnx", "onnx_path", help="Write the trained network as ONNX.")
@file_option("--plot", help="Draw loss and accuracy by epoch to this .png file.")
@click.option("--report", "with_report", is_flag=True, help="What an iteration cost: work, messages, waiting.")
@seed_option
@json_option
def train_model(data_name: str, as_json: bool, **options: Any) -> None:
    """Train a multilayer perceptron.

    \b
    pipeall train digits
    pipeall train model digits --hidden 64-32
    """
    comm = _comm()
    length = options["epochs"]
    options |= {"epochs": length["head"], "validation": length.get("validation"), "patience": length.get("patience")}
    options["looks"] = bool(options["plot"] or "tensorboard" in length)
    log = draw = failure = None
    try:
        schedule = _schedule(options["optimizer"])
        options["rate"] = _rate(options)
        _refuse_early(options)
        samples, net, made = _begun(data_name, comm, options)
        if comm.rank == 0:
            log = _log(length.get("tensorboard"), made.epoch)
            draw = _drawing(options["plot"])
    except PipeallError as error:
        failure = error
    except BaseException as error:
        comm.abort(error)
        raise
    comm.agree(failure)
    history: list[EpochResult] = []
    try:
        cost, graph = _trained(net, samples, made, schedule, options, as_json, log, history)
    except DivergedError:
        raise
    except BaseException as error:
        if history and isinstance(error, ArgumentError):  # a checkpoint that cannot be written, of rank 0
            _show(net, history, None, as_json)
        comm.abort(error)
        raise
    if comm.rank == 0:
        with ExitStack() as files:
            if draw is not None:
                files.callback(draw, options["plot"], history, f"{data_name}: {'-'.join(map(str, net.sizes))}")
            if graph is not None:
                files.callback(save_onnx, graph, options["onnx_path"])
            _show(net, history, cost if options["with_report"] else None, as_json)


def _begun(data_name: str, comm: Comm, options: dict[str, Any]) -> tuple[data.Split, Perceptron, Progress]:
    """The samples, and the network as it is before the first epoch of this run."""
    output, made = options["output"], Progress()
    samples = data.split(
        data_name, output["head"], _loss(options), output.get("targets", 1), options["validation"] or 0.0
    )
    net = _network([samples.train.x.shape[1], *_sizes(options["hidden"]["head"]), samples.train.outputs], comm, options)
    if options["resume"]:
        made = checkpoint.load(options["resume"], net)
    if made.epoch >= options["epochs"]:
        raise ArgumentError(f"--epochs: expected more than the checkpoint's {made.epoch}, got {options['epochs']}")
    if options["patience"] and made.best is not None and made.epoch - made.best_epoch >= options["patience"]:
        raise ArgumentError(
            f"--epochs: patience: training has ended, at epoch {made.epoch}: its best was {made.best_epoch}"
        )
    return samples, net, made


def _log(folder: str | None, done: int) -> EventFiles | None:
    if folder is None:
        return None
    from .train_log import EventFiles

    return EventFiles(folder, done)


def _drawing(path: str | None) -> Callable[[str, list[EpochResult], str], None] | None:
    """What draws the plot, looked for before anything is trained in vain."""
    if path is None:
        return None
    from .train_plot import draw_training

    return draw_training


def _comm() -> Comm:
    if not any(name in os.environ for name in LAUNCHED):
        return Comm()
    from ...mlp.comm_mpi import Mpi

    return Mpi()


def _sizes(hidden: str) -> list[int]:
    try:
        return [int(part) for part in hidden.split("-")]
    except ValueError:
        raise ArgumentError(f"--hidden: expected numbers such as 512-256, got {hidden!r}") from None


def _rule(given: dict[str, Any], momentum: float | None) -> Rule:
    if momentum is not None and "momentum" in given:
        raise ArgumentError("--momentum: expected once, got it in --optimizer too")
    momentum = given.get("momentum", momentum or 0.0)
    keys = ("beta1", "beta2", "epsilon", "decay", "clip")
    _no_keys_of_others(given, {"beta1", "beta2", "epsilon"}, given["head"] != "sgd", given["head"])
    _no_keys_of_others(given, {"momentum"}, given["head"] == "sgd", given["head"])
    return Rule(given["head"], momentum, **{key: given[key] for key in keys if key in given})


def _schedule(given: dict[str, Any]) -> Schedule:
    name = given.get("schedule", "constant")
    _no_keys_of_others(given, {"every", "factor"}, name == "step", f"schedule {name}")
    return Schedule(name, **{key: given[key] for key in ("every", "factor") if key in given})


def _no_keys_of_others(given: dict[str, Any], keys: set[str], has_them: bool, name: str) -> None:
    if not has_them and (wrong := sorted(keys & given.keys())):
        raise ArgumentError(f"--optimizer: {name} has no {', '.join(wrong)}")


def _loss(options: dict[str, Any]) -> str:
    output = options["output"]
    return output.get("loss", "squared" if output["head"] == "linear" else "cross-entropy")


def _refuse_early(options: dict[str, Any]) -> None:
    """Raises ArgumentError for what would only fail behind the training."""
    if options["onnx_path"] and options["output"]["head"] == "tanh":
        raise ArgumentError("--onnx: expected an output of sigmoid, relu, linear or softmax, got tanh")
    if options["patience"] and not options["validation"]:
        raise ArgumentError("--epochs: patience: expected validation too, whose loss it watches")
    loss, output = _loss(options), options["output"]["head"]
    if loss == "cross-entropy" and output not in (SOFTMAX, "sigmoid"):
        raise ArgumentError(f"--output: cross-entropy needs softmax or sigmoid, got {output}; {output}:loss=squared")


def _rate(options: dict[str, Any]) -> float:
    """What --optimizer says, else --rate, else the rule's."""
    given, rate = options["optimizer"], options["rate"]
    if "rate" in given:
        if rate is not None:
            raise ArgumentError("--rate: expected once, got it in --optimizer too")
        rate = given["rate"]
        if not rate > 0:
            raise ArgumentError(f"--optimizer: rate: expected a number above 0, got {rate}")
    return RATES[given["head"]] if rate is None else rate


def _network(sizes: list[int], comm: Comm, options: dict[str, Any]) -> Perceptron:
    hidden, output, split, engine = (options[key] for key in ("hidden", "output", "mode", "engine"))
    net = Perceptron(
        _loss(options),
        options["seed"],
        engine.get("dtype", "float32"),
        engine["head"],
        engine.get("threads", 1),
        _rule(options["optimizer"], options["momentum"]),
    )
    net.add_layer("input", sizes[0])
    for neurons in sizes[1:-1]:
        net.add_layer("hidden", neurons, hidden.get("activation", "relu"))
    net.add_layer("output", sizes[-1], output["head"])
    net.initialize(
        comm,
        mode=split["head"],
        ghost_width=split.get("width", 1),
        ghost_gradient=split.get("gradient", "drop"),
        master=split.get("master", False),
        bit_equal=split.get("bit_equal", False),
    )
    return net


def _trained(
    net: Perceptron,
    samples: data.Split,
    made: Progress,
    schedule: Schedule,
    options: dict[str, Any],
    as_json: bool,
    log: EventFiles | None,
    history: list[EpochResult],
) -> tuple[dict[str, Any], Graph | None]:
    """Fills ``history``. What an iteration cost and, on rank 0 where it is to be written, the network."""
    leads = net.comm.rank == 0
    with progress() as bar:
        task = bar.add_task("training", total=options["epochs"], completed=made.epoch, visible=leads)

        def told(epoch: EpochResult) -> None:
            history.append(epoch)
            bar.update(task, completed=epoch.epoch, description=f"loss {epoch.loss:.4g}, {_quality(epoch)}")
            if leads and not as_json:
                held = "" if epoch.validation is None else f", validation loss {epoch.validation:.5f}"
                click.echo(
                    f"epoch {epoch.epoch}: loss {epoch.loss:.5f}{held}, {_quality(epoch)}, {epoch.seconds:.2f} s"
                )
            if log is not None:
                log.add(epoch)

        fixed = (options["epochs"], options["batch"], options["rate"], None, made, options["save"], schedule)
        watched = (samples.validation, options["patience"], options["looks"], told)
        run(net, samples.train, samples.test, *fixed, *watched, lambda epochs: bar.update(task, completed=epochs))
    if log is not None:
        log.close()
    cost = report(net, history, len(samples.train))
    layers = net.gather() if options["onnx_path"] else None
    if layers is None:
        return cost, None
    if isinstance(samples.train, data.ValuedSamples):
        layers = in_units(layers, samples.train.x_units, samples.train.y_units)
    return cost, to_graph(layers, net.activations)


def _quality(epoch: EpochResult) -> str:
    if epoch.accuracy is None:
        return f"RMSE {epoch.error:.4g} on the test set"
    return f"accuracy {100 * epoch.accuracy:.2f} % on the test set"


def _best(history: list[EpochResult]) -> EpochResult | None:
    """The epoch of this run whose weights are the network's, where a validation chose."""
    held = [epoch for epoch in history if epoch.validation is not None]
    return min(held, key=lambda epoch: epoch.validation or 0.0) if held else None


def _show(net: Perceptron, history: list[EpochResult], cost: dict[str, Any] | None, as_json: bool) -> None:
    if as_json:
        rows = [{key: getattr(epoch, key) for key in epoch.__dataclass_fields__} for epoch in history]
        print_json("training", sizes=net.sizes, mode=net.mode, epochs=rows, report=cost)
        return
    best = _best(history)
    if best is not None:
        click.echo(f"lowest validation loss: epoch {best.epoch}, {best.validation:.5f}, {_quality(best)}")
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


train.add_command(scaling)
