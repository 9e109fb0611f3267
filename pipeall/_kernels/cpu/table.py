"""Which kernel runs on which core: the first row of kernels.inc that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import DeviceError
from .kernels import rows


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A line of kernels.inc. ``mr`` x ``nr`` is the register tile of a GEMM kernel, 0 elsewhere."""

    op: str
    name: str
    isa: str
    core: str
    mr: int
    nr: int


ROWS = tuple(KernelRow(*row) for row in rows())
OPS = tuple(dict.fromkeys(row.op for row in ROWS))


def choose(isas: Sequence[str], core: str) -> dict[str, str]:
    """Kernel name of every op for a core with these instruction sets; raises DeviceError naming an op without one."""
    table = {}
    for op in OPS:
        fitting = [row for row in ROWS if row.op == op and row.isa in isas and row.core in ("any", core)]
        if not fitting:
            raise DeviceError(f"kernel table: no {op} kernel for instruction sets {', '.join(isas)} on {core}")
        table[op] = fitting[0].name
    return table


def explain(isas: Sequence[str], core: str) -> list[tuple[KernelRow, str]]:
    """Every row with why it was taken or passed over, for ``pipeall devices``."""
    taken = choose(isas, core)
    reasons = []
    for row in ROWS:
        if row.isa not in isas:
            why = f"no: the core lacks {row.isa}, or PIPEALL_ISA excludes it"
        elif row.core not in ("any", core):
            why = f"no: for {row.core}"
        elif row.name == taken[row.op]:
            why = "taken: first that fits"
        else:
            why = f"no: {taken[row.op]} comes first"
        reasons.append((row, why))
    return reasons
