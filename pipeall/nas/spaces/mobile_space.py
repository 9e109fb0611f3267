"""A space of the networks that boards run well: inverted residuals (MobileNet) and residual blocks (ResNet).

Batch normalization is trained and then folded into the convolutions, so that the exported network has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from ...errors import ArgumentError
from .genome import SOURCE, Architecture, Block, Convolution, check_bits, random_bits

Blocks = Literal["both", "inverted", "residual"]
Choice = TypeVar("Choice")

DEPTHS, EXPANSIONS = (1, 2, 3, 4), (1, 2, 4, 6)
SIDES = (0.5, 0.75, 1.0)  # of the picture's side
SQUEEZE = 4  # so many times fewer channels has a gate than its block reads
PARTS = 8  # convolutions of both kinds of block: five of inverted residuals, three of residual blocks
FIELDS: Mapping[Blocks, Mapping[str, int]] = {  # of a stage: what its bits say, and how many they are
    "both": {"width": 2, "depth": 2, "kernel": 2, "expansion": 2, "gate": 1, "residual": 1},
    "inverted": {"width": 2, "depth": 2, "kernel": 2, "expansion": 2, "gate": 1},
    "residual": {"width": 2, "depth": 2, "kernel": 2},
}
SIDE_BITS, STEM_BITS = 2, 1
WHOLE_SIDE = (1, 0, 1)  # pictures as large as they are, a first convolution of stride 1
PRESETS: Mapping[str, Mapping[str, int]] = {  # codes of every stage, of each width: blocks as known networks have them
    "residual": {"depth": 2, "residual": 1},  # ResNet-20: three of 3 x 3
    "inverted": {"depth": 2, "expansion": 3},  # MobileNet v2: three of expansion 6
}


@dataclass(frozen=True)
class MobileSpace:
    """A first convolution of 3 x 3, then stages of one kind of block each; all but the first stage begin with stride 2.

    The first bits: two for the side that pictures are resized to (1/2, 3/4, 1, 1 of theirs), one for the stride of the
    first convolution (2, 1). Then of each stage two for its width, two for its depth (1 to 4 blocks), two for the
    kernel, and for inverted residuals two for the expansion (1, 2, 4, 6) and one for squeeze-and-excitation; the last
    says which kind of block it is. Where there are three choices the code 11 stands for the third again.

    stages   how many
    widths   of the first stage, four choices, ascending; each later stage has ``growth`` times as many channels
    kernels  up to four choices, ascending and odd
    blocks   "inverted": as MobileNet's v2 and v3; "residual": as ResNet's of two convolutions; "both": either
    side     of the pictures
    """

    stages: int = 3
    widths: tuple[int, int, int, int] = (16, 24, 32, 48)
    kernels: tuple[int, ...] = (3, 5, 7)
    blocks: Blocks = "both"
    side: int = 32
    growth: float = 2.0

    def __post_init__(self) -> None:
        if self.stages < 1 or self.side < 1 or self.growth <= 0:
            raise ArgumentError(f"mobile: expected stages, a side and growth above 0, got {self}")
        if len(self.widths) != 4 or min(self.widths) < 1 or list(self.widths) != sorted(self.widths):
            raise ArgumentError(f"widths: expected 4 ascending numbers, got {self.widths}")
        odd = all(kernel > 0 and kernel % 2 for kernel in self.kernels)
        if not 1 <= len(self.kernels) <= 4 or not odd or list(self.kernels) != sorted(self.kernels):
            raise ArgumentError(f"kernels: expected 1 to 4 ascending odd numbers, got {self.kernels}")
        if self.blocks not in FIELDS:
            raise ArgumentError(f"blocks: expected {', '.join(FIELDS)}, got {self.blocks!r}")

    @property
    def loci(self) -> int:
        return SIDE_BITS + STEM_BITS + self.stages * sum(FIELDS[self.blocks].values())

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The loci of side and first convolution, then of each stage."""
        first, of_a_stage = SIDE_BITS + STEM_BITS, sum(FIELDS[self.blocks].values())
        ends = [first + stage * of_a_stage for stage in range(self.stages + 1)]
        return tuple(tuple(range(start, end)) for start, end in zip([0, *ends], ends, strict=False))

    def decode(self, bits: Sequence[int]) -> Architecture:
        check_bits(bits, self.loci)
        (high, low, stem), *stages = [[bits[locus] for locus in loci] for loci in self.levels]
        side = max(1, round(self.side * _choice(SIDES, 2 * high + low)))
        build = Builder()
        x, channels = SOURCE, self._width(0, 2 * stages[0][0] + stages[0][1])
        x = build.conv((0, 0), x, channels, 3, stride=1 if stem else 2, side=0 if side == self.side else side)
        for stage, code in enumerate(stages):
            says = self._fields(code)
            width, stride = self._width(stage, says["width"]), 2 if stage else 1
            kernel = _choice(self.kernels, says["kernel"])
            for number in range(DEPTHS[says["depth"]]):
                place = stage + 1, number
                if says.get("residual", self.blocks == "residual"):
                    x = build.residual(place, x, channels, width, kernel, stride)
                else:
                    expansion = EXPANSIONS[says["expansion"]]
                    x = build.inverted(place, x, channels, width, kernel, stride, expansion, bool(says["gate"]))
                channels, stride = width, 1
        return Architecture("mobile", tuple(build.blocks))

    @property
    def presets(self) -> tuple[tuple[int, ...], ...]:
        """Bits of the networks of the space that are most like ResNet-20 and MobileNet v2, the narrowest first."""
        return tuple(
            WHOLE_SIDE + self.stages * self._code({"width": width, **codes})
            for width in range(len(self.widths))
            for blocks, codes in PRESETS.items()
            if self.blocks in (blocks, "both")
        )

    def random(self, random: np.random.Generator) -> tuple[int, ...]:
        return random_bits(self.loci, random)

    def loci_of(self, *names: str) -> list[int]:
        """The loci of these fields (``FIELDS``) in all stages; a kind of block that lacks a field has none of it."""
        fields = [name for name, count in FIELDS[self.blocks].items() for _ in range(count)]
        stages = self.levels[1:]
        return [locus for loci in stages for name, locus in zip(fields, loci, strict=True) if name in names]

    def union(self) -> Architecture:
        """Every convolution of every network of the space, as large as any has it: what networks can take their weights
        from (``supernet.taken``). With both kinds of block it is no network itself."""
        gone = self.loci_of("residual")
        largest = self.decode([1] * self.loci), self.decode([int(locus not in gone) for locus in range(self.loci)])
        blocks = {block.index: block for architecture in largest for block in architecture.blocks}
        return Architecture("mobile", tuple(blocks.values()))

    def _width(self, stage: int, code: int) -> int:
        return max(1, round(self.widths[code] * self.growth**stage))

    def _code(self, says: Mapping[str, int]) -> tuple[int, ...]:
        """The bits of a stage; a field that is not among them is 0."""
        fields = FIELDS[self.blocks].items()
        return tuple(says.get(name, 0) >> place & 1 for name, count in fields for place in reversed(range(count)))

    def _fields(self, code: list[int]) -> dict[str, int]:
        left, says = iter(code), {}
        for name, count in FIELDS[self.blocks].items():
            says[name] = sum(next(left) << place for place in reversed(range(count)))
        return says


