"""Every PIPEALL_* variable: what can be forced from outside. Read at call time; empty means unset."""

import os
from pathlib import Path
from typing import NamedTuple

from .errors import ArgumentError

# Instruction sets with kernels of their own; of each architecture the best first, the portable one last.
ISAS = ("vnni", "vbmi", "avx512", "avxvnni", "avx2", "i8mm", "bf16", "dotprod", "asimdhp", "neon", "ref")


NO_HOME = Path(os.devnull, "no-home-folder")


class Variable(NamedTuple):
    name: str
    meaning: str
    default: str


VARIABLES = (
    Variable("PIPEALL_ISA", f"best instruction set of CPU kernels: {' | '.join(ISAS)}", "the fastest the CPU has"),
    Variable("PIPEALL_CORE", "core type to choose kernels for, e.g. cortex-a53, cortex-a73, zen3", "as detected"),
    Variable("PIPEALL_OPENCL", "OpenCL device: part of its name or vendor, an index, or off", "a GPU, Mali first"),
    Variable(
        "PIPEALL_TUNE",
        "off: nothing is chosen by timing: algorithms and strips by a model, default plans by equal MACs",
        "on",
    ),
    Variable(
        "PIPEALL_CACHE", "folder for compiled OpenCL programs, timings of algorithms and profiles", "~/.cache/pipeall"
    ),
    Variable("PIPEALL_TUNING", "file of `pipeall profile --export-tuning`: its timings need not be made here", "none"),
    Variable(
        "PIPEALL_LEASES",
        "folder in which running pipelines say which cores they hold; for several users a folder of all of them",
        "pipeall in the user's runtime folder",
    ),
    Variable("PIPEALL_VERBOSE", "1: full tracebacks, and why each choice was made", "0"),
    Variable("PIPEALL_FAULT", "STAGE:FRAME: that stage reports an error at that frame (for tests)", "none"),
    Variable("PIPEALL_SYSFS", "root of the sys/ and proc/ tree that the CPU is detected from", "/"),
)


def isa() -> str | None:
    """The forced instruction set, one of ``ISAS``, or None. Raises ArgumentError on any other word."""
    value = _word("PIPEALL_ISA")
    if value is not None and value not in ISAS:
        raise ArgumentError(f"PIPEALL_ISA: expected one of {', '.join(ISAS)}; got {value!r}")
    return value


def core() -> str | None:
    """The forced core type, or None. ``cluster.detect`` knows the names and checks it."""
    return _word("PIPEALL_CORE")


def opencl() -> str | None:
    """How to choose the OpenCL device: part of a name, an index, "off", or None for the default."""
    return _word("PIPEALL_OPENCL")


def tune() -> bool:
    """Whether to time algorithms. Raises ArgumentError unless on or off."""
    value = _word("PIPEALL_TUNE") or "on"
    if value not in ("on", "off"):
        raise ArgumentError(f"PIPEALL_TUNE: expected on or off; got {value!r}")
    return value == "on"


def cache_dir() -> Path:
    """Folder for files that can be rebuilt; not created here. Without a home folder, where none is named, it is one in
    which nothing can be. Raises ArgumentError where PIPEALL_CACHE cannot be a folder."""
    text = _value("PIPEALL_CACHE")
    folder = Path(os.path.expanduser(text or "~/.cache/pipeall"))
    if str(folder).startswith("~"):
        if text is None:
            return NO_HOME
        raise ArgumentError(f"PIPEALL_CACHE: expected a folder; {text!r} needs a home folder and there is none")
    if text is not None and os.path.exists(folder) and not os.path.isdir(folder):
        raise ArgumentError(f"PIPEALL_CACHE: expected a folder; {folder} is a file")
    return folder


def tuning() -> Path | None:
    """A file of timings from elsewhere, or None. Raises ArgumentError where there is no such file."""
    text = _value("PIPEALL_TUNING")
    if text is not None and not Path(text).is_file():
        raise ArgumentError(f"PIPEALL_TUNING: expected a file of `pipeall profile --export-tuning`; got {text!r}")
    return Path(text) if text is not None else None


def leases() -> Path | None:
    """The folder of leases, or None for the user's own."""
    text = _value("PIPEALL_LEASES")
    return None if text is None else Path(os.path.expanduser(text))


def verbose() -> bool:
    """Whether to show tracebacks and choices. Raises ArgumentError unless 0 or 1."""
    value = _value("PIPEALL_VERBOSE") or "0"
    if value not in ("0", "1"):
        raise ArgumentError(f"PIPEALL_VERBOSE: expected 0 or 1; got {value!r}")
    return value == "1"


def fault() -> tuple[int, int] | None:
    """(stage, frame), both from 0, at which to report an error, or None. Raises ArgumentError on another form."""
    value = _value("PIPEALL_FAULT")
    if value is None:
        return None
    stage, colon, frame = value.partition(":")
    if not (colon and _is_number(stage) and _is_number(frame) and int(frame) < 2**63):
        raise ArgumentError(f"PIPEALL_FAULT: expected STAGE:FRAME, two numbers from 0; got {value!r}")
    return int(stage), int(frame)


def sysfs() -> Path:
    """Root of the tree the CPU is detected from. Raises ArgumentError unless it is a folder."""
    root = Path(_value("PIPEALL_SYSFS") or "/")
    if not root.is_dir():
        raise ArgumentError(f"PIPEALL_SYSFS: expected a folder with sys/ and proc/; got {str(root)!r}")
    return root


def _word(name: str) -> str | None:
    """A value in which case means nothing, in lower case."""
    value = _value(name)
    return None if value is None else value.lower()


def _value(name: str) -> str | None:
    return os.environ.get(name, "").strip() or None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
