"""Cluster detection on boards that are not at hand.

The trees in ``boards/*.json`` are reconstructions, not dumps: the paths and the format are those of Linux, the
values (MIDR, clocks, capacities, caches) those of the processors' manuals, device trees and data sheets. What a
board gives is compared with what its maker says it has.
"""

import importlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from build_trees import REPOSITORY
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_boards import recorded_files, write_tree

from pipeall._kernels.cpu import cluster
from pipeall._kernels.cpu.cores import ARM_CORES, CPU
from pipeall.errors import ArgumentError, DeviceError

KIB = 1024


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """recorded("vim3"): the root of a recorded tree, which tests share and leave as it is."""

    @cache
    def make(name: str) -> Path:
        return write_tree(recorded_files(name), tmp_path_factory.mktemp(name))

    return make


@pytest.fixture
def changed(tmp_path):
    """changed("vim3", without=("cpufreq",), online="0-3"): a tree of one's own, some of it left out or replaced."""

    def make(name: str, without: tuple[str, ...] = (), **cpu_files: str) -> Path:
        files = recorded_files(name)
        files = {path: text for path, text in files.items() if not any(part in path for part in without)}
        return write_tree(files | {f"{CPU}/{path}": text for path, text in cpu_files.items()}, tmp_path)

    return make


@pytest.fixture(autouse=True)
def nothing_forced(monkeypatch):
    for name in ("PIPEALL_ISA", "PIPEALL_CORE", "PIPEALL_SYSFS"):
        monkeypatch.delenv(name, raising=False)


def summary(clusters) -> list[tuple]:
    return [(c.name, cluster.format_cores(c.cores), c.core_type, c.isas[0]) for c in clusters]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vim3", [("big", "2-5", "cortex-a73", "neon"), ("little", "0-1", "cortex-a53", "neon")]),
        ("rk3399", [("big", "4-5", "cortex-a72", "neon"), ("little", "0-3", "cortex-a53", "neon")]),
        # the two A76 pairs have a clock policy each, and slightly different clocks and capacities
        ("rk3588", [("big", "4-7", "cortex-a76", "dotprod"), ("little", "0-3", "cortex-a55", "dotprod")]),
        ("raspberry_pi_4", [("big", "0-1", "cortex-a72", "neon"), ("little", "2-3", "cortex-a72", "neon")]),
        ("uno_q", [("big", "0-1", "cortex-a53", "neon"), ("little", "2-3", "cortex-a53", "neon")]),
        # prime and gold cores are of one type and differ in clock only
        (
            "snapdragon_855",
            [
                ("big", "7", "kryo-4xx-gold", "dotprod"),
                ("mid", "4-6", "kryo-4xx-gold", "dotprod"),
                ("little", "0-3", "kryo-4xx-silver", "dotprod"),
            ],
        ),
        ("i7_12700", [("big", "0,2,4,6,8,10,12,14", "golden-cove", "avx2"), ("little", "16-19", "gracemont", "avx2")]),
        ("i7_6700", [("big", "0-1", "skylake", "avx2"), ("little", "2-3", "skylake", "avx2")]),
        ("x86_vm_2_cores", [("big", "0", "golden-cove", "avx512"), ("little", "1", "golden-cove", "avx512")]),
    ],
)
def test_boards(recorded, name, expected):
    assert summary(cluster.detect(root=recorded(name))) == expected


def test_vim3_in_full(recorded):
    big, little = cluster.detect(root=recorded("vim3"))
    assert (big.capacity, big.max_mhz, big.isas) == (1024, 2208.0, ("neon", "ref"))
    assert (big.l1d_bytes, big.l2_bytes, big.l3_bytes) == (64 * KIB, 1024 * KIB, None)
    assert (little.capacity, little.max_mhz, little.l2_bytes) == (482, 1800.0, 256 * KIB)
    assert "0xd09" in big.why and "kind 1 of 2" in big.why and "\n" not in big.why


