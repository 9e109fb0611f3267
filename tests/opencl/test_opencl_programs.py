"""Programs of an OpenCL device: slots, errors, building and the cache."""

import ctypes
import hashlib
import re
import shutil
import subprocess
from math import prod

import numpy as np
import pytest
from process import resident_bytes

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall._kernels.opencl import queue as clqueue
from pipeall.errors import ArgumentError, DeviceError
from pipeall.pipeline.devices.opencl.opencl_program import ClProgram
from pipeall.steps import SLOT_IN, SLOT_OUT, Lowered, Step, View


def copy_program(device, elements=256):
    """Copies its input slot to its output slot."""
    views = [View(base, 0, 1, 1, elements, elements) for base in (SLOT_IN, SLOT_OUT)]
    step = Step("copy", "copy1", (views[0],), views[1], dict(dims=(elements,), src_strides=(1,), dst_strides=(1,)))
    return ClProgram(Lowered((step,), 0, (), 4 * elements, (), 4 * elements), device)


def test_plain_and_mapped_slots_in_any_combination(device):
    program = copy_program(device)
    for frame in range(3):
        for kinds in ((0, 0), (0, 1), (1, 0), (1, 1)):
            x, y = np.full(256, frame + 1, np.float32), np.zeros(256, np.float32)
            slots = [program.slot(1024) for _ in kinds]
            ctypes.memmove(slots[0].data, x.ctypes.data, 1024)
            source, target = (
                (slot.data, slot.mem, 1024) if mapped else (array.ctypes.data, 0, 1024)
                for mapped, slot, array in zip(kinds, slots, (x, y), strict=True)
            )
            kept, data = program.native.run(source, target)
            for address in (kept, data):  # the input slot is mapped again, too
                np.testing.assert_array_equal((ctypes.c_float * 256).from_address(address), x)


def test_slots_are_freed(device):
    program = copy_program(device)

    def resident_bytes_after(slots):
        for _ in range(slots):
            slot = program.slot(1 << 22)
            ctypes.memset(slot.data, 1, slot.nbytes)
        return resident_bytes()

    first = resident_bytes_after(4)
    assert resident_bytes_after(40) - first < 20 << 22


def test_run_checks_its_argument(device):
    with pytest.raises(ArgumentError, match="slot_in: expected 1024 bytes, got 1020"):
        copy_program(device).run(np.zeros(255, np.float32))
    with pytest.raises(ArgumentError, match="got 2048"):
        copy_program(device).run(np.zeros(256))


def test_error_names_call_code_and_step(device):
    kernel, group = device.kernel("copy.cl", "fill")
    for index, value in enumerate((device.allocate(4), np.int32(0), np.int32(1), np.int32(1), np.float32(0))):
        kernel.set_arg(index, value)
    queue, buffer = device.queue(), device.allocate(4)
    staging = {SLOT_IN: (buffer.int_ptr, 4), SLOT_OUT: (buffer.int_ptr, 4)}
    clqueue.load(device.library)
    program = clqueue.LaunchProgram(queue.int_ptr, [(kernel.int_ptr, "conv1", (3, 1, 1), (2, 1, 1))], [], staging)
    memory = np.zeros(1, np.float32)
    slot = (memory.ctypes.data, 0, 4)
    expected = r"clEnqueueNDRangeKernel failed with CL_INVALID_WORK_GROUP_SIZE \(-54\) in step conv1"
    with pytest.raises(DeviceError, match=expected):
        program.run(slot, slot)


def test_unknown_step_is_refused(device):
    step = Step("fft", "fft1", (), View(SLOT_OUT, 0, 1, 1, 1, 1))
    with pytest.raises(DeviceError, match="step fft1: OpenCL has no fft kernel"):
        ClProgram(Lowered((step,), 0, (), 4, (), 4), device)


def test_buffer_beyond_the_limit(device):
    with pytest.raises(DeviceError, match="expected a buffer of at most [0-9]+ bytes; needed"):
        device.allocate(1 << 62)


def test_missing_entry_points(device):
    with pytest.raises(DeviceError, match="nowhere.so"):
        clqueue.load("nowhere.so")
    try:
        with pytest.raises(DeviceError, match="missing: clSetKernelArg"):
            clqueue.load("libc.so.6")
    finally:
        clqueue.load(device.library)


# ---- building ----


FILES = sorted(
    path
    for path in opencl.SOURCES.glob("*.cl")
    if path.name != opencl.COMMON and re.search("__kernel|ELEMENTWISE", path.read_text())
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_compiles_alone(path, device):
    first = {"channels": "lrn", "elementwise": "binary", "index": "gather", "peak": "stream", "pool": "avgpool"}
    first |= {"strided": "pointwise", "winograd": "winograd_output"}
    _, group = device.kernel(path.name, first.get(path.stem, path.stem))
    assert prod(group) >= 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("vector", [1, 4])
def test_half_arithmetic_compiles(path, vector, tmp_path):
    """For a device with cl_khr_fp16, which may not be at hand, by clang's front end."""
    if not shutil.which("clang"):
        pytest.skip("no clang: apt-get install clang")
    source = tmp_path / path.name
    source.write_text(opencl.source(opencl.COMMON) + opencl.source(path.name))
    types = ["-DX=half", "-DY=half", "-DR=half", "-DW=half", "-DHALF_ARITHMETIC=1", f"-DVECTOR={vector}"]
    target = [
        "-target",
        "spir64-unknown-unknown",
        "-Xclang",
        "-finclude-default-header",
        "-Xclang",
        "-cl-ext=+cl_khr_fp16",
    ]
    command = ["clang", "-x", "cl", "-cl-std=CL1.2", *target, *types, "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_build_failure_shows_file_and_log(device):
    with pytest.raises(DeviceError, match=r"conv.cl does not build for .*-DVECTOR=5(?s:.*)float5"):
        device.kernel("conv.cl", "conv", VECTOR=5)


@pytest.fixture
def built(opencl_info, tmp_path, monkeypatch):
    """Opens the device with an empty cache and gives the sources it compiled; each call is a fresh start."""
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    compiled = []
    build = opencl.Device.build

    def noted(self, file, *rest):
        compiled.append(file)
        return build(self, file, *rest)

    monkeypatch.setattr(opencl.Device, "build", noted)

    def start():
        compiled.clear()
        np.testing.assert_array_equal(
            copy_program(opencl.Device(opencl_info)).run(np.arange(256, dtype=np.float32)), np.arange(256)
        )
        return list(compiled)

    return start


def test_second_start_does_not_compile(built):
    assert built() == ["copy.cl"]
    assert built() == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: hashlib.sha256(b"no program").digest() + b"no program",
    ],
    ids=["empty", "cut", "last bit", "first bit", "refused by the driver"],
)
def test_damaged_cache_file_is_rebuilt(damage, built, tmp_path):
    built()
    (path,) = (tmp_path / "opencl").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert built() == ["copy.cl"]
    assert list((tmp_path / "opencl").iterdir()) == [path]
    assert built() == []


def test_cache_that_cannot_be_written_is_a_warning(built, tmp_path):
    (tmp_path / "opencl").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="compiled OpenCL programs are not kept: .*opencl"):
        assert built() == ["copy.cl"]


def test_devices_lists_what_there_is(opencl_info):
    assert [device.index for device in opencl.devices()] == list(range(len(opencl.devices())))
    assert opencl_info in opencl.devices() and opencl_info.compute_units >= 1
    assert ("a CPU standing in" in str(opencl_info)) == opencl_info.stand_in
