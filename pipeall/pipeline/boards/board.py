"""The board: the components a sub-graph can run on, under the names and letters that plans use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ... import env
from ..._kernels.cpu import cluster
from ..._kernels.opencl import devices as opencl
from ...errors import DeviceError, MissingExtraError
from ..planning.names import component_name
from .model import BoardModel
from .parts import Component


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
