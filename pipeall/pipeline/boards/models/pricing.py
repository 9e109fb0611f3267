"""Pricing: what a board model says of networks that nobody measured on the board."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Protocol

import numpy as np

from ....graph.ir import Graph


class Pricing(Protocol):
    """Times of the groups of any network on one component, or some of its cores.

    source      where times are from, in words
    precisions  those beside the default that it prices; int8 is for quantized networks
    """

    source: ClassVar[str]

    @property
    def precisions(self) -> list[str]: ...

    def factor(self, precision: str) -> float | None:
        """How many times as long a precision takes as the default, where that is all that is known of it."""

    def default_precision(self, graph: Graph) -> str:
        """What the default is for a network, where it is not the usual one; else ""."""

    def work_key(self, precision: str) -> Hashable:
        """What ``work`` depends on beside the network: components with the same key share it."""

    def work(self, graph: Graph, precision: str) -> Any:
        """What the groups of a network do, as ``group_ms`` reads it."""

    def group_ms(self, work: Any, precision: str = "", frames: int = 1) -> np.ndarray:
        """The time of each group; of one of so many frames that are computed together."""
