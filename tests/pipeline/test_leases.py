"""Who holds which cores: pipelines of this process and of others share, refuse, or take what is free."""

import gc
import os
import signal
import stat
import subprocess
import sys
import warnings
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from pipeall import ArgumentError, Board, DeviceError, Engine, Pipeline, PipelineError, Plan, Schedule, compare
from pipeall.pipeline import lease_folder
from pipeall.pipeline.lease import leased, take

HOLDER = """
import os, sys
from toy_board import chain_net
from pipeall import Board, Pipeline
pipe = Pipeline(chain_net(), sys.argv[1], Board.detect(gpu=False))
if "forks" in sys.argv:
    if os.fork() == 0:
        pipe.close()
        sys.exit()
    os.wait()
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_LEASES", str(tmp_path / "leases"))
    return tmp_path / "leases"


@contextmanager
def holder(*words):
    """A process with an open pipeline of a plan."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, *words], env=environment, **pipes) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.stdin.close()


@contextmanager
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def held():
    """What everybody holds, by component."""
    found = {}
    with lease_folder.guarded() as place:
        for holder in lease_folder.holders(place).values():
            for name, resources in holder.claims.items():
                found.setdefault(name, set()).update(resources)
    return found


def cores_of(board, name):
    return set(board.component(name).device.cores)


def test_each_mode_beside_another_process(chain, board, folder):
    with holder("big") as other:
        who = rf"big .core.*. is held by python, PID {other.pid} .{chain.name} on big."
        with pytest.warns(RuntimeWarning, match=f"^{who}: they are shared"), Pipeline(chain, "big-little:5", board):
            assert held().keys() == {"big", "little"}
        for start in (Pipeline, Engine):
            with pytest.raises(DeviceError, match=f"^cores: expected .*; {who}; share runs beside it$"):
                start(chain, "big", board, cores="refuse")
            with pytest.raises(DeviceError, match=f"no component 'big' on .*: held by python, PID {other.pid}"):
                start(chain, "big", board, cores="free")
        with quietly(), Pipeline(chain, "little", board, cores="refuse"):
            pass
        with quietly(), Pipeline(chain, board=board, cores="free") as pipe:
            assert str(pipe.plan) == "little" and list(pipe.board.components) == ["little"]
    with quietly(), Pipeline(chain, "big-little:5", board, cores="refuse"):
        assert list(folder.iterdir()) == [folder / f"{os.getpid()}-0.lease"]
    assert list(folder.iterdir()) == []


def test_all_cores_and_a_device_are_one_thing_under_any_name(chain, board):
    clusters = [list(component.device.cores) for component in reversed(board.components.values())]
    turned = Board.detect(clusters, gpu=False)
    with Engine(chain, "little", board):
        with pytest.raises(
            DeviceError, match=r"big .core.*. is held by another pipeline of this process .net on little"
        ):
            Engine(chain, "big", turned, cores="refuse")
        with pytest.raises(DeviceError, match="cpu .core.* is held by"):
            Engine(chain, "cpu", board, cores="refuse")
        with quietly(), Engine(chain, "little", turned, cores="refuse"):
            assert held() == {"little": cores_of(board, "big") | cores_of(board, "little")}


def test_a_gpu(chain, board_with_gpu):
    gpu = board_with_gpu.component("gpu")
    with closing(take([gpu], "net on gpu")):
        for unit in (gpu, gpu.with_precision("fp16")):
            with pytest.raises(DeviceError, match="cores: .*; gpu is held by another pipeline of this process"):
                take([unit], "net on gpu", "refuse")
        with Pipeline(chain, board=board_with_gpu, cores="free") as pipe:
            assert "gpu" not in pipe.board.components and "gpu" in board_with_gpu.components
        with pytest.raises(DeviceError, match="no component 'gpu' on .*: held by another pipeline of this process"):
            Engine(chain, "gpu", board_with_gpu, cores="free")


def test_where_nothing_is_left_free_is_an_error(chain, board):
    with Pipeline(chain, "big+little", board):
        for start in (Pipeline, Engine):
            with pytest.raises(DeviceError, match="expected some that nobody holds; big .* and little .* are held by"):
                start(chain, board=board, cores="free")


@pytest.mark.parametrize("word", ["", "Share", None, 2])
def test_another_word(chain, word):
    with pytest.raises(ArgumentError, match="cores: expected one of share, refuse, free, got"):
        Pipeline(chain, "big", cores=word)


