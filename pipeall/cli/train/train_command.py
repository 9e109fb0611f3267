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
from ...mlp.train import DivergedError, EpochResult, Settings, report
from ...mlp.train import train as run
from .. import complete
from ..default_group import DEFAULT, DefaultGroup
from ..options import file_option, given, json_option, positive_option, seed_option, together, under
from ..output import print_json, progress
from ..tables import print_table
from .scaling_command import scaling
from .train_pictures import picture_samples

if TYPE_CHECKING:
    from .train_log import EventFiles

LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")  # what Open MPI, MPICH and Intel MPI set


SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
MOMENTUM = click.FloatRange(0, 1, max_open=True)
RATES = {"sgd": 0.1, "adam": 0.001, "adamw": 0.001}


@click.group(cls=DefaultGroup, subcommand_metavar="DATA | COMMAND ...")
def train() -> None:
    """Train a multilayer perceptron to classify DATA, or to tell numbers.

    \b
    pipeall train digits --epochs 50 --validation 0.1 --plot digits.png
    pipeall train houses.csv --output linear --epochs 200 --validation 0.1
    mpirun -n 8 pipeall train mnist.npz --hidden 512-256 --save mnist.ckpt

    DATA is digits, a .npz (x_train, y_train, x_test, y_test; or x, y), a .csv with the label last, or
    inputs.txt,outputs.txt. With --output linear, or a y of several columns, numbers are learned.
    """


@train.command(DEFAULT)
@click.argument(
    "data_name",
    metavar="DATA",
    required=False,
    shell_complete=complete.files(".npz", ".csv", ".txt", names=("digits",)),
)
@together(
    "In place of DATA: a folder of classes; pixels of a side (28).",
    ("--pictures", click.Path(exists=True, file_okay=False)),
    ("--picture-size", click.IntRange(1, 512), 28),
)
@under(
    "The network",
    click.option("--hidden", default="128", show_default=True, help="Neurons of the hidden layers, such as 512-256."),
    together(
        f"{', '.join(ACTIVATIONS)} (relu); {', '.join((*OUTPUTS, SOFTMAX))}.",
        ("--activation", click.Choice(tuple(ACTIVATIONS)), "relu"),
        ("--output", click.Choice((*OUTPUTS, SOFTMAX)), SOFTMAX),
    ),
    click.option("--loss", type=click.Choice(LOSSES), help="Default: squared for a linear output."),
    click.option("--targets", type=click.IntRange(1), default=1, help="How many last columns of a .csv are targets."),
)
@under(
    "The training",
    together(
        "Passes over the samples (10); samples of an iteration (32).",
        ("--epochs", click.IntRange(1), 10),
        ("--batch", click.IntRange(1), 32),
    ),
    together(
        "Share that chooses the best epoch; end so many after it.",
        ("--validation", SHARE),
        ("--patience", click.IntRange(1)),
    ),
    click.option("--tensorboard", metavar="FOLDER", help="Event files with the figures of every epoch."),
)
@under(
    "The optimizer",
    click.option("--optimizer", type=click.Choice(RULES), default="sgd", show_default=True),
    positive_option("--lr", help="Learning rate; default 0.1 for sgd, else 0.001."),
    together(
        "Momentum is sgd's; clip is a gradient's longest norm.",
        ("--momentum", MOMENTUM),
        ("--weight-decay", "decay", float),
        ("--clip", float),
    ),
    together(
        f"{', '.join(SCHEDULES)}; a step is 10 epochs, by 0.1.",
        ("--schedule", click.Choice(SCHEDULES), "constant"),
        ("--step-epochs", "every", click.IntRange(1)),
        ("--step-factor", "factor", float),
    ),
    together("Of adam and adamw (0.9, 0.999, 1e-8).", ("--beta1", float), ("--beta2", float), ("--epsilon", float)),
)
@under(
    "Ranks and engine",
    click.option("--mode", type=click.Choice(MODES), default="full", show_default=True, help="How ranks split layers."),
    together(
        f"Ghost neurons of a side (1); gradients: {', '.join(GHOST_GRADIENTS)}.",
        ("--ghost-width", click.IntRange(1), 1),
        ("--ghost-gradient", click.Choice(GHOST_GRADIENTS), "drop"),
    ),
    together("Rank 0 holds no neurons; the same bits on any number of ranks.", "--master", "--bit-equal"),
    together(
        "pipeall or numpy; float32 or float64.",
        ("--engine", click.Choice(("pipeall", "numpy")), "pipeall"),
        ("--dtype", click.Choice(("float32", "float64")), "float32"),
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, len(os.sched_getaffinity(0))),
        default=1,
        help="Of a rank (1); each needs a core of its own.",
    ),
)
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
def train_model(data_name: str | None, as_json: bool, **options: Any) -> None:
    """Train a multilayer perceptron.

    \b
    pipeall train digits
    pipeall train model digits --hidden 64-32
    """
    if (data_name is None) == (options["pictures"] is None):
        raise click.UsageError("expected DATA or --pictures FOLDER")
    comm = _comm()
    options["looks"] = bool(options["plot"] or options["tensorboard"])
    log = draw = failure = None
    name = data_name or options["pictures"]
    try:
        schedule = _schedule(options)
        options["lr"] = options["lr"] or RATES[options["optimizer"]]
        _refuse_early(options)
        samples, net, made = _begun(name, comm, options)
        if comm.rank == 0:
            log = _log(options["tensorboard"], made.epoch)
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
                files.callback(draw, options["plot"], history, f"{name}: {'-'.join(map(str, net.sizes))}")
            if graph is not None:
                files.callback(save_onnx, graph, options["onnx_path"])
            _show(net, history, cost if options["with_report"] else None, as_json)


