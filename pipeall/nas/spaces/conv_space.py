"""A space of convolutional networks: stages whose connections are coded as in GeneticCNN (Xie and Yuille 2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import ArgumentError
from .genome import SOURCE, Architecture, Block, check_bits, prune, random_bits

WIDTH_BITS, KERNEL_BITS = 2, 1


@dataclass(frozen=True)
class ConvSpace:
    """Convolutions in stages, one behind the other, with a max-pooling of 2 x 2 behind every stage but the last.

    A stage of K nodes has an input node, K nodes and an output node, each a convolution. Its bits: two for the width of
    all of them, one for their kernel, then K (K - 1) / 2 for the connections (1,2), (1,3), (2,3), (1,4) ... between
    nodes. A node without predecessor reads the input node, and the output node reads every node without successor.
    Nodes without either are dropped. Without any connection the output node reads the input node. Nodes concatenate
    what they read, which costs no copy; those of GeneticCNN add it up.

    nodes    K of each stage
    widths   of the first stage, four choices, ascending; each later stage has ``growth`` times as many channels
    kernels  two choices, ascending and odd
    """

    nodes: tuple[int, ...] = (3, 4, 4)
    widths: tuple[int, int, int, int] = (8, 16, 24, 32)
    kernels: tuple[int, int] = (3, 5)
    growth: float = 2.0

    def __post_init__(self) -> None:
        if not self.nodes or min(self.nodes) < 1:
            raise ArgumentError(f"stages: expected some of at least one node, got {self.nodes}")
        if len(self.widths) != 2**WIDTH_BITS or min(self.widths) < 1 or list(self.widths) != sorted(self.widths):
            raise ArgumentError(f"widths: expected {2**WIDTH_BITS} ascending numbers, got {self.widths}")
        odd = all(kernel > 0 and kernel % 2 for kernel in self.kernels)
        if len(self.kernels) != 2 or not odd or list(self.kernels) != sorted(self.kernels):
            raise ArgumentError(f"kernels: expected two ascending odd numbers, got {self.kernels}")
        if self.growth <= 0:
            raise ArgumentError(f"growth: expected a number above 0, got {self.growth}")

    @property
    def loci(self) -> int:
        return self.levels[-1][-1] + 1

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The loci of each stage."""
        levels, start = [], 0
        for nodes in self.nodes:
            end = start + WIDTH_BITS + KERNEL_BITS + nodes * (nodes - 1) // 2
            levels.append(tuple(range(start, end)))
            start = end
        return tuple(levels)

    def decode(self, bits: Sequence[int]) -> Architecture:
        check_bits(bits, self.loci)
        blocks: list[Block] = []
        for stage, loci in enumerate(self.levels):
            blocks += self._stage(stage, [bits[locus] for locus in loci], blocks[-1].index if blocks else SOURCE)
        return Architecture("conv", _renumbered(prune(blocks)))

    def random(self, random: np.random.Generator) -> tuple[int, ...]:
        return random_bits(self.loci, random)

    def _stage(self, stage: int, bits: list[int], before: int) -> Iterator[Block]:
        nodes = self.nodes[stage]
        neurons = max(1, round(self.widths[2 * bits[0] + bits[1]] * self.growth**stage))
        kernel = self.kernels[bits[2]]
        pairs = [(i, j) for j in range(2, nodes + 1) for i in range(1, j)]
        edges = {pair for pair, bit in zip(pairs, bits[WIDTH_BITS + KERNEL_BITS :], strict=True) if bit}
        sources, targets = {i for i, _ in edges}, {j for _, j in edges}
        edges |= {(0, i) for i in sources - targets} | {(j, nodes + 1) for j in targets - sources}
        if not edges:
            edges = {(0, nodes + 1)}
        first = before + 1  # the index of the input node
        yield Block(first, (before,), neurons, kernel)
        for node in range(1, nodes + 1):
            yield Block(first + node, tuple(sorted(first + i for i, j in edges if j == node)), neurons, kernel)
        inputs = tuple(sorted(first + i for i, j in edges if j == nodes + 1))
        yield Block(first + nodes + 1, inputs, neurons, kernel, pool=stage + 1 < len(self.nodes))


def _renumbered(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks with indices without gaps: it does not matter which nodes of a stage were dropped."""
    index = {SOURCE: SOURCE} | {block.index: number for number, block in enumerate(blocks, 1)}
    return tuple(
        replace(block, index=index[block.index], inputs=tuple(index[i] for i in block.inputs)) for block in blocks
    )
