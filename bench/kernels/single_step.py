"""Single steps on one core, without a device around them: what the benches of kernels run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall import Board, Graph
from pipeall._kernels.cpu.algorithms import Algorithm
from pipeall._kernels.cpu.cluster import Cluster
from pipeall._kernels.cpu.table import ROWS, KernelRow, Kernels, choose
from pipeall.graph.lower.lower import lower
from pipeall.graph.lower.strides import reaching
from pipeall.graph.memory import side_by_side
from pipeall.pipeline.devices.timings import shape_key
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, Strided


def big() -> Cluster:
    """The fastest cores of this machine."""
    return Board.detect(gpu=False).component("big").device.cluster


def kernels(cluster: Cluster) -> Kernels:
    """(op, element type) -> the kernel that the cluster's programs use."""
    return choose(cluster.isas, cluster.core_type)


def gemm_kernel(cluster: Cluster) -> KernelRow:
    """The line of kernels.inc that multiplies float32 matrices there."""
    return next(row for row in ROWS if row.name == kernels(cluster)["gemm", "f32"])


def convolutions(graph: Graph) -> dict[str, Step]:
    """The convolutions of a network by their shapes, each shape once."""
    found: dict[str, Step] = {}
    for step in lower(graph).steps:
        if step.kind == "conv":
            found.setdefault(shape_key(step), step)
    return found


def program(step: Step, cluster: Cluster, algorithm: Algorithm | None = None) -> CpuProgram:
    """A step from one slot to another, on the cluster's first core."""
    src, in_bytes = side_by_side(step.src, SLOT_IN)
    (dst,), out_bytes = side_by_side([step.dst], SLOT_OUT)
    made = CpuProgram(kernels(cluster), cluster.cores[:1], "bench", (0, in_bytes, out_bytes))
    made.add(replace(step, src=src, dst=dst), algorithm)
    return made


def strided(
    kind: str, params: Mapping[str, Any], shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...], cluster: Cluster
) -> tuple[CpuProgram, int]:
    """A step of dense float32 operands on the cluster's first core, and the bytes it reads and writes.

    Axes of one element are broadcast where the result's are larger, for kind pointwise.
    """
    src, end = [], 0
    for given in shapes:
        full = shape if kind == "pointwise" else given
        strides = [prod(given[i + 1 :]) if given[i] == full[i] else 0 for i in range(len(given))]
        src.append(Strided(SLOT_IN, end, tuple(full), tuple(strides)))
        end += prod(given) + -prod(given) % 16
    strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    dst = Strided(SLOT_OUT, 0, shape, strides, "int64" if kind == "arg" else "float32")
    made = CpuProgram(kernels(cluster), cluster.cores[:1], "bench", (0, 4 * end, dst.nbytes))
    made.add(Step(kind, "s", tuple(src), dst, params))
    return made, sum(at.nbytes for at in (*src, dst))


def copy(
    sizes: tuple[int, ...], src_strides: tuple[int, ...], dst_strides: tuple[int, ...], cluster: Cluster
) -> tuple[CpuProgram, int]:
    """A copy of float32 elements on the cluster's first core, and the bytes it reads and writes."""
    views = [
        reaching(Strided(base, 0, sizes, strides))
        for base, strides in ((SLOT_IN, src_strides), (SLOT_OUT, dst_strides))
    ]
    made = CpuProgram(kernels(cluster), cluster.cores[:1], "bench", (0, *(view.nbytes for view in views)))
    params = {"dims": sizes, "src_strides": src_strides, "dst_strides": dst_strides}
    made.add(Step("copy", "s", tuple(views[:1]), views[1], params))
    return made, 2 * 4 * prod(sizes)


def on_axes(
    kind: str, params: Mapping[str, Any], shapes: Sequence[tuple[int, ...]], orders: Sequence[Sequence[int]]
) -> Step:
    """A step on float32 operands one after the other, the result last; an order names its axes, outermost first."""
    placed, offset = [], 0
    for shape, order in zip(shapes, orders, strict=True):
        strides, step = [0] * len(shape), 1
        for axis in reversed(order):
            strides[axis], step = step, step * shape[axis]
        placed.append(Strided(SLOT_IN, offset, shape, tuple(strides)))
        offset += -(-step // 16) * 16
    return Step(kind, kind, tuple(placed[:-1]), replace(placed[-1], base=SLOT_OUT, offset=0), params)


def strided_program(step: Step, cluster: Cluster) -> CpuProgram:
    """Such a step on the cluster's first core."""
    in_bytes = max(operand.nbytes + 4 * operand.offset for operand in step.src)
    made = CpuProgram(kernels(cluster), cluster.cores[:1], "bench", (0, in_bytes, 4 * prod(step.dst.shape)))
    made.add(step)
    return made
