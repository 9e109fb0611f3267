"""Launches recorded once and enqueued in one call, by native/command_buffer.c where no device has the extension."""

import ctypes

import numpy as np
import pytest
from graphs import frames, picture_net, small_net
from preload import built

from pipeall import DeviceError, Engine, Picture, Pipeline, PipelineError
from pipeall._kernels.opencl import cl_devices as opencl

COUNT = 9


@pytest.fixture(scope="module")
def shim(tmp_path_factory, board_with_gpu):
    """The library with the extension; it reaches the rest of OpenCL as the package does."""
    real = opencl.opened(board_with_gpu.component("gpu").device.info).library
    return built("command_buffer", tmp_path_factory.mktemp("shim"), "-Wl,--no-as-needed", real)


@pytest.fixture
def recording(shim, monkeypatch):
    monkeypatch.setattr(opencl.Device, "library", str(shim))
    monkeypatch.setattr(opencl.Device, "recording_platform", 1)
    counts = ctypes.CDLL(str(shim))
    names = ("created", "enqueued", "alive", "refuse", "hidden")
    found = {name: ctypes.c_int.in_dll(counts, name) for name in names}
    for number in found.values():
        number.value = 0
    return found


@pytest.mark.parametrize("slots", [1, 2, 64])
@pytest.mark.parametrize("plan", ["gpu", "big-gpu-little:1,3", "gpu-big:2"])
def test_recorded_frames_are_the_same(plan, slots, recording, board_with_gpu, monkeypatch):
    graph = small_net()
    inputs = frames(graph, 6 * COUNT)
    with monkeypatch.context() as patch:
        patch.setattr(opencl.Device, "recording_platform", None)
        with Pipeline(graph, plan, board_with_gpu) as pipe:
            expected = list(pipe.map(inputs))
    assert recording["created"].value == 0
    with Pipeline(graph, plan, board_with_gpu, slots=slots) as pipe:
        results = list(pipe.map(inputs))
    assert len(results) == 6 * COUNT and all(map(np.array_equal, results, expected))
    assert recording["alive"].value == 0 and 1 < recording["created"].value <= 2 * 24  # each pair of slots once
    assert recording["enqueued"].value == 6 * COUNT if slots <= 2 else recording["enqueued"].value > 0


def test_recordings_end_where_pictures_outgrow_their_memory(recording, board_with_gpu):
    """A recording keeps the buffer that it was made with."""
    graph, rng = picture_net((12, 16)), np.random.default_rng(2)
    pictures = [rng.integers(0, 256, (10 * (1 + i // 8), 30, 3), dtype=np.uint8) for i in range(32)]
    with Engine(graph, "big", board_with_gpu, input=Picture()) as engine:
        expected = [engine(x) for x in pictures]
    with Pipeline(graph, "gpu-big:2", board_with_gpu, input=Picture()) as pipe:
        np.testing.assert_allclose(list(pipe.map(pictures)), expected, rtol=1e-5, atol=0.02)
    assert recording["alive"].value == 0 and recording["enqueued"].value == 32


def test_a_trace_has_its_marks(recording, board_with_gpu):
    graph = small_net()
    with Pipeline(graph, "gpu", board_with_gpu, trace=True) as pipe:
        assert len(list(pipe.map(frames(graph, COUNT)))) == COUNT
    assert recording["created"].value == 0 and len(pipe.trace[0].rows) == COUNT


def test_what_cannot_be_recorded_is_an_error(recording, board_with_gpu):
    recording["refuse"].value = -5
    graph = small_net()
    expected = r"stage 1 .*gpu.* failed at frame 0: clCreateCommandBufferKHR failed with CL_OUT_OF_RESOURCES \(-5\)"
    with pytest.raises(PipelineError, match=expected), Pipeline(graph, "big-gpu:2", board_with_gpu) as pipe:
        list(pipe.map(frames(graph, COUNT)))
    assert recording["alive"].value == 0


def test_a_device_that_cannot_record_on_such_a_queue_launches_one_by_one(recording, board_with_gpu):
    recording["refuse"].value = -1140
    graph = small_net()
    with Pipeline(graph, "big-gpu:2", board_with_gpu) as pipe:
        assert len(list(pipe.map(frames(graph, COUNT)))) == COUNT
    assert recording["created"].value == recording["enqueued"].value == 0


def test_missing_functions(recording, board_with_gpu):
    recording["hidden"].value = 1
    with pytest.raises(DeviceError, match="expected the functions of cl_khr_command_buffer; missing: clCreateComm"):
        Pipeline(small_net(), "gpu", board_with_gpu)
