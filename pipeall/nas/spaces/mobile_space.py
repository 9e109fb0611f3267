"""A space of the networks that boards run well: inverted residuals (MobileNet) and residual blocks (ResNet).

Batch normalization is trained and then folded into the convolutions, so that the exported network has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .genome import SOURCE, Architecture
from .network_blocks import MOBILE_PARTS, Builder, Place
from .staged_space import StagedSpace, chosen

EXPANSIONS = (1, 2, 4, 6)


@dataclass(frozen=True)
class MobileSpace(StagedSpace):
    """Stages of inverted residuals or of residual blocks (``StagedSpace``).

    Inverted residuals have two bits for the expansion (1, 2, 4, 6) and one for squeeze-and-excitation. The last bit of
    a stage says which kind of block it has.

    kernels  odd
    blocks   "inverted": as MobileNet's v2 and v3; "residual": as ResNet's of two convolutions; "both": either
    """

    NAME = "mobile"
    FIELDS = {
        "both": {"width": 2, "depth": 2, "kernel": 2, "expansion": 2, "gate": 1, "residual": 1},
        "inverted": {"width": 2, "depth": 2, "kernel": 2, "expansion": 2, "gate": 1},
        "residual": {"width": 2, "depth": 2, "kernel": 2},
    }
    PRESETS = {
        "residual": {"depth": 2, "residual": 1},  # ResNet-20: three of 3 x 3
        "inverted": {"depth": 2, "expansion": 3},  # MobileNet v2: three of expansion 6
    }
    EVEN = False
    PARTS = MOBILE_PARTS

    blocks: Literal["both", "inverted", "residual"] = "both"

    def block(
        self, build: Builder, place: Place, x: int, channels: int, width: int, stride: int, says: Mapping[str, int]
    ) -> int:
        kernel = chosen(self.kernels, says["kernel"])
        if says.get("residual", self.blocks == "residual"):
            return build.residual(place, x, channels, width, kernel, stride)
        expansion = EXPANSIONS[says["expansion"]]
        return build.inverted(place, x, channels, width, kernel, stride, expansion, bool(says["gate"]))

    def loci_of(self, *names: str) -> list[int]:
        """The loci of these fields (``FIELDS``) in all stages; a kind of block that lacks a field has none of it."""
        fields = [name for name, count in self.fields.items() for _ in range(count)]
        stages = self.levels[1:]
        return [locus for loci in stages for name, locus in zip(fields, loci, strict=True) if name in names]

    def union(self) -> Architecture:
        """Every convolution of every network of the space, as large as any has it: what networks can take their weights
        from (``supernet.taken``). With both kinds of block it is no network itself."""
        gone = self.loci_of("residual")
        largest = self.decode([1] * self.loci), self.decode([int(locus not in gone) for locus in range(self.loci)])
        blocks = {block.index: block for architecture in largest for block in architecture.blocks}
        return Architecture("mobile", tuple(blocks.values()))


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


def _eights(channels: float) -> int:
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
