"""The machine of a measurement: machine, clocks, governors, temperatures, load. A figure without them says little:
the same board and program have differed by 1.4 to 2.2 times with clocks and fan."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ... import __version__, env
from ..devices.clocks import sysfs_text
from .board import Board


def describe(board: Board, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Version, date, board or CPU model (None where the kernel does not tell), architecture, and the components.

    ``names`` are those of which a measurement tells: others are not looked for, as a GPU's driver takes tens of MB.
    """
    components = board.components.values() if names is None else map(board.component, names)
    return {
        "pipeall": __version__,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": _model(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "components": {component.name: component.description for component in components},
    }


def state(board: Board) -> dict[str, Any]:
    """What may change between two measurements; entries that the kernel does not publish are absent.

    load           runnable threads, mean of the last minute
    clocks_mhz     present clock of each component of this machine; of several, the slowest
    governors      who sets it
    clock_limits_mhz  the least and the most that these may choose, and the hardware's top
    temperature_c  by thermal zone
    """
    root = env.sysfs()
    mhz, governors, limits = {}, {}, {}
    for name, component in board.components.items():
        clocks = component.device.clocks(root)
        mhz[name] = _slowest(clock.mhz for clock in clocks)
        governors[name] = ", ".join(dict.fromkeys(clock.governor for clock in clocks if clock.governor))
        of_all = {key: _slowest(getattr(clock, f"{key}_mhz") for clock in clocks) for key in ("least", "most", "top")}
        limits[name] = {key: value for key, value in of_all.items() if value}
    temperatures = {}
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        name, value = sysfs_text(zone / "type"), sysfs_text(zone / "temp")
        if name and value and value.lstrip("-").isdecimal():
            temperatures[name] = int(value) / 1000
    rows = {"clocks_mhz": mhz, "governors": governors, "clock_limits_mhz": limits, "temperature_c": temperatures}
    known = {key: {name: value for name, value in row.items() if value} for key, row in rows.items()}
    return {"load": os.getloadavg()[0]} | {key: row for key, row in known.items() if row}


def _slowest(mhz: Iterable[float | None]) -> float | None:
    return min((value for value in mhz if value), default=None)


def _model() -> str | None:
    board = Path("/proc/device-tree/model")
    if board.is_file():
        return board.read_text(errors="replace").strip("\0\n")
    text = sysfs_text(Path("/proc/cpuinfo")) or ""
    names = re.findall(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return names[0] if names else None
