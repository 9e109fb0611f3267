"""Real time: threads that others do not interrupt, and memory that is not paged out, where the system allows them.

Threads get the lowest priorities of SCHED_FIFO, so interrupts and the kernel's own threads come first. What keeps a
machine usable while all its cores compute: a thread without work sleeps after some 0.2 ms (``eventcount.h``), the
threads that hand frames in and take results have no priority, so stages run out of work without them, and the kernel
leaves 5 % of each second to others. Where that last limit is switched off, no thread gets a priority.
"""

from __future__ import annotations

import os
import resource
import threading
import warnings
from pathlib import Path
from typing import NamedTuple

from .. import env
from . import runtime
from .devices.clocks import sysfs_text
from .devices.device import Component

CORES, DEVICE = 1, 2  # priorities: whoever hands work to a device is done at once, and must not wait for a core
THROTTLE = "proc/sys/kernel/sched_rt_runtime_us"
CAN_LOCK = 14  # the number of CAP_IPC_LOCK


class Realtime(NamedTuple):
    """What the system allows: priorities for threads, and all memory locked."""

    threads: bool
    memory: bool

    def priority(self, unit: Component) -> int:
        """Of a unit's threads; 0: none."""
        return (CORES if unit.device.cores else DEVICE) if self.threads else 0


NORMAL = Realtime(False, False)


def allow() -> Realtime:
    """Asks for both, and locks the memory of this process until it ends. A RuntimeWarning says what is refused."""
    reasons = threads_refused(), lock_refused()
    for reason in filter(None, reasons):
        warnings.warn(reason, RuntimeWarning, 4)  # where a Pipeline is made, behind ``checked``
    return Realtime(*(reason is None for reason in reasons))


def threads_refused() -> str | None:
    """Why no thread gets a priority."""
    if sysfs_text(env.sysfs() / THROTTLE) == "-1":
        return (
            "no real-time priority: kernel.sched_rt_runtime_us is -1, so busy threads could take the whole machine; "
            "sysctl kernel.sched_rt_runtime_us=950000 allows it"
        )
    errors: list[OSError] = []
    trial = threading.Thread(target=_try_priority, args=(errors,))
    trial.start()
    trial.join()
    return (
        f"no real-time priority: {errors[0].strerror}; root, CAP_SYS_NICE or a limit of at least {DEVICE} allows it "
        "(ulimit -r, rtprio in /etc/security/limits.conf, LimitRTPRIO= of systemd)"
        if errors
        else None
    )


def _try_priority(errors: list[OSError]) -> None:
    """Gives this thread the highest priority that is used."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(DEVICE))
    except OSError as error:
        errors.append(error)


def lock_refused() -> str | None:
    """Locks all memory of this process; else why it is not locked.

    A limit of some size would refuse memory later, in the middle of a run.
    """
    how = "root, CAP_IPC_LOCK or no limit allows it (ulimit -l unlimited, memlock in /etc/security/limits.conf, "
    how += "LimitMEMLOCK= of systemd)"
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY and not _capabilities() >> CAN_LOCK & 1:
        return f"memory is not locked: the limit is {limit >> 10} KiB; {how}"
    try:
        runtime.lock_memory()
    except OSError as error:
        return f"memory is not locked: {error.strerror}; {how}"
    return None


def _capabilities() -> int:
    """What this process may do, by bit (capabilities(7))."""
    rows = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return next(int(row[1], 16) for row in rows if row[0] == "CapEff:")
