"""Random compositions against onnxruntime: a few of them, and that the fuzzer sees a fault and makes it small.

``python tests/long/fuzz/compositions.py`` is the long version.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

pytest.importorskip("onnxruntime")
sys.path.insert(0, str(Path(__file__).parents[1] / "long/fuzz"))

import composed  # noqa: E402
import compositions  # noqa: E402
import judged  # noqa: E402
from composed import Case  # noqa: E402


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_compositions_are_right(first):
    verdicts = {seed: judged.judge(composed.case(seed)) for seed in range(first, first + 10)}
    assert all(verdict.kind in ("right", "skipped", "refused") for verdict in verdicts.values()), verdicts
    assert sum(verdict.kind == "right" for verdict in verdicts.values()) >= 7, verdicts


def rounded(values, then="Round"):
    """values * 4, rounded, and negated after it."""
    nodes = [("Mul", ["x", "four"], ["y"]), (then, ["y"], ["z"]), ("Neg", ["z"], ["out"])]
    feeds = {"x": np.array(values, np.float32)}
    four = {"four": np.array(4, np.float32)}
    return Case(13, [helper.make_node(*node) for node in nodes], four, feeds, {"out": np.dtype(np.float32)})


def test_a_planted_fault_is_found_and_made_small(monkeypatch, tmp_path):
    case = rounded([0.125, 1.125, 3.0])  # 0.5 and 4.5, exactly: to even
    assert judged.judge(case).kind == "right"
    monkeypatch.setattr(judged, "run_graph", lambda graph, feeds, dtype: {"out": -np.floor(feeds["x"] * 4 + 0.5)})
    verdict = judged.judge(case)
    assert (verdict.kind, "out: 2 of 3 elements, at (0,)" in verdict.detail) == ("wrong", True), verdict
    by_hand = {"y": lambda x: -np.floor(x + 0.5), "z": lambda x: -x, "x": lambda x: -np.floor(x * 4 + 0.5)}

    def run_graph(graph, feeds, dtype):
        (name,) = feeds
        return {"out": by_hand[name](feeds[name])}

    monkeypatch.setattr(judged, "run_graph", run_graph)
    small = compositions.smaller(case, judged.judge)
    assert [node.op_type for node in small.nodes] == ["Round", "Neg"]
    small.write(tmp_path / "case.onnx")
    again = Case.read(tmp_path / "case.onnx")
    assert judged.judge(again) == judged.judge(small)


@pytest.mark.parametrize(("answer", "kind"), ((0, "right"), (1, "right"), (9, "wrong")))
def test_an_element_that_lies_at_a_jump_may_fall_either_way(monkeypatch, answer, kind):
    nodes = [("Softplus", ["x"], ["y"]), ("Round", ["y"], ["out"])]
    at_half = np.array([np.log(np.expm1(0.5))], np.float32)
    case = Case(13, [helper.make_node(*node) for node in nodes], {}, {"x": at_half}, {"out": np.dtype(np.float32)})
    monkeypatch.setattr(judged, "run_graph", lambda graph, feeds, dtype: {"out": np.array([answer])})
    assert judged.judge(case).kind == kind


def test_ends_of_a_child_are_verdicts(tmp_path, monkeypatch):
    case = rounded([1.0])
    monkeypatch.setattr(compositions, "HERE", tmp_path)
    for text, kind in (("import os; os.abort()", "crash"), ("import time; time.sleep(60)", "hang")):
        (tmp_path / "compositions.py").write_text(text)
        monkeypatch.setattr(compositions, "SECONDS", 1 if kind == "hang" else 20)
        assert compositions.in_child(case, tmp_path).kind == kind
