"""The CPU device: steps become native kernels, run by a cluster's pinned team."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from .... import env
from ...._kernels.buffers import mapped_page_bytes
from ...._kernels.cpu import cluster as clusters
from ...._kernels.cpu.algorithms import (
    GEMM,
    GEMV_HALVES,
    HALF_GEMM,
    HALF_MAX,
    HALVED,
    Algorithm,
    bfloated,
    candidates,
    halved,
    sensible,
)
from ...._kernels.cpu.cluster import Cluster
from ...._kernels.cpu.cores import IN_ORDER
from ...._kernels.cpu.self_check import checked, wrong_on
from ...._kernels.cpu.table import Kernels, explain
from ...._kernels.peak import Peak
from ....errors import ArgumentError, DeviceError
from ....graph.lower.tiling import Cache
from ....graph.onnx.read.wire import release
from ....steps import Lowered, Step
from ..clocks import Clock, clocks_of_cores
from ..device import Device, always
from .tune_cpu import Tuner, choose_algorithms, gemm_kernels, modelled_algorithms

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "mixed")
NEEDS = {"fp16": "asimdhp", "bf16": "bf16"}  # precision -> the instruction set that computes in it

log = logging.getLogger(__name__)


def detect(
    given: Sequence[Sequence[int]] | None = None,
    *,
    root: str | Path | None = None,
    allowed: Iterable[int] | None = None,
    machine: str | None = None,
) -> dict[str, Cpu]:
    """The clusters of this machine by name, fastest first; ``cluster.detect`` explains the arguments and errors."""
    return {
        cluster.name: Cpu(cluster) for cluster in clusters.detect(given, root=root, allowed=allowed, machine=machine)
    }


@dataclass(frozen=True, slots=True)
class Cpu(Device):
    """A cluster of CPU cores, or some of them: one thread per core."""

    kind: ClassVar[str] = "cpu"
    shares: ClassVar[bool] = True
    silu: ClassVar[bool] = True
    cluster: Cluster
    int8: bool = True
    precision: str = "fp32"

    @property
    def fp16(self) -> bool:
        return self.precision == "fp16"

    @property
    def cores(self) -> tuple[int, ...]:
        return self.cluster.cores

    @property
    def width(self) -> int:
        return len(self.cluster.cores)

    @property
    def core_type(self) -> str:
        return self.cluster.core_type

    @property
    def max_mhz(self) -> float | None:
        return self.cluster.max_mhz

    @property
    def page_bytes(self) -> int:
        return mapped_page_bytes()

    @property
    def description(self) -> str:
        cluster = self.cluster
        clock = f" at {cluster.max_mhz:.0f} MHz" if cluster.max_mhz else ""
        cores = clusters.format_cores(cluster.cores)
        return f"{self.width} x {cluster.core_type}{clock} (cores {cores}), {cluster.isas[0]}"

    @property
    def computes_with(self) -> str:
        return " ".join(self.cluster.isas)

    def details(self) -> dict[str, Any]:
        """The fields of its Cluster, but for the name."""
        return {key: value for key, value in asdict(self.cluster).items() if key != "name"}

    def compile(self, lowered: Lowered, name: str, *, record: bool = False, **shared: Any):
        """A ``kernels.CpuProgram``: weights packed for its kernels. Its steps can be timed, ``record`` or not."""
        kernels = self._kernels()
        program = self._program(lowered, name, kernels, **shared)
        log.debug("%s on %s takes the kernels %s", name, self.description, ", ".join(kernels.values()))
        algorithms = self._stored(lowered, choose_algorithms(lowered.steps, self.cluster, kernels))
        _fill(program, lowered, algorithms)
        program.floats_between(*always(lowered, program.step_of))
        return program

    def cache(self, timed: bool) -> Cache | None:
        """The second-level cache. Where nothing is timed, strips are taken as faster, on NEON if several fast cores
        wait for the memory (docs/decisions/tiling.md)."""
        cluster = self.cluster
        if cluster.l2_bytes is None or (cluster.uneven and self.width > 1):
            return None
        gemms = gemm_kernels(self._kernels())

        def apart(step: Step) -> bool:
            return all(way.kind not in ("strassen", "winograd") for way in sensible(step, *gemms))

        faster = self._faster_in_strips if timed and env.tune() else self._modelled_in_strips
        nbytes = cluster.l2_bytes // min(self.width, cluster.l2_cores or self.width)
        return Cache(nbytes, self.width, apart, faster)

    def _modelled_in_strips(self, whole: Lowered, strips: Lowered) -> bool:
        cluster = self.cluster
        if "neon" not in cluster.isas:
            return True
        wait = self.width > 1 and "asimdhp" in cluster.isas and cluster.core_type not in IN_ORDER
        return wait and whole.arena_bytes > (cluster.l3_bytes or cluster.l2_bytes)

    def _faster_in_strips(self, whole: Lowered, strips: Lowered) -> bool:
        tuner = Tuner(self.cluster, self._kernels())
        return tuner.faster_in_strips(whole, strips, lambda lowered: self.compile(lowered, "tune"))

    def footprint(self, lowered: Lowered, **shared: Any) -> dict[str, int]:
        """Bytes of the weights, arena and scratch; algorithms are chosen by the model."""
        kernels = self._kernels()
        program = self._program(lowered, "footprint", kernels, pack=False, **shared)
        _fill(program, lowered, self._stored(lowered, modelled_algorithms(lowered.steps, self.cluster, kernels)))
        return program.nbytes

    def _stored(self, lowered: Lowered, algorithms: list[Algorithm | None]) -> list[Algorithm | None]:
        """The algorithms, with weights or all operands in half precision where that is asked for and they fit."""
        if self.precision not in ("mixed", *NEEDS):
            return algorithms
        way, steps = GEMV_HALVES if self.fp16 else HALF_GEMM, lowered.steps
        kept = frozenset() if self.precision == "mixed" else lowered.float32
        stored = [
            algorithm if step.node in kept else halved(step, algorithm, way)
            for step, algorithm in zip(steps, algorithms, strict=True)
        ]
        for step, algorithm in zip(steps, stored, strict=True):
            if algorithm == GEMM and way in candidates(step) and step.node not in kept:
                log.info("%s stays in single precision: it has weights beyond %d", step.node, HALF_MAX)
        if self.precision != "bf16":
            return stored
        gemms = gemm_kernels(self._kernels())
        return [
            way if step.node in kept or way in HALVED else bfloated(step, way, *gemms)
            for step, way in zip(steps, stored, strict=True)
        ]

    def peak(self) -> Peak:
        from ...._kernels.cpu.peak_cpu import peak

        return peak(self._kernels(), self.cluster.cores)

    def with_cores(self, cores: tuple[int, ...]) -> Cpu:
        return replace(self, cluster=replace(self.cluster, cores=cores))

    def with_precision(self, precision: str) -> Cpu:
        """In "fp32" a quantized network is computed in floats; "int8" wants a quantized network. "mixed" keeps the
        weights of layers of one pixel, fully connected ones, in half precision, and computes in single; "bf16" also
        rounds the operands of other layers, heads apart, to bfloat16; "fp16" computes all layers in half precision.

        Raises ArgumentError for another, DeviceError for "fp16" and "bf16" on cores that do not compute in it.
        """
        if precision not in PRECISIONS:
            raise ArgumentError(f"{self.description}: expected {', '.join(PRECISIONS)}, got {precision!r}")
        needed, isas = NEEDS.get(precision), self.cluster.isas
        if needed and isas[0] != "ref" and needed not in isas:
            raise DeviceError(
                f"{self.description}: expected cores with {needed} for {precision}, got {', '.join(isas)}; mixed keeps "
                "weights in half precision on every core"
            )
        return replace(self, int8=precision != "fp32", precision=precision)

    def clocks(self, root: Path) -> list[Clock]:
        return clocks_of_cores(root, self.cluster.cores)

    def kernels(self) -> list[tuple[Any, str]]:
        return explain(self.cluster.isas, self.cluster.core_type, wrong_on(self.cluster))

    def _kernels(self) -> Kernels:
        return checked(self.cluster)

    def _program(self, lowered: Lowered, name: str, kernels: Kernels, pack: bool = True, **shared: Any):
        from ...._kernels.cpu.kernels import CpuProgram

        local_bytes = max((strips.local_bytes for strips in lowered.strips), default=0)
        sizes = lowered.arena_bytes, lowered.slot_in_bytes, lowered.slot_out_bytes, local_bytes
        return CpuProgram(kernels, self.cluster.cores, f"pa-{name}", sizes, pack=pack, **shared)


def _fill(program: Any, lowered: Lowered, algorithms: Sequence[Algorithm | None]) -> None:
    """Adds the steps, in strips what has some; then their weights are packed."""
    from ...._kernels.cpu.kernels import add_tiled

    strips = {some.first: some for some in lowered.strips}
    end = 0
    for number, (step, algorithm) in enumerate(zip(lowered.steps, algorithms, strict=True)):
        if number in strips:
            end = strips[number].last + 1
            add_tiled(program, strips[number], lowered.steps[number:end], algorithms[number:end])
        elif number >= end:
            program.add(step, algorithm)
        release(step.weight)