def test_who_shares_a_second_level_cache(changed):
    shared = {f"cpu{core}/cache/index2/shared_cpu_map": "00000000,0000003c\n" for core in range(2, 6)}
    big, little = cluster.detect(root=changed("vim3", **shared))
    assert (big.l2_cores, little.l2_cores) == (4, None)


def test_the_data_cache_is_reported_not_the_instruction_cache(recorded):
    """Cortex-A72: 32 KiB of data, 48 KiB of instructions."""
    assert cluster.detect(root=recorded("rk3399"))[0].l1d_bytes == 32 * KIB


def test_without_capacity_and_clock_the_id_register_ranks(changed):
    """An older kernel: nothing but "CPU part" in /proc/cpuinfo."""
    big, little = cluster.detect(root=changed("vim3", without=("cpu_capacity", "cpufreq", "midr", "cache")))
    assert summary([big, little]) == [("big", "2-5", "cortex-a73", "neon"), ("little", "0-1", "cortex-a53", "neon")]
    assert (big.capacity, big.max_mhz, big.l1d_bytes) == (None, None, None)
    assert "/proc/cpuinfo" in big.why


def test_the_type_ranks_before_the_clock_where_capacity_is_missing(changed):
    """An A55 that is clocked higher than the A76 beside it is still the little one."""
    clocks = {"cpufreq/policy0/cpuinfo_max_freq": "2400000\n", "cpufreq/policy4/cpuinfo_max_freq": "2000000\n"}
    clocks["cpufreq/policy6/cpuinfo_max_freq"] = "2000000\n"
    found = cluster.detect(root=changed("rk3588", without=("cpu_capacity",), **clocks))
    assert [(c.name, c.core_type) for c in found] == [("big", "cortex-a76"), ("little", "cortex-a55")]


def test_unknown_parts_are_ranked_by_clock(changed):
    root = changed("vim3", without=("cpu_capacity", "midr"))
    (root / "proc/cpuinfo").write_text((root / "proc/cpuinfo").read_text().replace("0xd09", "0xfff"))
    assert summary(cluster.detect(root=root)) == [
        ("big", "2-5", "unknown", "neon"),
        ("little", "0-1", "cortex-a53", "neon"),
    ]


def test_four_kinds_are_big_mid_mid1_little(changed):
    """Three parts, and the seventh and eighth core of the RK3588 at half the capacity of the other big pair."""
    slow = {"cpu6/cpu_capacity": "700\n", "cpu7/cpu_capacity": "700\n", "cpu0/cpu_capacity": "200\n"}
    found = cluster.detect(root=changed("rk3588", **slow))
    assert [(c.name, c.cores) for c in found] == [
        ("big", (4, 5)),
        ("mid", (6, 7)),
        ("mid1", (1, 2, 3)),
        ("little", (0,)),
    ]


def test_a_container_counts_allowed_cores_only(recorded):
    """cpuset {2, 3} on the VIM3: one kind of core is left, so the pair is split."""
    assert summary(cluster.detect(root=recorded("vim3"), allowed={2, 3})) == [
        ("big", "2", "cortex-a73", "neon"),
        ("little", "3", "cortex-a73", "neon"),
    ]


def test_one_allowed_core_is_big(recorded):
    assert summary(cluster.detect(root=recorded("vim3"), allowed={1})) == [("big", "1", "cortex-a53", "neon")]


def test_offline_cores_do_not_count(changed):
    found = cluster.detect(root=changed("vim3", online="0,2-4\n"), allowed=range(6))
    assert [(c.name, c.cores) for c in found] == [("big", (2, 3, 4)), ("little", (0,))]


def test_no_core_is_an_error(recorded):
    with pytest.raises(DeviceError, match="online 0-5, allowed 7"):
        cluster.detect(root=recorded("vim3"), allowed={7})


