"""The report of a board: its file is a board that keeps the pace of what was measured, and neither names anybody."""

import getpass
import json
import math
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from commands import document, invoke, quick_net, two_clusters
from graphs import small_net
from profiles import profile_of
from recorded_boards import recorded_files, write_tree

from pipeall import ArgumentError, Board, Plan
from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.pipeline.boards.emulator import Emulator
from pipeall.pipeline.measuring.fit_to_trials import fit_to_trials
from pipeall.pipeline.measuring.report import OTHER, PARALLEL, PIPE_ALL, SINGLE, Ran, board_report, model_of, named
from pipeall.pipeline.measuring.trial import Trial
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Link, UnitTimes
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.uncertainty import interval
from pipeall.pipeline.stats import StageStats, Stats
from tools.board_models import accept

MS = {"big": [2, 3, 4, 5], "little": [6, 7, 8, 9], "gpu": [4, 3, 2, 1]}  # alone, by the profile
LINKS = {("gpu", "big"): Link((1, 10**6), (0.1, 0.1), (0.05, 0.05), (0.05, 0.05))}
# What the machine did: frames a second, and what each stage was busy, ms. Sums of MS are 14, 30 and 10
DID = {
    "big": (1000 / 14.7, [14.2]),
    "little": (1000 / 33, [32]),
    "gpu": (1000 / 10.5, [10]),
    "big+little+gpu": (1000 / 19 + 1000 / 41 + 1000 / 14, [19, 41, 14]),
    "gpu-big-little:1,3": (1000 / 11.3, [5.6, 9.8, 11.1]),
    "big-gpu-little:2,3": (1000 / 12.1, [7, 4, 11.9]),
}
MODES = (SINGLE, SINGLE, SINGLE, PARALLEL, PIPE_ALL, OTHER)
TOLD = {  # of a machine, in a report
    "model": "Khadas VIM3",
    "cores": 6,
    "machine": "aarch64",
    "pipeall": "0.1.0",
    "date": "2026-11-29",
    "peaks": {"big": {}},
}


def trial(text: str, fps: float, busy: list[float]) -> Trial:
    """One turn at full load."""
    plan = Plan.parse(text)
    stages = [
        StageStats(unit, (0, 1), 100, 0, ms, 0.0, 0.0, 0.0, 0.0, 1.0) for unit, ms in zip(plan.units, busy, strict=True)
    ]
    return Trial(plan, (Stats(100, 1.0, fps, sum(busy), sum(busy), sum(busy), tuple(stages)),))


def synthetic(graph, slower: float = 1.0) -> Ran:
    """What ran, and the same again that much slower."""
    profile = profile_of(graph, MS, links=LINKS, contention={"big": {"gpu": (1.1,) * 4}, "gpu": {"big": (1.2,) * 4}})
    trials = [trial(text, *did) for text, did in DID.items()]
    again = [trial(text, fps / slower, [slower * ms for ms in busy]) for text, (fps, busy) in DID.items()]
    return Ran(graph, profile, MODES, tuple(trials), tuple(again))


@pytest.fixture
def vim3(tmp_path, monkeypatch):
    """A board with cores and a GPU that are not there: nothing runs on it."""
    monkeypatch.delenv("PIPEALL_OPENCL", raising=False)
    gpu = opencl.DeviceInfo(0, "Platform", "Mali", "Vendor", "1.0", 4, True, False, False)
    monkeypatch.setattr(opencl, "devices", lambda: (gpu,))
    return Board.detect(root=write_tree(recorded_files("vim3"), tmp_path / "tree"), machine="aarch64")


@pytest.fixture
def graph():
    return small_net()


@pytest.fixture
def file(graph, vim3, tmp_path):
    path = tmp_path / "mine.json"
    model_of("mine", vim3, {"model": "Khadas VIM3"}, [synthetic(graph, 1.25)]).save(path)
    return path


# ---- a board file keeps the pace of what was measured ----


@pytest.mark.parametrize("text", [text for text, mode in zip(DID, MODES, strict=True) if mode != OTHER])
def test_emulator_and_simulation_of_the_file_keep_the_measured_pace(text, graph, file):
    board, plan, (fps, busy) = Board.load(file), Plan.parse(text), DID[text]
    profile = board.model.profile(graph)
    assert simulate(profile, plan, 300, jitter=False, paced=True).fps == pytest.approx(fps, rel=0.05)
    paces = [max(ways) for lane in Emulator(graph, board, 1.0).paces_ms(plan) for ways in lane]
    slowest = paces.index(max(paces))
    assert paces == pytest.approx(busy, rel=0.05)
    assert slowest == busy.index(max(busy))


