"""Whether a driver takes compiled programs back. Some end the process where they refuse one (rusticl of Mesa 22.3): a
child process tries it first, once for each version of a driver.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from ... import env
from ...errors import ArgumentError
from ...files import read_json, write_json
from . import drivers

LIMIT_S = 60.0
KIND = "opencl-binaries"
TRY = """
import os, sys, warnings
import pyopencl as cl
index, path, skip, options = sys.argv[1:]
device = [device for platform in cl.get_platforms() for device in platform.get_devices()][int(index)]
binary = open(path, "rb").read()[int(skip):]
warnings.simplefilter("ignore")
try:
    cl.Program(cl.Context([device]), [device], [binary]).build(options)
except cl.Error:
    pass  # this process will compile it
os._exit(0)
"""


_answers: dict[str, bool] = {}  # of this process


def taken_back(device: tuple[str, ...], index: int, path: Path, skip: int, options: str) -> bool:
    """Whether a process outlives that a device is given the binary in a file, behind its first ``skip`` bytes.

    ``device`` names it with its driver's version. What came of it is kept with that and the drivers' files.
    """
    key = "\0".join((*device, drivers.state()))
    if key not in _answers:
        file = env.cache_dir() / "opencl" / f"binaries-{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        kept = _kept(file)
        _answers[key] = _tried(index, path, skip, options) if kept is None else kept
        if kept is None:
            _keep(file, _answers[key])
    return _answers[key]


def _kept(file: Path) -> bool | None:
    try:
        answer = read_json(file, KIND).get("taken_back")
    except ArgumentError:
        return None
    return answer if isinstance(answer, bool) else None


def _keep(file: Path, answer: bool) -> None:
    try:
        write_json(file, KIND, {"taken_back": answer})
    except ArgumentError:
        return  # it is tried again in the next process


def _tried(index: int, path: Path, skip: int, options: str) -> bool:
    if not sys.executable:  # embedded: there is nothing to start
        return True
    known = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", TRY, str(index), str(path), str(skip), options]
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=known,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return False
    except OSError:  # what may not be started tells nothing
        return True
    return child.returncode == 0
