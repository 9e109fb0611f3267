"""A space of detectors: the stages of another space, and a head as YOLO's behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .genome import Architecture, check_bits, random_bits
from .network_blocks import Builder
from .staged_space import StagedSpace

HEAD_BITS = 5  # fine, width (two), depth, grouped
BRANCHES = 2  # one for classes and one for boxes


@dataclass(frozen=True)
class DetectorSpace:
    """The stages of ``body``, then one map of cells, and two branches of 3 x 3 convolutions on it; the output layer
    gives classes and a box of each cell (``training.detection``).

    The bits of the body come first. Then: whether the cells are those of the last stage but one, to which the last one
    is added, enlarged, as in a feature pyramid (Lin et al. 2017), or those of the last; two for the width of a branch,
    one of the body's widths; one for its depth, 1 or 2; and one for its convolutions, depthwise or full.
    """

    body: StagedSpace

    @property
    def loci(self) -> int:
        return self.body.loci + HEAD_BITS

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The body's, then that of the head."""
        return (*self.body.levels, tuple(range(self.body.loci, self.loci)))

    def decode(self, bits: Sequence[int]) -> Architecture:
        check_bits(bits, self.loci)
        fine, high, low, deep, full = bits[self.body.loci :]
        build, ends = self.body.build(bits[: self.body.loci])
        width = BRANCHES * self.body.widths[2 * high + low]
        cells = self._cells(build, ends, width, bool(fine))
        for number in range(1, 2 + deep):
            kind = {"groups": BRANCHES} if full else {"depthwise": True}
            cells = build.conv((self.body.stages + 1, number), cells, width, 3, **kind)
        return Architecture("mobile", tuple(build.blocks))

    def random(self, random: np.random.Generator) -> tuple[int, ...]:
        return random_bits(self.loci, random)

    def _cells(self, build: Builder, ends: Sequence[int], width: int, fine: bool) -> int:
        """The map that both branches read."""
        place, last = (self.body.stages + 1, 0), ends[-1]
        if not fine or len(ends) == 1:
            return build.conv(place, last, width, 1)
        before = build.conv(place, ends[-2], width, 1, 1, activation="none")
        return build.conv(place, last, width, 1, 0, side=build.side(ends[-2], self.body.side), added=before)
