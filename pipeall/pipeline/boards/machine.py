"""The machine of a measurement: machine, clocks, governors, temperatures, load. A figure without them says little:
the same board and program have differed by 1.4 to 2.2 times with clocks and fan."""

from __future__ import annotations

import os
import platform
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ... import __version__, env
from ..devices.device import sysfs_text
from .board import Board


def describe(board: Board) -> dict[str, Any]:
    """Version, date, board or CPU model (None where the kernel does not tell), architecture, and the components."""
    return {
        "pipeall": __version__,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": _model(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "components": {name: component.description for name, component in board.components.items()},
    }


def state(board: Board) -> dict[str, Any]:
    """What may change between two measurements; entries that the kernel does not publish are absent.

    load           runnable threads, mean of the last minute
    clocks_mhz     present clock of each component of this machine
    governors      who sets it
    temperature_c  by thermal zone
    """
    root = env.sysfs()
    clocks, governors = {}, {}
    for component in board.components.values():
        mhz, governor = component.device.clock(root)
        if mhz:
            clocks[component.name] = mhz
        if governor:
            governors[component.name] = governor
    temperatures = {}
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        name, value = sysfs_text(zone / "type"), sysfs_text(zone / "temp")
        if name and value and value.lstrip("-").isdecimal():
            temperatures[name] = int(value) / 1000
    found = {"clocks_mhz": clocks, "governors": governors, "temperature_c": temperatures}
    return {"load": os.getloadavg()[0]} | {key: value for key, value in found.items() if value}


def _model() -> str | None:
    board = Path("/proc/device-tree/model")
    if board.is_file():
        return board.read_text(errors="replace").strip("\0\n")
    text = sysfs_text(Path("/proc/cpuinfo")) or ""
    names = re.findall(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return names[0] if names else None