def test_smt_siblings_are_left_out_and_named(recorded):
    big, little = cluster.detect(root=recorded("i7_6700"))
    assert "SMT siblings 4-5 left out" in big.why and "SMT siblings 6-7 left out" in little.why


def test_an_allowed_sibling_takes_its_core(recorded):
    """Only the second threads of cores 0 and 1 are allowed."""
    found = cluster.detect(root=recorded("i7_6700"), allowed={4, 5})
    assert [c.cores for c in found] == [(4,), (5,)]
    assert "SMT" not in found[0].why


def test_an_odd_core_goes_to_big(recorded):
    found = cluster.detect(root=recorded("raspberry_pi_4"), allowed={0, 1, 2})
    assert [c.cores for c in found] == [(0, 1), (2,)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([[0, 1, 2, 3]], ["big"]),
        ([[3], [0]], ["big", "little"]),
        (((0,), (1,), (2, 3)), ["big", "mid", "little"]),
        ([[0], [1], [2], [3]], ["big", "mid", "mid1", "little"]),
    ],
)
def test_given_clusters_are_named_in_their_order(recorded, given, expected):
    found = cluster.detect(given, root=recorded("rk3399"))
    assert [c.name for c in found] == expected
    assert [c.cores for c in found] == [tuple(ids) for ids in given]


def test_clusters_that_are_given_count_as_uneven():
    core = min(os.sched_getaffinity(0))
    given = cluster.detect([[core]])
    assert not cluster.joined(given).uneven and cluster.joined(given * 2).uneven


def test_a_given_cluster_of_unequal_cores_has_no_type(recorded):
    (mixed,) = cluster.detect([[0, 5]], root=recorded("rk3399"))
    assert mixed.core_type == "unknown" and "0xd03" in mixed.why and "0xd08" in mixed.why


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "expected lists"),
        (3, "expected lists"),
        ([0, 1], "got 0"),
        ([[0], []], r"got \[\]"),
        ([["0"]], "got"),
        ([[True]], "got"),
        ([[0], [6]], r"core 6 does not exist or is offline \(online: 0-5\)"),
        ([[0, -1]], "core -1"),
        ([[0], [5]], r"core 5 is not allowed here \(allowed: 0-4\)"),
        ([[0, 1], [1]], "core 1 is given twice"),
    ],
)
def test_bad_given_clusters(recorded, given, message):
    with pytest.raises(ArgumentError, match=message):
        cluster.detect(given, root=recorded("vim3"), allowed=range(5))


def test_forced_instruction_set(recorded, monkeypatch):
    root = recorded("x86_vm_2_cores")
    assert cluster.detect(root=root)[0].isas == ("avx512", "avx2", "ref")
    for isa, expected in {"avx2": ("avx2", "ref"), "ref": ("ref",)}.items():
        monkeypatch.setenv("PIPEALL_ISA", isa)
        big, little = cluster.detect(root=root)
        assert big.isas == little.isas == expected
        assert "forced by PIPEALL_ISA" in big.why


def test_forced_instruction_set_that_extends_another(changed, monkeypatch):
    root = changed("x86_vm_2_cores")
    path = root / "proc/cpuinfo"
    path.write_text(path.read_text().replace("avx512vl", "avx512vl avx512_vnni avx512vbmi avx_vnni"))
    isas = ("vnni", "vbmi", "avx512", "avxvnni", "avx2", "ref")
    assert cluster.detect(root=root)[0].isas == isas
    for place, isa in enumerate(isas):
        monkeypatch.setenv("PIPEALL_ISA", isa)
        assert cluster.detect(root=root)[0].isas == isas[place:]


def test_forced_extension_of_neon(recorded, monkeypatch):
    """What it has no kernels for, NEON has: floats run as ever."""
    for isa, expected in {"dotprod": ("dotprod", "asimdhp", "neon", "ref"), "neon": ("neon", "ref")}.items():
        monkeypatch.setenv("PIPEALL_ISA", isa)
        assert {c.isas for c in cluster.detect(root=recorded("rk3588"))} == {expected}


