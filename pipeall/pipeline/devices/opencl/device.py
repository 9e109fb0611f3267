"""The OpenCL device: steps become kernel launches that are recorded once and replayed for every frame."""

from __future__ import annotations

from ...._kernels.opencl import devices as opencl
from ....steps import Lowered
from ...boards.parts import Component
from .program import ClProgram
from .tune import known


def compile(lowered: Lowered, component: Component, *, record: bool) -> ClProgram:
    """A ``ClProgram`` for the component's device: weights packed for its kernels and uploaded.

    Raises DeviceError where the device lacks memory or half precision, or a step has no kernel.
    """
    choose = known(component.device, component.precision)
    return ClProgram(lowered, opencl.opened(component.device), record, component.precision, choose)


def footprint(lowered: Lowered, component: Component) -> dict[str, int]:
    """Bytes of the weights as they come and of the arena; what a driver adds is not known."""
    weights = sum(array.nbytes for step in lowered.steps for array in (step.weight, step.bias) if array is not None)
    return {"weights": weights, "arena": lowered.arena_bytes, "scratch": 0}
