"""The CPU device: steps become native kernels, run by the cluster's pinned team."""

from __future__ import annotations

from .._kernels.table import choose
from ..errors import ArgumentError
from ..graph.steps import Lowered
from .board import Component


def compile(lowered: Lowered, component: Component, threads: int | None):
    """A ``kernels.Program`` for the component's cluster: weights packed for its kernels, one thread per core.

    Raises ArgumentError for ``threads`` outside 1 .. the cluster's cores.
    """
    from .._kernels.kernels import Program

    cluster = component.cluster
    count = len(cluster.cores) if threads is None else threads
    if not isinstance(count, int) or not 1 <= count <= len(cluster.cores):
        raise ArgumentError(f"threads on {component.name}: expected 1 to {len(cluster.cores)}, got {count!r}")
    program = Program(
        choose(cluster.isas, cluster.core_type),
        cluster.cores[:count],
        f"pa-{component.name}",
        (lowered.arena_elements, lowered.slot_in_elements, lowered.slot_out_elements),
    )
    for step in lowered.steps:
        program.add(step)
    return program
