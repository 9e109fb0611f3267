"""Epochs over data, checkpoints, and what it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import PipeallError
from . import checkpoint
from .checkpoint import Progress
from .data import LabelledSamples
from .network import Perceptron
from .rules import Schedule
from .traffic import dense_weights, flops

NOTHING, CONSTANT = Progress(), Schedule()
EVALUATED = 256  # samples at a time


class DivergedError(PipeallError):
    """The loss is not a finite number; every rank raises this."""


@dataclass(frozen=True)
class EpochResult:
    """An epoch: its mean training loss, the accuracy on the test samples after it, the seconds of its iterations, the
    rate."""

    epoch: int
    loss: float
    accuracy: float
    seconds: float
    iterations: int
    rate: float


def train(
    net: Perceptron,
    data: LabelledSamples,
    test: LabelledSamples,
    epochs: int,
    batch: int,
    rate: float,
    momentum: float | None = None,
    progress: Progress = NOTHING,
    save: str | Path | None = None,
    schedule: Schedule = CONSTANT,
    told: Callable[[EpochResult], object] = lambda epoch: None,
) -> list[EpochResult]:
    """Trains from ``progress`` to ``epochs``; called by every rank with the same arguments.

    ``momentum``: in place of the rule's. ``schedule``: how ``rate`` changes over the ``epochs``.

    The order of the samples is a function of the network's seed and the epoch. ``save``: a checkpoint after each epoch;
    ``told`` is called then. Raises DivergedError, after which the last checkpoint is as it was.
    """
    history = []
    for epoch in range(progress.epoch, epochs):
        rate_now = rate * schedule.share(epoch, epochs)
        order = np.random.default_rng((net.seed, epoch)).permutation(len(data))
        total, begin = 0.0, perf_counter()
        starts = range(0, len(data), batch)
        for start in starts:
            index = order[start : start + batch]
            total += net.step(*data.batch(index, net.engine.dtype), rate_now, momentum) * len(index)
        seconds = perf_counter() - begin
        before = replace(net.comm.traffic)
        loss = float(net.comm.allreduce(np.array([total]))[0]) / len(data)
        if not isfinite(loss):
            raise DivergedError(
                f"epoch {epoch + 1}: expected a finite loss, got {loss}; try a lower --rate than {rate:g}"
            )
        history.append(EpochResult(epoch + 1, loss, accuracy(net, test), seconds, len(starts), rate_now))
        if save is not None:
            checkpoint.save(save, net, Progress(epoch + 1))
        net.comm.traffic = before  # traffic counts iterations alone
        told(history[-1])
    return history


def accuracy(net: Perceptron, data: LabelledSamples) -> float:
    """The share of the samples whose label has the largest output."""
    right = 0
    for begin in range(0, len(data), EVALUATED):
        index = np.arange(begin, min(begin + EVALUATED, len(data)))
        x, _ = data.batch(index, net.engine.dtype)
        right += int((net.predict(x).argmax(axis=1) == data.labels[index]).sum())
    return right / len(data)


def report(net: Perceptron, history: list[EpochResult], samples: int) -> dict[str, Any]:
    """What an iteration cost, over all ranks, as Table IV has it; ``samples`` of an epoch. Called by every rank.

    weights     of the function; weights_kept: as a share of the dense network's; weights_of_a_rank: of the largest
    flops       of a sample on all ranks; flops_per_second: of the whole training
    bytes, messages     of an iteration on the rank that sends most
    communication_seconds   of an iteration. "max", "mean": over the ranks, messages were under way; "exposed": on
                average a rank only waited; "share": "max" divided by the seconds of the iteration
    overlap     1 - exposed / under way: the share of that time that was spent computing
    """
    comm = net.comm
    held = net.shares_of(comm.rank)
    weights = sum(share.weights for share in held)
    sent = asdict(comm.traffic)
    mine = np.array([weights, flops(held), sent["messages"], sent["bytes"], sent["seconds"], sent["exposed"]], float)
    table = np.zeros((comm.size, len(mine)))
    table[comm.rank] = mine
    comm.allgather(table, range(comm.size + 1)).wait()
    iterations = sum(epoch.iterations for epoch in history)
    seconds = sum(epoch.seconds for epoch in history)
    rank_weights, work, messages, sent_bytes, way, exposed = table.T
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
            "share": way.max() / seconds,
        },
        "overlap": 1 - exposed.sum() / way.sum() if way.sum() else None,
    }
