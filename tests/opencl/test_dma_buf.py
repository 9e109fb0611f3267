"""Frames in a dma-buf, which the device reads there: native/import_memory.c stands in for the driver, a memfd for the
dma-buf. Never run on hardware."""

import ctypes
import gc
import json
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
from graphs import picture_net
from preload import NATIVE, built

from pipeall import ArgumentError, Engine, Picture, Pipeline, PipelineError
from pipeall._kernels.opencl import cl_devices as opencl

# A camera's frames from its buffers to the device, by the libraries in front of both.
CAMERA = """
import ctypes, json, sys
import numpy as np
from pipeall import Board, Engine, Picture, PipeallError, Pipeline
from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.media import sources

sys.path.append(sys.argv[2])
from graphs import picture_net

board, copies = Board.detect(), []
opencl.opened(board.component("gpu").device.info)  # loads OpenCL before the libraries in front of it
opencl.Device.library, opencl.Device.importing_platform = sys.argv[1], 1
counts = ctypes.CDLL(sys.argv[1])
graph, picture = picture_net((12, 16)), Picture(frames="I420")
frames = sources.Frames(sources.find(["camera:7"], False), tell=print)
frames.in_place = board.component("gpu").device.reads_dma_buf

def come():
    for frame in frames:
        copies.append(frame.pixels.copy())
        yield frame
        del frame

found = []
with Pipeline(graph, "gpu-big:2", board, input=picture) as pipe:
    try:
        for result in pipe.map(come()):
            found.append(result)
    except PipeallError as error:  # it is unplugged
        print(error)
with Engine(graph, "big", board, input=Picture(frames="I420", yuv="BT.709", full_range=True)) as engine:
    expected = [engine(x) for x in copies]
np.testing.assert_allclose(found, expected[:len(found)], rtol=1e-5, atol=0.02)
print(json.dumps([len(found), ctypes.c_int.in_dll(counts, "imported").value]))
"""
SIZE, BEGIN, NBYTES = (12, 16), 100, 1 << 15
RNG = np.random.default_rng(8)


@pytest.fixture(scope="module")
def shim(tmp_path_factory, board_with_gpu):
    """The library with this extension and with recordings; it reaches the rest of OpenCL as the package does."""
    real, folder = opencl.opened(board_with_gpu.component("gpu").device.info).library, tmp_path_factory.mktemp("shim")
    recordings = built("command_buffer", folder, "-Wl,--no-as-needed", real)
    return built("import_memory", folder, "-Wl,--no-as-needed", recordings, real)


@pytest.fixture
def counts(shim, monkeypatch):
    monkeypatch.setattr(opencl.Device, "library", str(shim))
    monkeypatch.setattr(opencl.Device, "importing_platform", 1)
    library = ctypes.CDLL(str(shim))
    found = {name: ctypes.c_int.in_dll(library, name) for name in ("imported", "held", "most", "refused", "absent")}
    found["written"] = ctypes.c_int64.in_dll(library, "written")
    for number in found.values():
        number.value = 0
    return found


class Frame:
    """A view of a buffer of ``shape``, rows ``stride`` bytes apart. The dma-buf has other bytes than its mapping, so
    what was read tells where it was read."""

    def __init__(self, shape, stride, upside_down=False):
        self.file = os.memfd_create("frame")
        os.ftruncate(self.file, NBYTES)
        with mmap.mmap(self.file, NBYTES) as whole:
            whole[:] = RNG.bytes(NBYTES)
        content = np.frombuffer(os.pread(self.file, NBYTES, 0), np.uint8)
        self.mapped = RNG.integers(0, 256, NBYTES, dtype=np.uint8)
        self.dma_buf = (self.file, self.mapped.ctypes.data, NBYTES)
        self.inside, self.pixels = (self._view(x, shape, stride, upside_down) for x in (content, self.mapped))

    @staticmethod
    def _view(memory, shape, stride, upside_down):
        strides = (stride, *shape[2:], 1)[: len(shape)]
        view = np.lib.stride_tricks.as_strided(memory[BEGIN:], shape, strides)
        return view[::-1] if upside_down else view

    @property
    def __array_interface__(self):
        return self.pixels.__array_interface__

    def close(self):
        os.close(self.file)


@pytest.fixture
def frame():
    made = []

    def make(*args):
        made.append(Frame(*args))
        return made[-1]

    yield make
    for one in made:
        one.close()


