"""What a record says of the machine, from a recorded board's files."""

import json
from dataclasses import replace

import pytest
from graphs import small_net
from recorded_boards import recorded_files, write_tree

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.cli.plans import times_lines
from pipeall.pipeline.boards import machine
from pipeall.pipeline.boards.board import Board
from pipeall.pipeline.boards.default_plan import plan_for_one
from pipeall.pipeline.devices.clocks import clocks_of_cores
from pipeall.pipeline.planning.profile import Profile, UnitTimes, slow_clocks

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


def write(root, **files):
    """Files of the big cores' clock, which is cpu2's."""
    for name, text in files.items():
        (root / "sys/devices/system/cpu/cpu2/cpufreq" / name).write_text(f"{text}\n")


def test_state_has_what_clocks_may_be(vim3, tmp_path):
    write(tmp_path, scaling_min_freq=500000, scaling_max_freq=1704000, cpuinfo_max_freq=2208000)
    gpu = tmp_path / "sys/class/devfreq/ffe40000.gpu"
    (gpu / "max_freq").write_text("400000000\n")
    (gpu / "available_frequencies").write_text("124999998 400000000 799999987\n")
    limits = machine.state(vim3)["clock_limits_mhz"]
    assert limits["big"] == {"least": 500.0, "most": 1704.0, "top": 2208.0}
    assert limits["gpu"] == {"most": 400.0, "top": 799.999987} and "little" not in limits


def test_of_cores_with_several_clocks_the_slowest_counts(tmp_path):
    """As on an RK3588, where each pair of big cores has a clock of its own; cores of a pair share the folder."""
    cpu = tmp_path / "sys/devices/system/cpu"
    for core, khz in {4: 2304000, 6: 1800000}.items():
        folder = cpu / f"cpufreq/policy{core}"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(str(khz))
        for member in (core, core + 1):
            (cpu / f"cpu{member}").mkdir()
            (cpu / f"cpu{member}/cpufreq").symlink_to(f"../cpufreq/policy{core}")
    assert [clock.mhz for clock in clocks_of_cores(tmp_path, (4, 5, 6, 7))] == [2304.0, 1800.0]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (dict(scaling_governor="performance", scaling_cur_freq=2208000, scaling_max_freq=2208000), None),
        (dict(scaling_governor="schedutil", scaling_cur_freq=500000, scaling_max_freq=2208000), None),  # idle just now
        (dict(scaling_governor="performance", scaling_cur_freq=1704000), "big 1704 of 2208 MHz at most"),  # hot
        (dict(scaling_governor="schedutil", scaling_max_freq=1398000), "big 1398 of 2208 MHz at most"),
        (dict(scaling_governor="powersave", scaling_max_freq=2208000), "big governor powersave"),
    ],
)
def test_low_clocks_are_told(vim3, tmp_path, files, told):
    write(tmp_path, cpuinfo_max_freq=2208000, **files)
    state = machine.state(vim3)
    assert slow_clocks(state) == told
    profile = Profile("net", ("a",), (4, 4), {"big": UnitTimes((1.0,), (0.0,))}, about={"after": state})
    lines = [f"Clocks were below their top: {told}; the board can do better."] if told else []
    assert profile.slow_clocks == told and times_lines(profile) == lines


def test_profiles_of_before_have_no_limits(tmp_path):
    """Files that an earlier version wrote load, and say what they can."""
    profile = Profile("net", ("a",), (4, 4), {"big": UnitTimes((1.0,), (0.0,))})
    for about, told in (({}, None), ({"after": {"load": 1.0, "clocks_mhz": {"big": 1704.0}}}, None)):
        replace(profile, about=about).save(tmp_path / "net.json")
        assert Profile.load(tmp_path / "net.json").slow_clocks == told


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


def test_only_what_a_measurement_tells_of_is_looked_for(vim3, monkeypatch, tmp_path):
    """A GPU's driver takes tens of MB: neither a report of cores loads it, nor a plan for one frame of a network whose
    profile nobody has kept."""

    def asked():
        raise AssertionError("asked for OpenCL devices")

    whole = machine.describe(vim3)
    monkeypatch.setattr(opencl, "devices", asked)
    monkeypatch.setenv("PIPEALL_TUNE", "on")
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path / "cache"))
    board = Board.detect()
    assert machine.describe(board, ["little"])["components"] == {"little": whole["components"]["little"]}
    assert plan_for_one(small_net(), board).components == ("big",)
    with pytest.raises(AssertionError, match="OpenCL"):
        machine.describe(board)
