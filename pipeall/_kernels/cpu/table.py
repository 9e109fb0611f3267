"""Which kernel runs on which core: the first row of kernels.inc that fits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...errors import DeviceError
from .cores import CLASSES
from .kernels import rows


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A line of kernels.inc.

    ``type`` is the element type, one of ``steps.TYPES``' short names, or those of activations, weights (w) and sums
    (acc) where they differ; ``core`` is a core type, a class of them, or "any".
    ``mr`` x ``nr`` is the register tile, and ``kr`` elements of a column lie together in a packed panel; all are 0
    where nothing is packed. Integer weights are -128 .. 127, for a kernel with ``narrow_weights`` -127 .. 127.
    One with ``unsigned_activations`` reads integers of 0 .. 255.
    """

    op: str
    type: str
    name: str
    isa: str
    core: str
    mr: int
    nr: int
    kr: int = 0
    narrow_weights: bool = False
    unsigned_activations: bool = False

    def suits(self, core: str) -> bool:
        """Whether it is for cores of this type."""
        return self.core in ("any", core) or core in CLASSES.get(self.core, ())


ROWS = tuple(KernelRow(*row) for row in rows())
OPS = tuple(dict.fromkeys((row.op, row.type) for row in ROWS))

Kernels = dict[tuple[str, str], str]  # (op, element type) -> name


def fitting(key: tuple[str, str], isas: Sequence[str], core: str) -> list[KernelRow]:
    """The rows of an op and element type that a core with these instruction sets can run, fastest first."""
    return [row for row in ROWS if (row.op, row.type) == key and row.isa in isas and row.suits(core)]


def choose(isas: Sequence[str], core: str, without: Collection[str] = ()) -> Kernels:
    """The kernel of every op and element type for a core with these instruction sets; none of those ``without``.

    Raises DeviceError naming an op that none of them has a kernel for.
    """
    table = {}
    for op, type_ in OPS:
        names = [row.name for row in fitting((op, type_), isas, core) if row.name not in without]
        if not names:
            raise DeviceError(
                f"kernel table: no {op} kernel of {type_} for instruction sets {', '.join(isas)} on {core}"
            )
        table[op, type_] = names[0]
    return table


def explain(isas: Sequence[str], core: str, without: Collection[str] = ()) -> list[tuple[KernelRow, str]]:
    """Every row with why it was taken or passed over, for ``pipeall devices``; ``without``: what is wrong there."""
    taken = choose(isas, core, without)
    reasons = []
    for row in ROWS:
        if row.isa not in isas:
            why = f"no: the core lacks {row.isa}, or PIPEALL_ISA excludes it"
        elif not row.suits(core):
            why = f"no: for {row.core}"
        elif row.name in without:
            why = "no: its results are wrong on this core"
        elif row.name == taken[row.op, row.type]:
            why = "taken: first that fits"
        else:
            why = f"no: {taken[row.op, row.type]} comes first"
        reasons.append((row, why))
    return reasons