def _begun(name: str, comm: Comm, options: dict[str, Any]) -> tuple[data.Split, Perceptron, Progress]:
    """The samples, and the network as it is before the first epoch of this run."""
    made = Progress()
    arrays = options["pictures"] and picture_samples(name, options["picture_size"])
    held = options["validation"] or 0.0
    samples = data.split(name, options["output"], _loss(options), options["targets"], held, arrays)
    net = _network([samples.train.x.shape[1], *_sizes(options["hidden"]), samples.train.outputs], comm, options)
    if options["resume"]:
        made = checkpoint.load(options["resume"], net)
    if made.epoch >= options["epochs"]:
        raise ArgumentError(f"--epochs: expected more than the checkpoint's {made.epoch}, got {options['epochs']}")
    if options["patience"] and made.best is not None and made.epoch - made.best_epoch >= options["patience"]:
        raise ArgumentError(f"--patience: training has ended, at epoch {made.epoch}: its best was {made.best_epoch}")
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


def _rule(options: dict[str, Any]) -> Rule:
    name, betas = options["optimizer"], ("beta1", "beta2", "epsilon")
    _only_where(options, betas, name != "sgd", name)
    _only_where(options, ("momentum",), name == "sgd", name)
    return Rule(name, options["momentum"] or 0.0, **given(options, (*betas, "decay", "clip")))


def _schedule(options: dict[str, Any]) -> Schedule:
    name = options["schedule"]
    _only_where(options, ("every", "factor"), name == "step", f"schedule {name}")
    return Schedule(name, **given(options, ("every", "factor")))


def _only_where(options: dict[str, Any], names: tuple[str, ...], fits: bool, what: str) -> None:
    if not fits and (wrong := given(options, names)):
        raise ArgumentError(f"--optimizer: {what} has no {', '.join(wrong)}")


def _loss(options: dict[str, Any]) -> str:
    return options["loss"] or ("squared" if options["output"] == "linear" else "cross-entropy")


def _refuse_early(options: dict[str, Any]) -> None:
    """Raises ArgumentError for what would only fail behind the training."""
    if options["onnx_path"] and options["output"] == "tanh":
        raise ArgumentError("--onnx: expected an output of sigmoid, relu, linear or softmax, got tanh")
    if options["patience"] and not options["validation"]:
        raise ArgumentError("--patience: expected --validation too, whose loss it watches")
    loss, output = _loss(options), options["output"]
    if loss == "cross-entropy" and output not in (SOFTMAX, "sigmoid"):
        raise ArgumentError(f"--output: cross-entropy needs softmax or sigmoid, got {output}; --loss squared fits")


def _network(sizes: list[int], comm: Comm, options: dict[str, Any]) -> Perceptron:
    net = Perceptron(
        _loss(options), options["seed"], options["dtype"], options["engine"], options["threads"], _rule(options)
    )
    net.add_layers(sizes, options["activation"], options["output"])
    split = {name: options[name] for name in ("mode", "ghost_width", "ghost_gradient", "master", "bit_equal")}
    net.initialize(comm, **split)
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

        def on_epoch(epoch: EpochResult) -> None:
            history.append(epoch)
            bar.update(task, completed=epoch.epoch, description=f"loss {epoch.loss:.4g}, {_quality(epoch)}")
            if leads and not as_json:
                held = "" if epoch.validation is None else f", validation loss {epoch.validation:.5f}"
                click.echo(
                    f"epoch {epoch.epoch}: loss {epoch.loss:.5f}{held}, {_quality(epoch)}, {epoch.seconds:.2f} s"
                )
            if log is not None:
                log.add(epoch)

        fixed = {name: options[name] for name in ("epochs", "batch", "patience")}
        settings = Settings(**fixed, rate=options["lr"], schedule=schedule)

        def on_progress(epochs: float) -> None:
            bar.update(task, completed=epochs)

        run(net, samples, settings, made, options["save"], options["looks"], on_epoch, on_progress)
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
