"""``pipeall bench --card``: what a model's card says, against the network computed by hand."""

import re

import numpy as np
import pytest
from commands import document, invoke, quick_net

from pipeall import save_onnx
from pipeall.graph.ops import run_graph

QUICK = ("--card", "--components", "B", "--seconds", "0.05")


@pytest.fixture(autouse=True)
def no_opencl(monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", "off")


@pytest.fixture
def network(tmp_path):
    graph = quick_net()
    save_onnx(graph, tmp_path / "quick.onnx")
    return graph, tmp_path / "quick.onnx"


def test_figures_of_every_row(network, tmp_path):
    graph, path = network
    x = np.random.default_rng(1).standard_normal((6, *graph.inputs[0].shape[1:]), np.float32)
    classes = [int(np.argmax(next(iter(run_graph(graph, {"x0": one[None]}).values())))) for one in x]
    classes[0] += 1  # a wrong label
    np.savez(tmp_path / "data.npz", x=x, y=classes)
    card = document("bench", path, *QUICK, "--data", tmp_path / "data.npz")
    rows = card["rows"]
    assert card["format"] == "pipeall.card/1" and rows[0]["precision"] == "fp32" and rows[0]["threads"] == 1
    assert len({row["unit"] for row in rows}) == len(rows)
    for row in rows:
        assert 0 < row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"] < row["first_ms"]
        assert row["frames"] >= 20 and 0 < row["mean_bytes"] <= 1.05 * row["peak_bytes"]
        assert sum(row["memory"].values()) == row["peak_bytes"]
        assert row["memory"]["python"] > row["memory"]["weights"] > 0 and row["memory"]["rest"] > 0
    assert rows[0]["accuracy"] == pytest.approx(5 / 6)


def test_the_card_is_markdown(network):
    result = invoke("bench", network[1], *QUICK)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "# quick"
    assert any(line.startswith("| fp32 | 1 | big") and re.search(r"\| - \|$", line) for line in lines)
    widths = {line.count("|") for line in lines if line.startswith("|")}
    assert widths == {11, 8}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected one .onnx file, got none"),
        (("squeezenet",), "expected one .onnx file, got squeezenet"),
        (("net.onnx", "--turns", "3"), "--turns: expected no --card beside it"),
        (("absent.onnx",), "absent.onnx"),
    ],
)
def test_cards_that_are_refused(arguments, words):
    result = invoke("bench", *arguments, "--card")
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


def test_data_that_do_not_fit(network, tmp_path):
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 3), np.float32), y=[0, 1])
    result = invoke("bench", network[1], *QUICK, "--data", tmp_path / "data.npz")
    assert result.exit_code == 2 and "expected x of (N, (16, 32, 32))" in result.stderr
    assert invoke("bench", "--data", "x.npz").exit_code == 2
