"""A space of the blocks that CPUs of boards run well: residual blocks with squeeze-and-excitation, ConvNeXt's, and
CPUBone's, whose convolutions are in groups and have small kernels, even ones among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .network_blocks import PARTS, Builder, Place
from .staged_space import StagedSpace, chosen

EXPANSIONS = (1, 2, 3, 4)
GROUPS = (8, 4, 2, 1)  # as far as they divide the channels
KINDS = ("residual", "convnext", "grouped")
SIZES = {"width": 2, "depth": 2, "kernel": 2}


@dataclass(frozen=True)
class ModernSpace(StagedSpace):
    """Stages of one of three kinds of block each (``StagedSpace``), said by the last two bits of a stage.

    The other fields are two bits each for expansion (1 to 4) and groups (8, 4, 2, 1), and one for squeeze-and-
    excitation. ConvNeXt's blocks have neither groups nor gates, residual ones no expansion.

    blocks   "residual", "convnext", "grouped" (CPUBone's): see ``Builder``; "all": any of them
    """

    NAME = "modern"
    FIELDS = {
        "all": {**SIZES, "expansion": 2, "groups": 2, "gate": 1, "kind": 2},
        "residual": {**SIZES, "groups": 2, "gate": 1},
        "convnext": {**SIZES, "expansion": 2},
        "grouped": {**SIZES, "expansion": 2, "groups": 2, "gate": 1},
    }
    PRESETS = {  # of kernels 2, 3, 5, 7
        "residual": {"depth": 2, "kernel": 1, "groups": 3, "kind": 0},  # ResNet-20: three of 3 x 3
        "convnext": {"depth": 2, "kernel": 3, "expansion": 3, "kind": 1},  # ConvNeXt: three of 7 x 7, expansion 4
        "grouped": {"depth": 2, "kernel": 0, "expansion": 3, "groups": 2, "kind": 2},  # CPUBone: 2 x 2, two groups
    }
    EVEN = True
    PARTS = PARTS

    kernels: tuple[int, ...] = (2, 3, 5, 7)
    blocks: Literal["all", "residual", "convnext", "grouped"] = "all"

    def block(
        self, build: Builder, place: Place, x: int, channels: int, width: int, stride: int, says: Mapping[str, int]
    ) -> int:
        sizes = place, x, channels, width, chosen(self.kernels, says["kernel"]), stride
        kind = chosen(KINDS, says["kind"]) if self.blocks == "all" else self.blocks
        if kind == "convnext":
            return build.convnext(*sizes, EXPANSIONS[says["expansion"]])
        groups, gate = GROUPS[says["groups"]], bool(says["gate"])
        if kind == "residual":
            return build.residual(*sizes, groups, gate)
        return build.grouped(*sizes, EXPANSIONS[says["expansion"]], groups, gate)
