"""Clocks of cores and GPUs: the one place that reads and writes the files of cpufreq and devfreq.

Source: Linux Documentation/admin-guide/pm/cpufreq.rst and Documentation/ABI/testing/sysfs-class-devfreq.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Files(NamedTuple):
    """The files of one clock, and how many of their units are a MHz. ``top``: the highest that the hardware has."""

    present: str
    least: str
    most: str
    top: str | None
    governor: str
    steps: str
    per_mhz: float


CPUFREQ = Files(
    "scaling_cur_freq",
    "scaling_min_freq",
    "scaling_max_freq",
    "cpuinfo_max_freq",
    "scaling_governor",
    "scaling_available_frequencies",
    1e3,
)
DEVFREQ = Files("cur_freq", "min_freq", "max_freq", None, "governor", "available_frequencies", 1e6)


@dataclass(frozen=True, slots=True)
class Clock:
    """One clock of a component: of some of its cores, or of a GPU. What the kernel does not publish is None.

    folder  where its files are
    """

    folder: Path
    files: Files

    @property
    def mhz(self) -> float | None:
        """At present."""
        return self._mhz(self.files.present)

    @property
    def least_mhz(self) -> float | None:
        """The lowest that its governor may choose."""
        return self._mhz(self.files.least)

    @property
    def most_mhz(self) -> float | None:
        """The highest that its governor may choose."""
        return self._mhz(self.files.most)

    @property
    def top_mhz(self) -> float | None:
        """The highest that the hardware has."""
        return self._mhz(self.files.top) if self.files.top else max(self.steps_mhz, default=None)

    @property
    def steps_mhz(self) -> list[float]:
        """All that it can run at, where these are listed."""
        words = (self._text(self.files.steps) or "").split()
        return [int(word) / self.files.per_mhz for word in words if word.isdecimal()]

    @property
    def governor(self) -> str | None:
        return self._text(self.files.governor)

    def _mhz(self, name: str) -> float | None:
        text = self._text(name)
        return int(text) / self.files.per_mhz if text and text.isdecimal() else None

    def _text(self, name: str) -> str | None:
        return sysfs_text(self.folder / name)


def clocks_of_cores(root: Path, cores: Iterable[int]) -> list[Clock]:
    """The clocks of these cores, each once: cores of one policy share it."""
    folders = (root / f"sys/devices/system/cpu/cpu{core}/cpufreq" for core in cores)
    return [
        Clock(folder, CPUFREQ) for folder in dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir())
    ]


def clocks_of_gpu(root: Path) -> list[Clock]:
    """The GPU's clock, by its folder's name: "ffe40000.gpu" or "fb000000.gpu-mali" on boards with a Mali."""
    folders = sorted((root / "sys/class/devfreq").glob("*"))
    found = next((folder for folder in folders if re.search("gpu|mali", folder.name, re.IGNORECASE)), None)
    return [] if found is None else [Clock(found, DEVFREQ)]


def sysfs_text(path: Path) -> str | None:
    """A file of sysfs, or None where it is absent or may not be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
