"""Drivers that crash or hang: the run goes on without OpenCL and says so; who needs none never loads it."""

import subprocess
import sys

import pytest
from shims import built
from trees import REPOSITORY, WITH_TESTS, run

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
