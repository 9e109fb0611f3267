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
from .data import Data
from .network import Network
from .traffic import dense_weights, flops

EVALUATED = 256  # samples at a time


class DivergedError(PipeallError):
    """The loss is no finite number any more; every rank raises it."""


@dataclass(frozen=True)
class Epoch:
    """Mean training loss during an epoch, accuracy on the test samples after it, seconds of its iterations."""

    epoch: int
    loss: float
    accuracy: float
    seconds: float
    iterations: int


def train(
    net: Network,
    data: Data,
    test: Data,
    epochs: int,
    batch: int,
    rate: float,
    momentum: float = 0.0,
    first: int = 0,
    save: str | Path | None = None,
    told: Callable[[Epoch], object] = lambda epoch: None,
) -> list[Epoch]:
    """Trains epochs ``first`` + 1 to ``epochs``; called by every rank with the same arguments.

    The order of the samples is a function of the network's seed and the epoch. ``save``: a checkpoint after each epoch;
    ``told`` is called then. Raises DivergedError, after which the last checkpoint is as it was.
    """
    history = []
    for epoch in range(first, epochs):
        order = np.random.default_rng((net.seed, epoch)).permutation(len(data))
        total, begin = 0.0, perf_counter()
        starts = range(0, len(data), batch)
        for start in starts:
            index = order[start : start + batch]
            total += net.step(*data.batch(index, net.engine.dtype), rate, momentum) * len(index)
        seconds = perf_counter() - begin
        before = replace(net.comm.traffic)
        loss = float(net.comm.allreduce(np.array([total]))[0]) / len(data)
        if not isfinite(loss):
            raise DivergedError(
                f"epoch {epoch + 1}: expected a finite loss, got {loss}; try a lower --rate than {rate:g}"
            )
        history.append(Epoch(epoch + 1, loss, accuracy(net, test), seconds, len(starts)))
        if save is not None:
            checkpoint.save(save, net, epoch + 1)
        net.comm.traffic = before  # of iterations alone
        told(history[-1])
    return history


def accuracy(net: Network, data: Data) -> float:
    """The part of the samples whose label has the largest output."""
    right = 0
    for begin in range(0, len(data), EVALUATED):
        index = np.arange(begin, min(begin + EVALUATED, len(data)))
        x, _ = data.batch(index, net.engine.dtype)
        right += int((net.predict(x).argmax(axis=1) == data.labels[index]).sum())
    return right / len(data)


def report(net: Network, history: list[Epoch], samples: int) -> dict[str, Any]:
    """What an iteration cost, over all ranks, as Table IV has it; ``samples`` of an epoch. Called by every rank.

    weights     of the function, and as part of the dense network's; of the rank with most
    flops       of a sample, all ranks; flops_per_second of the whole
    bytes, messages     of an iteration: the rank that sends most
    communication_seconds   of an iteration: "max" and "mean" of the ranks that messages were under way, "exposed" the
                mean that ranks only waited, "share" max by the iteration's
    overlap     1 - exposed / under way: the part of it that was spent computing
    """
    comm = net.comm
    parts = net.shares_of(comm.rank)
    weights = sum(share.weights for share in parts)
    sent = asdict(comm.traffic)
    mine = np.array([weights, flops(parts), sent["messages"], sent["bytes"], sent["seconds"], sent["exposed"]], float)
    table = np.zeros((comm.size, len(mine)))
    table[comm.rank] = mine
    comm.allgather(table, range(comm.size + 1)).wait()
    iterations = sum(epoch.iterations for epoch in history)
    seconds = sum(epoch.seconds for epoch in history)
    kept, work, messages, sent_bytes, way, exposed = table.T
    return {
        "ranks": comm.size,
        "weights": int(kept.sum()),
        "weights_kept": kept.sum() / dense_weights(net.sizes),
        "weights_of_a_rank": int(kept.max()),
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
