"""``pipeall simulate``: its document and text beside what the library finds, and the line-up of a contest."""

import json

import pytest
from commands import document, invoke, quick_net, toy_board

from pipeall import Board, Plan, Profile
from pipeall import search as find
from pipeall import simulate as run
from pipeall.cli.model_argument import ZOO
from pipeall.pipeline.measuring.comparison import SEARCHES, baselines

pytestmark = pytest.mark.usefixtures("tiny")

QUICK = ("--seconds", "0.01")


def test_simulate_runs_the_contest_of_a_board():
    found = document("simulate", "squeezenet", "--board", "a311d-armcl", "--frames", "200", "--seed", "3")
    graph = ZOO["squeezenet"]()
    profile = Board.load("a311d-armcl").model.profile(graph)
    assert [row["mode"] for row in found["runs"]] == ["peak", "parallel", *SEARCHES]
    plans = ["big", "big+little+gpu", *(str(find(graph, profile, top=1, **kind).best) for kind in SEARCHES.values())]
    assert [row["plan"] for row in found["runs"]] == plans
    for row in found["runs"]:
        plan = Plan.parse(row["plan"])
        expected = json.loads(json.dumps(run(profile, plan, 200, seed=3).to_dict()))
        single = run(profile, plan, 200, depth=0, seed=3).to_dict()
        expected |= {key: value for key, value in single.items() if key.startswith("latency")}
        assert {key: row[key] for key in expected} == expected
    assert not found["queue"] and found["runs"][-1]["latency_p50_ms"] < run(profile, plan, 200, seed=3).latency_p50_ms
    deep = document(
        "simulate", "squeezenet", "--board", "a311d-armcl", "--plan", plan, "--frames", "200", "--depth", "4"
    )
    assert deep["queue"] and deep["runs"][0]["latency_p50_ms"] == run(profile, plan, 200, depth=4).latency_p50_ms


def test_simulate_one_plan_of_a_camera(tmp_path):
    board = toy_board(tmp_path / "toy.json")
    path = tmp_path / "plan.json"
    document("search", "tiny", "--board", board, "-o", path)
    options = ("--plan", path, "--frames", "50", "--period-ms", "100", "--slots", "1", "--depth", "1")
    (row,) = document("simulate", "tiny", "--board", board, *options)["runs"]
    assert row["mode"] == "plan" and row["fps"] == pytest.approx(10)
    text = invoke("simulate", "tiny", "--board", board, *options).stdout
    assert "simulated: 50 frames" in text and "wait out" in text and row["plan"] in text


def test_simulate_of_a_profile(tmp_path):
    path = tmp_path / "profile.json"
    document("profile", "tiny", "--units", "B", "-o", path, *QUICK)
    rows = document("simulate", "tiny", "--profile", path, "--frames", "20")["runs"]
    assert [(row["mode"], row["plan"]) for row in rows] == [("peak", "big"), ("pipe-all", "big")]


# ---- the line-up ----


def test_lineup_of_components_that_cannot_do_all(tmp_path):
    graph = quick_net()
    profile = Board.load(toy_board(tmp_path / "toy.json")).model.profile(graph)
    whole = baselines(graph, profile, ["little", "big"], top=2)
    assert [str(plan) for plan in whole.single] == ["big", "little"] and str(whole.parallel) == "little+big"
    for mode, kind in SEARCHES.items():
        expected = [choice.plan for choice in find(graph, profile, top=2, **kind).ranked]
        assert [choice.plan for choice in whole.searched[mode]] == expected
    content = profile.to_dict()
    content["units"]["little"]["ms"][0] = None
    content["units"]["little"]["refused"] = {"1": "too large"}
    found = baselines(graph, Profile.from_dict(content, "test"), ["big", "little"])
    assert [str(plan) for plan in found.single] == ["big"] and found.parallel is None
    assert str(found.searched["pipe-all"][0].plan).startswith("big-little:")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("command", "labels"),
    [
        (
            "simulate tiny --board TOY --frames 20",
            ["latency, ms", "mean ms a frame of each stage"],
        ),
        ("search tiny --board TOY", ["throughput, frames per second", "latency without queueing, ms"]),
        ("search tiny --units B --verify 1 --seconds 0.01", ["throughput, frames per second"]),
        ("profile layers tiny --units B --seconds 0.01", ["FLOP for each byte", "GFLOP/s"]),
    ],
)
def test_plots_name_their_axes(command, labels, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    from matplotlib.figure import Figure

    drawn, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *more, **how: (drawn.append(figure), save(figure, *more, **how))
    )
    board, path = toy_board(tmp_path / "toy.json"), tmp_path / "plot.png"
    result = invoke(*(board if word == "TOY" else word for word in command.split()), "--plot", path)
    assert result.exit_code == 0 and path.read_bytes().startswith(b"\x89PNG"), result.stderr
    (figure,) = drawn
    named = {text for axes in figure.axes for text in (axes.get_xlabel(), axes.get_ylabel())}
    assert set(labels) <= named and any(
        len(axes.patches) or len(axes.collections) or len(axes.lines) for axes in figure.axes
    )
