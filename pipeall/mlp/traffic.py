"""What a network of some shape costs on some ranks: weights, operations, bytes, messages, and a model of its time; and
the strong scaling of paper 002 beside this model.

Values are counted per sample and iteration; a multiply-add is two FLOP. Bytes are those of a rank that has an equal
part of every layer. Table names are those of paper 002. Its tables give ranks, of which one is a master that trains
nothing: here are workers, one fewer. Its ghost networks have fewer weights on more workers, so that its speed-up is
against another function; ``Scaled.work`` says how much of it that explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .layout import Share, shares
from .network import Perceptron
from .simulator import Counting

FLOAT_BYTES = 4
PAPER = {
    "S": (3, 64, 128, 256, 64),
    "M": (2048, 4096, 4096, 4096, 2048),
    "L": (2048, 32768, 8192, 4096, 2048),
}
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
class Machine:
    """``alpha`` seconds a message, ``bandwidth`` and ``memory`` in bytes per second of a rank."""

    alpha: float
    bandwidth: float
    memory: float


NODE_MEMORY = 28e9  # bytes a second of a node of Blue Gene/Q, which its ranks share


def blue_gene_q(node_ranks: int) -> Machine:
    """Blue Gene/Q with so many ranks on a node: 16 have a core each, the paper has 32."""
    return Machine(alpha=2e-6, bandwidth=1.8e9, memory=NODE_MEMORY / node_ranks)


BLUE_GENE_Q = blue_gene_q(16)


def dense_weights(sizes: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(sizes, sizes[1:], strict=False))


def ghost_weights(sizes: Sequence[int], workers: int, ghost_width: int = 1) -> int:
    """Weights of the function that ghost mode trains on so many workers, all together."""
    return sum(ghost_weights_of(sizes, rank, workers, ghost_width) for rank in range(workers))


def ghost_weights_of(sizes: Sequence[int], rank: int, workers: int, ghost_width: int = 1) -> int:
    """Weights of that function that one rank holds."""
    return sum(share.weights for share in shares(sizes, rank, workers, "ghost", ghost_width))


def flops(held: Sequence[Share]) -> int:
    """FLOP of a rank for a sample: forward, gradients of weights, update, and gradients of inputs behind layer one."""
    return sum(share.weights * (8 if index else 6) for index, share in enumerate(held))


def least_values(sizes: Sequence[int]) -> int:
    """Values sent with the plan that ``layout.shares`` takes, before the factor (P - 1) / P."""
    return sum(2 * min(a, b) for a, b in zip(sizes[1:], sizes[2:], strict=False))


def full_seconds(sizes: Sequence[int], ranks: int, machine: Machine) -> float:
    """Seconds of an iteration of one sample in full mode, nothing overlapped.

    Three memory passes over a rank's weights (read forward, read and written on the way back), then the messages.
    """
    passes = 3 * dense_weights(sizes) / ranks
    return FLOAT_BYTES * passes / machine.memory + full_message_seconds(sizes, ranks, machine)


def full_message_seconds(sizes: Sequence[int], ranks: int, machine: Machine) -> float:
    """Of ``full_seconds``, the messages."""
    sent = least_values(sizes) * (ranks - 1) / ranks
    messages = 2 * (ranks - 1).bit_length() * (len(sizes) - 2)
    return FLOAT_BYTES * sent / machine.bandwidth + machine.alpha * messages


def ghost_seconds(sizes: Sequence[int], workers: int, machine: Machine) -> float:
    """Seconds of an iteration of one sample in ghost mode of width 1, on the rank with most weights."""
    passes = 3 * ghost_weights_of(sizes, 0, workers)
    return FLOAT_BYTES * passes / machine.memory + ghost_message_seconds(sizes, workers, machine)


def ghost_message_seconds(sizes: Sequence[int], workers: int, machine: Machine) -> float:
    """Of ``ghost_seconds``, the messages: two for each layer of neurons between, of a few bytes."""
    return 2 * machine.alpha * (len(sizes) - 2) * (workers > 1)


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


def scaled(model: str, machine: Machine = BLUE_GENE_Q) -> list[Scaled]:
    """The network on 1, 2, 4 ... workers, as long as each has a neuron of every layer."""
    sizes, printed = PAPER[model], SECONDS[model]
    dense, first = dense_weights(sizes), printed[min(printed)]
    alone = full_seconds(sizes, 1, machine)
    rows = []
    for workers in (2**power for power in range(min(sizes[1:]).bit_length())):
        if workers > 1024:
            break
        full = full_seconds(sizes, workers, machine)
        rows.append(
            Scaled(
                model,
                workers,
                printed.get(workers),
                GAINS.get((model, workers), first / printed[workers]) if workers in printed else None,
                ghost_weights(sizes, workers) / dense,
                dense / ghost_weights_of(sizes, 0, workers),
                ghost_seconds(sizes, workers, machine),
                ghost_message_seconds(sizes, workers, machine),
                sent_bytes(sizes, workers, "ghost"),
                full,
                full_message_seconds(sizes, workers, machine),
                sent_bytes(sizes, workers, "full"),
                alone / full,
            )
        )
    return rows


def communication_rows(of: Sequence[Scaled]) -> list[dict[str, Any]]:
    """Table IV beside the model: seconds of messages in an iteration, and their share of it."""
    rows = []
    for row in of:
        if row.workers in COMMUNICATION:
            most, mean, percent = COMMUNICATION[row.workers]
            rows.append(
                {"workers": row.workers, "paper_max_s": most, "paper_mean_s": mean, "paper_share": percent / 100}
                | {"ghost_s": row.ghost_way, "ghost_share": row.ghost_way / row.ghost}
                | {"full_s": row.full_way, "full_share": row.full_way / row.full}
            )
    return rows


def sent_bytes(sizes: Sequence[int], workers: int, mode: str) -> int:
    """Bytes that a rank sends in an iteration of one sample, counted."""
    comm = Counting(0, workers)
    net = Perceptron(engine="none")
    net.add_layers(sizes)
    net.initialize(comm, mode=mode)
    net.step(np.zeros((1, sizes[0]), np.float32), np.zeros((1, sizes[-1]), np.float32), 0.1)
    return comm.traffic.bytes
