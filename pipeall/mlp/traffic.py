"""What a network of some shape costs on some ranks: weights, operations, bytes, messages, and a model of its time.

Values are counted per sample and iteration; a multiply-add is two FLOP. Bytes are those of a rank that has an equal
part of every layer. Table names are those of paper 002.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .layout import Share, shares

PAPER = {
    "S": (3, 64, 128, 256, 64),
    "M": (2048, 4096, 4096, 4096, 2048),
    "L": (2048, 32768, 8192, 4096, 2048),
}


@dataclass(frozen=True)
class Machine:
    """``alpha`` seconds a message, ``bandwidth`` and ``memory`` in bytes per second of a rank."""

    alpha: float
    bandwidth: float
    memory: float


BLUE_GENE_Q = Machine(alpha=2e-6, bandwidth=1.8e9, memory=1.75e9)  # a rank per core: 28 GB/s of a node among 16


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


def column_values(sizes: Sequence[int]) -> int:
    """Values sent with every layer split by columns, before the factor (P - 1) / P."""
    return sum(2 * n for n in sizes[1:-1])


def megatron_values(sizes: Sequence[int]) -> int:
    """Values sent with layers in pairs, column then row (Shoeybi et al., 2019), before the factor (P - 1) / P.

    An allreduce sends twice its values. There is one behind every row layer on the way forward, and one before every
    column layer but the first on the way back.
    """
    layers = range(len(sizes) - 1)
    return sum(2 * sizes[i + 1] for i in layers if i % 2) + sum(2 * sizes[i] for i in layers if i and i % 2 == 0)


def least_values(sizes: Sequence[int]) -> int:
    """Values sent with the plan that ``layout.shares`` takes, before the factor (P - 1) / P."""
    return sum(2 * min(a, b) for a, b in zip(sizes[1:], sizes[2:], strict=False))


def mirror_values(sizes: Sequence[int]) -> int:
    """Values sent where no bit depends on the ranks, before the factor (P - 1) / P.

    Inputs are gathered on the way forward, gradients on the way back, and the outputs.
    """
    return sum(a + b for a, b in zip(sizes[1:], sizes[2:], strict=False)) + sizes[-1]


def full_seconds(sizes: Sequence[int], ranks: int, machine: Machine, item_bytes: int = 4) -> float:
    """Seconds of an iteration of one sample in full mode, nothing overlapped.

    Three memory passes over a rank's weights (read forward, read and written on the way back), then the messages.
    """
    passes = 3 * dense_weights(sizes) / ranks
    return item_bytes * passes / machine.memory + full_message_seconds(sizes, ranks, machine, item_bytes)


def full_message_seconds(sizes: Sequence[int], ranks: int, machine: Machine, item_bytes: int = 4) -> float:
    """Of ``full_seconds``, the messages."""
    sent = least_values(sizes) * (ranks - 1) / ranks
    messages = 2 * (ranks - 1).bit_length() * (len(sizes) - 2)
    return item_bytes * sent / machine.bandwidth + machine.alpha * messages


def ghost_seconds(sizes: Sequence[int], workers: int, machine: Machine, item_bytes: int = 4) -> float:
    """Seconds of an iteration of one sample in ghost mode of width 1, on the rank with most weights."""
    passes = 3 * ghost_weights_of(sizes, 0, workers)
    return item_bytes * passes / machine.memory + ghost_message_seconds(sizes, workers, machine)


def ghost_message_seconds(sizes: Sequence[int], workers: int, machine: Machine) -> float:
    """Of ``ghost_seconds``, the messages: two for each layer of neurons between, of a few bytes."""
    return 2 * machine.alpha * (len(sizes) - 2) * (workers > 1)
