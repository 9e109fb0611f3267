"""What a record says of the machine, from a recorded board's files."""

import json

import pytest
from recorded_boards import recorded_files, write_tree

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.pipeline.boards import machine
from pipeall.pipeline.boards.board import Board

FILES = {  # as on a Khadas VIM3: A73 are cpu2 to cpu5, the Mali is ffe40000.gpu
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1800000",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq": "1704000",
    "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "schedutil",
    "sys/class/devfreq/ff000000.dmc/cur_freq": "1",
    "sys/class/devfreq/ffe40000.gpu/cur_freq": "800000000",
    "sys/class/devfreq/ffe40000.gpu/governor": "simple_ondemand",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal",
    "sys/class/thermal/thermal_zone0/temp": "71250",
    "sys/class/thermal/thermal_zone1/type": "broken",
}


@pytest.fixture
def vim3(tmp_path, monkeypatch):
    write_tree(recorded_files("vim3"), tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setenv("PIPEALL_SYSFS", str(tmp_path))
    monkeypatch.delenv("PIPEALL_OPENCL", raising=False)
    mali = opencl.DeviceInfo(0, "ARM Platform", "Mali-G52", "ARM", "1.0", 2, True, False, False)
    monkeypatch.setattr(opencl, "devices", lambda: (mali,))
    return Board.detect()


def test_state_names_clocks_governors_and_temperatures(vim3):
    found = machine.state(vim3)
    assert found["clocks_mhz"] == {"big": 1704.0, "little": 1800.0, "gpu": 800.0}
    assert found["governors"] == {"big": "schedutil", "little": "performance", "gpu": "simple_ondemand"}
    assert found["temperature_c"] == {"cpu-thermal": 71.25}


def test_what_is_not_published_is_absent(tmp_path, monkeypatch):
    board = Board.detect(gpu=False)
    monkeypatch.setenv("PIPEALL_SYSFS", str(tmp_path))
    assert machine.state(board).keys() == {"load"}


def test_what_is_not_of_this_machine_is_not_asked_for_its_clock(vim3, monkeypatch):
    """A modelled board, and a CPU that plays the GPU on a board that has one."""
    modelled = machine.state(Board.load("a311d-armcl"))
    assert "clocks_mhz" not in modelled and "governors" not in modelled
    pocl = opencl.DeviceInfo(0, "PoCL", "cpu-cortex-a73", "ARM", "1.0", 6, True, True, True)
    monkeypatch.setattr(opencl, "devices", lambda: (pocl,))
    board = Board.detect()
    assert board.component("gpu").stand_in
    assert machine.state(board)["clocks_mhz"].keys() == machine.state(board)["governors"].keys() == {"big", "little"}


def test_description_names_every_component(vim3):
    found = machine.describe(vim3)
    assert list(found["components"]) == ["big", "little", "gpu"] and "Mali-G52" in found["components"]["gpu"]
    assert json.loads(json.dumps(found)) == found
