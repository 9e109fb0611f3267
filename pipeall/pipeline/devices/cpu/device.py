"""The CPU device: steps become native kernels, run by the cluster's pinned team."""

from __future__ import annotations

from ...._kernels.cpu.table import Kernels, choose
from ....graph.onnx.wire import release
from ....steps import Lowered
from ...boards.parts import Component
from ..device import always
from .tune import choose_algorithms, modelled_algorithms


def compile(lowered: Lowered, component: Component, *, record: bool):
    """A ``kernels.Program`` for the component's cores: weights packed for its kernels, one thread per core.

    ``record`` makes no difference: a native step can always be timed.
    """
    cluster = component.cluster
    kernels = choose(cluster.isas, cluster.core_type)
    program = _program(lowered, component, kernels)
    for step, algorithm in zip(lowered.steps, choose_algorithms(lowered.steps, cluster, kernels), strict=True):
        program.add(step, algorithm)
        release(step.weight)  # packed by now
    program.floats_between(*always(lowered, program.step_of))
    return program


def footprint(lowered: Lowered, component: Component) -> dict[str, int]:
    """Bytes of the weights, arena and scratch that ``compile`` would take, its algorithms chosen by the model."""
    cluster = component.cluster
    kernels = choose(cluster.isas, cluster.core_type)
    program = _program(lowered, component, kernels, pack=False)
    for step, algorithm in zip(lowered.steps, modelled_algorithms(lowered.steps, kernels), strict=True):
        program.add(step, algorithm)
    return program.nbytes


def _program(lowered: Lowered, component: Component, kernels: Kernels, pack: bool = True):
    from ...._kernels.cpu.kernels import Program

    sizes = lowered.arena_bytes, lowered.slot_in_bytes, lowered.slot_out_bytes
    return Program(kernels, component.cluster.cores, f"pa-{component.name}", sizes, pack=pack)
