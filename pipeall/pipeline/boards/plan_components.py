"""Units: what the stages of a plan run on. A unit is a component, or a component with some of its cores."""

from __future__ import annotations

from ...errors import ArgumentError
from ..devices.component import Component
from ..planning.plan import Plan
from ..planning.units import Unit, traits_of
from .board import Board
from .emulator import host_component


def units(plan: Plan, board: Board) -> list[list[Component]]:
    """The unit of every stage of every lane, under the unit's name ("bigx3").

    Stages on one CPU component take successive cores of its cluster, in the order of the plan; on a modelled board a
    thread of this machine stands in for each. Raises DeviceError for a component the board lacks, ArgumentError for
    more cores than there are, and for cores of a component that runs as a whole.
    """
    taken: dict[str, int] = {}
    found = []
    for lane in plan.lanes:
        found.append([])
        for stage in lane:
            whole = board.component(stage.component)
            if not traits_of(stage.component).cores:
                if stage.cores is not None:
                    raise ArgumentError(
                        f"stage {stage.unit}: expected no number of cores, {whole.name} runs as a whole"
                    )
                found[-1].append(host_component(stage) if board.model else whole)
                continue
            cores = whole.device.cores
            cluster = Unit.parse(whole.name).component
            first = taken.get(cluster, 0)
            count = len(cores) if stage.cores is None else stage.cores
            if not isinstance(count, int) or not 1 <= count <= len(cores) - first:
                raise ArgumentError(
                    f"stage {stage.unit}: expected at most {len(cores) - first} cores of {whole.name} "
                    f"({len(cores)}, {first} of them taken by stages before it), got {count!r}"
                )
            taken[cluster] = first + count
            own = cores[first : first + count]
            found[-1].append(host_component(stage) if board.model else whole.with_cores(stage.unit, own))
    return found