def test_a_measured_plan_is_predicted_as_it_ran_and_another_is_not_told(graph):
    ran = synthetic(graph)
    settled = ran.settled()
    told = [text for text, mode in zip(DID, MODES, strict=True) if mode != OTHER]
    for text in told:
        assert predict(settled, Plan.parse(text)).fps == pytest.approx(DID[text][0])
    alone = [trial for trial in ran.trials if str(trial.plan) in told]
    assert fit_to_trials(ran.profile, alone).units == settled.units
    (other,) = (row for row in ran.rows(settled) if row["mode"] == OTHER)
    measured = DID[other["plan"]][0]
    assert other["predicted_fps"] == pytest.approx(predict(settled, Plan.parse(other["plan"])).fps)
    assert other["error_percent"] == pytest.approx(100 * (measured / other["predicted_fps"] - 1))
    assert abs(other["error_percent"]) > 0.1
    # of one error: four of five cases are within 3.078 of its size (Student's distribution of one degree)
    size = abs(math.log(measured / other["predicted_fps"]))
    assert settled.contention_error == pytest.approx(math.expm1(3.078 * size), rel=1e-9)


def test_heat_is_how_far_off_times_may_be(graph, file):
    profile = Board.load(file).model.profile(graph)
    assert profile.error == pytest.approx(dict.fromkeys(MS, 0.25))
    found = interval(profile, Plan.parse("big"))
    assert found.fps[0] < DID["big"][0] < found.fps[1]
    assert set(synthetic(graph).settled().error.values()) == {0.0}


def test_a_run_that_cannot_be_is_not_followed(graph):
    ran = synthetic(graph)
    stalled = trial("big", 0.1, [10_000.0])
    assert fit_to_trials(ran.profile, [stalled]) == ran.profile


def test_the_fastest_pipeline_is_pipe_all(graph):
    pipelines = [trial(text, *DID[text]) for text in ("big-gpu-little:2,3", "gpu-big-little:1,3", "big")]
    modes = {one.plan: OTHER for one in pipelines[:2]} | {pipelines[2].plan: SINGLE}
    assert named(modes, pipelines) == (OTHER, PIPE_ALL, SINGLE)


def test_the_file_has_the_report_and_is_the_same_when_saved_again(file, tmp_path):
    model = Board.load(file).model
    assert model.report == {"model": "Khadas VIM3"}
    model.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()


def test_contention_of_coarser_groups_is_refused(file, tmp_path):
    content = json.loads(file.read_text())
    profile = content["networks"][0]["profile"]
    content["networks"][0]["spans"] = [2, *[1] * (len(profile["groups"]) - 1)]
    (tmp_path / "wrong.json").write_text(json.dumps(content))
    with pytest.raises(ArgumentError, match="wrong.json: .*profile: expected no contention of groups that are coarser"):
        Board.load(tmp_path / "wrong.json")


def test_reasons_of_a_driver_name_no_file(graph):
    ran = synthetic(graph)
    why = {1: "cannot open /home/alice/.cache/pocl/k.cl: 3x3/2 is too large"}
    gpu = UnitTimes((float("inf"), 3, 2, 1), (0.0,) * 4, refused=why)
    profile = replace(ran.profile, units={**ran.profile.units, "gpu": gpu})
    settled = replace(ran, profile=profile, modes=MODES[:2], trials=ran.trials[:2], again=()).settled()
    assert settled.units["gpu"].refused == {1: "cannot open FILE: 3x3/2 is too large"}


# ---- the command ----


