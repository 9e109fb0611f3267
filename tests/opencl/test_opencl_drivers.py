"""Drivers that crash or hang: the run goes on without OpenCL and says so; who needs none never loads it."""

import subprocess
import sys
from pathlib import Path

import pytest
from build_trees import REPOSITORY, WITH_TESTS, run
from preload import built

pytestmark = pytest.mark.usefixtures("opencl_info")

LISTED = """
import sys, warnings
from graphs import frames, small_net
from pipeall import Board, DeviceError, Engine, Pipeline
from pipeall._kernels.opencl import drivers
drivers.LIMIT_S = float(sys.argv[1])
board, graph = Board.detect(clusters=[[core] for core in Board.detect().component("cpu").device.cores]), small_net()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with Pipeline(graph, board=board) as pipe:
        list(pipe.map(frames(graph, 1)))
print(len(said), *(warning.message for warning in said))
try:
    Engine(graph, "gpu", board)
except DeviceError as error:
    print(error)
print("pyopencl" in sys.modules)
"""


@pytest.mark.parametrize(
    "kind, limit_s, how",
    [
        ("CRASHES", 60, "ends the process (status -6)"),
        ("EXITS", 60, "ends the process (status 0)"),
        ("HANGS", 1, "does not answer within 1 s"),
    ],
)
def test_a_driver_that_does_not_come_back_is_named(kind, limit_s, how, tmp_path):
    driver = built("bad_driver", tmp_path, f"-D{kind}")
    (tmp_path / "bad.icd").write_text(f"{driver}\n")
    forced = WITH_TESTS | {"OCL_ICD_VENDORS": str(tmp_path / "bad.icd"), "PIPEALL_CACHE": str(tmp_path / "cache")}
    why = f"the OpenCL driver {str(driver)!r} {how} when it is asked for its devices"
    for turn in ("tried", "kept"):
        said, refused, _ = run(REPOSITORY, "-c", LISTED, str(limit_s), **forced).splitlines()
        assert said.startswith(f"1 running without OpenCL: {why}") and said.endswith("PIPEALL_OPENCL=off"), turn
        assert "no component 'gpu' on this board" in refused and why in refused
        limit_s = 1e-3  # of a trial: the second turn makes none
    said, refused, loaded = run(REPOSITORY, "-c", LISTED, "60", PIPEALL_OPENCL="off", **forced).splitlines()
    assert (said, loaded) == ("0", "False") and "switched off by PIPEALL_OPENCL=off" in refused


def test_drivers_are_tried_again_where_they_have_changed(tmp_path):
    (tmp_path / "good.icd").write_text("no-such-library.so\n")
    forced = WITH_TESTS | {"OCL_ICD_VENDORS": str(tmp_path), "PIPEALL_CACHE": str(tmp_path / "cache")}
    assert run(REPOSITORY, "-c", LISTED, "60", **forced).startswith("0")
    driver = built("bad_driver", tmp_path)
    (tmp_path / "bad.icd").write_text(f"{driver}\n")
    assert run(REPOSITORY, "-c", LISTED, "60", **forced).startswith("1 running without OpenCL")


CPU_ONLY = """
import sys
from pathlib import Path
from graphs import frames, small_net
from pipeall import Board, Engine, Pipeline
board, graph = Board.detect(clusters=[[core] for core in Board.detect().component("cpu").device.cores]), small_net()
with Pipeline(graph, "big", board) as pipe, Engine(graph) as engine:
    list(pipe.map(frames(graph, 1))), engine(*frames(graph, 1)), pipe.stats(), repr(pipe)
assert "pyopencl" not in sys.modules
"""


def test_who_names_cpus_never_loads_opencl():
    run(REPOSITORY, "-c", CPU_ONLY, **WITH_TESTS)
    command = [sys.executable, "-X", "importtime", "-m", "pipeall", "info", "squeezenet", "--plan", "big"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0 and "pyopencl" not in done.stderr


ENGINE = """
import os
from graphs import frames, small_net
from pipeall import Board, Engine
from pipeall._kernels.opencl import cl_devices as devices
print(len(devices.devices()), os.environ.get("XDG_CACHE_HOME", ""))
graph = small_net()
print(Engine(graph, "gpu", Board.detect())(*frames(graph, 1)).shape)
"""


@pytest.mark.parametrize("home", ["gone", "somebody's", "cache of somebody"])
def test_a_home_that_takes_no_files_costs_no_device(tmp_path, home):
    """A driver that keeps compiled programs there would have none; this process alone has another folder."""
    cache = tmp_path / "cache"
    own = {
        "gone": {"HOME": "/proc/none", "XDG_CACHE_HOME": "", "PIPEALL_CACHE": str(cache)},
        "somebody's": {"HOME": str(tmp_path), "XDG_CACHE_HOME": "/proc/none", "PIPEALL_CACHE": str(cache)},
        "cache of somebody": {"HOME": "/proc/none", "XDG_CACHE_HOME": "", "PIPEALL_CACHE": "/proc/none"},
    }[home]
    listed, shape = run(REPOSITORY, "-W", "ignore", "-c", ENGINE, **WITH_TESTS, **own).splitlines()
    count, folder = listed.split(" ", 1)
    assert int(count) >= 1 and shape == "(1, 5, 8, 8)"
    if home == "cache of somebody":
        assert "pipeall-opencl-" in folder and not Path(folder).exists()  # gone with the process
    else:
        assert folder == str(cache / "opencl")


def test_a_home_that_takes_files_is_left_alone(tmp_path):
    found = run(REPOSITORY, "-W", "ignore", "-c", ENGINE, **WITH_TESTS, HOME=str(tmp_path), XDG_CACHE_HOME="")
    assert found.splitlines()[0].endswith(" ") and (tmp_path / ".cache").exists()
