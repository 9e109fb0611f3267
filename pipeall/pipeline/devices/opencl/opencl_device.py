"""The OpenCL device: steps become kernel launches that are recorded once and replayed for every frame."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from .... import env
from ...._kernels.opencl import cl_devices as opencl
from ...._kernels.opencl import launches, peak_opencl
from ...._kernels.peak import Peak
from ....errors import ArgumentError, DeviceError
from ....graph.ir import Graph
from ....progress import Progress, silent
from ....steps import Lowered
from ..clocks import Clock, clocks_of_gpu
from ..device import Device, Tuned
from .check_opencl import Checks
from .opencl_program import ClProgram
from .tune_opencl import Target, known, tune

PRECISIONS = ("fp32", "fp16", "mixed")


def detect() -> dict[str, OpenCl]:
    """The OpenCL devices of this machine: the chosen one is "gpu", other GPUs follow.

    Raises DeviceError or MissingExtraError where there is none.
    """
    if env.opencl() == "off":
        raise DeviceError("OpenCL is switched off by PIPEALL_OPENCL=off")
    available = opencl.devices()
    chosen = opencl.choose(available)
    others = [info for info in available if info != chosen and not info.stand_in]
    return {f"gpu{i or ''}": OpenCl(info, opencl.why(info, chosen)) for i, info in enumerate([chosen, *others])}


def unsupported(lowered: Lowered, precision: str) -> str | None:
    """The first step without kernels, which are the same for all OpenCL devices; None where all have them."""
    return launches.unsupported(lowered, precision)


@dataclass(frozen=True, slots=True)
class OpenCl(Device):
    """A GPU, or a CPU that stands in for one. ``why`` it was chosen, in one line.

    Its slots are buffers that the CPU maps. In "fp16" it stores and computes in half precision, in "mixed" it stores in
    half and computes in single.
    """

    kind: ClassVar[str] = "opencl"
    shares: ClassVar[bool] = True
    owns_slots: ClassVar[bool] = True
    queued: ClassVar[bool] = True
    worker: ClassVar[str] = "compute unit"
    info: opencl.DeviceInfo
    why: str = ""
    precision: str = "fp32"
    max_mhz: ClassVar[None] = None

    @property
    def stores_fp16(self) -> bool:
        return self.precision != "fp32"

    @property
    def reads_dma_buf(self) -> bool:
        return opencl.opened(self.info).importing_platform is not None

    @property
    def width(self) -> int:
        return self.info.compute_units

    @property
    def core_type(self) -> str:
        return self.info.name

    @property
    def stand_in(self) -> bool:
        return self.info.stand_in

    @property
    def description(self) -> str:
        return str(self.info)

    @property
    def resources(self) -> tuple[str, ...]:
        return (f"{self.info.index}: {self.info}",)

    @property
    def computes_with(self) -> str:
        return "fp32 fp16" if self.info.fp16 else "fp32"

    def details(self) -> dict[str, Any]:
        """The fields of its DeviceInfo, the name as ``device``, and why it was chosen."""
        info = asdict(self.info)
        info.pop("stand_in")
        return {"device": info.pop("name"), "why": self.why} | info

    def compile(
        self, lowered: Lowered, name: str, *, record: bool = False, beside: ClProgram | None = None, packed: Any = None
    ) -> ClProgram:
        """A ``ClProgram``: weights packed for its kernels and uploaded.

        Raises DeviceError where the device lacks memory or half precision, or a step has no kernel, or a wrong one.
        """
        choose = known(self.info, self.precision)
        if unsupported(lowered, self.precision) is None and (self.info.fp16 or self.precision != "fp16"):
            checks = Checks(self.info, self.precision)
            checks.require(lowered)
            choose = checks.choose(choose)
        return ClProgram(lowered, opencl.opened(self.info), record, self.precision, choose, beside)

    def unsupported(self, lowered: Lowered) -> str | None:
        return unsupported(lowered, self.precision) or Checks(self.info, self.precision).refusal(lowered)

    def footprint(self, lowered: Lowered, packed: Any = None) -> dict[str, int]:
        """Bytes of the weights as they come and of the arena; the driver needs more."""
        weights = sum(array.nbytes for step in lowered.steps for array in (step.weight, step.bias) if array is not None)
        return {"weights": weights, "arena": lowered.arena_bytes, "scratch": 0}

    def peak(self) -> Peak:
        return peak_opencl.peak(opencl.opened(self.info), self.precision)

    def tune(self, graph: Graph, progress: Progress = silent) -> list[Tuned]:
        return tune(graph, Target(self.info, self.precision), progress)

    def with_precision(self, precision: str) -> OpenCl:
        """Raises ArgumentError for another than fp32, fp16 and mixed."""
        if precision not in PRECISIONS:
            raise ArgumentError(f"{self.description}: expected {', '.join(PRECISIONS)}, got {precision!r}")
        return replace(self, precision=precision)

    def clocks(self, root: Path) -> list[Clock]:
        return [] if self.stand_in else clocks_of_gpu(root)