@two_clusters
@pytest.mark.usefixtures("tiny")
def test_the_command_measures_all_and_names_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    file = tmp_path / "mine.json"
    report = document("profile", "board", "tiny", "-o", file, "--seconds", "0.01")
    assert report["format"] == "pipeall.board-report/1" and list(report["peaks"]) == ["big", "little"]
    assert all(peak["flops"] > 0 and peak["bytes"] > 0 for peak in report["peaks"].values())
    (network,) = report["networks"]
    modes = [plan["mode"] for plan in network["plans"]]
    assert modes.count("single") == 2 and modes.count("parallel") == 1 and modes.count("pipe-all") <= 1
    assert all(plan["fps"] > 0 and plan["fps_at_the_end"] > 0 for plan in network["plans"])
    steps = {unit: len(rows) for unit, rows in network["layers"].items()}
    assert steps == {"big": 6, "little": 6}  # four groups and what moves their borders
    board = Board.load(file)
    told = {plan["plan"]: plan["predicted_fps"] for plan in network["plans"]}
    profile = board.model.profile(quick_net())
    for plan, fps in told.items():  # the file has six decimals
        assert predict(profile, Plan.parse(plan)).fps == pytest.approx(fps, rel=0.01)
    assert {**board.model.report, "format": report["format"]} == report
    text = invoke("profile", "board", "tiny", "-o", file, "--seconds", "0.01").stdout
    for secret in (socket.gethostname(), getpass.getuser(), str(Path.home()), str(tmp_path), "mine"):
        if len(secret) > 4:  # "root" and "box" are parts of other words
            assert secret not in text and secret not in json.dumps(report)
    for words in ("Board report", "Components", "GFLOP/s", "Clocks, heat and load", "parallel", "6 steps"):
        assert words in text


def test_networks_are_wanted_where_there_is_no_report():
    result = invoke("profile")
    assert result.exit_code == 2 and "Missing argument 'MODELS...'" in result.stderr


def test_a_model_has_no_report(graph):
    with pytest.raises(ArgumentError, match="board report: expected networks, and this machine's own components"):
        board_report([graph], Board.load("a311d"))
    with pytest.raises(ArgumentError, match="expected a mode for each plan"):
        Ran(graph, synthetic(graph).profile, MODES[:1], synthetic(graph).trials)


# ---- reports that were sent ----


def test_every_report_of_the_inbox_is_in_order():
    for path in accept.reports():
        accept.check(path)


@pytest.fixture
def inbox(vim3, tmp_path, monkeypatch):
    """A folder of reports with one in order, rock5b.json, and an empty one of models."""
    ran = [synthetic(replace(small_net(), name=name)) for name in ("one", "two", "three")]
    networks = [{"network": one.graph.name, "plans": one.rows(one.settled())} for one in ran]
    for folder in ("reports", "models"):
        (tmp_path / folder).mkdir()
    model_of("rock5b", vim3, TOLD | {"networks": networks}, ran).save(tmp_path / "reports" / "rock5b.json")
    monkeypatch.setattr(accept, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(accept, "FOLDER", tmp_path / "models")
    monkeypatch.setattr("sys.argv", ["accept"])
    return tmp_path / "reports" / "rock5b.json"


def test_one_command_makes_boards_of_reports(inbox, capsys):
    accept.check(inbox)
    accept.main()
    assert capsys.readouterr().out == "rock5b\n" and not inbox.exists()
    board = Board.load(inbox.parents[1] / "models" / "rock5b.json")
    assert board.model.profile(small_net()).units.keys() == {"big", "little", "gpu"}


def first_plan(report):
    return report["networks"][0]["plans"][0]


def changed(path, change):
    content = json.loads(path.read_text())
    change(content["report"])
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change, error",
    [
        (lambda report: report.pop("peaks"), "expected a report, .*, got none of peaks"),
        (lambda report: report["networks"].pop(), "expected 3 networks or more, got 2"),
        (lambda report: report.update(why="/home/alice/x.onnx"), "no path of the machine, got /home/alice/x"),
        (lambda report: first_plan(report).update(disturbed=True), "without other work, got one that was"),
        (lambda report: first_plan(report).update(error_percent=-60), "within 50% of its prediction, got 60%"),
    ],
)  # fmt: skip
def test_a_report_is_refused_by_what_is_wrong(inbox, change, error):
    changed(inbox, change)
    with pytest.raises(SystemExit, match=error):
        accept.main()
    assert inbox.exists()


def test_names_and_sizes_and_other_files_are_refused(inbox, tmp_path):
    for name, text, error in (
        ("My Board.json", inbox.read_text(), "My Board.json: expected a name of a-z, 0-9 and -"),
        ("big.json", inbox.read_text() + " " * accept.MOST_BYTES, "big.json: expected at most 1048576 bytes"),
        ("plan.json", '{"format": "pipeall.plan/1"}', "plan.json"),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(ValueError, match=error):
            accept.check(path)
    with pytest.raises(ValueError, match="expected a name of its own, got that of a board"):
        accept.check(inbox, inbox.parent)
