"""Versions, variables, and the folder of the cache."""

from __future__ import annotations

import os
import platform
import tempfile
from importlib import metadata
from pathlib import Path

from .. import __version__, env
from ..errors import ArgumentError
from ..files import FULL_DISK
from .examined_machine import Machine
from .findings import Section

PACKAGES = ("numpy", "pyopencl", "onnx", "click", "rich", "av", "pillow", "pocl-binary-distribution")
NEEDED_BYTES = 50 << 20  # compiled programs, timings and profiles of some networks
ELSEWHERE = "free some space, or name another folder by PIPEALL_CACHE"


def versions(machine: Machine, section: Section) -> None:
    section.fact("pipeall", f"{__version__} on Python {platform.python_version()}, {platform.machine()}")
    found = {name: _version(name) for name in PACKAGES}
    section.fact("packages", ", ".join(f"{name} {version}" for name, version in found.items() if version))
    system = dict(line.split("=", 1) for line in (machine.text("etc/os-release") or "").splitlines() if "=" in line)
    kernel = machine.text("proc/sys/kernel/osrelease")
    section.fact("system", f"{system.get('PRETTY_NAME', 'not told').strip(chr(34))}, kernel {kernel or 'not told'}")
    if model := machine.text("proc/device-tree/model"):
        section.fact("board", model.strip("\0"))
    for variable in env.VARIABLES:
        if value := os.environ.get(variable.name):
            section.fact(variable.name, value)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def cache(machine: Machine, section: Section) -> None:
    """The folder that results which take long are kept in."""
    try:
        folder = env.cache_dir()
    except ArgumentError as error:
        section.fault(str(error), "name a folder that can be made, or unset the variable")
        return
    if folder == env.NO_HOME:
        section.fault("no folder for compiled programs and timings: there is no home folder", ELSEWHERE)
        return
    files = [path for path in folder.rglob("*") if path.is_file()]
    there = next(place for place in (folder, *folder.parents) if place.exists())
    room = os.statvfs(there)
    free = room.f_bavail * room.f_frsize
    size = sum(path.stat().st_size for path in files)
    section.fact("cache", f"{folder}: {len(files)} files, {size / 1e6:.1f} MB; {free / 1e9:.1f} GB free")
    if failure := _unwritable(there):
        section.fault(f"{folder} takes no files: {failure}; all is compiled and timed again in every run", ELSEWHERE)
    elif free < NEEDED_BYTES:
        section.fault(f"{folder}: the disk is nearly full, {free / 1e6:.0f} MB are free", ELSEWHERE)


def _unwritable(folder: Path) -> str | None:
    """Why a file of some size cannot be kept there."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return "the disk is full" if error.errno in FULL_DISK else error.strerror or str(error)
    return None
