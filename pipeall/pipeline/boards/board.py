"""The board: the components a sub-graph can run on, under the names and letters that plans use."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ... import env
from ..._kernels.cpu.cluster import Cluster, equal, joined
from ...arguments import by_name, checked, number, optional, path, refused, several, switch, text, whole
from ...errors import ArgumentError, DeviceError, MissingExtraError
from ..devices.clocks import limited
from ..devices.cpu import cpu_device
from ..devices.device import Component, detect
from ..planning.plan import Plan
from ..planning.units import Unit, components, traits_of
from .models.all_cores import WHOLE
from .models.board_model import BoardModel
from .models.modelled import Modelled

CPU = "cpu"  # the device whose components are the clusters
CORES = "a list of ids of cores"
HERE = ("fp32", "int8", "mixed")  # precisions that every CPU computes in
UNPINNED = (-1,)  # one thread per stage, on whichever core is free: a modelled board has more of them than this machine

log = logging.getLogger(__name__)


class Board:
    """The components of one machine. OpenCL is asked only when the GPU or the whole list is.

    ``model``: how fast they are, on a board that is not at hand (``load``); else None. All its clusters together are
    the component "cpu", which is not listed: it has their cores.
    """

    def __init__(self, clusters: Iterable[Cluster], gpu: bool = True, model: BoardModel | None = None):
        published = {name: one.part for name, one in model.published.items()} if model else {}
        devices = (
            {**model.components, **published}
            if model
            else {cluster.name: cpu_device.Cpu(cluster) for cluster in clusters}
        )
        self._present = {name: Component(name, device) for name, device in devices.items()}
        self._clusters = () if model else tuple(device.cluster for device in devices.values())
        self._gpu = gpu
        self._held: Mapping[int | str, str] = {}
        self.model = model

    @classmethod
    @checked(
        clusters=optional(several(several(whole(0), CORES), "lists of ids of cores")),
        gpu=switch,
        root=optional(path),
        allowed=optional(several(whole(0), CORES)),
        machine=optional(text),
    )
    def detect(
        cls,
        clusters: Sequence[Sequence[int]] | None = None,
        gpu: bool = True,
        *,
        root: str | Path | None = None,
        allowed: Iterable[int] | None = None,
        machine: str | None = None,
    ) -> Board:
        """The board this process runs on.

        Parameters
        ----------
        clusters
            Ids of the cores of each CPU component, which are then called big; big, little; big, mid, little; and so on,
            and may hold SMT siblings. Default: the machine's own, fastest first.
        gpu
            Whether to list the OpenCL devices and those of plug-ins, always this machine's. False: never ask for them.
        root
            A tree with sys/ and proc/; default ``PIPEALL_SYSFS``, else "/".
        allowed
            Cores that may be used; default this process's affinity, on a recorded tree every online core.
        machine
            The architecture as in ``uname -m``; default the running one, on a recorded tree its own.

        Returns
        -------
        Board
            Its components.

        Raises
        ------
        ArgumentError
            For given cores that are absent, repeated or not allowed, and for an unknown ``PIPEALL_CORE``.
        DeviceError
            Where no core is left or ``PIPEALL_ISA`` is not supported.
        """
        found = cpu_device.detect(clusters, root=root, allowed=allowed, machine=machine)
        for name, device in found.items():
            log.debug("%s: %s; %s", name, device.description, device.cluster.why)
        return cls((device.cluster for device in found.values()), gpu)

    @classmethod
    @checked(library=text)
    def load(cls, name: str | Path, library: str = "pipeall") -> Board:
        """The model of a board, whose components cannot run here.

        Parameters
        ----------
        name
            "a311d" (Khadas VIM3), "orion-o6", "rk3399" (NanoPC-T4), "rk3566" (Orange Pi CM4), "rk3576" (Rock 4D),
            "rk3588" (Orange Pi 5), "rpi4", "rpi5" or "uno-q", with pipeall's own kernels; "rk3399pro" (Rock Pi N10)
            with ARM Compute Library's published times; or the path of a file that ``BoardModel`` saved.
        library
            "armcl" for its times on the A311D, which is the model "a311d-armcl"; "ncnn" for its published times on any
            but the Orion O6, RK3576 and Rock Pi N10: "rk3588-ncnn".

        Returns
        -------
        Board
            Components without devices, and the ``model`` of their times.

        Raises
        ------
        ArgumentError
            For a name that is neither, with the known ones, and for a file that is wrong, with the entry.
        """
        return cls(
            (), gpu=False, model=BoardModel.load(name if library == "pipeall" else f"{path('name', name)}-{library}")
        )

    def without(self, held: Mapping[int | str, str]) -> Board:
        """This machine without some cores and devices.

        Parameters
        ----------
        held
            Ids of cores and names of devices, as ``Device.resources`` has them, and who holds each: the error for a
            component that is gone says that.

        Returns
        -------
        Board
            What is left of the components, under the same names.
        """
        left = (
            replace(cluster, cores=cores)
            for cluster in self._clusters
            if (cores := tuple(core for core in cluster.cores if core not in held))
        )
        board = Board(left, self._gpu)
        board._held = self._held | held
        return board

    @property
    def components(self) -> Mapping[str, Component]:
        """All components by name: clusters fastest first, then the chosen OpenCL device and other GPUs."""
        return MappingProxyType(self._present | self._others[0])

    @property
    def all_cores(self) -> str | None:
        """The component that has all cores where they are equal; None where they differ, or are modelled."""
        if not self._clusters or not equal(self._clusters):
            return None
        return WHOLE if len(self._clusters) > 1 else self._clusters[0].name

    @property
    def default_component(self) -> str:
        """The default unit of a whole network: all cores where they are equal, else the fastest cluster."""
        return self.all_cores or next(iter(self._present or self.components))

    def __repr__(self) -> str:
        known = dict(self._present)
        if self.model is None and "_others" in vars(self):  # a GPU is not looked for only to be shown
            known |= self._others[0]
        listed = "; ".join(f"{name} {component.description}" for name, component in known.items())
        return f"<Board{f' {self.model.name}, a model' if self.model else ''}: {listed}>"

    @property
    def gpu_missing(self) -> str | None:
        """Why there is no GPU, or None."""
        return None if "gpu" in self.components else self._others[1]["opencl"]

    def component(self, key: str) -> Component:
        """The component of this name or letter, in any case: "big" or "B", "gpu" or "g", "gpu@fp16", "cpu" or "C".

        Raises DeviceError where this board has none, with what it has and why; ArgumentError on another word.
        """
        asked = Unit.parse_whole(key)
        name, precision = asked.component, asked.precision
        if precision and (self.model is None or precision in self.model.precisions(name)):
            return self.component(name).with_precision(precision)
        if name in self._present and not precision:
            return self._present[name]
        if name == WHOLE and self._clusters:
            return Component(WHOLE, cpu_device.Cpu(joined(self._clusters)))
        if name == WHOLE and self.model and self.model.team:
            return Component(WHOLE, Modelled.joined([self._present[part].device for part in self.model.team.parts]))
        if precision or name not in self.components:
            why = self._others[1].get(traits_of(name).device)
            there = ", ".join(self.components)
            raise DeviceError(f"no component {asked!r} on this board (it has {there}){f': {why}' if why else ''}")
        return self.components[name]

    def units(self, plan: Plan) -> list[list[Component]]:
        """The unit of every stage of every lane, under the unit's name ("bigx3").

        Stages on some cores of a component take successive ones, in the order of the plan; on a modelled board
        a thread of this machine stands in for each unit. Raises DeviceError for a component the board lacks,
        ArgumentError for more cores than there are, and for cores of a component that runs as a whole.
        """
        taken: dict[str, int] = {}
        return [[self._unit(stage.unit, taken) for stage in lane] for lane in plan.lanes]

    def _unit(self, unit: Unit, taken: dict[str, int]) -> Component:
        """``taken``: the number of cores of each component that earlier stages have; this one's are added."""
        whole = self.component(unit.whole)
        if not traits_of(unit.component).cores:
            if unit.cores is not None:
                raise ArgumentError(f"stage {unit}: expected no number of cores, {whole.name} runs as a whole")
            return host_component(unit) if self.model else whole
        if unit.cores is None:
            return host_component(unit) if self.model else whole.with_cores(unit, whole.device.cores)
        cores, first, count = whole.device.cores, taken.get(unit.component, 0), unit.cores
        if not isinstance(count, int) or not 1 <= count <= len(cores) - first:
            raise ArgumentError(
                f"stage {unit}: expected at most {len(cores) - first} cores of {whole.name} "
                f"({len(cores)}, {first} of them taken by stages before it), got {count!r}"
            )
        taken[unit.component] = first + count
        return host_component(unit) if self.model else whole.with_cores(unit, cores[first : first + count])

    @checked(clocks=by_name(number(0, above=True), "a dict of MHz by component"))
    def at_clocks(self, clocks: Mapping[str, float]) -> AbstractContextManager[None]:
        """Keeps components at these clocks at most while its ``with`` block runs; then their limits are as before.

        That is so also after an error, Ctrl-C and SIGTERM; not after SIGKILL.

        Parameters
        ----------
        clocks
            MHz by component, such as ``dict(plan.clocks)``.

        Returns
        -------
        context manager
            Its ``with`` statement writes ``scaling_max_freq`` of cpufreq or ``max_freq`` of devfreq.

        Raises
        ------
        DeviceError
            For a component that this board lacks, or whose clock cannot be set, naming the file, and on a model.
        """
        limits = []
        for name, mhz in clocks.items():
            found = self.component(name).device.clocks(env.sysfs())
            if not found:
                raise DeviceError(f"clock of {name}: expected files of cpufreq or devfreq in {env.sysfs()}, got none")
            limits += [(clock, mhz) for clock in found]
        return limited(limits)

    def describe(self) -> list[dict[str, Any]]:
        """One row per component, ready for JSON.

        component, letter, kind, description, then the device's ``details``, and stand_in.
        """
        return [
            {
                "component": component.name,
                "letter": component.letter,
                "kind": component.device.kind,
                "description": component.device.description,
                **component.device.details(),
                "stand_in": component.device.stand_in,
            }
            for component in self.components.values()
        ]

    @cached_property
    def _others(self) -> tuple[dict[str, Component], dict[str, str]]:
        """The components that are no clusters of cores, and by device why there are none."""
        others: dict[str, Component] = {}
        missing: dict[str, str] = {}
        for device in dict.fromkeys(traits.device for traits in components().values() if traits.device != CPU):
            if self.model is not None:
                missing[device] = f"the model of {self.model.name} has none"
            elif not self._gpu:
                missing[device] = "this board was made with gpu=False"
            else:
                try:
                    others |= {name: Component(name, one) for name, one in detect(device).items()}
                except (MissingExtraError, DeviceError) as error:
                    missing[device] = str(error)
        for name, component in [*others.items()]:
            if holder := next(filter(None, map(self._held.get, component.device.resources)), None):
                del others[name]
                missing[traits_of(name).device] = f"held by {holder}"
            else:
                log.debug("%s: %s", name, component.description)
        if cores := [resource for resource in self._held if isinstance(resource, int)]:
            missing[CPU] = f"held by {' and '.join(dict.fromkeys(map(self._held.get, cores)))}"
        for device, why in missing.items():
            log.debug("no %s device: %s", device, why)
        return others, missing


def host_component(unit: Unit) -> Component:
    """What computes a stage of a modelled board: one unpinned thread of this machine's fastest cluster.

    In half precision it computes floats, since this machine may have no kernels of halves.
    """
    fastest = next(iter(cpu_device.detect().values())).with_cores(UNPINNED)
    return Component(unit, fastest.with_precision(unit.precision) if unit.precision in HERE else fastest)


def board_of(name: str, value: Any) -> Board:
    """A rule for arguments: a board, or what ``Board.load`` takes; None is this machine."""
    if value is None:
        return Board.detect()
    if isinstance(value, (str, PathLike)):
        return Board.load(value)
    if not isinstance(value, Board):
        raise refused(name, "a pipeall.Board, or the name of one that is modelled", value)
    return value
