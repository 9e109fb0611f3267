"""The CPU device: steps become native kernels, run by the cluster's pinned team."""

from __future__ import annotations

from .._kernels.table import choose
from ..graph.onnx_wire import release
from ..graph.steps import Lowered
from .board import Component
from .tune import choose_algorithms


def compile(lowered: Lowered, component: Component, *, record: bool):
    """A ``kernels.Program`` for the component's cores: weights packed for its kernels, one thread per core.

    ``record`` makes no difference: a native step can always be timed.
    """
    from .._kernels.kernels import Program

    cluster = component.cluster
    kernels = choose(cluster.isas, cluster.core_type)
    algorithms = choose_algorithms(lowered.steps, cluster, kernels)
    program = Program(
        kernels,
        cluster.cores,
        f"pa-{component.name}",
        (lowered.arena_elements, lowered.slot_in_elements, lowered.slot_out_elements),
    )
    for step, algorithm in zip(lowered.steps, algorithms, strict=True):
        program.add(step, algorithm)
        release(step.weight)  # packed by now
    return program
