"""What paper 002 prints of its scaling on Blue Gene/Q, and the same by counters and a model of that machine.

Its tables give ranks, of which one is a master that trains nothing: here are workers, one fewer. Times are those of an
iteration of one sample. Its ghost networks have fewer weights on more workers, so that its speed-up is against another
function; ``work`` says how much of it that explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .network import Perceptron
from .simulator import Counting
from .traffic import (
    BLUE_GENE_Q,
    PAPER,
    dense_weights,
    full_message_seconds,
    full_seconds,
    ghost_message_seconds,
    ghost_seconds,
    ghost_weights,
    ghost_weights_of,
)

SECONDS = {  # Tables II and III: workers -> seconds
    "S": {1: 17.452, 4: 0.4905, 8: 0.0928, 16: 0.0651, 32: 0.0354},
    "M": {32: 67.499, 64: 22.276, 128: 7.167, 256: 2.52, 512: 0.802, 1024: 0.255},
    "L": {32: 2107.96, 64: 593.228, 128: 172.071, 256: 55.43, 512: 16.97, 1024: 6.44},
}
GAINS = {("S", 1): 1.0, ("S", 4): 35.5, ("S", 8): 188.1, ("S", 16): 268.07, ("S", 32): 497.20}  # Table II
COMMUNICATION = {  # Table IV, of L: workers -> most and mean seconds of a rank, percent of the iteration
    32: (21.415, 7.930, 1.015),
    64: (6.305, 1.398, 1.062),
    128: (2.371, 0.634, 1.378),
    256: (1.047, 0.238, 1.890),
    512: (0.482, 0.100, 2.844),
    1024: (0.468, 0.090, 7.272),
}


@dataclass(frozen=True)
class Scaled:
    """One of the paper's networks on so many workers of Blue Gene/Q.

    printed     the paper's seconds; None where it prints none
    printed_gain  its speed-up of its fewest workers: as printed for S, by its times for M and L
    kept        weights of the ghost network, as a share of the dense one's
    work        weights of the dense network by those of a ghost worker: what a speed-up of the ghost network is at most
    ghost, full seconds by the model; ghost_way, full_way: of these, of messages
    full_gain   of one worker, by the model: the same function on any number
    """

    model: str
    workers: int
    printed: float | None
    printed_gain: float | None
    kept: float
    work: float
    ghost: float
    ghost_way: float
    ghost_bytes: int
    full: float
    full_way: float
    full_bytes: int
    full_gain: float


def scaled(model: str) -> list[Scaled]:
    """The network on 1, 2, 4 ... workers, as long as each has a neuron of every layer."""
    sizes, printed = PAPER[model], SECONDS[model]
    dense, first = dense_weights(sizes), printed[min(printed)]
    alone = full_seconds(sizes, 1, BLUE_GENE_Q)
    rows = []
    for workers in (2**power for power in range(min(sizes[1:]).bit_length())):
        if workers > 1024:
            break
        full = full_seconds(sizes, workers, BLUE_GENE_Q)
        rows.append(
            Scaled(
                model,
                workers,
                printed.get(workers),
                GAINS.get((model, workers), first / printed[workers]) if workers in printed else None,
                ghost_weights(sizes, workers) / dense,
                dense / ghost_weights_of(sizes, 0, workers),
                ghost_seconds(sizes, workers, BLUE_GENE_Q),
                ghost_message_seconds(sizes, workers, BLUE_GENE_Q),
                sent_bytes(sizes, workers, "ghost"),
                full,
                full_message_seconds(sizes, workers, BLUE_GENE_Q),
                sent_bytes(sizes, workers, "full"),
                alone / full,
            )
        )
    return rows


def sent_bytes(sizes: Sequence[int], workers: int, mode: str) -> int:
    """Bytes that a rank sends in an iteration of one sample, counted."""
    comm = Counting(0, workers)
    net = Perceptron(engine="none")
    net.add_layer("input", sizes[0])
    for neurons in sizes[1:-1]:
        net.add_layer("hidden", neurons)
    net.add_layer("output", sizes[-1])
    net.initialize(comm, mode=mode)
    net.step(np.zeros((1, sizes[0]), np.float32), np.zeros((1, sizes[-1]), np.float32), 0.1)
    return comm.traffic.bytes