def test_a_killed_holder_holds_nothing_nor_do_its_forks(chain, board, folder):
    with holder("big", "forks") as other:
        with pytest.raises(DeviceError, match=f"PID {other.pid}"):  # the fork that has ended freed nothing
            Engine(chain, "big", board, cores="refuse")
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert [path.name for path in folder.iterdir()] == [f"{other.pid}-0.lease"]
        with quietly(), Engine(chain, "big", board, cores="refuse"):  # its other fork still waits
            assert [path.name for path in folder.iterdir()] == [f"{os.getpid()}-0.lease"]


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"format": "pipeall.lease/1", "pid": 1, "components": {"big": [0]}}']
)
def test_a_file_that_nobody_locks_is_stale(chain, folder, content):
    folder.mkdir()
    (folder / f"{os.getpid()}-0.lease").write_text(content)
    with quietly(), Engine(chain, "cpu", cores="refuse"):
        assert len(list(folder.iterdir())) == 1


def test_of_several_that_start_at_once_one_is_not_refused(board):
    """Each holds all cores until all have tried."""
    begin, ready, end = os.pipe(), os.pipe(), os.pipe()
    children = []
    for _ in range(6):
        children.append(os.fork())
        if not children[-1]:
            os.read(begin[0], 1)
            try:
                with closing(take(board.components.values(), "at once", "refuse")):
                    os.write(ready[1], b"+")
                    os.read(end[0], 1)
            except DeviceError:
                os.write(ready[1], b"-")
            os._exit(0)
    os.write(begin[1], b"." * 6)
    told = b"".join(os.read(ready[0], 1) for _ in children)
    os.write(end[1], b".")
    for child in children:
        os.waitpid(child, 0)
    assert sorted(told) == sorted(b"+-----")
    assert held() == {}


