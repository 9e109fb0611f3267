"""From a graph to the steps a device executes: where every tensor lies, and what is computed in which order.

``lowering`` decides where tensors lie, ``lower_ops`` what each op becomes.
"""

from __future__ import annotations

from dataclasses import replace

from ...steps import Lowered
from ..ir import Graph
from ..memory import lifetimes
from ..partition import Border
from ..passes.dequantize import dequantized_between
from ..passes.fp16 import fp16_between, heads, kept_float32
from .lower_ops import emit, writes
from .lowering import Lowering
from .tiling import Cache


def lower(
    graph: Graph,
    first_late: Border | None = None,
    last_early: Border | None = None,
    *,
    int8: bool = True,
    fp16: bool = False,
    silu: bool = False,
    cache: Cache | None = None,
) -> Lowered:
    """The graph as steps on views; the same graph always gives the same steps.

    first_late  a cut inside of the graph: frames may also arrive there, in the slot behind the graph's inputs
    last_early  a cut behind that: frames may also leave there, in the slot before the graph's outputs; what leaves the
                model in this graph (``Graph.leaves``) is in the slot by then, behind both
    int8        whether the device has kernels for 8-bit integers; else quantized tensors are float32 on the way
    fp16        whether it computes in half precision; then tensors between layers are float16
    silu        whether its convolutions compute a SiLU that follows, and a sum behind it
    cache       of a device that computes in tiles of rows what would not stay in it (``tiling``)

    Where a sub-graph receives or transmits, its slots hold NHWC tensors that are read and written in place; at the
    model's own borders they hold the model's layout, and a copy step converts where a kernel needs another.
    Raises ModelError naming the node that cannot be lowered.
    """
    source = graph, first_late, last_early
    inner = [border for border in (first_late, last_early) if border]
    moved = tuple(inner)
    if not int8:
        graph, moved = dequantized_between(graph, moved)
    if fp16:
        graph, moved = fp16_between(graph, moved)
    first_late, last_early = (moved[inner.index(border)] if border else None for border in (first_late, last_early))
    lowered = Lowering(graph, emit, writes, silu=silu).lowered(first_late, last_early, cache)
    kept = kept_float32(graph)  # of halves, heads stay floats by the pass
    return replace(lowered, source=source, float32=kept if fp16 else kept | heads(graph))


def storages(graph: Graph) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """What ``lower`` puts into the arena: bytes of each storage, and the first and last step that touch it."""
    lowering = Lowering(graph, emit, writes)
    lowering.lowered()
    return lowering.sizes, lifetimes(lowering.steps, lowering.sizes)
