"""Whether the OpenCL drivers of this machine can be asked for their devices: one that crashes or hangs while it is
loaded would take this process with it. A child process tries it first; what came of it is kept by the drivers' files.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ... import env
from ...errors import ArgumentError, DeviceError
from ...files import read_json, write_json

LIMIT_S = 30.0  # to list all devices; PoCL takes 0.5 s on a PC
RETRY_S = 3600.0  # after which a driver that failed is tried again
VENDORS = ("/etc/OpenCL/vendors",)  # folders of .icd files, which name the libraries of drivers
FORCED = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")  # what loaders read instead

# Says what it is about to do, so that the last line tells whom it did not come back from.
PROBE = """
import ctypes, os, sys
def say(text):
    print(text, flush=True)
try:
    for name in sys.argv[1:]:
        say(name)
        try:
            ctypes.CDLL(name).clIcdGetPlatformIDsKHR(0, None, ctypes.byref(ctypes.c_uint()))
        except (OSError, AttributeError):
            pass  # the loader passes over it too
    import pyopencl
    say("")  # one of them all
    for platform in pyopencl.get_platforms():
        say(platform.name)
        for device in platform.get_devices():
            device.name, device.extensions
except Exception:
    pass  # this process will say what
say("done")
os._exit(0)
"""


def check() -> None:
    """Raises DeviceError, naming the driver, where this process would not come back from listing the devices."""
    if why := _failure():
        raise DeviceError(why)


def state() -> str:
    """A hash of the drivers' files, by which a new version of one is told."""
    return _drivers()[1]


@cache
def _failure() -> str:
    libraries, key = _drivers()
    why = _kept(key)
    if why is None:
        why = _tried(libraries)
        _keep(key, why)
    if why:
        warnings.warn(f"running without OpenCL: {why}", RuntimeWarning, stacklevel=2)
    return why


def _drivers() -> tuple[list[str], str]:
    """The libraries that the loader will open, and a hash of all that says which they are."""
    package = find_spec("pyopencl")
    own = [Path(folder, ".libs") for folder in (package.submodule_search_locations or ())] if package else []
    forced = [Path(part) for name in FORCED for part in os.environ.get(name, "").split(os.pathsep) if part]
    libraries, about = [], [os.uname().release, sys.version]
    for place in forced or [*map(Path, VENDORS), *own]:
        files = sorted(place.glob("*.icd")) if place.is_dir() else [place]
        for file in files:
            library = str(file) if file.suffix != ".icd" else _first_line(file)
            beside = file.parent / library
            libraries.append(str(beside if beside.is_file() else library))
            about += [str(file), libraries[-1], _state(file), _state(Path(libraries[-1]))]
    return libraries, hashlib.sha256("\0".join(about).encode()).hexdigest()


def _first_line(file: Path) -> str:
    try:
        with file.open(errors="replace") as text:
            return text.readline(4096).strip().replace("\0", "")
    except OSError:
        return ""


def _state(file: Path) -> str:
    try:
        stat = file.stat()
    except OSError:
        return "absent"
    return f"{stat.st_size} {stat.st_mtime_ns}"


def _tried(libraries: list[str]) -> str:
    """What is wrong, in words; empty where all devices were listed."""
    if not sys.executable:  # embedded: there is nothing to start
        return ""
    known = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                [sys.executable, "-c", PROBE, *libraries],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.DEVNULL,
                env=known,
            )
        except OSError:  # what may not be started tells nothing
            return ""
        try:
            code = child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            code = None
            with suppress(subprocess.TimeoutExpired):  # where it hangs within the kernel
                child.wait(1)
        said.seek(0)
        last = said.read().decode(errors="replace").splitlines()[-1:]
    if last == ["done"] or not last:  # or Python did not start
        return ""
    how = f"does not answer within {LIMIT_S:g} s" if code is None else f"ends the process (status {code})"
    which = f"the OpenCL driver {last[0]!r:.200}" if last[0] else "an OpenCL driver"
    return f"{which} {how} when it is asked for its devices: remove it, or set PIPEALL_OPENCL=off"


def _file(key: str) -> Path:
    return env.cache_dir() / "opencl" / f"drivers-{key[:32]}.json"


def _kept(key: str) -> str | None:
    """What came of an earlier trial of these drivers; None where it has to be made."""
    try:
        path = _file(key)
        why = read_json(path, "drivers").get("failure")
        fresh = why == "" or time.time() - path.stat().st_mtime < RETRY_S
    except (ArgumentError, OSError):
        return None
    return why if isinstance(why, str) and fresh else None


def _keep(key: str, why: str) -> None:
    try:
        path = _file(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, "drivers", {"failure": why})
    except (ArgumentError, OSError):
        return  # it is tried again the next time
