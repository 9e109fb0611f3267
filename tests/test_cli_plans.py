"""``pipeall search`` and ``simulate``, and plan files: documents, what is kept, and hostile files."""

import json
import sys
from dataclasses import replace
from math import comb

import pytest
from commands import document, invoke, picture, quick_net, toy_board, two_clusters

from pipeall import Board, DeviceError, Plan, Profile
from pipeall import search as find
from pipeall import simulate as run
from pipeall.cli import measure_all, verify
from pipeall.cli.model import ZOO
from pipeall.files import read_json
from pipeall.pipeline.planning.candidates import PredictedPlan
from pipeall.pipeline.planning.lineup import lineup
from pipeall.pipeline.planning.predict import predict

pytestmark = pytest.mark.usefixtures("tiny")

QUICK = ("--seconds", "0.01")
CONFIGURATIONS = 2 + 2 * 3  # of quick_net on two units: each alone, and both orders with each of three cuts


search_module = sys.modules["pipeall.cli.search"]  # pipeall.cli.app has the command by that name


# ---- search ----


def test_search_on_a_model_shows_what_the_library_finds(tmp_path):
    path = tmp_path / "plan.json"
    found = document("search", "squeezenet", "--board", "a311d", "--top", "4", "-o", path)
    graph = ZOO["squeezenet"]()
    profile = Board.load("a311d").model.profile(graph)
    expected = find(graph, profile, top=4)
    assert [row["plan"] for row in found["ranked"]] == [str(choice.plan) for choice in expected.ranked]
    assert [row["period_ms"] for row in found["ranked"]] == sorted(row["period_ms"] for row in found["ranked"])
    for row in found["ranked"] + found["pareto"]:
        prediction = predict(profile, Plan.parse(row["plan"]))
        assert row["period_ms"] == prediction.period_ms == pytest.approx(max(row["stage_ms"]))
        assert row["fps"] == pytest.approx(1000 / row["period_ms"])
        assert row["latency_ms"] == pytest.approx(sum(row["stage_ms"])) and row["energy_mj"] == prediction.energy_mj
    cuts = len(graph.groups) - 1
    assert found["evaluated"] == {str(n): comb(3, n) * [1, 1, 2, 6][n] * comb(cuts, n - 1) for n in (1, 2, 3)}
    assert found["best"] == found["ranked"][0]["plan"] == found["explanation"]["plan"]
    assert found["verified"] == [] and found["before"] is None and found["measure_all"] is None
    assert str(Plan.load(path, graph)) == found["best"]
    saved = json.loads(path.read_text())
    assert saved["predicted"]["period_ms"] == pytest.approx(found["ranked"][0]["period_ms"], abs=1e-4)
    assert "measured" not in saved


@two_clusters
def test_search_runs_the_best_and_ranks_them_by_what_they_did(tmp_path):
    path = tmp_path / "plan.json"
    found = document("search", "tiny", "--units", "B,L", "--verify", "3", "-o", path, *QUICK)
    rows = found["verified"]
    assert {row["plan"] for row in rows} == {row["plan"] for row in found["ranked"][:3]}
    assert [row["period_ms"] for row in rows] == sorted(row["period_ms"] for row in rows)
    predicted = {row["plan"]: row["period_ms"] for row in found["ranked"]}
    for row in rows:
        assert row["period_ms"] == pytest.approx(1000 / row["fps"]) and row["frames"] > 0
        assert row["predicted_period_ms"] == predicted[row["plan"]]
        assert row["error_percent"] == pytest.approx(
            100 * (predicted[row["plan"]] - row["period_ms"]) / row["period_ms"]
        )
    assert found["best"] == rows[0]["plan"] == found["explanation"]["plan"] and found["queue"]
    assert found["before"]["load"] >= 0 and found["after"]["load"] >= 0
    saved = json.loads(path.read_text())
    assert saved["plan"] == found["best"]
    assert saved["measured"]["period_ms"] == pytest.approx(rows[0]["period_ms"], abs=1e-4)
    assert saved["measured"]["machine"]["components"] == found["machine"]["components"]
    assert saved["measured"]["date"] == saved["measured"]["machine"]["date"]
    assert found["within_limit"] and found["refused"] == {}


