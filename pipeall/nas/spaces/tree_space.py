"""The space of paper 003: blocks of a multilayer perceptron as a complete binary tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import ArgumentError
from .genome import SOURCE, Architecture, Block, check_bits, prune

MAX_DEPTH = 12


@dataclass(frozen=True)
class TreeSpace:
    """Blocks 1 to 2^depth - 1 in heap order; bit k - 1 connects block k to its parent k // 2, block 1 to the head.

    The blocks of the last level read the input, every other one the concatenation of its children.

    depth      levels of the tree
    neurons      of a block
    max_nodes  bounds the neurons of all blocks (table I: 31 blocks of 33 neurons are 1,023)
    grow       a block without children reads the input, at any level, and first networks are block 1 alone (the base
               model of algorithm 1): evolution makes them larger

    Raises ArgumentError for a tree beyond the bound.
    """

    depth: int = 5
    neurons: int = 33
    max_nodes: int = 1024
    grow: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= MAX_DEPTH or self.neurons < 1:
            raise ArgumentError(
                f"tree: expected depth 1 to {MAX_DEPTH} and neurons, got {self.depth} and {self.neurons}"
            )
        if self.loci * self.neurons > self.max_nodes:
            raise ArgumentError(
                f"tree: expected at most {self.max_nodes} neurons, got {self.loci} blocks of {self.neurons}"
            )

    @property
    def loci(self) -> int:
        return 2**self.depth - 1

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(range(2**level - 1, 2 ** (level + 1) - 1)) for level in range(self.depth))

    def decode(self, bits: Sequence[int]) -> Architecture:
        check_bits(bits, self.loci)
        blocks = [Block(k, self._reads(k, bits), self.neurons) for k in range(self.loci, 0, -1)]
        return Architecture("dense", _canonical(prune(blocks)) if bits[0] else ())

    def _reads(self, block: int, bits: Sequence[int]) -> tuple[int, ...]:
        if block >= 2 ** (self.depth - 1):
            return (SOURCE,)
        children = tuple(child for child in (2 * block, 2 * block + 1) if bits[child - 1])
        return (SOURCE,) if self.grow and not children else children

    def random(self, random: np.random.Generator) -> tuple[int, ...]:
        """One path from the input to the head; other bits are 1 with probability 1/2. Block 1 alone if it is to grow.

        If all bits were random, 78 % would decode to the empty network.
        """
        if self.grow:
            return (1,) + (0,) * (self.loci - 1)
        bits = random.integers(0, 2, self.loci)
        block = int(random.integers(2 ** (self.depth - 1), 2**self.depth))
        while block:
            bits[block - 1] = 1
            block //= 2
        return tuple(int(bit) for bit in bits)


def _canonical(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The tree with the larger child of each block first: to trade the places of children changes no network."""
    inside = {block.index: block for block in blocks}
    shapes: dict[int, tuple] = {}  # index -> shape of the tree below the block
    for block in blocks:
        shapes[block.index] = tuple(sorted((shapes[i] for i in block.inputs if i != SOURCE), reverse=True))
    placed: dict[int, Block] = {}
    places = [(1, 1)] if blocks else []  # index now, index before
    for index, before in places:
        children = [i for i in inside[before].inputs if i != SOURCE]
        children.sort(key=lambda i: shapes[i], reverse=True)
        places += [(2 * index + side, child) for side, child in enumerate(children)]
        inputs = tuple(2 * index + side for side in range(len(children))) or (SOURCE,)
        placed[index] = replace(inside[before], index=index, inputs=inputs)
    return tuple(placed[index] for index in sorted(placed, reverse=True))
