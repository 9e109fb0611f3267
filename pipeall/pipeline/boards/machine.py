"""What a measurement was taken on: machine, clocks, governors, temperatures, load. A figure without them says little:
the same board and program have differed by 1.4 to 2.2 times with clocks and fan."""

from __future__ import annotations

import os
import platform
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ... import __version__, env
from .board import Board


def describe(board: Board) -> dict[str, Any]:
    """Version, date, board or CPU model (None where the kernel does not tell), architecture, and the components."""
    return {
        "pipeall": __version__,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": _model(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "components": {part.name: part.description for part in board.components.values()},
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
    gpu = _gpu_devfreq(root)
    for part in board.components.values():
        if part.cluster:
            folder = root / f"sys/devices/system/cpu/cpu{part.cluster.cores[0]}/cpufreq"
            clock, governor = _text(folder / "scaling_cur_freq"), _text(folder / "scaling_governor")
            per_mhz = 1e3  # cpufreq counts kHz
        elif gpu and part.device and not part.stand_in:
            clock, governor = _text(gpu / "cur_freq"), _text(gpu / "governor")
            per_mhz = 1e6  # devfreq counts Hz
        else:
            continue  # a model, or a CPU that plays the GPU
        if clock and clock.isdecimal():
            clocks[part.name] = int(clock) / per_mhz
        if governor:
            governors[part.name] = governor
    temperatures = {}
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        name, value = _text(zone / "type"), _text(zone / "temp")
        if name and value and value.lstrip("-").isdecimal():
            temperatures[name] = int(value) / 1000
    found = {"clocks_mhz": clocks, "governors": governors, "temperature_c": temperatures}
    return {"load": os.getloadavg()[0]} | {key: value for key, value in found.items() if value}


def _model() -> str | None:
    board = Path("/proc/device-tree/model")
    if board.is_file():
        return board.read_text(errors="replace").strip("\0\n")
    names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
    return names[0] if names else None


def _gpu_devfreq(root: Path) -> Path | None:
    """The GPU's folder, found by its name: "ffe40000.gpu" or "fb000000.gpu-mali" on boards with a Mali."""
    folders = (root / "sys/class/devfreq").glob("*")
    return next((folder for folder in sorted(folders) if re.search("gpu|mali", folder.name, re.IGNORECASE)), None)


def _text(path: Path) -> str | None:
    """A file of sysfs, or None where it is absent or may not be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
