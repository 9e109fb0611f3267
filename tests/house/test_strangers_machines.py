"""Machines as containers, sandboxes and odd accounts show them: renumbered cores, no pinning, no home folder."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from build_trees import WITH_TESTS
from graphs import frames, small_net
from pipeall._kernels.cpu.kernels import features

from pipeall import ArgumentError, Board, DeviceError, Engine, env
from pipeall._kernels.cpu import cluster, cores
from pipeall.graph.ops import run_graph

# what /proc/cpuinfo has of a processor
X86 = "processor\t: {}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nflags\t\t: fpu {}\n\n"
ARM = "processor\t: {}\nFeatures\t: fp asimd {}\nCPU implementer\t: 0x41\nCPU part\t: {}\n\n"
AVX2 = "avx2 fma f16c"
AVX512 = f"{AVX2} avx512f avx512bw avx512dq avx512vl"


def tree(folder: Path, cpuinfo: str, online: str) -> Path:
    for name, text in (("proc/cpuinfo", cpuinfo), ("sys/devices/system/cpu/online", online)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


# ---- processors that a container numbers anew ----


@pytest.mark.parametrize("allowed", [{4, 5}, {1, 2}, {7}], ids=str)
def test_renumbered_processors_keep_their_instruction_sets(tmp_path, allowed):
    """Two are shown as 0 and 1, whichever cores they are."""
    root = tree(tmp_path, X86.format(0, AVX512) + X86.format(1, AVX512), "0-7\n")
    for found in cluster.detect(root=root, allowed=allowed, machine="x86_64"):
        assert (found.core_type, found.isas) == ("skylake", ("avx512", "avx2", "ref")) and set(found.cores) <= allowed


def test_of_unequal_renumbered_processors_what_all_can_do(tmp_path):
    root = tree(tmp_path, ARM.format(0, "asimddp asimdhp", "0xd0b") + ARM.format(1, "asimdhp", "0xd05"), "0-7\n")
    for found in cluster.detect(root=root, allowed={6, 7}, machine="aarch64"):
        assert (found.core_type, found.isas) == ("unknown", ("asimdhp", "neon", "ref"))


def test_processors_with_their_own_numbers_are_told_apart(tmp_path):
    """One more than is needed is shown, and each is what its number says."""
    text = ARM.format(0, "", "0xd03") + ARM.format(1, "", "0xd09") + ARM.format(2, "asimdhp", "0xd05")
    found = cluster.detect(root=tree(tmp_path, text, "0-2\n"), allowed={0, 1}, machine="aarch64")
    assert [part.core_type for part in found] == ["cortex-a73", "cortex-a53"]


NEEDED = set().union(*cores.X86_ISAS.values(), *cores.ARM_ISAS.values())


def shown_features() -> set[str]:
    shown = re.findall(r"^(?:flags|Features)\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return set.intersection(*(set(words.split()) for words in shown)) & NEEDED


def test_the_cpu_says_of_itself_what_the_system_says():
    """As every core of it can do; the system may hide some, of cores that are not all equal."""
    assert set(features().split()) == shown_features()


@pytest.mark.parametrize("fields", [[], ["model name"], ["processor", "model name"]], ids=str)
def test_a_cpuinfo_without_features_is_made_up_for_by_the_cpu(monkeypatch, fields):
    """Some sandboxes show none, or processors without flags."""
    expected = [part.isas for part in cluster.detect()]
    whole = cores.Tree.text

    def text(tree, path):
        lines = (whole(tree, path) or "").splitlines()
        return "\n".join(line for line in lines if path != "proc/cpuinfo" or line.partition("\t")[0] in fields)

    monkeypatch.setattr(cores.Tree, "text", text)
    assert [part.isas for part in cluster.detect()] == expected


def test_a_recorded_machine_has_no_features_of_this_one(tmp_path):
    for found in cluster.detect(root=tree(tmp_path, "", "0-1\n"), machine=os.uname().machine):
        assert found.isas in (("ref",), ("neon", "ref"))


def test_cores_that_a_container_numbers_anew_are_the_allowed_ones(monkeypatch):
    """lxcfs: /sys says that core 0 alone is online, and the process may use the last one of this machine."""
    last = max(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {last})
    monkeypatch.setattr(cores.Tree, "online", lambda tree: {last + 1})
    (found,) = cluster.detect()
    assert found.cores == (last,)
    (given,) = cluster.detect([[last]])
    assert given.cores == (last,)


# ---- cores that are gone ----


def test_a_core_that_went_offline_is_named_so(board, tmp_path):
    part = replace(board.component("big").device.cluster, cores=(4095,))
    with pytest.raises(DeviceError, match=r"cannot pin a thread to core 4095: there is no such core; Board.detect\(\)"):
        Engine(small_net(), "big", board=Board([part], gpu=False))


OFFLINE = """set -e
mount --make-rprivate /
mkdir cpu && mount -t tmpfs none cpu
mkdir cpu/cpu4000 cpu/cpu4001 && echo 0 > cpu/cpu4000/online && echo 1 > cpu/cpu4001/online
mount --bind cpu /sys/devices/system/cpu
"""
CODE = """
from dataclasses import replace
from graphs import small_net
from pipeall import Board, DeviceError, Engine
from pipeall._kernels.cpu.cluster import Cluster
for core in (4000, 4001):
    part = Cluster("big", (core,), "unknown", ("ref",), *[None] * 6, why="made up")
    try:
        Engine(small_net(), "big", board=Board([part], gpu=False))
    except DeviceError as error:
        print(error)
