"""The parts of a board: components that can run a sub-graph, here or on a board that is not at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..._kernels.cpu import cluster
from ..._kernels.opencl import devices as opencl


@dataclass(frozen=True, slots=True)
class Part:
    """What a board model says of a component that is not at hand. ``count`` cores; max_mhz None: not known."""

    core_type: str
    count: int
    max_mhz: float | None = None

    def __str__(self) -> str:
        return f"{self.count} x {self.core_type}" + (f" at {self.max_mhz:.0f} MHz" if self.max_mhz else "")


@dataclass(frozen=True, slots=True)
class Component:
    """Something that can run a sub-graph: a cluster of CPU cores, an OpenCL device, or a model of either: one of them.

    ``letter`` stands for the name in an order string: B, M, L, G, and M1, G1, ... where there are several.
    ``stand_in`` marks a CPU that plays the GPU; say so wherever its results are shown.
    ``precision`` of an OpenCL device, and part of its name where it is not fp32: "gpu@fp16" stores and computes in half
    precision, "gpu@mixed" stores in half and computes in single.
    """

    name: str
    cluster: cluster.Cluster | None = None
    device: opencl.DeviceInfo | None = None
    part: Part | None = None
    precision: str = "fp32"

    @property
    def letter(self) -> str:
        return re.sub("[a-z]+", self.name[0].upper(), self.name)

    @property
    def kind(self) -> str:
        return "cpu" if self.cluster else "opencl" if self.device else "model"

    @property
    def stand_in(self) -> bool:
        return self.device is not None and self.device.stand_in

    @property
    def description(self) -> str:
        if self.cluster is None:
            return str(self.device or self.part)
        clock = f" at {self.cluster.max_mhz:.0f} MHz" if self.cluster.max_mhz else ""
        cores = cluster.format_cores(self.cluster.cores)
        return f"{len(self.cluster.cores)} x {self.cluster.core_type}{clock} (cores {cores}), {self.cluster.isas[0]}"
