"""Genomes: what evolution changes (bits and hyperparameter levels), and the architecture that bits decode to.

A candidate has two chromosomes. The bits say which blocks or connections a network has; a space (``tree.TreeSpace``,
``stages.ConvSpace``) gives them their meaning. The other holds five hyperparameters of three levels, two bits each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from ...errors import ArgumentError

HYPER_GENES, HYPER_LEVELS, HYPER_BITS = 5, 3, 2
TRAINING_GENES = 3  # the first three decide how a candidate is trained, the others how it breeds
STATES = HYPER_LEVELS**HYPER_GENES  # 243, T of the paper's eq. 1 read as d^n

SOURCE = 0  # index of the network's input among the inputs of a block


class Hyper(NamedTuple):
    """The hyperparameters of a candidate; ``cycles``: passes of back-propagation over the training samples."""

    learning_rate: float
    momentum: float
    cycles: int
    mutation_rate: float
    crossover_rate: float


LEVELS = Hyper(  # within the ranges of table I; with more than a few mutated bits a child would be a random network
    learning_rate=(1e-4, 1e-2, 1.0),
    momentum=(0.0, 0.45, 0.9),
    cycles=(5, 15, 49),
    mutation_rate=(0.0, 0.03, 0.1),
    crossover_rate=(0.001, 0.5, 1.0),
)


@dataclass(frozen=True)
class Candidate:
    """A point of the search. ``bits``: of the architecture, 0 or 1; ``hyper``: five levels, 0 to 2 each."""

    bits: tuple[int, ...]
    hyper: tuple[int, ...] = (1,) * HYPER_GENES

    def __post_init__(self) -> None:
        if not self.bits or any(bit not in (0, 1) for bit in self.bits):
            raise ArgumentError(f"bits: expected zeros and ones, got {self.bits}")
        if len(self.hyper) != HYPER_GENES or any(level not in range(HYPER_LEVELS) for level in self.hyper):
            raise ArgumentError(f"hyper: expected {HYPER_GENES} levels of 0 to {HYPER_LEVELS - 1}, got {self.hyper}")

    def hyperparameters(self, levels: Hyper = LEVELS) -> Hyper:
        return Hyper(*(values[level] for values, level in zip(levels, self.hyper, strict=True)))

    @property
    def code(self) -> str:
        """Both chromosomes as digits, such as "0110:12011"."""
        return "".join(map(str, self.bits)) + ":" + "".join(map(str, self.hyper))

    @classmethod
    def from_code(cls, code: str) -> Candidate:
        """The candidate of a code. Raises ArgumentError for a text that is none."""
        bits, _, hyper = code.partition(":")
        if not (bits.isdecimal() and hyper.isdecimal()):
            raise ArgumentError(f"candidate: expected digits:digits, got {code!r}")
        return cls(tuple(map(int, bits)), tuple(map(int, hyper)))


@dataclass(frozen=True)
class Block:
    """Some neurons and what they read: dense neurons, or the filters of a convolution.

    A block concatenates its inputs (neurons, or channels), applies weights and a bias and then ReLU.

    index   of this block, above 0
    inputs  indices of the blocks it reads, ascending; 0 is the network's input
    neurons   outputs, or output channels
    kernel  side of the filters of a convolution (stride 1, padded to the same size)
    pool    a max-pooling of 2 x 2, stride 2, follows
    """

    index: int
    inputs: tuple[int, ...]
    neurons: int
    kernel: int = 1
    pool: bool = False


@dataclass(frozen=True)
class Convolution(Block):
    """A block of a "mobile" architecture: f(norm(convolution) + added) * factor, of pictures padded by ``pads``.

    stride
    depthwise   each filter reads one channel; there is one input, of as many channels as there are neurons
    normed      batch normalization takes the place of the bias
    activation  f: ReLU, none, or hard sigmoid, clip(x / 6 + 1 / 2, 0, 1)
    averaged    it reads the mean over all pixels
    added, factor  index of a block whose output is added or multiplied; None: nothing
    side        the input is resized to so many pixels a side, bilinearly; 0: as it is
    groups      a filter reads one of so many parts of the channels
    """

    stride: int = 1
    depthwise: bool = False
    normed: bool = True
    activation: Literal["relu", "none", "hardsigmoid"] = "relu"
    averaged: bool = False
    added: int | None = None
    factor: int | None = None
    side: int = 0
    groups: int = 1

    @property
    def parts(self) -> int:
        """The groups of the convolution, of a depthwise one too."""
        return self.neurons if self.depthwise else self.groups

    @property
    def pads(self) -> tuple[int, int]:
        """Pixels ahead of the picture and behind it, in both directions; an even kernel has one more behind."""
        return (self.kernel - 1) // 2, self.kernel // 2


@dataclass(frozen=True)
class Architecture:
    """Blocks in an order in which every block follows what it reads; the last one feeds the output head.

    kind    "dense": blocks of a multilayer perceptron; "conv": convolutions, "mobile": those of ``Convolution``; the
            head of both averages over all pixels
    blocks  may be empty: the head is then a bias alone
    """

    kind: Literal["dense", "conv", "mobile"]
    blocks: tuple[Block, ...]

    @property
    def connections(self) -> list[list[int]]:
        """The matrix of connections: a row for the input and for each block, in order, 1 where it reads that of the
        column."""
        places = {SOURCE: 0} | {block.index: place for place, block in enumerate(self.blocks, 1)}
        matrix = [[0] * len(places) for _ in places]
        for block in self.blocks:
            for index in block.inputs:
                matrix[places[block.index]][places[index]] = 1
        return matrix


class Space(Protocol):
    """A set of architectures: what bits mean. Frozen and picklable."""

    @property
    def loci(self) -> int:
        """How many bits a candidate has."""

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Loci (0-based) of each level of layer-wise competition, in the order of the sweep; each locus is in one."""

    def decode(self, bits: Sequence[int]) -> Architecture:
        """The pruned network; of all ones, the one with the most weights. Raises ArgumentError for a wrong length."""

    def random(self, random: np.random.Generator) -> tuple[int, ...]:
        """Bits of a random first network."""


