"""Components by name and letter, and a GPU that is asked for only when it is wanted."""

import json

import pytest
from recorded_boards import recorded_files, write_tree

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.errors import ArgumentError, DeviceError, missing_extra
from pipeall.pipeline.boards.board import Board
from pipeall.pipeline.planning.units import Unit


def device(index: int, name: str, stand_in: bool = False) -> opencl.DeviceInfo:
    return opencl.DeviceInfo(index, "Platform", name, "Vendor", "1.0", 4, True, False, stand_in)


MALI, OTHER, POCL = device(1, "Mali-G52"), device(2, "Other GPU"), device(0, "pthread-cortex", stand_in=True)


@pytest.fixture(scope="module")
def vim3(tmp_path_factory):
    return write_tree(recorded_files("vim3"), tmp_path_factory.mktemp("vim3"))


@pytest.fixture
def probes(monkeypatch):
    """Replaces the OpenCL devices; counts how often they were asked for."""
    monkeypatch.delenv("PIPEALL_OPENCL", raising=False)

    def install(*devices: opencl.DeviceInfo, error: Exception | None = None) -> list[int]:
        calls: list[int] = []

        def probe():
            calls.append(1)
            if error:
                raise error
            return devices

        monkeypatch.setattr(opencl, "devices", probe)
        return calls

    return install


def test_components_of_a_board_with_a_gpu(vim3, probes):
    probes(POCL, MALI, OTHER)
    board = Board.detect(root=vim3)
    assert [(c.name, c.letter, c.device.kind) for c in board.components.values()] == [
        ("big", "B", "cpu"),
        ("little", "L", "cpu"),
        ("gpu", "G", "opencl"),
        ("gpu1", "G1", "opencl"),
    ]
    assert board.component("gpu").device.info == MALI and board.component("G1").device.info == OTHER
    assert board.component("big").device.cluster.cores == (2, 3, 4, 5)
    assert board.gpu_missing is None


def test_opencl_is_asked_once_and_only_for_the_gpu(vim3, probes):
    calls = probes(MALI)
    board = Board.detect(root=vim3)
    assert board.component("B").name == "big" and board.component("little").letter == "L"
    assert calls == []
    assert board.component("G").device.info == MALI and "gpu" in board.components
    assert calls == [1]


def test_without_gpu_opencl_is_never_asked(vim3, probes):
    calls = probes(MALI)
    board = Board.detect(gpu=False, root=vim3)
    assert list(board.components) == ["big", "little"]
    with pytest.raises(DeviceError, match=r"no component 'gpu'.*has big, little.*gpu=False"):
        board.component("gpu")
    assert calls == []


@pytest.mark.parametrize(
    ("devices", "error", "message"),
    [
        ((), missing_extra("pyopencl", "opencl", "running on a GPU"), r"pip install 'pipeall\[opencl\]'"),
        ((), DeviceError("expected a list of OpenCL platforms; got chaos"), "got chaos"),
        ((), None, "available: none"),
    ],
)
def test_why_the_gpu_is_missing(vim3, probes, devices, error, message):
    probes(*devices, error=error)
    board = Board.detect(root=vim3)
    assert list(board.components) == ["big", "little"]
    with pytest.raises(DeviceError, match=message) as raised:
        board.component("gpu")
    assert "it has big, little" in str(raised.value) and "\n" not in str(raised.value)


def test_opencl_switched_off(vim3, probes, monkeypatch):
    calls = probes(MALI)
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    assert "PIPEALL_OPENCL=off" in Board.detect(root=vim3).gpu_missing
    assert calls == []


def test_a_cpu_that_stands_in_is_marked(vim3, probes):
    probes(POCL)
    gpu = Board.detect(root=vim3).component("gpu")
    assert gpu.stand_in and "standing in" in gpu.description


def test_a_gpu_in_half_precision(vim3, probes):
    probes(MALI)
    board = Board.detect(root=vim3)
    half = board.component("G@fp16")
    assert (half.name, half.device.kind, half.precision, half.device.info) == ("gpu@fp16", "opencl", "fp16", MALI)
    assert board.component("gpu").precision == "fp32" and "gpu@fp16" not in board.components
    with pytest.raises(DeviceError, match="no component 'gpu1'"):
        board.component("gpu1@mixed")
    with pytest.raises(DeviceError, match="no component 'gpu@fp16' on this board"):
        Board.load("a311d-armcl").component("gpu@fp16")


def test_a_component_this_board_lacks(vim3, probes):
    probes(MALI)
    with pytest.raises(DeviceError, match=r"no component 'mid' on this board \(it has big, little, gpu\)$"):
        Board.detect(root=vim3).component("M")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("B", "big"),
        ("l", "little"),
        ("M", "mid"),
        ("m1", "mid1"),
        ("G", "gpu"),
        ("gpu2", "gpu2"),
        (" Big ", "big"),
        ("G@fp16", "gpu@fp16"),
        ("g1@mixed", "gpu1@mixed"),
    ],
)
def test_component_names(key, name):
    assert Unit.parse_whole(key) == name


@pytest.mark.parametrize("key", ["", "x", "tpu", "bigger", "big1", "G0", "gpu-1", "B-L", "B@fp8", "G@fp8", "M@double"])
def test_other_words_are_refused(vim3, key):
    with pytest.raises(ArgumentError, match="expected big, mid, little, gpu, npu or cpu"):
        Board.detect(gpu=False, root=vim3).component(key)


def test_description_of_every_component(vim3, probes):
    probes(MALI)
    rows = Board.detect(root=vim3).describe()
    assert json.loads(json.dumps(rows))[0]["cores"] == [2, 3, 4, 5]
    big, _, gpu = rows
    assert big["description"] == "4 x cortex-a73 at 2208 MHz (cores 2-5), neon"
    assert (big["component"], big["core_type"], big["max_mhz"], big["stand_in"]) == ("big", "cortex-a73", 2208.0, False)
    assert (gpu["component"], gpu["device"], gpu["unified_memory"], gpu["stand_in"]) == ("gpu", "Mali-G52", True, False)


def test_given_clusters(vim3):
    board = Board.detect(clusters=[[2], [3]], gpu=False, root=vim3)
    assert {name: c.device.cores for name, c in board.components.items()} == {"big": (2,), "little": (3,)}


def test_this_machine_has_a_component_to_run_on():
    assert "big" in Board.detect(gpu=False).components
