"""A component: something that can run a sub-graph, under the name that plans use."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .device import Device


@dataclass(frozen=True, slots=True)
class Component:
    """A device, or some of its cores, under a name.

    ``letter`` stands for the name in an order string: B, M, L, G, and M1, G1, ... where there are several.
    The name of a component that computes in another precision than its device's default says so: "gpu@fp16".
    """

    name: str
    device: Device

    def __repr__(self) -> str:
        return f"<Component {self.name}: {self.description}>"

    @property
    def letter(self) -> str:
        return re.sub("[a-z]+", self.name[0].upper(), self.name)

    @property
    def description(self) -> str:
        return self.device.description

    @property
    def precision(self) -> str:
        return self.device.precision

    @property
    def stand_in(self) -> bool:
        return self.device.stand_in

    def with_cores(self, name: str, cores: tuple[int, ...]) -> Component:
        """The unit of some of its cores."""
        return Component(name, self.device.with_cores(cores))

    def with_precision(self, precision: str) -> Component:
        return replace(self, name=f"{self.name}@{precision}", device=self.device.with_precision(precision))
