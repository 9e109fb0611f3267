"""Files that are no plain ones: links, pipes, devices, mounts, folders that take no new file, links out of a folder."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from commands import invoke, toy_board

from pipeall import ArgumentError, ModelError, Plan, load
from pipeall.arrays import read_npy, read_npz, read_samples
from pipeall.files import open_whole, same_file, write_text, write_whole
from pipeall.nas.datasets import read_texts
from pipeall.nas.search.archive import History
from pipeall.tasks.labels import read as read_labels

OLD, NEW = "old content, which is the longer one", "new content"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---- written ----


def test_a_file_keeps_its_mode_and_is_replaced(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(OLD)
    path.chmod(0o640)
    before = path.stat().st_ino
    write_text(path, NEW)
    assert (path.read_text(), mode(path)) == (NEW, 0o640) and path.stat().st_ino != before
    assert [path] == list(tmp_path.iterdir())


def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    write_text(tmp_path / "new", NEW)
    (tmp_path / "usual").write_text(NEW)
    assert mode(tmp_path / "new") == mode(tmp_path / "usual")


def test_a_name_as_long_as_names_may_be(tmp_path):
    write_text(tmp_path / ("x" * 255), NEW)
    assert (tmp_path / ("x" * 255)).read_text() == NEW


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to none yet"])
def test_a_link_stays_a_link(tmp_path, there):
    (tmp_path / "far").mkdir()
    target, middle, link = tmp_path / "far" / "real", tmp_path / "far" / "middle", tmp_path / "link"
    if there:
        target.write_text(OLD)
    middle.symlink_to("real")
    link.symlink_to(Path("far", "middle"))
    write_text(link, NEW)
    assert link.is_symlink() and middle.is_symlink() and target.read_text() == NEW and not target.is_symlink()


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ArgumentError, match="a: cannot be written: Too many levels of symbolic links"):
        write_text(tmp_path / "a", NEW)


def test_all_names_of_a_file_get_the_new_content(tmp_path):
    (tmp_path / "one").write_text(OLD)
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    write_text(tmp_path / "one", NEW)
    assert (tmp_path / "two").read_text() == NEW and same_file(tmp_path / "one", [tmp_path / "two"])


def test_a_pipe_is_written_into(tmp_path):
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    write_whole(path, lambda file: np.savez(file, x=np.arange(3)))  # which seeks
    reader.join()
    assert stat.S_ISFIFO(path.stat().st_mode) and list(np.load(BytesIO(got[0]))["x"]) == [0, 1, 2]


def test_a_pipe_that_nobody_reads_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeall.files.READER_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArgumentError, match="pipe: cannot be written: nobody reads this pipe"):
        write_text(tmp_path / "pipe", NEW)


def test_an_open_file_of_the_process_is_written_where_it_stands(tmp_path):
    with open(tmp_path / "log", "wb", buffering=0) as log:
        log.write(b"before, ")
        write_text(f"/dev/fd/{log.fileno()}", NEW)
        write_text(f"/proc/self/fd/{log.fileno()}", ", ")
        log.write(b"after")
    assert (tmp_path / "log").read_text() == f"before, {NEW}, after"


@pytest.fixture
def refused(monkeypatch):
    """What a call of ``os`` is refused with, for this test."""

    def refuse(name: str, code: int) -> None:
        def call(*arguments, **options):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(name, call)

    return refuse


def test_a_file_system_without_modes(tmp_path, refused):
    refused("os.chmod", errno.EPERM)
    refused("os.chown", errno.EPERM)
    write_text(tmp_path / "new", NEW)
    assert (tmp_path / "new").read_text() == NEW


@pytest.mark.parametrize("call, code", [("os.replace", errno.EBUSY), ("tempfile.mkstemp", errno.EACCES),
                                        ("tempfile.mkstemp", errno.EROFS)])  # fmt: skip
def test_a_mounted_file_and_a_folder_that_takes_no_new_one(tmp_path, refused, call, code):
    path = tmp_path / "plan.json"
    path.write_text(OLD)
    refused(call, code)
    write_text(path, NEW)
    assert path.read_text() == NEW and [path] == list(tmp_path.iterdir())


def test_what_no_disk_has_room_for_leaves_the_old_content(tmp_path, refused):
    path = tmp_path / "plan.json"
    path.write_text(OLD)
    refused("tempfile.mkstemp", errno.ENOSPC)
    with pytest.raises(ArgumentError, match="plan.json: cannot be written: No space left on device"):
        write_text(path, NEW)
    assert path.read_text() == OLD


PRIVATE = """set -e
mount --make-rprivate /
mount -t tmpfs none dev && cp -a /dev/null /dev/full dev/ && mount --bind dev /dev
echo old > host; echo old > bound; mount --bind host bound
"""


def test_devices_and_mounts_of_a_real_system(tmp_path):
    """In a private view of the file system: a device that was replaced would be gone for the whole machine."""
    (tmp_path / "dev").mkdir()
    if (
        not shutil.which("unshare")
        or subprocess.run(["unshare", "-m", "sh", "-c", PRIVATE], cwd=tmp_path, capture_output=True).returncode
    ):
        pytest.skip("no private mounts: run as root, where unshare -m works")
    code = (
        "from pipeall import Plan, ArgumentError\n"
        "Plan.single('big').save('/dev/null'); Plan.single('big').save('bound')\n"
        "try: Plan.single('big').save('/dev/full')\n"
        "except ArgumentError as error: print(error)"
    )
    script = PRIVATE + f'{sys.executable} -c "{code}"; test -c /dev/null; test -c /dev/full; cat host'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, _, saved = done.stdout.partition("\n")
    assert said == "/dev/full: cannot be written: No space left on device" and json.loads(saved)["plan"] == "big"


def test_the_command_writes_through_a_link(tiny, tmp_path):
    board = toy_board(tmp_path / "toy.json")
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "real.json").chmod(0o600)
    (tmp_path / "link.json").symlink_to("real.json")
    assert not invoke("search", "tiny", "--board", board, "-o", tmp_path / "link.json").exit_code
    assert (tmp_path / "link.json").is_symlink() and mode(tmp_path / "real.json") == 0o600
    assert Plan.load(tmp_path / "link.json").components


# ---- read ----

READERS = {
    "plan.json": Plan.load,
    "x.npz": read_npz,
    "x.npy": read_npy,
    "x.csv": read_samples,
    "texts.txt": read_texts,
    "labels": read_labels,
    "history": lambda path: History(path, {}),
}


@pytest.mark.parametrize("name", READERS)
def test_pipes_devices_and_folders_are_refused_at_once(tmp_path, name):
    """A pipe would be waited for, /dev/zero does not end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for what, target in (("a pipe", "pipe"), ("a device", "/dev/zero"), ("a folder", "folder")):
        path = tmp_path / name
        path.symlink_to(target)
        with pytest.raises(ArgumentError, match=f"{name}: expected a file, got {what}"):
            READERS[name](path)
        path.unlink()


