"""Clusters, cores that are missing, and what containers leave of them."""

from __future__ import annotations

import os
import re
import warnings

from .._kernels.cpu.cluster import detect, format_cores
from .._kernels.cpu.cores import CPU, UNKNOWN, can_pin
from .examined_machine import Machine
from .findings import Section

FREE_KB = 300_000  # a network, its runtime and a picture
CGROUP = "sys/fs/cgroup"


def clusters(machine: Machine, section: Section) -> None:
    for found in detect(root=machine.root):
        about = f"cores {format_cores(found.cores)}, {found.core_type}, {' '.join(found.isas)}"
        section.fact(found.name, f"{about} ({found.why})")
        if found.core_type == UNKNOWN:
            section.fact(
                f"{found.name} is unknown", "kernels for any core are taken; PIPEALL_CORE names one that it is like"
            )
    present, offline = machine.cores(f"{CPU}/present"), machine.cores(f"{CPU}/offline")
    if missing := sorted(offline & present):
        section.fault(
            f"core{'s' * (len(missing) > 1)} {format_cores(missing)} offline: nothing runs there",
            f"echo 1 | sudo tee /sys/devices/system/cpu/cpu{missing[0]}/online (and so on), unless it was meant",
        )
    if isolated := machine.cores(f"{CPU}/isolated"):
        section.fact("isolated", f"{format_cores(isolated)}: the system puts no other program there")


def shares(machine: Machine, section: Section) -> None:
    """What this process gets of the machine: cores, their time, memory."""
    online = machine.online()
    allowed = set(os.sched_getaffinity(0)) if machine.live else online
    if machine.live:
        section.fact("load", f"{os.getloadavg()[0]:.1f} threads in the last minute")
    cpuset = _cpuset(machine)
    section.fact("cores", f"{format_cores(online)} online, {format_cores(allowed)} for this process")
    confined = cpuset if cpuset and online - cpuset else allowed
    if online - confined:
        by = "a cpuset (a container's --cpuset-cpus, or systemd's AllowedCPUs)" if cpuset == confined else "taskset"
        section.fault(
            f"this process may run on cores {format_cores(confined)} of {format_cores(online)} alone, by {by}",
            "give it all cores, or plan for those: `pipeall devices` shows the clusters that are left",
        )
    if machine.live:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pinned = can_pin()
        if not pinned:
            section.fault(
                "no affinity: threads cannot be pinned to cores (sched_setaffinity is refused), so clusters mix",
                "allow sched_setaffinity in the sandbox or the seccomp profile of the container",
            )
    quota = _quota(machine)
    section.fact("quota", "none" if quota is None else f"the time of {quota:g} cores")
    if quota is not None and quota < len(allowed):
        section.fault(
            f"a quota of {quota:g} cores' time for {len(allowed)} cores: threads are stopped amid a frame",
            "raise it (docker --cpus, systemd CPUQuota=), or use fewer cores by a cpuset",
        )


def memory(machine: Machine, section: Section) -> None:
    kb = {key: int(value) for key, value in re.findall(r"^(\w+):\s+(\d+) kB", machine.text("proc/meminfo") or "", re.M)}
    if not kb:
        section.fact("memory", "not told")
        return
    free = kb.get("MemAvailable", kb.get("MemFree", 0))
    section.fact(
        "memory", f"{kb['MemTotal'] / 1e6:.1f} GB, {free / 1e6:.1f} GB free; swap {kb.get('SwapTotal', 0) / 1e6:.1f} GB"
    )
    limits = [value for folder in _cgroups(machine) if (value := machine.number(f"{folder}/memory.max"))]
    if limits:
        section.fact("limit", f"{min(limits) / 1e9:.1f} GB for this container")
        free = min(free, min(limits) // 1000)
    if free < FREE_KB:
        section.fault(
            f"{free / 1e3:.0f} MB of memory are free: networks of tens of MB and their pictures need more",
            "end other programs or raise the container's limit; `pipeall info MODEL` says what a network takes",
        )


def _cgroups(machine: Machine) -> list[str]:
    """Folders of this process's group and of those around it."""
    named = re.search(r"^0::/(.*)$", machine.text("proc/self/cgroup") or "", re.M)
    parts = named[1].split("/") if named and named[1] else []
    return [CGROUP, *(f"{CGROUP}/{'/'.join(parts[: end + 1])}" for end in range(len(parts)))]


def _quota(machine: Machine) -> float | None:
    """Cores' worth of time, the least of all groups; None without a limit."""
    found = []
    for folder in _cgroups(machine):
        words = (machine.text(f"{folder}/cpu.max") or "max").split()
        if words[0].isdecimal():
            found.append(int(words[0]) / int(words[1] if len(words) > 1 else 100_000))
    quota, period = (machine.number(f"{CGROUP}/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota and period and quota > 0:
        found.append(quota / period)
    return min(found, default=None)


def _cpuset(machine: Machine) -> set[int]:
    """The cores that groups leave; empty where none says."""
    names = [f"{folder}/cpuset.cpus.effective" for folder in reversed(_cgroups(machine))]
    return next((cores for name in (*names, f"{CGROUP}/cpuset/cpuset.cpus") if (cores := machine.cores(name))), set())