def expected_of(frames, picture, board):
    with Engine(picture_net(SIZE), "big", board, input=picture) as engine:
        return [engine(x) for x in frames]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("frames", "shape", "stride", "upside_down"),
    [
        ("RGB", (30, 40, 3), 128, False),
        ("BGR", (30, 40, 3), 120, True),
        ("GRAY", (31, 33), 64, True),
        ("YUYV", (30, 40, 2), 96, False),
        ("NV12", (45, 40), 40, False),
        ("I420", (45, 40), 40, False),
    ],
)
def test_a_frame_is_read_in_its_dma_buf(
    frames, shape, stride, upside_down, recorded, counts, frame, board_with_gpu, monkeypatch
):
    """Rows that lie apart, behind the begin; each of five buffers is imported once, and only tables are written."""
    monkeypatch.setattr(opencl.Device, "recording_platform", 1 if recorded else None)
    buffers, picture = [frame(shape, stride, upside_down) for _ in range(5)], Picture(frames=frames)
    expected = expected_of([x.inside for x in buffers], picture, board_with_gpu)
    with Pipeline(picture_net(SIZE), "gpu-big:2", board_with_gpu, input=picture) as pipe:
        counts["written"].value = 0
        found = list(pipe.map(buffers * 4))
        assert counts["imported"].value == counts["held"].value == 5
        assert counts["written"].value < 20 * np.prod(shape) / 2
    np.testing.assert_allclose(found, expected * 4, rtol=1e-5, atol=0.02)
    gc.collect()
    assert counts["held"].value == 0


@pytest.mark.parametrize("recorded", [False, True])
def test_beside_frames_that_are_copied(recorded, counts, frame, board_with_gpu, monkeypatch):
    """Ones of no dma-buf, and of one that they do not lie in: of larger and larger sizes, for the memory to grow."""
    monkeypatch.setattr(opencl.Device, "recording_platform", 1 if recorded else None)
    inputs, inside = [], []
    for i in range(24):
        own = RNG.integers(0, 256, (20 + 5 * i, 30, 3), dtype=np.uint8)
        buffer = frame((30, 40, 3), 120)
        strange = Frame.__new__(Frame)
        strange.pixels, strange.dma_buf = own, buffer.dma_buf
        inputs += [own, buffer, strange]
        inside += [own, buffer.inside, own]
    expected = expected_of(inside, Picture(), board_with_gpu)
    with Pipeline(picture_net(SIZE), "gpu-big:2", board_with_gpu, input=Picture()) as pipe:
        found = list(pipe.map(inputs))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.02)
    assert counts["imported"].value == 24


def test_buffers_that_come_and_go(counts, board_with_gpu):
    """Descriptors have the numbers of earlier ones; 32 buffers are held at the most."""
    with Pipeline(picture_net(SIZE), "gpu", board_with_gpu, input=Picture()) as pipe:
        for _ in range(70):
            x = Frame((30, 40, 3), 120)
            (found,) = pipe.map([x])
            x.close()
            (expected,) = expected_of([x.inside], Picture(), board_with_gpu)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.02)
    gc.collect()
    assert counts["imported"].value == 70 and counts["most"].value == 32 and counts["held"].value == 0


def test_what_goes_wrong(counts, frame, board_with_gpu):
    graph, x = picture_net(SIZE), frame((30, 40, 3), 120)

    def run(x):
        with Pipeline(graph, "gpu", board_with_gpu, input=Picture()) as pipe:
            return list(pipe.map([x]))

    counts["refused"].value = -5
    with pytest.raises(PipelineError, match=r"clImportMemoryARM failed with CL_OUT_OF_RESOURCES \(-5\) in step"):
        run(x)
    counts["refused"].value, counts["absent"].value = 0, 1
    with pytest.raises(
        PipelineError, match="expected the function of cl_arm_import_memory, got none: clImportMemoryARM"
    ):
        run(x)
    x.dma_buf = (4000, *x.dma_buf[1:])
    with pytest.raises(PipelineError, match="dma_buf of a frame: expected a descriptor, got 4000: Bad file descriptor"):
        run(x)
    for wrong in (3, (3, 4), (-1, 4096, 10), (3, 0, 10), (3, 4096, 0), (3.5, 4096, 10), (2**31, 4096, 10)):
        x.dma_buf = wrong
        with pytest.raises(ArgumentError, match="dma_buf of a frame: expected a descriptor, an address and a number"):
            run(x)
    x.dma_buf = None
    run(x)


def test_without_the_extension_frames_are_copied(frame, board_with_gpu):
    x = frame((30, 40, 3), 120)
    expected = expected_of([x.pixels], Picture(), board_with_gpu)
    with Pipeline(picture_net(SIZE), "gpu", board_with_gpu, input=Picture()) as pipe:
        np.testing.assert_allclose(list(pipe.map([x])), expected, rtol=1e-5, atol=0.02)


def test_from_the_camera_to_the_device(shim, tmp_path):
    camera = built("v4l2_camera", tmp_path)
    settings = {"FORMATS": "YU12", "EXPORT": "1", "IMAGES": "40"}
    environment = os.environ | {"LD_PRELOAD": str(camera)} | {f"CAMERA_{k}": v for k, v in settings.items()}
    command = [sys.executable, "-c", CAMERA, str(shim), str(NATIVE.with_name("support"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said, numbers = done.stdout.splitlines()[0], json.loads(done.stdout.splitlines()[-1])
    assert said == "camera:7: ended by no such device" and numbers[0] == 40 and 3 <= numbers[1] <= 6