def test_features_of_an_arm_core(changed):
    root = changed("rk3588")
    cpuinfo = (root / "proc/cpuinfo").read_text()
    (root / "proc/cpuinfo").write_text(cpuinfo.replace(" asimddp", " asimddp i8mm"))
    assert cluster.detect(root=root)[0].isas == ("i8mm", "dotprod", "asimdhp", "neon", "ref")
    (root / "proc/cpuinfo").write_text(cpuinfo.replace(" asimddp", ""))
    assert cluster.detect(root=root)[0].isas == ("asimdhp", "neon", "ref")
    (root / "proc/cpuinfo").write_text(cpuinfo.replace(" asimddp", "").replace(" asimdhp", ""))
    assert cluster.detect(root=root)[0].isas == ("neon", "ref")


def test_forced_instruction_set_that_is_missing(recorded, monkeypatch):
    monkeypatch.setenv("PIPEALL_ISA", "avx512")
    with pytest.raises(DeviceError, match="PIPEALL_ISA=avx512: the cores of big have neon, ref only"):
        cluster.detect(root=recorded("vim3"))


def test_avx512_needs_all_of_its_parts(changed):
    root = changed("x86_vm_2_cores")
    (root / "proc/cpuinfo").write_text((root / "proc/cpuinfo").read_text().replace("avx512vl", ""))
    assert cluster.detect(root=root)[0].isas == ("avx2", "ref")


def test_avx2_kernels_need_fma_too(changed):
    root = changed("i7_6700")
    (root / "proc/cpuinfo").write_text((root / "proc/cpuinfo").read_text().replace(" fma ", " "))
    assert cluster.detect(root=root)[0].isas == ("ref",)


def test_forced_core_type(recorded, monkeypatch):
    monkeypatch.setenv("PIPEALL_CORE", "cortex-a53")
    big, little = cluster.detect(root=recorded("vim3"))
    assert (big.core_type, little.core_type, big.cores) == ("cortex-a53", "cortex-a53", (2, 3, 4, 5))
    monkeypatch.setenv("PIPEALL_CORE", "cortex-a5e")
    with pytest.raises(ArgumentError, match="PIPEALL_CORE.*cortex-a53.*got 'cortex-a5e'"):
        cluster.detect(root=recorded("vim3"))


def test_emulated_machine_with_the_files_of_its_host(recorded):
    """User-mode QEMU shows the host's /proc and /sys to an aarch64 process."""
    found = cluster.detect(root=recorded("i7_12700"), machine="aarch64")
    assert {c.core_type for c in found} == {"unknown"} and {c.isas for c in found} == {("neon", "ref")}


def test_missing_files_are_no_error(tmp_path):
    found = cluster.detect(root=tmp_path, allowed={4, 9}, machine="riscv64")
    assert summary(found) == [("big", "4", "unknown", "ref"), ("little", "9", "unknown", "ref")]
    with pytest.raises(DeviceError):
        cluster.detect(root=tmp_path)


def test_recorded_root_from_the_environment(recorded, monkeypatch):
    monkeypatch.setenv("PIPEALL_SYSFS", str(recorded("vim3")))
    assert [c.cores for c in cluster.detect()] == [(2, 3, 4, 5), (0, 1)]


def test_this_machine():
    """Cores against the scheduler's mask, instruction sets against NumPy's own detection (CPUID, not /proc)."""
    core = "numpy._core" if int(np.__version__.split(".")[0]) >= 2 else "numpy.core"
    features = importlib.import_module(f"{core}._multiarray_umath").__cpu_features__
    for found in cluster.detect():
        assert set(found.cores) <= os.sched_getaffinity(0)
        assert found.isas[-1] == "ref"
        assert ("avx2" in found.isas) == (features["AVX2"] and features["FMA3"])
        assert ("avx512" in found.isas) == features["AVX512_SKX"]  # f, cd, bw, dq, vl
        assert ("vnni" in found.isas) == (features["AVX512_SKX"] and features["AVX512VNNI"])
        assert ("vbmi" in found.isas) == (features["AVX512_SKX"] and features["AVX512VBMI"])
        assert ("neon" in found.isas) == features["ASIMD"]


