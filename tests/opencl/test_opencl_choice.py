"""Which OpenCL device is used, and what is said where none fits."""

import re
import sys
from dataclasses import replace

import pytest

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.errors import DeviceError, MissingExtraError

CPU = opencl.DeviceInfo(0, "Portable Computing Language", "pthread", "ARM", "3.0", 2, True, False, True)
OTHER = replace(CPU, index=1, platform="Vendor CL", name="Radeon", vendor="AMD", stand_in=False)
MALI = replace(OTHER, index=2, platform="ARM Platform", name="Mali-G52", vendor="ARM")


@pytest.mark.parametrize(
    "wanted, available, chosen",
    [
        ("", (CPU, OTHER, MALI), MALI),
        ("", (CPU, OTHER), OTHER),
        ("", (CPU,), CPU),
        ("amd", (CPU, OTHER, MALI), OTHER),
        ("portable", (CPU, OTHER, MALI), CPU),
        ("mali", (CPU, OTHER, MALI), MALI),
        ("0", (CPU, OTHER, MALI), CPU),
        ("1", (CPU, OTHER, MALI), OTHER),
    ],
)
def test_choice(wanted, available, chosen, monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", wanted)
    assert opencl.choose(available) is chosen


@pytest.mark.parametrize(
    "wanted, available, reasons",
    [
        ("", (CPU, OTHER, MALI), ["Mali-G52 comes first; PIPEALL_OPENCL=1 takes this one", "a Mali comes first"]),
        ("", (CPU, OTHER), ["the first GPU"]),
        ("", (CPU,), ["no GPU: a CPU stands in for one"]),
        ("portable", (CPU, OTHER), ["named by PIPEALL_OPENCL=portable", "pthread comes first; PIPEALL_OPENCL=1 .*"]),
    ],
)
def test_why(wanted, available, reasons, monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", wanted)
    chosen = opencl.choose(available)
    shown = [device for device in available if device == chosen or not device.stand_in]
    for device, reason in zip(shown, reasons, strict=True):
        assert re.fullmatch(reason, opencl.why(device, chosen))


@pytest.mark.parametrize(
    "wanted, available, message",
    [
        ("", (), r"expected an OpenCL device; available: none; pip install 'pyopencl\[pocl\]'"),
        (
            "nvidia",
            (CPU, OTHER),
            r"PIPEALL_OPENCL=nvidia \(index, vendor or name\); available: 0: pthread.*; 1: Radeon",
        ),
        ("7", (OTHER,), "PIPEALL_OPENCL=7 .*; available: 1: Radeon"),
        ("off", (OTHER,), "switched off by PIPEALL_OPENCL=off"),
    ],
)
def test_refused_choice_names_what_exists(wanted, available, message, monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", wanted)
    with pytest.raises(DeviceError, match=message):
        opencl.choose(available)


def test_missing_pyopencl_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pipeall\[opencl\]'"):
        opencl.devices()