def test_an_absent_file_is_not_called_something_else(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_whole(tmp_path / "absent")


# ---- external data ----


@pytest.fixture
def stored():
    """Writes a network whose weights lie beside it, in a file named by ``location``; where both really are."""
    pytest.importorskip("onnx", reason="needs pipeall[onnx]")
    from onnx import TensorProto, helper

    def write(model: Path, data: Path, location: str = "net.data") -> None:
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=(4, 12), data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=location)
        nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("Gemm", ["f", "w"], ["y"], transB=1)]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes, "n", [value("x", 1, (1, 3, 2, 2))], [value("y", 1, (1, 4))], initializer=[weight]
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        model.write_bytes(made.SerializeToString())
        data.write_bytes(np.full(48, 2, np.float32).tobytes())

    return write


def cached(folder: Path) -> tuple[Path, Path]:
    """Folders of blobs and of links to them, as Hugging Face's cache has them."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "abc" / "onnx"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    return blobs, snapshot


def test_links_to_blobs_as_hugging_face_keeps_them(tmp_path, stored):
    blobs, snapshot = cached(tmp_path)
    stored(blobs / "aa", blobs / "bb")
    (snapshot / "net.onnx").symlink_to("../../../blobs/aa")
    (snapshot / "net.data").symlink_to("../../../blobs/bb")
    graph = load(snapshot / "net.onnx")
    assert any((array == 2).all() and array.size == 48 for array in graph.constants.values())


@pytest.mark.parametrize("way", ["model is no link", "data elsewhere", "named by ..", "absolute"])
def test_links_that_lead_out_of_the_folder(tmp_path, stored, way):
    blobs, snapshot = cached(tmp_path)
    data = tmp_path / "secret" if way == "data elsewhere" else blobs / "bb"
    location = {"named by ..": "../../../blobs/bb", "absolute": str(blobs / "bb")}.get(way, "net.data")
    stored(blobs / "aa", data, location)
    (snapshot / "net.data").symlink_to(data)
    model = snapshot / "net.onnx"
    if way == "model is no link":
        shutil.copy(blobs / "aa", model)
    else:
        model.symlink_to(blobs / "aa")
    with pytest.raises(ModelError, match=f"external data '{data}' lies outside of the model's folder"):
        load(model)