"""


def test_offline_and_not_allowed_are_told_apart(tmp_path):
    if (
        not shutil.which("unshare")
        or subprocess.run(["unshare", "-m", "sh", "-c", OFFLINE], cwd=tmp_path, capture_output=True).returncode
    ):
        pytest.skip("no private mounts: run as root, where unshare -m works")
    shutil.rmtree(tmp_path / "cpu", ignore_errors=True)
    (tmp_path / "code.py").write_text(CODE)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", OFFLINE + f"{sys.executable} code.py"],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | WITH_TESTS,
    )  # fmt: skip
    offline, other = done.stdout.splitlines()
    assert "core 4000: it is offline" in offline and "core 4001: it is not allowed for this process" in other


# ---- threads that may not be pinned ----


@pytest.fixture
def unpinned(monkeypatch):
    """``sched_setaffinity`` is refused, as in a sandbox."""

    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    cores.can_pin.cache_clear()
    yield
    cores.can_pin.cache_clear()


def test_without_pinning_it_runs_and_says_so_once(board, unpinned):
    graph = small_net()
    (x,) = frames(graph, 1)
    before = os.sched_getaffinity(0)
    with pytest.warns(RuntimeWarning, match="not pinned to cores.*Operation not permitted") as said:
        for unit in ("big", "little"):
            y = Engine(graph, unit, board=board)(x)
            (expected,) = run_graph(graph, {"x0": x}).values()
            assert np.abs(y - expected).max() <= 1e-4 * np.abs(expected).max()
    assert len(said) == 1 and os.sched_getaffinity(0) == before


# ---- home and cache ----


def test_a_cache_beside_the_work(monkeypatch):
    monkeypatch.setenv("PIPEALL_CACHE", ".")
    assert env.cache_dir() == Path(".")


def test_the_home_of_nobody(monkeypatch):
    monkeypatch.setenv("PIPEALL_CACHE", "~nosuchuser/x")
    with pytest.raises(ArgumentError, match="'~nosuchuser/x' needs a home folder and there is none"):
        env.cache_dir()


@pytest.mark.parametrize("kind", ["none", "a file", "read-only"])
def test_the_cache_is_optional(board, tmp_path, monkeypatch, kind):
    """Timings are made, and not kept: a warning names the place."""
    monkeypatch.setenv("PIPEALL_TUNE", "on")
    monkeypatch.delenv("PIPEALL_CACHE", raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    if kind == "none":
        monkeypatch.setattr(os.path, "expanduser", lambda text: text)
    elif kind == "a file":
        home.write_text("")
    else:  # as root the system itself refuses nothing

        def refuse(*arguments, **options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "mkdir", refuse)
    graph = small_net()
    (x,) = frames(graph, 1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        y = Engine(graph, "big", board=board)(x)
    assert y.size
    assert all(re.search("are not kept", str(warning.message)) for warning in said)
