"""``check_device`` lets devices pass that keep the contract, and names what others break."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from third_device.device import LIBRARY
from third_device.faulty import BREACH

from pipeall import ArgumentError, Board, DeviceError
from pipeall.pipeline.planning import units
from pipeall.testing import check_device
from pipeall.testing.device_checks import CHECKS

SUPPORT = Path(__file__).parents[1] / "support"
BREACHES = {  # of devices -> the check that finds it, and how
    "stale result": ("order", "frame 6, output .*: expected values within"),
    "late write": ("back pressure", "expected values within"),
    "stays busy": ("errors", "the npu is busy"),
    "leaves a thread": ("close", "expected as many threads .* 20 more"),
    "no marks": ("profile", "expected "),
    "another clock": ("trace", "expected times of CLOCK_MONOTONIC"),
    "shared weights": ("two at once", "expected values within"),
    "leak": ("many frames", "expected at most .* bytes more"),
    "tired": ("many frames", "expected values within"),
    "hangs": ("order", "expected an end within 1 s, got none"),
    "no width": ("traits", "width: expected 1 or more, got 0"),
    "too deep": ("programs", "depth: expected 1 to 2, got 3"),
    "fewer labels": ("programs", "expected one of each command"),
    "refuses without a name": ("programs", "expected no error, got KeyError"),
    "no weights": ("footprint", "bytes of weights or more, got 0"),
    "ends a fork": ("fork", "ends with 0, got 7"),
}


@pytest.fixture(scope="module")
def faulty_library(tmp_path_factory):
    built = tmp_path_factory.mktemp("faulty") / "npu.so"
    sources = [SUPPORT / "third_device" / "faulty.c", "-o", built, f"-I{SUPPORT.parents[1] / 'pipeall'}"]
    subprocess.run(["cc", "-std=gnu11", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", *sources], check=True)
    return built


@pytest.fixture
def npu_board(faulty_library, monkeypatch, board):
    """A board whose npu is of the module that the returned function is given."""
    monkeypatch.setenv(LIBRARY, str(faulty_library))
    monkeypatch.setenv("PIPEALL_OPENCL", "off")

    def made(module):
        monkeypatch.setitem(units.COMPONENTS, "npu", units.Traits(f"third_device.{module}"))
        return Board.detect(clusters=[list(component.device.cores) for component in board.components.values()
                                      if component.device.cores])  # fmt: skip

    return made


def test_a_third_device_passes(npu_board):
    assert check_device("npu", npu_board("device")) == list(CHECKS)


def test_a_cpu_passes(board):
    assert check_device("big", board, frames=2000) == list(CHECKS)


def test_a_gpu_passes(board_with_gpu):
    assert check_device("gpu", board_with_gpu, frames=2000) == list(CHECKS)


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_found(breach, npu_board, faulty_library, monkeypatch):
    monkeypatch.setenv(BREACH, breach)
    check, message = BREACHES[breach]
    native = ctypes.CDLL(str(faulty_library))
    native.faulty_release(0)
    try:
        with pytest.raises(AssertionError, match=f"npu: {check}: .*{message}"):
            check_device("npu", npu_board("faulty"), only=[check], limit_s=1 if breach == "hangs" else 60)
    finally:
        native.faulty_release(1)


def test_what_it_cannot_check(board):
    with pytest.raises(ArgumentError, match="only: expected some of traits, .*, got speed"):
        check_device("big", board, only=["speed"])
    with pytest.raises(DeviceError, match="no component"):
        check_device("little2" if "mid" in board.components else "mid", board)
