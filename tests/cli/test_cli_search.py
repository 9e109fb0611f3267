"""``pipeall search``: its document and text, what it runs for real, and every configuration measured."""

import json
from dataclasses import replace
from math import comb

import pytest
from commands import document, invoke, two_clusters

from pipeall import Board, DeviceError, Plan, footprint
from pipeall import search as find
from pipeall.cli.model_argument import ZOO
from pipeall.pipeline.boards.default_units import cores_of, units_to_search
from pipeall.pipeline.measuring import exhaustive, search_run, verify
from pipeall.pipeline.planning.plan_table import PredictedPlan
from pipeall.pipeline.planning.predict import predict

pytestmark = pytest.mark.usefixtures("tiny")

QUICK = ("--seconds", "0.01")
CONFIGURATIONS = 2 + 2 * 3  # of quick_net on two units: each alone, and both orders with each of three cuts


def test_search_on_a_model_shows_what_the_library_finds(tmp_path):
    path = tmp_path / "plan.json"
    found = document("search", "squeezenet", "--board", "a311d-armcl", "--top", "4", "--plans", "pipelines", "-o", path)
    graph = ZOO["squeezenet"]()
    profile = Board.load("a311d-armcl").model.profile(graph)
    expected = find(graph, profile, top=4, plans="pipelines")
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


def test_plans_of_any_kind_are_ranked_by_a_simulation(tmp_path):
    path = tmp_path / "plan.json"
    found = document("search", "alexnet", "--board", "a311d", "--stages", "4", "-o", path)
    graph = ZOO["alexnet"]()
    board = Board.load("a311d")
    expected = find(graph, board.model.profile(graph, units_to_search(board)), stages=4, cores=cores_of(board))
    assert [row["plan"] for row in found["ranked"]] == [str(choice.plan) for choice in expected.ranked]
    assert str(Plan.load(path, graph)) == found["best"] and found["bound_ms"] == expected.bound_ms
    rates = [row["simulated"]["fps"] for row in found["ranked"] if "simulated" in row]
    assert rates[0] > 0.995 * max(rates) and rates[0] > 1.1 * 1000 / found["parallel"]["period_ms"]
    plain = document("search", "alexnet", "--board", "a311d", "--no-floating", "--max-latency-ms", "35")
    assert not any("~" in row["plan"] or row["latency_ms"] > 35 for row in plain["ranked"])


def test_plans_are_kept_within_so_much_memory():
    """Copies on three components need more than 30 MB, a pipeline less."""
    board = Board.load("a311d")
    arguments = ("search", "squeezenet", "--board", "a311d", "--top", "3", "--stages", "2", "--max-memory-mb")
    found = document(*arguments, "30")
    for row in found["ranked"]:
        taken = sum(stage.total for stage in footprint(ZOO["squeezenet"](), row["plan"], board))
        assert row["memory_mb"] == taken / 1e6 <= 30
    assert found["parallel"] is None
    result = invoke(*arguments, "1")
    assert result.exit_code == 2 and "max_memory_mb: expected at least" in result.stderr


def stages(row):
    return len(Plan.parse(row["plan"]).units)


@two_clusters
def test_search_runs_the_best_and_ranks_them_by_what_they_did(tmp_path):
    path = tmp_path / "plan.json"
    found = document("search", "tiny", "--units", "B,L", "--verify", "3", "-o", path, *QUICK)
    rows = found["verified"]
    ran = [*found["ranked"][:3], *filter(None, [found["simpler"], found["parallel"]])]
    assert {row["plan"] for row in rows} == {row["plan"] for row in ran}
    behind = [row["period_ms"] for row in rows[1:]]  # the first may be one of fewer stages within the spread
    assert behind == sorted(behind)
    fastest = min(rows, key=lambda row: row["period_ms"])
    assert stages(rows[0]) <= stages(fastest)
    predicted = {row["plan"]: row["period_ms"] for row in ran}
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
    found = document(*arguments, "-o", plan)
    assert not found["within_limit"] and len(found["verified"]) >= 2
    assert json.loads(plan.read_text())["max_latency_ms"] == 0.001
    assert (
        f"none of the {len(found['verified'])} plans that ran keeps --max-latency-ms 0.001" in invoke(*arguments).stdout
    )


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
    monkeypatch.setattr(search_run, "search", lambda *a, **o: _with_all_alone(find(*a, **o), a[1]))
    found = document(*arguments)
    assert [row["plan"] for row in found["verified"]] == ["big"] == [found["best"]]
    assert found["refused"]["little"] == "little is on strike" and "big" not in found["refused"]
    assert "little refused: little is on strike" in invoke(*arguments).stdout
    refuse.add("big")
    result = invoke(*arguments)
    assert result.exit_code == 2 and "is on strike" in result.stderr and result.stdout == ""


