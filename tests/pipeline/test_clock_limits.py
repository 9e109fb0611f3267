"""Clocks that are set while a block runs, in a copy of a board's sysfs, and set back however it ends."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from commands import invoke, picture
from process import PROMPT_S
from recorded_boards import recorded_files, write_tree

from pipeall import ArgumentError, Board, DeviceError, Plan
from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.cli.run import run_command

CPU = "sys/devices/system/cpu"
LITTLE, BIG = f"{CPU}/cpufreq/policy0", f"{CPU}/cpufreq/policy2"
GPU = "sys/class/devfreq/ffe40000.gpu"
FILES = {
    f"{LITTLE}/scaling_max_freq": "1800000",
    f"{LITTLE}/cpuinfo_max_freq": "1800000",
    f"{BIG}/scaling_max_freq": "2208000",
    f"{BIG}/scaling_available_frequencies": "1000000 1398000 2208000",
    f"{GPU}/max_freq": "799999987",
    f"{GPU}/available_frequencies": "399999994 799999987",
}


def limits(root: Path) -> list[str]:
    """What the files of the limits have: little, big, gpu."""
    return [
        (root / name).read_text().strip()
        for name in (f"{LITTLE}/scaling_max_freq", f"{BIG}/scaling_max_freq", f"{GPU}/max_freq")
    ]


@pytest.fixture
def vim3(tmp_path, monkeypatch):
    """A Khadas VIM3: the board, and the root of its tree."""
    write_tree(recorded_files("vim3") | {name: f"{text}\n" for name, text in FILES.items()}, tmp_path)
    for core in range(6):
        (tmp_path / f"{CPU}/cpu{core}/cpufreq").symlink_to(f"../cpufreq/policy{0 if core < 2 else 2}")
    monkeypatch.setenv("PIPEALL_SYSFS", str(tmp_path))
    monkeypatch.delenv("PIPEALL_OPENCL", raising=False)
    mali = opencl.DeviceInfo(0, "ARM Platform", "Mali-G52", "ARM", "1.0", 2, True, False, False)
    monkeypatch.setattr(opencl, "devices", lambda: (mali,))
    return Board.detect(), tmp_path


BEFORE = ["1800000", "2208000", "799999987"]


def test_clocks_are_set_and_set_back(vim3):
    """A published clock may be rounded: the board's own step is written."""
    board, root = vim3
    with board.at_clocks({"big": 1400, "gpu": 400.0, "little": 1000}):
        assert limits(root) == ["1000000", "1398000", "399999994"]
    assert limits(root) == BEFORE


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_clocks_are_set_back_after_an_error(vim3, error):
    board, root = vim3
    with pytest.raises(error), board.at_clocks({"big": 1000}):
        assert limits(root)[1] == "1000000"
        raise error
    assert limits(root) == BEFORE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_clocks_are_set_back_at_a_signal(vim3, number):
    _, root = vim3
    code = """
import sys
from pipeall import Board
with Board.detect(gpu=False).at_clocks({"big": 1000, "little": 1000}):
    print("set", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout.readline() == "set\n"
        assert limits(root)[:2] == ["1000000", "1000000"]
        process.send_signal(number)
        assert process.wait(30) in (128 + number, -number)
    assert limits(root) == BEFORE


def test_what_was_set_is_set_back_where_the_next_cannot_be(vim3):
    board, root = vim3
    (root / f"{BIG}/scaling_max_freq").unlink()
    (root / f"{BIG}/scaling_max_freq").mkdir()
    with pytest.raises(DeviceError, match=r"policy2/scaling_max_freq cannot be written: Is a directory; .* root"):
        with board.at_clocks({"little": 1000, "big": 1000}):
            raise AssertionError("nothing runs")
    assert (root / f"{LITTLE}/scaling_max_freq").read_text() == "1800000"


def test_without_rights_the_file_is_named(vim3):
    """As a user whom the files do not belong to."""
    _, root = vim3
    code = """
import os
from pipeall import Board, DeviceError
board = Board.detect(gpu=False)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with board.at_clocks({"big": 1000}):
        print("set")
except DeviceError as error:
    print(error)
