"""The board: the components a sub-graph can run on, under the names and letters that plans use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .. import env
from .._kernels import cluster, opencl
from ..errors import ArgumentError, DeviceError, MissingExtraError

if TYPE_CHECKING:
    from .board_model import BoardModel


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


class Board:
    """The components of one machine. OpenCL is asked only when the GPU or the whole list is.

    ``model``: how fast they are, on a board that is not at hand (``load``); else None.
    """

    def __init__(self, clusters: Iterable[cluster.Cluster], gpu: bool = True, model: BoardModel | None = None):
        self._known = {c.name: Component(c.name, cluster=c) for c in clusters}
        self._gpu = gpu
        self.model = model
        if model is not None:
            self._known |= {name: Component(name, part=part) for name, part in model.parts.items()}

    @classmethod
    def detect(
        cls,
        clusters: Sequence[Sequence[int]] | None = None,
        gpu: bool = True,
        *,
        root: str | Path | None = None,
        allowed: Iterable[int] | None = None,
        machine: str | None = None,
    ) -> Board:
        """The board this process runs on; ``cluster.detect`` explains the arguments and errors of the CPU part.

        gpu: list the OpenCL devices if there are any (always this machine's, also with ``root``); False: never
        ask for them.
        """
        return cls(cluster.detect(clusters, root=root, allowed=allowed, machine=machine), gpu)

    @classmethod
    def load(cls, name: str | Path) -> Board:
        """The model of a board: "a311d" (Khadas VIM3), "rk3399pro" (Rock Pi N10), or a file that ``BoardModel`` saved.

        Its components cannot run here. Raises ArgumentError for a name that is neither, with the known ones, and for a
        file that is wrong, with the entry.
        """
        from .board_model import BoardModel

        return cls((), gpu=False, model=BoardModel.load(name))

    @property
    def components(self) -> Mapping[str, Component]:
        """All components by name: clusters fastest first, then the chosen OpenCL device and other GPUs."""
        return MappingProxyType(self._known | self._gpus[0])

    @property
    def gpu_missing(self) -> str | None:
        """Why there is no GPU, or None."""
        return self._gpus[1]

    def component(self, key: str) -> Component:
        """The component of this name or letter, in any case: "big" or "B", "gpu" or "g", "gpu@fp16".

        Raises DeviceError where this board has none, with what it has and why; ArgumentError on another word.
        """
        name, _, precision = component_name(key).partition("@")
        if precision and self.model is None:
            return replace(self.component(name), name=f"{name}@{precision}", precision=precision)
        if name in self._known and not precision:
            return self._known[name]
        if precision or name not in self.components:
            reason = f": {self.gpu_missing}" if name.startswith("gpu") and self.gpu_missing else ""
            asked, there = component_name(key), ", ".join(self.components)
            raise DeviceError(f"no component {asked!r} on this board (it has {there}){reason}")
        return self.components[name]

    def describe(self) -> list[dict[str, Any]]:
        """One row per component, ready for JSON.

        component, letter, kind, description, stand_in; then for a CPU the fields of its Cluster (cores, core_type,
        isas, capacity, max_mhz, caches, why), for OpenCL those of its DeviceInfo (the name as ``device``) and why, for
        a model those of its Part.
        """
        rows = []
        for part in self.components.values():
            details = asdict(part.cluster or part.device or part.part)
            name = details.pop("name", None)
            row = {"component": part.name, "letter": part.letter, "kind": part.kind, "description": part.description}
            if part.kind == "opencl":
                row["device"] = name
                row["why"] = opencl.why(part.device, self.components["gpu"].device)
            rows.append(row | details | {"stand_in": part.stand_in})
        return rows

    @cached_property
    def _gpus(self) -> tuple[dict[str, Component], str | None]:
        """The OpenCL components by name, and why there are none."""
        if self.model is not None:
            return {}, f"the model of {self.model.name} has none"
        if not self._gpu:
            return {}, "this board was made with gpu=False"
        if env.opencl() == "off":
            return {}, "OpenCL is switched off by PIPEALL_OPENCL=off"
        try:
            available = opencl.devices()
            chosen = opencl.choose(available)
        except (MissingExtraError, DeviceError) as error:
            return {}, str(error)
        others = [device for device in available if device != chosen and not device.stand_in]
        named = {f"gpu{i or ''}": device for i, device in enumerate([chosen, *others])}
        return {name: Component(name, device=device) for name, device in named.items()}, None


def component_name(key: str) -> str:
    """The component name of a name or letter of an order string: "B" is "big", "g1@fp16" is "gpu1@fp16".

    Raises ArgumentError on any other word.
    """
    names = r"(b|big|l|little)|(m|mid)([1-9][0-9]*)?|(g|gpu)([1-9][0-9]*)?(@fp16|@mixed)?"
    match = re.fullmatch(names, key.strip().lower())
    if match is None:
        raise ArgumentError(
            f"component: expected big, mid, little or gpu, or a letter of B, M, L, G (gpu@fp16, gpu@mixed); got {key!r}"
        )
    word, number = match[1] or match[2] or match[4], match[3] or match[5] or ""
    return {"b": "big", "m": "mid", "l": "little", "g": "gpu"}[word[0]] + number + (match[6] or "")
