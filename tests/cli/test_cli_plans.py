"""Plan files, traces and profiles given to commands, and one line for every wrong one."""

import json

import pytest
from commands import document, invoke, picture, quick_net, ran, two_clusters

from pipeall import Board, Plan
from pipeall.cli.model_argument import ZOO

pytestmark = pytest.mark.usefixtures("tiny")

QUICK = ("--seconds", "0.01")


def test_run_takes_a_plan_file_and_writes_a_trace(tmp_path):
    plan, trace = tmp_path / "PLAN.JSON", tmp_path / "trace.json"
    Plan.single("big").save(plan, ZOO["squeezenet"]())
    _, found = ran("squeezenet", picture(tmp_path), "--plan", plan, "--repeat", "3", "--trace", trace)
    assert found["plan"] == "big"
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "frame"]
    assert {event["name"] for event in slices if event["ph"] == "X"} == {"frame 0", "frame 1", "frame 2"}
    assert document("info", "squeezenet", "--plan", plan)["plan"][0]["groups"] == [0, 19]


@two_clusters
def test_run_takes_named_plans(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    refused = invoke("info", "tiny", "--plan", "peak")
    assert refused.exit_code == 2 and "plan peak: expected times of" in refused.stderr
    found = document("simulate", "squeezenet", "--board", "rk3588")["runs"]
    for mode in ("peak", "parallel"):
        (expected,) = (row["plan"] for row in found if row["mode"] == mode)
        (named,) = document("simulate", "squeezenet", "--board", "rk3588", "--plan", mode)["runs"]
        assert named["plan"] == expected


@two_clusters
def test_run_rebalances_by_a_profile_of_the_network(tmp_path):
    mine, other = tmp_path / "mine.json", tmp_path / "other.json"
    document("profile", "squeezenet", "--units", "B,L", "-o", mine, *QUICK)
    document("profile", "tiny", "--units", "B,L", "-o", other, *QUICK)
    image = picture(tmp_path)
    _, found = ran("squeezenet", image, "--plan", "B-L:9", "--repeat", "5", "--rebalance", mine)
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
    "EMPTY_ALL": '{"format": "pipeall.measurements/1"}\n',
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["profile", "tiny", "--units", "B,Q"], "expected big, mid, little, gpu, npu or cpu"),
        (["profile", "tiny", "--units", "B,big"], "expected each once"),
        (["profile", "tiny", "--units", ""], "got an empty one"),
        (["profile", "tiny", "--units", "M"], "no component 'mid'"),
        (["profile", "tiny", "--seconds", "nan"], "expected a finite number"),
        (["profile", "tiny", "--seconds", "0"], "x>0"),
        (["profile", "tiny", "-o", "absent/file.json"], "expected a file in a folder that exists"),
        (["profile", "tiny", "-o", ""], "expected a file in a folder that exists"),
        (["profile", "tiny", "-o", "TEXT"], "TEXT.json: expected JSON"),
        (["profile", "tiny", "-o", "OTHER"], "OTHER.json: expected format 'pipeall.profile/1'"),
        (["profile", "tiny", "-o", "ALEXNET"], "expected a profile measured on this machine"),
        (["profile", "tiny", "--board", "a311d-armcl", "--save-board", "TEXT"], "is a model already"),
        (["profile", "tiny", "--board", "a311d-armcl", "--units", "B@int8"], "expected one of the model a311d-armcl"),
        (["profile", "tiny", "--board", "raspberry"], "expected one of a311d, a311d-armcl, a311d-ncnn"),
        (["profile", "tiny", "--board", "EMPTY_BOARD"], "EMPTY_BOARD.json: components"),
        (["search", "tiny", "--profile", "absent.json"], "absent.json: cannot be read"),
        (["search", "tiny", "--profile", "LIST"], "LIST.json: expected format"),
        (["search", "tiny", "--profile", "EMPTY_PROFILE"], "EMPTY_PROFILE.json: groups"),
        (["search", "tiny", "--profile", "ALEXNET"], "profile of alexnet with 8 groups"),
        (["search", "tiny", "--profile", "TEXT", "--board", "a311d-armcl"], "expected no --board beside it"),
        (["search", "tiny", "--board", "a311d-armcl", "--verify", "1"], "expected a profile measured on this machine"),
        (
            ["search", "tiny", "--board", "a311d-armcl", "--measure-all", "x.json"],
            "expected a profile measured on this",
        ),
        (["search", "tiny", "--board", "a311d-armcl", "--min-fps", "1"], "min_fps: expected none with objective"),
        (["search", "tiny", "--board", "a311d-armcl", "--max-latency-ms", "1e-9"], "the least of any plan"),
        (["search", "tiny", "--board", "a311d-armcl", "--max-latency-ms", "inf"], "expected a finite number"),
        (["search", "tiny", "--board", "a311d-armcl", "--units", "M"], "expected one of the model a311d-armcl"),
        (["search", "tiny", "--objective", "speed"], "'speed' is not one of"),
        (["search", "tiny", "--objective", "latency", "--measure-all", "x.json"], "expected objective throughput"),
        (["search", "tiny", "--units", "B", "--seconds", "0.01", "--measure-all", "EMPTY_ALL"], "another network"),
        (["simulate", "tiny"], "expected either --board NAME or --profile FILE"),
        (["simulate", "tiny", "--board", "a311d-armcl", "--profile", "TEXT"], "expected either --board"),
        (["simulate", "tiny", "--profile", "ALEXNET"], "profile of alexnet"),
        (["simulate", "tiny", "--board", "a311d-armcl", "--plan", "B-G:9"], "expected cuts between 1 and 3"),
        (["simulate", "tiny", "--board", "a311d-armcl", "--plan", "Bx2"], "expected one of the model a311d-armcl"),
        (["simulate", "tiny", "--board", "a311d-armcl", "--frames", "0"], "1<=x<=1000000"),
        (["simulate", "tiny", "--board", "a311d-armcl", "--plan", "EMPTY_PLAN"], "EMPTY_PLAN.json: expected the text"),
        (["info", "tiny", "--plan", "TEXT"], "TEXT.json: expected JSON"),
        (["info", "squeezenet", "--plan", "PLAN"], "expected a plan for the 19 groups of squeezenet"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = {name: tmp_path / f"{name}.json" for name in (*FILES, "ALEXNET", "PLAN")}
    for name, text in FILES.items():
        paths[name].write_text(text)
    Board.load("a311d-armcl").model.profile(ZOO["alexnet"]()).save(paths["ALEXNET"])
    Plan.single("big").save(paths["PLAN"], quick_net())
    result = invoke(*(paths.get(word, word) for word in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") and words in result.stderr
    assert result.stderr.count("\n") == 1