@two_clusters
def test_search_tells_that_no_plan_that_ran_keeps_the_limit(tmp_path):
    profile, plan = tmp_path / "profile.json", tmp_path / "plan.json"
    document("profile", "tiny", "--units", "B,L", "-o", profile, *QUICK)
    content = json.loads(profile.read_text())
    for times in content["units"].values():
        times["ms"] = [1e-5] * 4  # nothing is as fast as this profile says
    content["links"] = []
    profile.write_text(json.dumps(content))
    arguments = ("search", "tiny", "--profile", profile, "--max-latency-ms", "0.001", "--verify", "2", *QUICK)
    assert not document(*arguments, "-o", plan)["within_limit"]
    assert json.loads(plan.read_text())["max_latency_ms"] == 0.001
    assert "none of the 2 plans that ran keeps --max-latency-ms 0.001" in invoke(*arguments).stdout


@two_clusters
def test_a_plan_that_the_runtime_refuses_does_not_end_a_search(monkeypatch):
    arguments = ("search", "tiny", "--units", "B,L", "--verify", "3", *QUICK)
    refuse = {"little"}

    def refuses(graph, plans, *rest, own=verify.compare, **options):
        for plan in plans:
            if refuse.intersection(plan.units):
                raise DeviceError(f"{plan} is on strike")
        return own(graph, plans, *rest, **options)

    monkeypatch.setattr(verify, "compare", refuses)
    monkeypatch.setattr(search_module, "find", lambda *a, **o: _with_all_alone(find(*a, **o), a[1]))
    found = document(*arguments)
    assert [row["plan"] for row in found["verified"]] == ["big"] == [found["best"]]
    assert found["refused"] == {"little": "little is on strike"}
    assert "little refused: little is on strike" in invoke(*arguments).stdout
    refuse.add("big")
    result = invoke(*arguments)
    assert result.exit_code == 2 and "is on strike" in result.stderr and result.stdout == ""


def _with_all_alone(found, profile):
    plans = [Plan.single("big"), Plan.single("little")]
    return replace(found, ranked=tuple(PredictedPlan(plan, predict(profile, plan)) for plan in plans))


def test_energy_is_that_of_frames_at_the_rate_asked_for():
    arguments = ("search", "squeezenet", "--board", "a311d", "--objective", "energy", "--min-fps", "5")
    found = document(*arguments)
    rows = found["ranked"]
    assert found["explanation"]["energy_mj"] == rows[0]["energy_mj"]
    profile = Board.load("a311d").model.profile(ZOO["squeezenet"]())
    for row in rows:
        prediction = predict(profile, Plan.parse(row["plan"]))
        busy_mj = prediction.energy_mj - profile.idle_w * prediction.period_ms
        assert row["energy_mj"] == pytest.approx(busy_mj + profile.idle_w * 200)
    assert [row["energy_mj"] for row in rows] == sorted(row["energy_mj"] for row in rows)
    assert "energy at 5 FPS, predicted" in invoke(*arguments).stdout


@two_clusters
def test_search_for_latency_ranks_by_latency_without_queueing():
    found = document("search", "tiny", "--units", "B,L", "--objective", "latency", "--verify", "3", *QUICK)
    latencies = [row["latency_p50_ms"] for row in found["verified"]]
    assert latencies == sorted(latencies) and len(latencies) == 3 and not found["queue"]


def test_search_does_not_run_what_another_machine_measured(tmp_path):
    path = tmp_path / "profile.json"
    document("profile", "tiny", "-o", path, "--units", "B", *QUICK)
    content = json.loads(path.read_text())
    content["about"]["components"]["big"] = "8 x Cortex-X4"
    path.write_text(json.dumps(content))
    assert document("search", "tiny", "--profile", path)["verified"] == []
    assert "Not run here" in invoke("search", "tiny", "--profile", path).stdout
    result = invoke("search", "tiny", "--profile", path, "--verify", "1")
    assert result.exit_code == 2 and "expected a profile measured on this machine" in result.stderr
    result = invoke("profile", "tiny", "-o", path)
    assert result.exit_code == 2 and "--again starts over" in result.stderr


def test_search_as_text():
    text = invoke("search", "squeezenet", "--board", "a311d", "--objective", "energy", "--min-fps", "20").stdout
    assert "best of 1,029 plans for energy" in text and "Pareto front" in text and "bottleneck: stage" in text


