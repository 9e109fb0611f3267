"""Units: what the stages of a plan run on. A unit is a component, or a component with some of its cores."""

from __future__ import annotations

from dataclasses import replace

from ...errors import ArgumentError
from ..planning.plan import Plan
from .board import Board
from .parts import Component
from .twin import stand_in


def units(plan: Plan, board: Board) -> list[list[Component]]:
    """The unit of every stage of every lane, under the unit's name ("bigx3").

    Stages on one CPU component take successive cores of its cluster, in the order of the plan; on a modelled board a
    thread of this machine stands in for each. Raises DeviceError for a component the board lacks, ArgumentError for
    more cores than there are, and for cores of a gpu.
    """
    taken: dict[str, int] = {}
    found = []
    for lane in plan.lanes:
        found.append([])
        for stage in lane:
            whole = board.component(stage.component)
            if whole.kind == "opencl":
                if stage.cores is not None:
                    raise ArgumentError(f"stage {stage.unit}: expected no number of cores for an OpenCL device")
                found[-1].append(whole)
                continue
            cores = whole.cluster.cores if whole.cluster else range(whole.part.count)
            first = taken.get(whole.name, 0)
            count = len(cores) if stage.cores is None else stage.cores
            if not isinstance(count, int) or not 1 <= count <= len(cores) - first:
                raise ArgumentError(
                    f"stage {stage.unit}: expected 1 to {len(cores) - first} cores of {whole.name} "
                    f"({len(cores)}, {first} of them taken by stages before it), got {count!r}"
                )
            taken[whole.name] = first + count
            if whole.cluster:
                cluster = replace(whole.cluster, cores=cores[first : first + count])
                found[-1].append(replace(whole, name=stage.unit, cluster=cluster))
            else:
                found[-1].append(stand_in(stage))
    return found
