"""Kernels that are wrong are found, named and left out; what is computed then is right."""

import ctypes

import numpy as np
import pytest
from graphs import Net
from kernel_runs import reference_table, supported_isas
from planted_kernels import jump, planted

from pipeall import Board, Engine
from pipeall._kernels.cpu import cluster, kernels, self_check
from pipeall._kernels.cpu.self_check_cases import CASES
from pipeall._kernels.cpu.table import OPS, ROWS, choose
from pipeall.cache import all_cached
from pipeall.graph.ops import run_graph

CLUSTER = cluster.detect()[0]
CHOSEN = choose(CLUSTER.isas, CLUSTER.core_type)
FAST = [row for row in ROWS if row.name == CHOSEN[row.op, row.type] and row.isa != "ref"]
GEMM = CHOSEN["gemm", "f32"]
VECTOR = 16  # floats of the widest


@pytest.fixture(autouse=True)
def a_core_that_is_met_for_the_first_time(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    self_check.known_wrong.cache_clear()
    yield
    self_check.known_wrong.cache_clear()


def check():
    return self_check.check(CLUSTER.isas, CLUSTER.core_type, CLUSTER.cores[0])


def test_the_cases_run_every_kernel_and_all_agree():
    assert {key for case in CASES for key in case.keys} == set(OPS)
    for isa in supported_isas():
        assert self_check.check((isa, "ref"), CLUSTER.core_type, CLUSTER.cores[0]) == ()
    assert check() == ()


@pytest.mark.parametrize("row", FAST, ids=lambda row: row.name)
def test_a_kernel_that_does_nothing_is_the_one_that_isknown_wrong(row):
    with planted(row.name):
        assert check() == (row.name,)
    assert check() == ()


def test_an_element_behind_the_last_vector_is_seen():
    prototype = ctypes.CFUNCTYPE(
        None, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_float), *(ctypes.c_float,) * 2
    )
    right = prototype(("pa_unary_f32_ref", ctypes.CDLL(kernels.__file__)))

    @prototype
    def wrong(op, n, x, out, p0, p1):
        right(op, n, x, out, p0, p1)
        if n % VECTOR:
            out[n - 1] += 0.01

    fast = CHOSEN["unary", "f32"]
    with planted(fast, jump(ctypes.cast(wrong, ctypes.c_void_p).value)):
        assert check() == (fast,)


def test_a_network_is_right_without_a_wrong_kernel_and_the_warning_names_it(tmp_path):
    net = Net((1, 8, 14, 15))
    graph = net.graph(net.conv(net.conv("x0", 40, 3), 33))
    x = np.random.default_rng(0).standard_normal((1, 8, 14, 15)).astype(np.float32)
    expected = run_graph(graph, {"x0": x})
    following = [row.name for row in ROWS if (row.op, row.type) == ("gemm", "f32") and row.isa in CLUSTER.isas]
    after = following[following.index(GEMM) + 1] if GEMM != "gemm_f32_ref_4x8" else pytest.skip("PIPEALL_ISA is ref")
    with planted(GEMM):
        board = Board.detect(gpu=False)
        with (
            pytest.warns(RuntimeWarning, match=f"kernel {GEMM}: wrong results on .*: {after} takes its place"),
            Engine(graph, "big", board=board) as engine,
        ):
            found = engine(x)
        np.testing.assert_allclose(found, *expected.values(), atol=1e-3)
        reasons = {row.name: why for row, why in board.components["big"].device.kernels()}
        assert (reasons[GEMM], reasons[after]) == ("no: its results are wrong on this core", "taken: first that fits")
    assert len(all_cached(self_check.CHECKED)) == 1


def test_a_core_is_checked_once(monkeypatch):
    assert self_check.checked(CLUSTER) == CHOSEN
    (file,) = all_cached(self_check.CHECKED)
    monkeypatch.setattr(self_check, "check", lambda *_: pytest.fail("checked again"))
    self_check.known_wrong.cache_clear()  # as another process does
    assert self_check.checked(CLUSTER) == CHOSEN

    file.write_text(file.read_text().replace("[]", f'["{GEMM}"]'))
    self_check.known_wrong.cache_clear()
    with pytest.warns(RuntimeWarning, match=GEMM):
        assert self_check.checked(CLUSTER)["gemm", "f32"] != GEMM


@pytest.mark.parametrize("wrong", ['["no_such_kernel"]', '["gemm_f32_ref_4x8"]', "7", "[7]", "{}"])
def test_a_file_that_says_no_such_thing_is_checked_again(wrong):
    self_check.checked(CLUSTER)
    (file,) = all_cached(self_check.CHECKED)
    file.write_text(file.read_text().replace("[]", wrong))
    self_check.known_wrong.cache_clear()
    assert self_check.checked(CLUSTER) == CHOSEN
    assert '"wrong": []' in file.read_text()


def test_a_folder_that_cannot_be_written_costs_the_check_alone(tmp_path, monkeypatch, recwarn):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path / "file" / "below"))
    assert self_check.checked(CLUSTER) == CHOSEN and not list(recwarn)


def test_cores_of_other_machines_are_not_checked(monkeypatch):
    monkeypatch.setattr(self_check, "own_isas", lambda _: ("ref",))
    monkeypatch.setattr(self_check, "check", lambda *_: pytest.fail("checked"))
    assert self_check.wrong_on(CLUSTER) == ()


def test_two_wrong_rows_of_an_op_are_left_out():
    rows = [row.name for row in ROWS if (row.op, row.type) == ("binary", "f32") and row.isa in supported_isas()[:-1]]
    with planted(rows[0]), planted(rows[-1]):
        assert set(check()) == {rows[0], rows[-1]}
    left = choose(CLUSTER.isas, CLUSTER.core_type, rows)
    assert left["binary", "f32"] == reference_table()["binary", "f32"]