def test_search_within_a_latency():
    all_of_them = document("search", "squeezenet", "--board", "a311d")["ranked"]
    limit = min(row["latency_ms"] for row in all_of_them)
    found = document("search", "squeezenet", "--board", "a311d", "--max-latency-ms", limit)
    assert all(row["latency_ms"] <= limit * (1 + 1e-9) for row in found["ranked"])
    assert found["ranked"][0]["period_ms"] >= all_of_them[0]["period_ms"]


# ---- every configuration ----


@two_clusters
def test_measure_all_measures_each_once(tmp_path, monkeypatch):
    path = tmp_path / "every.json"
    arguments = ("search", "tiny", "--units", "B,L", "--verify", "0", "--measure-all", path, *QUICK)
    found = document(*arguments)
    every = found["measure_all"]
    assert every["configurations"] == every["measured"] == every["measured_now"] == CONFIGURATIONS
    first = read_json(path, "measurements")
    rows = {row["plan"]: row for row in first["plans"]}
    cuts = [f"{order}:{cut}" for order in ("big-little", "little-big") for cut in (1, 2, 3)]
    assert sorted(rows) == sorted(["big", "little", *cuts])
    assert first["reference"] == found["best"] and first["date"] and first["machine"]
    assert all(row["period_ms"] > 0 and row["reference_ms"] > 0 for row in rows.values())

    fps = {row["plan"]: row["fps"] for row in every["finalists"]}
    assert list(fps.values()) == sorted(fps.values(), reverse=True) and found["best"] in fps
    fastest = sorted(rows.values(), key=lambda row: row["period_ms"] / row["reference_ms"])
    assert set(fps) == {found["best"], *(row["plan"] for row in fastest[: measure_all.FINALISTS])}
    assert every["behind_percent"] == pytest.approx(100 * (1 - fps[found["best"]] / max(fps.values())))

    kept = first["plans"][:-3]
    path.write_text(json.dumps(first | {"plans": kept}))
    every = document(*arguments)["measure_all"]
    assert every["measured_now"] == 3 and every["measured"] == CONFIGURATIONS
    assert read_json(path, "measurements")["plans"][:-3] == kept


@two_clusters
def test_measure_all_is_kept_when_it_is_interrupted(tmp_path, monkeypatch):
    path, calls = tmp_path / "every.json", []

    def third(*arguments, own=measure_all.compare, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return own(*arguments, **options)

    monkeypatch.setattr(measure_all, "compare", third)
    result = invoke("search", "tiny", "--units", "B,L", "--verify", "0", "--measure-all", path, *QUICK)
    assert result.exit_code == 130 and len(read_json(path, "measurements")["plans"]) == 2


@two_clusters
def test_measure_all_tells_what_could_not_run(tmp_path, monkeypatch):
    def refuses(graph, plans, *arguments, own=measure_all.compare, **options):
        if str(plans[0]) == "little":
            raise DeviceError("little is on strike")
        return own(graph, plans, *arguments, **options)

    monkeypatch.setattr(measure_all, "compare", refuses)
    path = tmp_path / "every.json"
    every = document("search", "tiny", "--units", "B,L", "--verify", "0", "--measure-all", path, *QUICK)["measure_all"]
    assert every["refused"] == {"little": "little is on strike"} and every["measured"] == CONFIGURATIONS - 1


# ---- simulate ----


def test_simulate_runs_the_contest_of_a_board():
    found = document("simulate", "squeezenet", "--board", "a311d", "--frames", "200", "--seed", "3")
    graph = ZOO["squeezenet"]()
    profile = Board.load("a311d").model.profile(graph)
    assert [row["mode"] for row in found["runs"]] == ["peak", "parallel", "pipe-all"]
    plans = ["big", "big+little+gpu", str(find(graph, profile, top=1).best)]
    assert [row["plan"] for row in found["runs"]] == plans
    for row in found["runs"]:
        plan = Plan.parse(row["plan"])
        expected = json.loads(json.dumps(run(profile, plan, 200, seed=3).to_dict()))
        single = run(profile, plan, 200, depth=max(map(len, plan.lanes)), seed=3).to_dict()
        expected |= {key: value for key, value in single.items() if key.startswith("latency")}
        assert {key: row[key] for key in expected} == expected
    assert not found["queue"] and found["runs"][2]["latency_p50_ms"] < run(profile, plan, 200, seed=3).latency_p50_ms
    deep = document("simulate", "squeezenet", "--board", "a311d", "--plan", plan, "--frames", "200", "--depth", "4")
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
    whole = lineup(graph, profile, ["little", "big"], top=2)
    assert [str(plan) for plan in whole.alone] == ["big", "little"] and str(whole.parallel) == "little+big"
    assert [choice.plan for choice in whole.pipelines] == [c.plan for c in find(graph, profile, top=2).ranked]
    content = profile.to_dict()
    content["units"]["little"]["ms"][0] = None
    content["units"]["little"]["refused"] = {"1": "too large"}
    found = lineup(graph, Profile.from_dict(content, "test"), ["big", "little"])
    assert [str(plan) for plan in found.alone] == ["big"] and found.parallel is None
    assert str(found.pipelines[0].plan).startswith("big-little:")


# ---- plan files and traces ----


def test_run_takes_a_plan_file_and_writes_a_trace(tmp_path):
    plan, trace = tmp_path / "PLAN.JSON", tmp_path / "trace.json"
    Plan.single("big").save(plan, ZOO["squeezenet"]())
    found = document("run", "squeezenet", picture(tmp_path), "--plan", plan, "--repeat", "3", "--trace", trace)
    assert found["plan"] == "big"
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "frame"]
    assert {event["name"] for event in slices if event["ph"] == "X"} == {"frame 0", "frame 1", "frame 2"}
    assert document("info", "squeezenet", "--plan", plan)["plan"][0]["groups"] == [0, 19]


