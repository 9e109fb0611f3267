"""Governors, limits of clocks, temperatures, and what slows the processors down.

Source: Linux Documentation/admin-guide/pm, driver-api/thermal/sysfs-api.rst; Raspberry Pi firmware, get_throttled.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .._kernels.cpu.cluster import format_cores
from .._kernels.cpu.cores import CPU
from ..pipeline.devices.clocks import CPUFREQ, NEAR, Clock, Files, clocks_of_gpu, sysfs_text
from .examined_machine import Machine
from .findings import Section

SELF_CLOCKED = ("intel_pstate", "amd-pstate-epp")  # drivers whose "powersave" raises the clock with the load
SLOW = ("powersave",)
WARM_C = 5  # below the temperature at which the kernel begins to slow down
RASPBERRY = {0: "under-voltage", 1: "clocks are capped", 2: "throttled", 3: "at the soft limit of temperature"}


def clocks(machine: Machine, section: Section) -> None:
    """Clocks that are alike share a line."""
    policies = machine.found(f"{CPU}/cpufreq/policy[0-9]*") or machine.found(f"{CPU}/cpu[0-9]*/cpufreq")
    alike: dict[_Set, list[Clock]] = {}
    for clock in [*(Clock(folder, CPUFREQ) for folder in policies), *clocks_of_gpu(machine.root)]:
        driver = sysfs_text(clock.folder / "scaling_driver")
        limits = clock.least_mhz, clock.most_mhz, clock.top_mhz
        alike.setdefault(_Set(clock.files, clock.governor, driver, *limits), []).append(clock)
    if not alike:
        section.fact("clocks", "not told: the firmware or the host of a virtual machine sets them")
    for how, some in alike.items():
        _examine(machine, section, how, some)


class _Set(NamedTuple):
    """How a clock is set."""

    files: Files
    governor: str | None
    driver: str | None
    least: float | None
    most: float | None
    top: float | None


def _examine(machine: Machine, section: Section, how: _Set, some: list[Clock]) -> None:
    cores = set().union(*(machine.cores(f"{clock.folder.relative_to(machine.root)}/related_cpus") for clock in some))
    name = f"cores {format_cores(cores)}" if cores else some[0].folder.name
    now, least, most, top = (
        "/".join(dict.fromkeys(f"{value:.0f}" if value else "?" for value in values))
        for values in ([clock.mhz for clock in some], [how.least], [how.most], [how.top])
    )
    section.fact(name, f"{now} MHz now, {least} to {most} of {top}, governor {how.governor or 'not told'}")
    folder = machine.shown(some[0].folder)
    if how.governor in SLOW and how.driver not in SELF_CLOCKED:
        better = "schedutil" if how.files == CPUFREQ else "simple_ondemand"
        section.fault(
            f"{name}: the governor powersave keeps the lowest clock, {least} of {top} MHz",
            f"echo {better} | sudo tee {folder}/{how.files.governor} (performance for steady times)",
        )
    if how.most and how.top and how.most < (1 - NEAR) * how.top:
        section.fault(
            f"{name}: the clock is limited to {most} of {top} MHz",
            f"echo {how.top * how.files.per_mhz:.0f} | sudo tee {folder}/{how.files.most}, unless heat does it",
        )


def heat(machine: Machine, section: Section) -> None:
    zones = machine.found("sys/class/thermal/thermal_zone[0-9]*")
    for zone in zones:
        _zone(machine, section, zone)
    if not zones:
        section.fact("temperatures", "not told")
    for device in machine.found("sys/class/thermal/cooling_device[0-9]*"):
        folder = device.relative_to(machine.root)
        kind, state = machine.text(f"{folder}/type") or "", machine.number(f"{folder}/cur_state")
        slows = kind.startswith(("cpufreq", "thermal-cpufreq", "devfreq", "thermal-devfreq", "Processor", "cpu-"))
        if slows and state:
            section.fault(
                f"{kind} is at step {state} of {machine.number(f'{folder}/max_state')}: heat keeps clocks down",
                "add a heat sink or a fan, or let it cool down before measuring",
            )
    _raspberry_pi(machine, section)


def _zone(machine: Machine, section: Section, zone: Path) -> None:
    folder = zone.relative_to(machine.root)
    celsius, name = machine.number(f"{folder}/temp"), machine.text(f"{folder}/type") or zone.name
    if celsius is None:
        return
    trips = {}
    for path in machine.found(f"{folder}/trip_point_[0-9]*_type"):
        value = machine.number(f"{folder}/{path.name.replace('_type', '_temp')}")
        kind = machine.text(str(path.relative_to(machine.root)))
        if value and value > 0 and kind:
            trips[kind] = min(value, trips.get(kind, value))
    limits = ", ".join(f"{kind} at {value / 1000:.0f}" for kind, value in trips.items())
    section.fact(name, f"{celsius / 1000:.0f} C{f' ({limits})' if limits else ''}")
    slowed = min((value for kind, value in trips.items() if kind in ("passive", "hot", "critical")), default=None)
    if slowed is not None and celsius > slowed - 1000 * WARM_C:
        section.fault(
            f"{name} is at {celsius / 1000:.0f} C, and the kernel slows down at {slowed / 1000:.0f} C",
            "add a heat sink or a fan, or let it cool down before measuring",
        )


def _raspberry_pi(machine: Machine, section: Section) -> None:
    for path in machine.found("sys/devices/platform/soc/*firmware/get_throttled"):
        bits = machine.number(str(path.relative_to(machine.root)), 16) or 0
        now = [text for bit, text in RASPBERRY.items() if bits >> bit & 1]
        before = [text for bit, text in RASPBERRY.items() if bits >> (bit + 16) & 1]
        section.fact(
            "firmware", f"{', '.join(now) or 'no throttling'}; since it started: {', '.join(before) or 'none'}"
        )
        if now or before:
            supply = "use the board's own power supply" if "under-voltage" in (*now, *before) else "cool the board"
            section.fault(f"the firmware throttles: {', '.join(dict.fromkeys((*now, *before)))}", supply)