@pytest.mark.parametrize("core", sorted(os.sched_getaffinity(0)))
def test_only_cores_of_the_affinity_count(core, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {core})
    assert [(c.name, c.cores) for c in cluster.detect()] == [("big", (core,))]


ON_ONE_CORE = """
import os
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
from pipeall._kernels.cpu.cluster import detect
print([c.cores for c in detect()])
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only: there is none to leave out")
def test_a_process_confined_to_one_core_sees_that_one():
    printed = subprocess.check_output([sys.executable, "-c", ON_ONE_CORE], cwd=REPOSITORY, text=True)
    assert printed.strip() == str([(max(os.sched_getaffinity(0)),)])


@pytest.mark.parametrize(
    ("cores", "text"), [((), "none"), ((3,), "3"), ((5, 0, 1, 2), "0-2,5"), ((0, 2, 4), "0,2,4"), ((7, 8), "7-8")]
)
def test_format_cores(cores, text):
    assert cluster.format_cores(cores) == text


@st.composite
def topologies(draw):
    """Files of a random machine, its cores (sets of thread ids), and which threads are allowed."""
    parts = st.sampled_from([part for implementer, part in ARM_CORES if implementer == 0x41])
    kinds = draw(
        st.lists(st.tuples(parts, st.integers(1, 1024), st.integers(300_000, 3_000_000)), min_size=1, max_size=4)
    )
    cores = draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 2)), min_size=1, max_size=6))
    ids = iter(draw(st.permutations(range(sum(threads for _, threads in cores)))))
    files: dict[str, str] = {f"{CPU}/online": f"0-{sum(threads for _, threads in cores) - 1}\n"}
    physical = []
    for (part, capacity, khz), threads in cores:
        siblings = sorted(next(ids) for _ in range(threads))
        physical.append(set(siblings))
        for thread in siblings:
            files[f"{CPU}/cpu{thread}/cpu_capacity"] = f"{capacity}\n"
            files[f"{CPU}/cpu{thread}/regs/identification/midr_el1"] = f"{0x41 << 24 | 0xF << 16 | part << 4:#018x}\n"
            files[f"{CPU}/cpu{thread}/topology/thread_siblings_list"] = ",".join(map(str, siblings)) + "\n"
        files[f"{CPU}/cpufreq/policy{siblings[0]}/related_cpus"] = " ".join(map(str, siblings)) + "\n"
        files[f"{CPU}/cpufreq/policy{siblings[0]}/cpuinfo_max_freq"] = f"{khz}\n"
    threads = sorted(set().union(*physical))
    return files, physical, draw(st.sets(st.sampled_from(threads), min_size=1))


@settings(max_examples=30, deadline=None)
@given(topologies())
def test_any_topology(topology):
    """Clusters partition the allowed physical cores; the fastest is big; no cluster mixes types."""
    files, physical, allowed = topology
    with tempfile.TemporaryDirectory() as folder:
        found = cluster.detect(root=write_tree(files, Path(folder)), allowed=allowed, machine="aarch64")
    cores = [core for c in found for core in c.cores]
    assert len(cores) == len(set(cores))
    assert set(cores) == {min(core & allowed) for core in physical if core & allowed}
    assert [c.name for c in found] == cluster.names(len(found))
    assert len({c.name for c in found}) == len(found)
    assert len(found) > 1 or len(cores) == 1
    capacities = [c.capacity for c in found]
    assert capacities == sorted(capacities, reverse=True)
    assert all(c.core_type != "unknown" for c in found)