def _with_all_alone(found, profile):
    plans = [Plan.single("big"), Plan.single("little")]
    return replace(found, ranked=tuple(PredictedPlan(plan, predict(profile, plan)) for plan in plans))


def test_energy_is_that_of_frames_at_the_rate_asked_for():
    arguments = ("search", "squeezenet", "--board", "a311d-armcl", "--objective", "energy", "--min-fps", "5")
    found = document(*arguments)
    rows = found["ranked"]
    assert found["explanation"]["energy_mj"] == rows[0]["energy_mj"]
    profile = Board.load("a311d-armcl").model.profile(ZOO["squeezenet"]())
    for row in rows:
        prediction = predict(profile, Plan.parse(row["plan"]))
        busy_mj = prediction.energy_mj - profile.idle_w * prediction.period_ms
        assert row["energy_mj"] == pytest.approx(prediction.energy_mj)
        assert row["energy_at_min_fps_mj"] == pytest.approx(busy_mj + profile.idle_w * 200)
    assert [row["energy_at_min_fps_mj"] for row in rows] == sorted(row["energy_at_min_fps_mj"] for row in rows)
    text = invoke(*arguments).stdout
    assert "energy at 5 FPS, predicted" in text
    last = f"{found['best']}: {rows[0]['energy_at_min_fps_mj']:.0f} mJ a frame at 5 FPS predicted"
    assert text.splitlines()[-1] == last


def test_the_thriftiest_plan_comes_first_with_what_the_library_says_of_it():
    """On a board whose times have an error: a simpler plan, not surely behind, needs more."""
    found = document("search", "resnet50", "--board", "a311d", "--objective", "energy", "--min-fps", "5")
    graph, profile = ZOO["resnet50"](), Board.load("a311d").model.profile(ZOO["resnet50"]())
    assert profile.error and found["best"] == "gpu-little:8" == str(find(graph, profile, "energy", min_fps=5.0).best)
    assert found["ranked"][0]["energy_at_min_fps_mj"] < predict(profile, Plan.parse("B")).energy_at(5.0)
    ranked = find(graph, profile, "energy", min_fps=5.0).ranked
    assert [row["energy_mj"] for row in found["ranked"]] == [choice.prediction.energy_mj for choice in ranked]


@two_clusters
def test_the_last_line_is_the_answer_and_all_independently_stands_beside_it(tmp_path):
    arguments = ("search", "tiny", "--units", "B,L", "--verify", "1", *QUICK)
    lines = invoke(*arguments, "-o", tmp_path / "plan.json").stdout.splitlines()
    plan = json.loads((tmp_path / "plan.json").read_text())
    measured, predicted = plan["measured"]["fps"], plan["predicted"]["fps"]
    assert lines[-1] == f"{plan['plan']}: {measured:.1f} FPS measured ({predicted:.1f} predicted)"
    (parallel,) = [line for line in lines if line.startswith("All independently, big+little: ")]
    assert " FPS measured (" in parallel and "for throughput alone" in parallel
    assert not [line for line in lines if "mJ" in line]  # nobody knows the power of this machine


@two_clusters
def test_units_in_another_precision_that_were_measured_here_run_here(tmp_path):
    document("profile", "tiny", "--units", "B,B@fp32,L", "-o", tmp_path / "profile.json", *QUICK)
    found = document("search", "tiny", "--profile", tmp_path / "profile.json", "--verify", "1", *QUICK)
    assert found["ranked"][0]["plan"] in [row["plan"] for row in found["verified"]]


