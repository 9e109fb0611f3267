"""native/cl_faults.c between the runtime and OpenCL: calls that fail on demand, late wake-ups, what is alive."""

import ctypes
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from preload import built

from pipeall._kernels.opencl import cl_devices as opencl


@cache
def shim() -> tuple[ctypes.CDLL, tempfile.TemporaryDirectory]:
    """The library, built once, and the folder that it lies in as ``cl_faults.so``."""
    folder = tempfile.TemporaryDirectory(prefix="pipeall-faults-")
    return ctypes.CDLL(str(built("cl_faults", Path(folder.name), "-ldl"))), folder


@contextmanager
def in_between() -> Iterator[ctypes.CDLL]:
    """The library; programs that are made meanwhile reach OpenCL through it."""
    library, folder = shim()
    real = opencl.Device.library

    def between(device: opencl.Device) -> str:
        library.cl_faults_open(real.fget(device).encode())
        return f"{folder.name}/cl_faults.so"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl.Device, "library", property(between))
        yield library