def test_a_fork_neither_holds_nor_frees(chain, board, folder):
    with Engine(chain, "big", board) as engine:
        if not (child := os.fork()):
            engine.close()
            mine = take([board.component("little")], "of the fork", "refuse")
            told = str(held())
            mine.close()
            os._exit(0 if "big" in told and "little" in told else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert held() == {"big": cores_of(board, "big")}
        assert len(list(folder.iterdir())) == 1


# ---- what a pipeline holds, and until when


def test_replacing_a_plan(chain, board):
    big, little = cores_of(board, "big"), cores_of(board, "little")
    with Pipeline(chain, "big", board, cores="refuse") as pipe:
        with Engine(chain, "little", board):
            with pytest.raises(DeviceError, match="little .core.* is held by another pipeline"):
                pipe.replace(plan="big-little:5")
            assert str(pipe.plan) == "big"
        assert held() == {"big": big}
        pipe.replace(plan="big-little:5")
        assert held() == {"big": big, "little": little}
        frame = pipe.submit(_frame(chain))
        pipe.replace(plan="little")
        assert held() == {"big": big, "little": little}  # the frame is under way
        frame.result()
        assert held() == {"little": little}
        with quietly(), Engine(chain, "big", board, cores="refuse"):
            pipe.lanes.move(Plan.parse("littlex1"))
            pipe.lanes.end_left()
            with pytest.raises(
                DeviceError, match="big .core.* is held by another pipeline of this process .net on big."
            ):
                pipe.lanes.move(Plan.parse("big"))
    assert held() == {}


def test_a_failed_frame_and_a_failed_start_free_what_they_held(chain, board, monkeypatch):
    with Engine(chain, "little", board), pytest.raises(DeviceError, match="little"):
        Pipeline(chain, "big-little:5", board, cores="refuse")
    monkeypatch.setattr("pipeall.pipeline.lanes.Lane", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Engine(chain, "big", board)
    assert held() == {}
    monkeypatch.undo()
    monkeypatch.setenv("PIPEALL_FAULT", "0:0")
    with pytest.raises(PipelineError), Engine(chain, "big", board) as engine:
        engine(_frame(chain))
    assert held() == {}


def test_a_pipeline_that_nobody_closed(chain, board):
    engine = Engine(chain, "big", board)
    assert held()
    del engine
    gc.collect()
    assert held() == {}


def test_an_emulated_board_holds_nothing(chain, board):
    with Engine(chain, "cpu", board), quietly():
        for cores in ("refuse", "free"):
            with Engine(chain, "big", "rk3588", cores=cores):
                assert held().keys() == {"cpu"}


# ---- pipelines that belong together


def test_a_lease_covers_what_is_made_inside_of_it(chain, board):
    with Engine(chain, "little", board):
        with pytest.warns(
            RuntimeWarning, match="little .* is held by .*net on little.: what is measured now is the"
        ) as told:
            compare(
                chain, [Plan.parse(text) for text in ("big", "big-little:5", "little")], board, turns=1, seconds=0.0
            )
        assert len(told) == 1
        with pytest.raises(DeviceError, match="little"), leased(board, ["big", "little"], "both", "refuse"):
            pass
        with quietly(), leased(board, ["bigx1"], "one", "refuse"), Engine(chain, "big", board, cores="refuse"):
            with Engine(chain, "big", board, cores="free"), pytest.raises(DeviceError, match="little"):
                Engine(chain, "cpu", board, cores="refuse")
            assert held().keys() == {"big", "little"}
    assert held() == {}


def test_networks_of_a_schedule_are_of_one_lease(chain, board):
    networks = {"one": (chain, {"plan": "big-little:5"}), "two": (chain, {"plan": "big"})}
    with (
        Engine(chain, "little", board),
        pytest.raises(DeviceError, match="little .* is held by .* .net on little.; share"),
    ):
        Schedule(networks, board, cores="refuse")
    with quietly(), Schedule(networks, board, cores="refuse") as schedule:
        assert held().keys() == {"big", "little"}
        schedule["two"].replace(plan="little")
        with pytest.raises(DeviceError, match="big .* is held by .*one on big-little:5, two on big"):
            Engine(chain, "big", board, cores="refuse")
    assert held() == {}
    with Engine(chain, "big", board), Schedule({"one": chain, "two": chain}, board, cores="free") as schedule:
        assert {str(schedule[name].plan) for name in schedule} == {"little"}


# ---- the folder


def test_where_no_folder_can_be_written(chain, board, folder, monkeypatch):
    folder.write_text("")  # a file in its place: root may write into any folder
    why = f"cores: nobody can tell who uses them: {folder}: .*"
    with pytest.warns(RuntimeWarning, match=f"{why}; others are not told of this program"), Engine(chain, "big", board):
        pass
    for cores in ("refuse", "free"):
        with pytest.raises(DeviceError, match=why):
            Engine(chain, "big", board, cores=cores)
    monkeypatch.setattr(lease_folder, "GUARD_S", 0.02)
    monkeypatch.setenv("PIPEALL_LEASES", str(folder.with_name("busy")))
    with (
        lease_folder.guarded(),
        pytest.raises(DeviceError, match="nobody can tell who uses them: .*busy was locked for"),
    ):
        Engine(chain, "big", board, cores="refuse")


def test_the_users_own_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("PIPEALL_LEASES")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    (tmp_path / "runtime").mkdir()
    assert lease_folder.folder() == tmp_path / "runtime/pipeall"
    assert stat.S_IMODE((tmp_path / "runtime/pipeall").stat().st_mode) == 0o700
    user, other = os.geteuid(), 54321  # who has no folder in /run/user
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(
        PermissionError, match=f"neither XDG_RUNTIME_DIR, /run/user/{other} nor {tmp_path}/pipeall-{other}"
    ):
        lease_folder.folder()  # both are the first user's
    monkeypatch.undo()
    monkeypatch.delenv("PIPEALL_LEASES")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    (tmp_path / "runtime/pipeall").rename(tmp_path / "elsewhere")
    (tmp_path / "runtime/pipeall").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert lease_folder.folder() in (Path(f"/run/user/{user}/pipeall"), tmp_path / f"pipeall-{user}")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/venv/bin/pipeall", "run", "net.onnx"], "pipeall run"),
        (["/venv/lib/pipeall/__main__.py"], "pipeall"),
        (["/opt/service.py", "run"], "service.py"),
        (["-c"], "python"),
        ([""], "python"),
    ],
)
def test_what_people_call_a_program(words, name, board, monkeypatch):
    monkeypatch.setattr(sys, "argv", words)
    with closing(take([board.component("big")], "net on big")), lease_folder.guarded() as place:
        assert [holder.program for holder in lease_folder.holders(place).values()] == [name]


def _frame(graph):
    return np.zeros(graph.inputs[0].shape, np.float32)