def prune(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """The blocks that have neurons, a path from the input and a path to the last block, which is the output.

    Others are dropped until none is left to drop. Which blocks remain does not depend on the order of dropping.
    """
    left = {block.index: block for block in blocks}
    output = next(reversed(left), None)
    while True:
        read = {output}.union(*(block.inputs for block in left.values()))
        after = {}
        for index, block in left.items():
            inputs = tuple(x for x in block.inputs if x == SOURCE or x in left)
            if inputs and block.neurons and index in read:
                after[index] = replace(block, inputs=inputs)
        if after == left:
            return tuple(left.values())
        left = after


def identity(architecture: Architecture, training_genes: Sequence[int]) -> str:
    """A text that is the same for candidates that are trained alike. Seeds follow from it, so it never changes: of
    what came later, the text has only what is no default."""
    return repr((architecture, training_genes)).replace("neurons=", "units=").replace(", groups=1)", ")")


def random_bits(loci: int, random: np.random.Generator) -> tuple[int, ...]:
    """Bits that are each 1 with probability 1/2."""
    return tuple(random.integers(0, 2, loci).tolist())


def check_bits(bits: Sequence[int], loci: int) -> None:
    if len(bits) != loci:
        raise ArgumentError(f"bits: expected {loci}, got {len(bits)}")


def hyper_bits(hyper: Sequence[int]) -> tuple[int, ...]:
    """The chromosome of five levels: the codes 00, 01 and 10, one after the other."""
    return tuple(bit for level in hyper for bit in divmod(level, 2))


def hyper_levels(bits: Sequence[int]) -> tuple[int, ...]:
    """The five levels of a chromosome; the invalid code 11 stands for the middle level."""
    codes = (2 * high + low for high, low in zip(bits[::HYPER_BITS], bits[1::HYPER_BITS], strict=True))
    return tuple(1 if code == HYPER_LEVELS else code for code in codes)


def hyper_of(state: int) -> tuple[int, ...]:
    """The levels of the state of that number."""
    return tuple(state // HYPER_LEVELS**power % HYPER_LEVELS for power in reversed(range(HYPER_GENES)))
