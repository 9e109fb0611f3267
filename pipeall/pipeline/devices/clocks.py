"""Clocks of cores and GPUs: the one place that reads and writes the files of cpufreq and devfreq.

Source: Linux Documentation/admin-guide/pm/cpufreq.rst and Documentation/ABI/testing/sysfs-class-devfreq.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...errors import DeviceError

NEAR = 0.02  # of a clock: published ones are rounded, and kernels round too


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

    @property
    def limit(self) -> str | None:
        """``most_mhz`` as the file has it, for ``write_limit``."""
        return self._text(self.files.most)

    def step(self, mhz: float) -> float:
        """The one of ``steps_mhz`` that is meant by a rounded number. Raises DeviceError where there is none."""
        near = [step for step in self.steps_mhz if abs(step - mhz) < NEAR * mhz]
        if self.steps_mhz and not near:
            there = ", ".join(f"{step:.0f}" for step in sorted(self.steps_mhz))
            raise DeviceError(f"{self.folder}: expected one of its clocks ({there} MHz), got {mhz:g} MHz")
        return min(near, key=lambda step: abs(step - mhz), default=mhz)

    def write_limit(self, text: str) -> None:
        """Sets ``most_mhz``. Raises DeviceError naming the file and what is missing."""
        path = self.folder / self.files.most
        try:
            with open(os.open(path, os.O_WRONLY | os.O_TRUNC), "w") as file:
                file.write(text)
        except OSError as error:
            raise DeviceError(
                f"{path} cannot be written: {error.strerror}; to set clocks needs root, or write access to this file"
            ) from error

    def limit_to(self, mhz: float) -> None:
        """The same in MHz. Raises DeviceError also where something else sets it meanwhile."""
        self.write_limit(f"{mhz * self.files.per_mhz:.0f}")
        if self.most_mhz is None or self.most_mhz > (1 + NEAR) * mhz:
            raise DeviceError(f"{self.folder / self.files.most}: expected {mhz:g} MHz as written, got {self.most_mhz}")

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


@contextmanager
def limited(limits: Iterable[tuple[Clock, float]]) -> Iterator[None]:
    """Meanwhile each clock is at most so many MHz; then as before, also after an error, Ctrl-C and SIGTERM.

    Raises DeviceError where one cannot be set, and nothing is, or not be set back.
    """
    steps = [(clock, clock.step(mhz)) for clock, mhz in limits]
    before: list[tuple[Clock, str | None]] = []
    with _sigterm_exits():
        try:
            for clock, mhz in steps:
                before.append((clock, clock.limit))
                clock.limit_to(mhz)
            yield
        finally:
            _set_back(before)


def _set_back(before: Sequence[tuple[Clock, str | None]]) -> None:
    """Writes what differs by now, all of it even where one cannot be written: its error comes last."""
    errors = []
    for clock, text in reversed(before):
        try:
            if text is not None and clock.limit != text:
                clock.write_limit(text)
        except DeviceError as error:
            errors.append(error)
    if errors:
        raise errors[0]


@contextmanager
def _sigterm_exits() -> Iterator[None]:
    """Meanwhile SIGTERM ends the process as ``sys.exit`` does, if it would end it at once."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def sysfs_text(path: Path) -> str | None:
    """A file of sysfs, or None where it is absent or may not be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