def test_half_precision_is_hinted_at_where_the_board_has_it():
    arguments = ("search", "squeezenet", "--board")
    assert "In half precision: " in invoke(*arguments, "rk3588", "--top", 1).stdout
    assert "In half precision: " not in invoke(*arguments, "rk3588", "--top", 1, "--units", "B,L").stdout
    assert "In half precision: " not in invoke(*arguments, "a311d-armcl", "--top", 1).stdout


@two_clusters
def test_search_for_latency_ranks_by_latency_without_queueing():
    found = document("search", "tiny", "--units", "B,L", "--objective", "latency", "--verify", "3", *QUICK)
    rows = found["verified"]
    behind = [row["latency_p50_ms"] for row in rows[1:]]  # the first may be one of fewer stages within the spread
    assert behind == sorted(behind) and not found["queue"]
    asked = {row["plan"]: row for row in found["ranked"][:3]}
    beside = [row for row in rows if row["plan"] not in asked]  # the best of fewer stages, where none of the three is
    assert len(rows) == 3 + len(beside) and asked.keys() <= {row["plan"] for row in rows}
    assert len(beside) <= 1 and all(stages(row) < min(map(stages, asked.values())) for row in beside)
    assert stages(rows[0]) <= stages(min(rows, key=lambda row: row["latency_p50_ms"]))


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
    text = invoke("search", "squeezenet", "--board", "a311d-armcl", "--objective", "energy", "--min-fps", "20").stdout
    assert "best of 1,029 plans for energy" in text and "Pareto front" in text and "bottleneck: stage" in text


def test_search_within_a_latency():
    all_of_them = document("search", "squeezenet", "--board", "a311d-armcl")["ranked"]
    limit = min(row["latency_ms"] for row in all_of_them)
    found = document("search", "squeezenet", "--board", "a311d-armcl", "--max-latency-ms", limit)
    assert all(row["latency_ms"] <= limit * (1 + 1e-9) for row in found["ranked"])
    assert found["ranked"][0]["period_ms"] >= all_of_them[0]["period_ms"]


# ---- every configuration ----


def measurements(path):
    """What the journal says of its reference, and its rows."""
    _, first, *rows = map(json.loads, path.read_text().splitlines())
    return first, rows


@two_clusters
def test_measure_all_measures_each_once(tmp_path, monkeypatch):
    path = tmp_path / "every.json"
    arguments = ("search", "tiny", "--units", "B,L", "--verify", "0", "--measure-all", path, *QUICK)
    found = document(*arguments)
    every = found["measure_all"]
    assert every["configurations"] == every["measured"] == every["measured_now"] == CONFIGURATIONS
    first, plans = measurements(path)
    rows = {row["plan"]: row for row in plans}
    cuts = [f"{order}:{cut}" for order in ("big-little", "little-big") for cut in (1, 2, 3)]
    assert sorted(rows) == sorted(["big", "little", *cuts])
    assert first["reference"] == found["best"] and first["date"] and first["machine"]
    assert all(row["period_ms"] > 0 and row["reference_ms"] > 0 for row in rows.values())

    fps = {row["plan"]: row["fps"] for row in every["finalists"]}
    assert list(fps.values()) == sorted(fps.values(), reverse=True) and found["best"] in fps
    fastest = sorted(rows.values(), key=lambda row: row["period_ms"] / row["reference_ms"])
    assert set(fps) == {found["best"], *(row["plan"] for row in fastest[: exhaustive.FINALISTS])}
    assert every["behind_percent"] == pytest.approx(100 * (1 - fps[found["best"]] / max(fps.values())))

    kept = path.read_text().splitlines(keepends=True)[:-3]
    path.write_text("".join(kept))
    every = document(*arguments)["measure_all"]
    assert every["measured_now"] == 3 and every["measured"] == CONFIGURATIONS
    assert path.read_text().splitlines(keepends=True)[:-3] == kept


