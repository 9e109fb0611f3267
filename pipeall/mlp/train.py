"""Epochs over data, checkpoints, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite, sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import PipeallError
from . import checkpoint
from .checkpoint import Progress
from .comm import Traffic
from .data import LabelledSamples, Samples, Split
from .network import Perceptron
from .rules import Schedule
from .traffic import dense_weights, flops

START, CONSTANT = Progress(), Schedule()
EVALUATED = 256  # samples at a time
REPORTS = 20  # of progress in an epoch, at most: an iteration may take microseconds


class DivergedError(PipeallError):
    """The loss is not a finite number; every rank raises this."""


@dataclass(frozen=True)
class EpochResult:
    """An epoch: its mean training loss, how good the network is after it, the seconds of its iterations.

    accuracy    on the test samples, with classes; else None
    validation  mean loss of what is held out; None without
    error       root of the mean square on the test samples, in the file's units, with numbers; else None
    on_training, on_validation  accuracy or error, whichever there is, on these samples; None where not looked at
    """

    epoch: int
    loss: float
    accuracy: float | None
    seconds: float
    iterations: int
    rate: float
    validation: float | None = None
    error: float | None = None
    on_training: float | None = None
    on_validation: float | None = None


@dataclass(frozen=True)
class Settings:
    """How a network is trained.

    Attributes
    ----------
    epochs : int
        Passes over the training samples, those before an interruption included.
    batch : int
        Samples of an iteration.
    rate : float
        Learning rate of the first epoch.
    momentum : float or None
        In place of the rule's.
    schedule : Schedule
        How ``rate`` changes over the epochs.
    patience : int or None
        Training ends after so many epochs without a new least validation loss.
    """

    epochs: int
    batch: int
    rate: float
    momentum: float | None = None
    schedule: Schedule = CONSTANT
    patience: int | None = None


def train(
    net: Perceptron,
    samples: Split,
    settings: Settings,
    progress: Progress = START,
    save: str | Path | None = None,
    look_at_training: bool = False,
    on_epoch: Callable[[EpochResult], object] = lambda epoch: None,
    on_progress: Callable[[float], object] = lambda epochs: None,
) -> list[EpochResult]:
    """Trains from ``progress`` on; called by every rank with the same arguments.

    The order of the samples is a function of the network's seed and the epoch.

    Parameters
    ----------
    samples
        With validation samples, the network has the weights of the epoch with their least loss in the end.
    save
        A checkpoint, written after each epoch.
    look_at_training
        Whether results say how good the network is on the training samples, for a forward pass over all of them.
    on_epoch
        Called with each epoch after its checkpoint, also where that could not be written.
    on_progress
        Called some times within an epoch with the epochs done so far, a fraction.

    Raises
    ------
    DivergedError
        The last checkpoint is as it was.
    """
    data, validation = samples.train, samples.validation
    history: list[EpochResult] = []
    net.comm.traffic = Traffic()  # of iterations alone: ranks wait for each other before the first one too
    for epoch in range(progress.epoch, settings.epochs):
        waited = 0 if progress.best is None else epoch - progress.best_epoch
        if settings.patience is not None and progress.best is not None and waited >= settings.patience:
            break
        rate = settings.rate * settings.schedule.share(epoch, settings.epochs)
        begin = perf_counter()
        total, iterations = _epoch(net, data, epoch, settings.batch, rate, settings.momentum, on_progress)
        seconds = perf_counter() - begin
        before = replace(net.comm.traffic)
        loss = float(net.comm.allreduce(np.array([total]))[0]) / len(data)
        if not isfinite(loss):
            raise DivergedError(
                f"epoch {epoch + 1}: expected a finite loss, got {loss}; try a lower --rate than {settings.rate:g}"
            )
        validation_loss, on_validation = (None, None) if validation is None else evaluate(net, validation)
        progress = _after(net, progress, epoch + 1, validation_loss)
        on_test = evaluate(net, samples.test)[1]
        accuracy, error = (on_test, None) if isinstance(samples.test, LabelledSamples) else (None, on_test)
        on_training = evaluate(net, data)[1] if look_at_training else None
        beside = (validation_loss, error, on_training, on_validation)
        history.append(EpochResult(epoch + 1, loss, accuracy, seconds, iterations, rate, *beside))
        try:
            if save is not None:
                checkpoint.save(save, net, progress)
        finally:  # a full disk costs a checkpoint, not the epoch's figures
            on_epoch(history[-1])
        net.comm.traffic = before
    if validation is not None and progress.best is not None:
        net.take_best()
    return history


def _epoch(
    net: Perceptron,
    data: Samples,
    epoch: int,
    batch: int,
    rate: float,
    momentum: float | None,
    on_progress: Callable[[float], object],
) -> tuple[float, int]:
    """This rank's share of the sum of the samples' losses, and the number of iterations."""
    order = np.random.default_rng((net.seed, epoch)).permutation(len(data))
    total, starts = 0.0, range(0, len(data), batch)
    often = -(-len(starts) // REPORTS)
    for number, start in enumerate(starts):
        if number % often == 0:
            on_progress(epoch + number / len(starts))
        index = order[start : start + batch]
        total += net.step(*data.batch(index, net.engine.dtype), rate, momentum) * len(index)
    return total, len(starts)


def _after(net: Perceptron, progress: Progress, epoch: int, loss: float | None) -> Progress:
    """The progress after an epoch with this validation loss; the network keeps the weights of the least."""
    if loss is None or not isfinite(loss) or (progress.best is not None and loss >= progress.best):
        return replace(progress, epoch=epoch)
    net.keep_best()
    return Progress(epoch, loss, epoch)


def evaluate(net: Perceptron, data: Samples) -> tuple[float, float]:
    """The network's mean loss over all samples, and how good it is on them, on every rank the same.

    With classes that is the share of the samples whose label has the largest output; with numbers the root of the mean
    square of outputs minus targets, in the units of the file.
    """
    loss = good = 0.0
    for begin in range(0, len(data), EVALUATED):
        index = np.arange(begin, min(begin + EVALUATED, len(data)))
        x, target = data.batch(index, net.engine.dtype)
        y = net.predict(x)
        loss += net.loss(target) * len(index)
        if isinstance(data, LabelledSamples):
            good += int((y.argmax(axis=1) == data.labels[index]).sum())
        else:
            good += float(np.square(data.in_units(y) - data.y[index]).sum())
    return loss / len(data), good / len(data) if isinstance(data, LabelledSamples) else sqrt(good / data.y.size)


def accuracy(net: Perceptron, data: LabelledSamples) -> float:
    """The share of the samples whose label has the largest output."""
    return evaluate(net, data)[1]


def curves(history: Sequence[EpochResult]) -> dict[str, dict[str, list[float]]]:
    """{"loss": {"training": a number for each epoch, ...}, "accuracy" (or "error"): {...}}, of what was looked at."""
    quality = "error" if history[0].accuracy is None else "accuracy"
    fields = {
        "loss": {"training": "loss", "validation": "validation"},
        quality: {"training": "on_training", "validation": "on_validation", "test": quality},
    }
    return {
        panel: {
            name: [getattr(epoch, field) for epoch in history]
            for name, field in of.items()
            if getattr(history[0], field) is not None
        }
        for panel, of in fields.items()
    }


def report(net: Perceptron, history: list[EpochResult], samples: int) -> dict[str, Any]:
    """What an iteration cost, over all ranks, as Table IV has it; ``samples`` of an epoch. Called by every rank.

    weights     of the function; weights_kept: as a share of the dense network's; weights_of_a_rank: of the largest
    flops       of a sample on all ranks; flops_per_second: of the whole training
    bytes, messages     of an iteration on the rank that sends most
    communication_seconds   of an iteration. "max", "mean": over the ranks, messages were under way; "exposed": on
                average a rank only waited; "share": the largest part of its own iterations on any rank
    overlap     1 - exposed / under way: the share of that time that was spent computing
    """
    comm = net.comm
    shares = net.shares_of(comm.rank)
    weights = sum(share.weights for share in shares)
    sent = asdict(comm.traffic)
    seconds = sum(epoch.seconds for epoch in history)
    counted = (weights, flops(shares), sent["messages"], sent["bytes"], sent["seconds"], sent["exposed"], seconds)
    mine = np.array(counted, float)
    table = np.zeros((comm.size, len(mine)))
    table[comm.rank] = mine
    comm.allgather(table, range(comm.size + 1)).wait()
    iterations = sum(epoch.iterations for epoch in history)
    rank_weights, work, messages, sent_bytes, way, exposed, own_seconds = table.T
    return {
        "ranks": comm.size,
        "weights": int(rank_weights.sum()),
        "weights_kept": rank_weights.sum() / dense_weights(net.sizes),
        "weights_of_a_rank": int(rank_weights.max()),
        "flops": int(work.sum()),
        "flops_per_second": work.sum() * samples * len(history) / seconds,
        "iteration_seconds": seconds / iterations,
        "messages": messages.max() / iterations,
        "bytes": sent_bytes.max() / iterations,
        "communication_seconds": {
            "max": way.max() / iterations,
            "mean": way.mean() / iterations,
            "exposed": exposed.mean() / iterations,
            "share": (way / own_seconds).max(),
        },
        "overlap": 1 - exposed.sum() / way.sum() if way.sum() else None,
    }