"""
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for path in root.parents:
        if path.stat().st_uid == os.getuid() and path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o755)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    path = root / f"{BIG}/scaling_max_freq"
    assert (
        told == f"{path} cannot be written: Permission denied; to set clocks needs root, or write access to this file\n"
    )
    assert limits(root) == BEFORE


def test_a_kernel_that_does_not_obey_is_told(vim3):
    board, root = vim3
    path = root / f"{LITTLE}/scaling_max_freq"
    path.unlink()
    path.symlink_to("/dev/null")  # takes everything, keeps nothing
    with pytest.raises(DeviceError, match=r"scaling_max_freq: expected 1000 MHz as written, got None"):
        with board.at_clocks({"little": 1000}):
            raise AssertionError("nothing runs")


def test_what_has_no_clock_is_refused(vim3):
    board, _ = vim3
    with pytest.raises(
        DeviceError, match=r"policy2: expected one of its clocks \(1000, 1398, 2208 MHz\), got 1200 MHz"
    ):
        with board.at_clocks({"big": 1200}):
            raise AssertionError("nothing runs")
    with pytest.raises(DeviceError, match="clock of big: expected files of cpufreq or devfreq in .*, got none"):
        Board.load("a311d").at_clocks({"big": 1000})
    with pytest.raises(ArgumentError, match="clocks"):
        board.at_clocks({"big": 0})


@pytest.fixture
def here(tmp_path, monkeypatch):
    """This machine's first core as big, with a clock that can be set; what the run's plan file is; the tree."""
    folder = tmp_path / "root" / CPU / f"cpu{min(os.sched_getaffinity(0))}/cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_max_freq").write_text("2000000\n")
    board = Board.detect([[min(os.sched_getaffinity(0))]], gpu=False)
    monkeypatch.setenv("PIPEALL_SYSFS", str(tmp_path / "root"))
    monkeypatch.setattr(run_command.Board, "detect", lambda: board)
    replace(Plan.parse("big"), clocks=(("big", 1000.0),)).save(tmp_path / "plan.json")
    return tmp_path / "plan.json", folder / "scaling_max_freq"


def test_the_command_sets_the_plans_clocks(here, tmp_path, monkeypatch):
    plan, limit = here
    meanwhile, frames = [], run_command.run_frames
    monkeypatch.setattr(
        run_command, "run_frames", lambda *a, **k: (meanwhile.append(limit.read_text()), frames(*a, **k))[1]
    )
    words = ["run", "squeezenet", picture(tmp_path), "--plan", plan]
    assert invoke(*words, "--apply").exit_code == 0
    assert meanwhile == ["1000000"] and limit.read_text() == "2000000"
    with pytest.warns(RuntimeWarning, match="the plan is for big 1000 MHz; --apply sets them"):
        assert invoke(*words).exit_code == 0
    assert meanwhile[1] == limit.read_text()
    bare = invoke("run", "squeezenet", picture(tmp_path), "--plan", "big", "--apply")
    assert bare.exit_code == 2 and "--apply: expected a plan with clocks" in bare.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_sets_back_at_a_signal(here, tmp_path, number):
    """In the middle of a run that would take minutes."""
    plan, limit = here
    words = ["run", "squeezenet", str(picture(tmp_path)), "--repeat", "100000", "--plan", str(plan), "--apply"]
    code = f"""
import os, sys
root = os.environ.pop("PIPEALL_SYSFS")
from pipeall import Board
board = Board.detect([[min(os.sched_getaffinity(0))]], gpu=False)
os.environ["PIPEALL_SYSFS"] = root
Board.detect = lambda: board
from pipeall.cli import main
sys.argv[1:] = {words!r}
main()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True) as process:
        deadline = time.monotonic() + PROMPT_S
        while limit.read_text() != "1000000" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert limit.read_text() == "1000000"
        time.sleep(0.5)
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == 128 + number and limit.read_text() == "2000000"


def test_the_command_says_which_file_cannot_be_written(here, tmp_path):
    plan, limit = here
    limit.unlink()
    limit.mkdir()
    result = invoke("run", "squeezenet", picture(tmp_path), "--plan", plan, "--apply")
    assert result.exit_code == 2 and f"{limit} cannot be written: " in result.stderr