@two_clusters
def test_measure_all_is_kept_when_it_is_interrupted(tmp_path, monkeypatch):
    path, calls = tmp_path / "every.json", []

    def third(*arguments, own=exhaustive.compare, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return own(*arguments, **options)

    monkeypatch.setattr(exhaustive, "compare", third)
    result = invoke("search", "tiny", "--units", "B,L", "--verify", "0", "--measure-all", path, *QUICK)
    assert result.exit_code == 130 and len(measurements(path)[1]) == 2


@two_clusters
def test_measure_all_tells_what_could_not_run(tmp_path, monkeypatch):
    def refuses(graph, plans, *arguments, own=exhaustive.compare, **options):
        if str(plans[0]) == "little":
            raise DeviceError("little is on strike")
        return own(graph, plans, *arguments, **options)

    monkeypatch.setattr(exhaustive, "compare", refuses)
    path = tmp_path / "every.json"
    every = document("search", "tiny", "--units", "B,L", "--verify", "0", "--measure-all", path, *QUICK)["measure_all"]
    assert every["refused"] == {"little": "little is on strike"} and every["measured"] == CONFIGURATIONS - 1


@two_clusters
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": "other"}, "another network"),
        ({"components": {}}, "another components"),
        ([{"reference": 3}], "line 2: reference: expected text"),
        ([{"reference": "big"}, {"refused": "x"}], "line 3: plan: expected text"),
        ([{"reference": "big"}, {"plan": "big", "period_ms": 0, "reference_ms": 1}], "line 3: period_ms: expected"),
        ([{"reference": "big"}, {"plan": "big", "refused": None}], "line 3: refused: expected text"),
    ],
    ids=str,
)
def test_a_wrong_file_of_measurements_is_one_line(change, words, tmp_path):
    path = tmp_path / "every.json"
    document("search", "tiny", "--units", "B", "--verify", "0", "--measure-all", path, *QUICK)
    header = json.loads(path.read_text().splitlines()[0])
    lines = [header | change] if isinstance(change, dict) else [header, *change]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = invoke("search", "tiny", "--units", "B", "--verify", "0", "--measure-all", path, *QUICK)
    assert result.exit_code == 2 and result.stdout == "" and words in result.stderr and result.stderr.count("\n") == 1


def test_each_stage_has_a_precision_that_is_allowed(monkeypatch):
    monkeypatch.setenv("PIPEALL_ISA", "ref")  # computes with halves, slowly
    found = document("search", "tiny", "--units", "B", "--precisions", "fp32,fp16,int8", "--max-error", "0.05", *QUICK)
    assert found["precisions"]["units"] == ["big", "big@fp16"]
    assert 0 < found["precisions"]["errors"]["big@fp16"] <= 0.05
    assert list(found["precisions"]["refused"]) == ["big@int8"]
    assert {row["plan"] for row in found["ranked"]} == {"big", "big@fp16"}
    shown = invoke(
        "search", "tiny", "--units", "B", "--precisions", "fp32,fp16", "--max-error", "0", *QUICK, "--verify", "0"
    )
    assert "big@fp16 left out: error" in shown.stdout


def test_precisions_of_a_model_are_those_that_it_prices():
    found = document("search", "squeezenet", "--board", "rk3588", "--precisions", "fp32,fp16")
    assert found["precisions"]["units"] == ["big", "big@fp16", "little", "little@fp16", "gpu", "gpu@fp16"]
    assert found["precisions"]["errors"] == found["precisions"]["refused"] == {}
    assert "@fp16" in found["ranked"][0]["plan"], "half of the arithmetic, half of the bytes"
    found = document("search", "squeezenet", "--board", "rk3399pro", "--precisions", "fp32,fp16")
    assert found["precisions"]["units"] == ["big", "little", "gpu", "gpu@fp16"]
    assert list(found["precisions"]["refused"]) == ["big@fp16", "little@fp16"]


@pytest.mark.parametrize(
    "words, part",
    [
        (("--precisions", "fp16", "--max-error", "x"), "not a valid float"),
        (("--max-error", "0.1"), "expected --precisions beside it"),
        (("--precisions", "fp8"), "fp8"),
        (
            ("--precisions", "fp16", "--max-error", "0.01", "--board", "rk3588"),
            "expected --precisions beside it and no --board",
        ),
        (("--precisions", "fp16", "--board", "rpi4"), "no component 'big@fp16'"),
    ],
)
def test_wrong_precisions_are_told(words, part):
    result = invoke("search", "tiny", *words)
    assert result.exit_code != 0 and part in result.stderr and len(result.stderr.splitlines()) <= 4