class Builder:
    """Convolutions in the making. Every method adds some and returns the index of the last.

    place  stage and number of the block in it: an index is a function of these and of the part of the block, so that
           networks of one space inherit from each other what they have in common
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def conv(self, place: tuple[int, int], x: int, neurons: int, kernel: int, part: int = 0, **more: object) -> int:
        stage, number = place
        index = 1 + part + PARTS * (number + 64 * stage)
        self.blocks.append(Convolution(index, (x,), neurons, kernel, **more))
        return index

    def inverted(
        self,
        place: tuple[int, int],
        x: int,
        channels: int,
        neurons: int,
        kernel: int,
        stride: int,
        expansion: int,
        gate: bool,
    ) -> int:
        """Expansion, depthwise convolution, its gate (MobileNet v3: hard sigmoid) and projection; the input is added
        where it has the shape of the result."""
        wide, inner = expansion * channels, x
        if expansion > 1:
            inner = self.conv(place, x, wide, 1, 0)
        inner = self.conv(place, inner, wide, kernel, 1, stride=stride, depthwise=True)
        if gate:
            few = self.conv(place, inner, max(1, channels // SQUEEZE), 1, 2, normed=False, averaged=True)
            inner = self.conv(place, few, wide, 1, 3, normed=False, activation="hardsigmoid", factor=inner)
        added = x if stride == 1 and channels == neurons else None
        return self.conv(place, inner, neurons, 1, 4, activation="none", added=added)

    def residual(self, place: tuple[int, int], x: int, channels: int, neurons: int, kernel: int, stride: int) -> int:
        """Two convolutions, and the input added ahead of the last ReLU; projected where it has another shape."""
        inner = self.conv(place, x, neurons, kernel, 5, stride=stride)
        if stride > 1 or channels != neurons:
            x = self.conv(place, x, neurons, 1, 6, stride=stride, activation="none")
        return self.conv(place, inner, neurons, kernel, 7, added=x)


def mobilenet_v2(width: float = 1.0) -> Architecture:
    """MobileNet v2 (Sandler et al. 2018, table 2) for pictures of 32 x 32: the first convolution and the second stage
    have stride 1. Widths are multiples of 8, none less than 90 % of what is asked for."""
    build = Builder()
    channels = _eights(32 * width)
    x = build.conv((0, 0), SOURCE, channels, 3)
    table = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (expansion, neurons, depth, stride) in enumerate(table, 1):
        neurons = _eights(neurons * width)
        for number in range(depth):
            x = build.inverted((stage, number), x, channels, neurons, 3, 1 if number else stride, expansion, False)
            channels = neurons
    build.conv((len(table) + 1, 0), x, _eights(1280 * max(width, 1.0)), 1)
    return Architecture("mobile", tuple(build.blocks))


def resnet20(width: float = 1.0) -> Architecture:
    """ResNet-20 (He et al. 2016, section 4.2) with shortcuts by projection where shapes differ (their option B)."""
    build = Builder()
    channels = max(1, round(16 * width))
    x = build.conv((0, 0), SOURCE, channels, 3)
    for stage in range(3):
        neurons = max(1, round((16 << stage) * width))
        for number in range(3):
            x = build.residual((stage + 1, number), x, channels, neurons, 3, 2 if stage and not number else 1)
            channels = neurons
    return Architecture("mobile", tuple(build.blocks))


def _choice(choices: Sequence[Choice], code: int) -> Choice:
    return choices[min(code, len(choices) - 1)]


def _eights(channels: float) -> int:
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