@two_clusters
def test_run_rebalances_by_a_profile_of_the_network(tmp_path):
    mine, other = tmp_path / "mine.json", tmp_path / "other.json"
    document("profile", "squeezenet", "--units", "B,L", "-o", mine, *QUICK)
    document("profile", "tiny", "--units", "B,L", "-o", other, *QUICK)
    image = picture(tmp_path)
    found = document("run", "squeezenet", image, "--plan", "B-L:9", "--repeat", "5", "--rebalance", mine)
    assert found["stats"]["frames"] == 5 and found["plans"][0] == [0, "big-little:9"]
    assert set(found["machine"]["components"]) >= {"big", "little"}
    content = json.loads(mine.read_text())
    content["about"]["components"]["big"] = "8 x Cortex-X4"
    mine.write_text(json.dumps(content))
    refused = invoke("run", "squeezenet", image, "--rebalance", mine)
    assert refused.exit_code == 2 and "expected a profile measured on this machine" in refused.stderr
    assert "expected one of squeezenet" in invoke("run", "squeezenet", image, "--rebalance", other).stderr


# ---- errors: one line, nothing on stdout, status 2 ----

FILES = {
    "TEXT": "no JSON\n",
    "LIST": "[]",
    "OTHER": '{"format": "pipeall.trace/1"}',
    "EMPTY_PROFILE": '{"format": "pipeall.profile/1"}',
    "EMPTY_PLAN": '{"format": "pipeall.plan/1", "plan": 3}',
    "EMPTY_BOARD": '{"format": "pipeall.board/1", "name": "x"}',
    "EMPTY_ALL": '{"format": "pipeall.measurements/1", "plans": []}',
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["profile", "tiny", "--units", "B,Q"], "expected big, mid, little or gpu"),
        (["profile", "tiny", "--units", "B,big"], "expected each once"),
        (["profile", "tiny", "--units", ""], "expected big"),
        (["profile", "tiny", "--units", "M"], "no component 'mid'"),
        (["profile", "tiny", "--seconds", "nan"], "expected a finite number"),
        (["profile", "tiny", "--seconds", "0"], "x>0"),
        (["profile", "tiny", "-o", "absent/file.json"], "expected a file in a folder that exists"),
        (["profile", "tiny", "-o", ""], "expected a file in a folder that exists"),
        (["profile", "tiny", "-o", "TEXT"], "TEXT.json: expected JSON"),
        (["profile", "tiny", "-o", "OTHER"], "OTHER.json: expected format 'pipeall.profile/1'"),
        (["profile", "tiny", "-o", "ALEXNET"], "expected a profile measured on this machine"),
        (["profile", "tiny", "--board", "a311d", "--save-board", "TEXT"], "is a model already"),
        (["profile", "tiny", "--board", "a311d", "--units", "B"], "a model has its own"),
        (["profile", "tiny", "--board", "raspberry"], "expected one of a311d, rk3399pro"),
        (["profile", "tiny", "--board", "EMPTY_BOARD"], "EMPTY_BOARD.json: components"),
        (["search", "tiny", "--profile", "absent.json"], "absent.json: cannot be read"),
        (["search", "tiny", "--profile", "LIST"], "LIST.json: expected format"),
        (["search", "tiny", "--profile", "EMPTY_PROFILE"], "EMPTY_PROFILE.json: groups"),
        (["search", "tiny", "--profile", "ALEXNET"], "profile of alexnet with 8 groups"),
        (["search", "tiny", "--profile", "TEXT", "--board", "a311d"], "expected no --board beside it"),
        (["search", "tiny", "--board", "a311d", "--verify", "1"], "expected a profile measured on this machine"),
        (["search", "tiny", "--board", "a311d", "--measure-all", "x.json"], "expected a profile measured on this"),
        (["search", "tiny", "--board", "a311d", "--min-fps", "1"], "min_fps: expected none with objective"),
        (["search", "tiny", "--board", "a311d", "--max-latency-ms", "1e-9"], "the least of any plan"),
        (["search", "tiny", "--board", "a311d", "--max-latency-ms", "inf"], "expected a finite number"),
        (["search", "tiny", "--board", "a311d", "--units", "M"], "expected some of the profile"),
        (["search", "tiny", "--objective", "speed"], "'speed' is not one of"),
        (["search", "tiny", "--objective", "latency", "--measure-all", "x.json"], "expected objective throughput"),
        (["search", "tiny", "--units", "B", "--seconds", "0.01", "--measure-all", "EMPTY_ALL"], "another network"),
        (["simulate", "tiny"], "expected either --board NAME or --profile FILE"),
        (["simulate", "tiny", "--board", "a311d", "--profile", "TEXT"], "expected either --board"),
        (["simulate", "tiny", "--profile", "ALEXNET"], "profile of alexnet"),
        (["simulate", "tiny", "--board", "a311d", "--plan", "B-G:9"], "expected cuts between 1 and 3"),
        (["simulate", "tiny", "--board", "a311d", "--plan", "Bx2"], "expected one of the profile"),
        (["simulate", "tiny", "--board", "a311d", "--frames", "0"], "1<=x<=1000000"),
        (["simulate", "tiny", "--board", "a311d", "--plan", "EMPTY_PLAN"], "EMPTY_PLAN.json: expected the text"),
        (["info", "tiny", "--plan", "TEXT"], "TEXT.json: expected JSON"),
        (["info", "squeezenet", "--plan", "PLAN"], "expected a plan for the 19 groups of squeezenet"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(arguments, words, tmp_path):
    paths = {name: tmp_path / f"{name}.json" for name in (*FILES, "ALEXNET", "PLAN")}
    for name, text in FILES.items():
        paths[name].write_text(text)
    Board.load("a311d").model.profile(ZOO["alexnet"]()).save(paths["ALEXNET"])
    Plan.single("big").save(paths["PLAN"], quick_net())
    result = invoke(*(paths.get(word, word) for word in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") and words in result.stderr
    assert result.stderr.count("\n") == 1


@two_clusters
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": "other"}, "another network"),
        ({"components": {}}, "another components"),
        ({"reference": 3}, "reference: expected text"),
        ({"plans": 3}, "plans: expected a list of objects"),
        ({"plans": [3]}, "plans[0]: expected an object"),
        ({"plans": [{"plan": "big", "period_ms": 0, "reference_ms": 1}]}, "plans[0]: period_ms: expected a number"),
        ({"plans": [{"plan": "big", "refused": None}]}, "plans[0]: refused: expected text"),
    ],
    ids=str,
)
def test_a_wrong_file_of_measurements_is_one_line(change, words, tmp_path):
    path = tmp_path / "every.json"
    document("search", "tiny", "--units", "B", "--verify", "0", "--measure-all", path, *QUICK)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    result = invoke("search", "tiny", "--units", "B", "--verify", "0", "--measure-all", path, *QUICK)
    assert result.exit_code == 2 and result.stdout == "" and words in result.stderr and result.stderr.count("\n") == 1
