"""What other programs take of the cores while something is measured here.

The kernel counts the time in which each core is busy, and that of this process and of those it started and waited for.
The rest is the others', and on a virtual machine what its host took. A figure that was measured beside a busy program
is the two programs' figure.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Set
from pathlib import Path
from types import TracebackType

STAT, TICKS = Path("/proc/stat"), os.sysconf("SC_CLK_TCK")  # ticks in a second
IDLE = (3, 4)  # columns after the name: idle, and waiting for a disk
COUNTED = 8  # the columns behind these, of guests, are in the first two already


class BackgroundLoad:
    """A context; ``cores`` is how many cores' time others took in it, None where the kernel does not tell.

    It counts the cores this process may use. Each core's clock ticks in steps; one step of each is left out, so that a
    short measurement on a quiet machine is not taken for a disturbed one.
    """

    cores: float | None = None

    def __enter__(self) -> BackgroundLoad:
        self._before = clocks()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (busy, own, wall), (busy_then, own_then, wall_then) = clocks(), self._before
        if busy is not None and busy_then is not None and wall > wall_then:
            steps = len(os.sched_getaffinity(0)) / TICKS
            self.cores = max(0.0, (busy - busy_then) - (own - own_then) - steps) / (wall - wall_then)


def clocks() -> tuple[float | None, float, float]:
    """Seconds: what all programs have used of the cores this process may use, what it has, and of the wall."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time() + children.ru_utime + children.ru_stime
    return busy_s(STAT.read_text(), os.sched_getaffinity(0)), own, time.monotonic()


def busy_s(text: str, cores: Set[int]) -> float | None:
    """Seconds in which these cores were busy, of the text of /proc/stat; None where one of them is not in it."""
    rows = {row[0]: row[1:] for row in map(str.split, text.splitlines()) if row}
    if any(f"cpu{core}" not in rows for core in cores):
        return None
    counted = (rows[f"cpu{core}"][:COUNTED] for core in cores)
    return sum(int(value) for row in counted for column, value in enumerate(row) if column not in IDLE) / TICKS
