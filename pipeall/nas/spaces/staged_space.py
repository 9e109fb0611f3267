"""What spaces of stages have in common: the meaning of bits that say how many blocks a stage has and how large."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from ...errors import ArgumentError
from .genome import SOURCE, Architecture, check_bits, random_bits
from .network_blocks import Builder, Place

Choice = TypeVar("Choice")

DEPTHS = (1, 2, 3, 4)
SIDES = (0.5, 0.75, 1.0)  # of the picture's side
SIDE_BITS, STEM_BITS = 2, 1
WHOLE_SIDE = (1, 0, 1)  # pictures as large as they are, a first convolution of stride 1


@dataclass(frozen=True)
class StagedSpace(ABC):
    """A first convolution of 3 x 3, then stages of one kind of block each; all but the first stage begin with stride 2.

    The first bits: two for the side that pictures are resized to (1/2, 3/4, 1, 1 of theirs), one for the stride of the
    first convolution (2, 1). Then of each stage the fields of ``FIELDS``, among them two bits for its width, two for
    its depth (1 to 4 blocks) and two for the kernel. Where there are fewer choices than codes, those that are left
    stand for the last one.

    stages   how many
    widths   of the first stage, four choices, ascending; each later stage has ``growth`` times as many channels
    kernels  up to four choices, ascending
    blocks   the kinds of block: a key of ``FIELDS``
    side     of the pictures
    """

    NAME: ClassVar[str]
    FIELDS: ClassVar[Mapping[str, Mapping[str, int]]]  # by blocks: fields of a stage and their bits. First: all kinds
    PRESETS: ClassVar[Mapping[str, Mapping[str, int]]]  # by blocks: codes of every stage, as known networks have them
    EVEN: ClassVar[bool]  # whether kernels may be even
    PARTS: ClassVar[int]  # of ``Builder``

    stages: int = 3
    widths: tuple[int, int, int, int] = (16, 24, 32, 48)
    kernels: tuple[int, ...] = (3, 5, 7)
    blocks: str = ""
    side: int = 32
    growth: float = 2.0

    def __post_init__(self) -> None:
        if self.stages < 1 or self.side < 1 or self.growth <= 0:
            raise ArgumentError(f"{self.NAME}: expected stages, a side and growth above 0, got {self}")
        if len(self.widths) != 4 or min(self.widths) < 1 or list(self.widths) != sorted(self.widths):
            raise ArgumentError(f"widths: expected 4 ascending numbers, got {self.widths}")
        usable = all(kernel > 0 and (kernel % 2 or self.EVEN) for kernel in self.kernels)
        if not 1 <= len(self.kernels) <= 4 or not usable or list(self.kernels) != sorted(self.kernels):
            odd = "" if self.EVEN else "odd "
            raise ArgumentError(f"kernels: expected 1 to 4 ascending {odd}numbers, got {self.kernels}")
        if self.blocks not in self.FIELDS:
            raise ArgumentError(f"blocks: expected {', '.join(self.FIELDS)}, got {self.blocks!r}")

    @abstractmethod
    def block(
        self, build: Builder, place: Place, x: int, channels: int, width: int, stride: int, says: Mapping[str, int]
    ) -> int:
        """Adds a block of a stage with these fields; gives the index of its last convolution."""

    @property
    def fields(self) -> Mapping[str, int]:
        return self.FIELDS[self.blocks]

    @property
    def loci(self) -> int:
        return SIDE_BITS + STEM_BITS + self.stages * sum(self.fields.values())

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The loci of side and first convolution, then of each stage."""
        first, of_a_stage = SIDE_BITS + STEM_BITS, sum(self.fields.values())
        ends = [first + stage * of_a_stage for stage in range(self.stages + 1)]
        return tuple(tuple(range(start, end)) for start, end in zip([0, *ends], ends, strict=False))

    def decode(self, bits: Sequence[int]) -> Architecture:
        return Architecture("mobile", tuple(self.build(bits)[0].blocks))

    def build(self, bits: Sequence[int]) -> tuple[Builder, list[int]]:
        """The convolutions, and the index of the last one of each stage."""
        check_bits(bits, self.loci)
        (high, low, stem), *stages = [[bits[locus] for locus in loci] for loci in self.levels]
        side = max(1, round(self.side * chosen(SIDES, 2 * high + low)))
        build, ends = Builder(self.PARTS), []
        x, channels = SOURCE, self._width(0, 2 * stages[0][0] + stages[0][1])
        x = build.conv((0, 0), x, channels, 3, stride=1 if stem else 2, side=0 if side == self.side else side)
        for stage, code in enumerate(stages):
            says = self._fields(code)
            width, stride = self._width(stage, says["width"]), 2 if stage else 1
            for number in range(DEPTHS[says["depth"]]):
                x = self.block(build, (stage + 1, number), x, channels, width, stride, says)
                channels, stride = width, 1
            ends.append(x)
        return build, ends

    @property
    def presets(self) -> tuple[tuple[int, ...], ...]:
        """Bits of the networks of the space that are most like known ones, the narrowest first."""
        return tuple(
            WHOLE_SIDE + self.stages * self._code({"width": width, **codes})
            for width in range(len(self.widths))
            for blocks, codes in self.PRESETS.items()
            if self.blocks in (blocks, next(iter(self.FIELDS)))
        )

    def random(self, random: np.random.Generator) -> tuple[int, ...]:
        return random_bits(self.loci, random)

    def _width(self, stage: int, code: int) -> int:
        return max(1, round(self.widths[code] * self.growth**stage))

    def _code(self, says: Mapping[str, int]) -> tuple[int, ...]:
        """The bits of a stage; a field that is not among them is 0."""
        fields = self.fields.items()
        return tuple(says.get(name, 0) >> place & 1 for name, count in fields for place in reversed(range(count)))

    def _fields(self, code: list[int]) -> dict[str, int]:
        left, says = iter(code), {}
        for name, count in self.fields.items():
            says[name] = sum(next(left) << place for place in reversed(range(count)))
        return says


def chosen(choices: Sequence[Choice], code: int) -> Choice:
    return choices[min(code, len(choices) - 1)]
