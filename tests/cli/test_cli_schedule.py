"""``pipeall schedule``: two networks and two sources, chains, plans, limits, faults and the end."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from chain_nets import classifier, detector, photos
from clips import grey_clip
from commands import invoke, two_clusters
from PIL import Image
from view_clients import Viewer

from pipeall import Crops, Engine, SchedulePlan, load, tasks
from pipeall.pipeline.live import LiveResult

COUNT, AT_MOST = 5, 3
DET = """
[networks.det]
model = "yolox_nano.onnx"
source = "photos"
fps = 15
priority = 2
max_latency_ms = 10000
"""
REC = """
[networks.rec]
model = "species.onnx"
task = "classify"
from = {network = "det", margin = 0.2, at_most = 3}
"""

pytestmark = two_clusters


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two networks and some photos."""
    folder = tmp_path_factory.mktemp("schedule")
    detector(folder)
    classifier(folder)
    (folder / "photos").mkdir()
    for number, pixels in enumerate(photos(COUNT)):
        Image.fromarray(pixels).save(folder / "photos" / f"{number}.png")
    return folder


@pytest.fixture
def written(folder):
    """Writes a schedule beside the networks; where it lies."""

    def write(text: str) -> Path:
        (folder / "s.toml").write_text(text)
        return folder / "s.toml"

    return write


def lines(done) -> tuple[dict[str, list[dict]], dict]:
    """The answers of each network, and the figures."""
    assert done.exit_code == 0, done.stderr
    *answers, figures = map(json.loads, done.stdout.splitlines())
    assert {answer["format"] for answer in answers} <= {"pipeall.answer/1"}
    assert figures["format"] == "pipeall.schedule-run/1"
    names = list(figures["networks"])
    return {name: [one for one in answers if one["network"] == name] for name in names}, figures


def test_a_chain_says_what_both_networks_say_by_hand(folder, written):
    answers, figures = lines(invoke("schedule", written(DET + REC), "--json"))
    det, rec = load(folder / "yolox_nano.onnx"), load(folder / "species.onnx")
    see, name = tasks.task(det), tasks.task(rec, task="classify")
    expected = []
    with Engine(det, "big", input=see.picture) as first, Engine(rec, "big", input=name.picture) as second:
        for number, picture in enumerate(photos(COUNT)):
            seen = see(first(picture), see.picture.placed(picture.shape[:2], see.size))
            of_det = answers["det"][number]
            assert of_det["source"] == str(folder / "photos" / f"{number}.png")
            assert len(of_det["boxes"]) == len(seen.boxes) > AT_MOST
            crops = Crops(margin=0.2, at_most=AT_MOST)
            crops.add(LiveResult(number, picture, seen, None, 0, 0))
            crops.close()
            for crop in crops:
                said = name(second(crop), name.picture.placed(crop.pixels.shape[:2], name.size))
                where = [*crop.area[:2], crop.pixels.shape[1], crop.pixels.shape[0]]
                expected.append((of_det["source"], [crop.number], where, said.classes[0]))
    got = answers["rec"]
    assert [(one["source"], one["box"], one["crop"]) for one in got] == [each[:3] for each in expected]
    for one, (*_, best) in zip(got, expected, strict=True):
        assert one["classes"][0]["category"] == best.name
        assert one["classes"][0]["score"] == pytest.approx(best.score, abs=1e-4)
        assert one["latency_ms"] > 0
    ran = figures["networks"]
    assert ran["det"]["frames"] == COUNT and ran["det"]["late"] == 0 and ran["det"]["fps_wanted"] == 15
    assert ran["rec"]["crops"] == {"cut": COUNT * AT_MOST, "dropped": 0} and "late" not in ran["rec"]
    assert ran["rec"]["stats"]["frames"] == COUNT * AT_MOST


def test_two_networks_and_two_sources_for_people_and_for_a_file(folder, written):
    grey_clip(folder / "clip.mp4", 100)
    two = '[networks.two]\nmodel = "species.onnx"\ntask = "classify"\nsource = "clip.mp4"\n'
    done = invoke("schedule", written('output = "answers.jsonl"\nframes = 3\n' + DET + two))
    assert done.exit_code == 0, done.stderr
    text = done.stdout
    assert f"det: {folder}/photos/2.png" in text and "3.png" not in text and "two: " in text and "frame 0: " in text
    rows = {words[0]: words for line in text.splitlines() if (words := line.split())}
    assert rows["det"][1:3] == ["3", "15.00"] and rows["two"][1:3] == ["3", "-"]
    kept = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert sorted(one["network"] for one in kept) == ["det"] * 3 + ["two"] * 3
    assert [one["number"] for one in kept if one["network"] == "two"] == [0, 1, 2]


def test_a_chain_of_three(written):
    """A detector in the boxes of a detector, and a classifier in its boxes: each answer says the way to it."""
    more = DET + '[networks.parts]\nmodel = "yolox_nano.onnx"\nfrom = {network = "det", min_size = 30, at_most = 1}\n'
    more += REC.replace('network = "det"', 'network = "parts"')
    answers, figures = lines(invoke("schedule", written(more), "--json"))
    assert {len(one["box"]) for one in answers["parts"]} == {1} and {len(one["box"]) for one in answers["rec"]} == {2}
    cut = {name: one["crops"]["cut"] for name, one in figures["networks"].items() if name != "det"}
    assert cut == {"parts": len(answers["parts"]), "rec": len(answers["rec"])} and min(cut.values()) >= COUNT


def test_plans_are_kept_and_read(folder, written):
    path, kept = written(DET + REC), folder / "plan.json"
    shown = invoke("schedule", path, "--dry-run", "--save", kept)
    assert shown.exit_code == 0 and "No times are known" in shown.stdout and "15.00" in shown.stdout
    plan = SchedulePlan.load(kept)
    assert list(plan) == ["det", "rec"] and plan.demands["det"].max_latency_ms == 10000
    _, figures = lines(invoke("schedule", path, "--plan", kept, "--json"))
    assert figures["plans"] == {name: str(one) for name, one in plan.plans.items()}
    own = DET + 'plan = "L"\n' + REC + 'plan = "B"\n'
    assert lines(invoke("schedule", written(own), "--json"))[1]["plans"] == {"det": "little", "rec": "big"}
    wrong = invoke("schedule", written(DET), "--plan", kept)
    assert wrong.exit_code == 2 and "expected plans of det, got those of det, rec" in wrong.stderr
    half = invoke("schedule", written(DET + 'plan = "L"\n' + REC))
    assert half.exit_code == 2 and "plan: expected one for every network or for none" in half.stderr


def test_a_dry_run_simulates_on_a_board(folder, written):
    text = 'board = "rk3588"\n' + DET.replace("photos", "photos/0.png") + REC + "fps = 300\n"
    done = invoke("schedule", written(text), "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["format"] == "pipeall.schedule-plan/1" and list(shown["networks"]) == ["det", "rec"]
    det = shown["networks"]["det"]
    assert det["fps"] == 15 and det["simulated"]["fps"] == pytest.approx(15, rel=0.05)
    assert 0 < det["alone"]["latency_ms"] < 1.1 * det["simulated"]["latency_p50_ms"]
    assert det["simulated"]["latency_p50_ms"] <= det["simulated"]["latency_p99_ms"] and det["alone"]["fps"] > 15
    assert "Simulated: " in invoke("schedule", folder / "s.toml", "--dry-run").stdout


def test_a_time_limit_ends_an_endless_source(written):
    again = DET.replace('"photos"', json.dumps(["photos"] * 400))
    _, figures = lines(invoke("schedule", written("seconds = 0.5\n" + again), "--json"))
    assert 0 < figures["networks"]["det"]["frames"] < 400 * COUNT


def test_a_fault_of_the_recognizer_ends_with_a_line_that_names_it(written, monkeypatch):
    """Its models run in the order of the file: the fault is of both, the recognizer comes to the frame first."""
    monkeypatch.setenv("PIPEALL_FAULT", f"0:{COUNT + 1}")
    done = invoke("schedule", written(DET + REC.replace('"det", ', '"det", drop = "none", ')), "--json")
    assert done.exit_code == 2
    *answers, figures = map(json.loads, done.stdout.splitlines())
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: rec: ")
    assert f"frame {COUNT + 1}" in done.stderr and figures["error"] in done.stderr
    names = [answer["network"] for answer in answers]
    assert names.count("rec") == COUNT + 1 and names.count("det") >= 2


def test_a_picture_that_cannot_be_read_is_told_and_left_out(folder, written):
    (folder / "photos" / "9.png").write_bytes(b"no picture")
    try:
        done = invoke("schedule", written(DET), "--json")
    finally:
        (folder / "photos" / "9.png").unlink()
    answers, figures = lines(done)
    assert len(answers["det"]) == COUNT and figures["unread"] == 1 and "9.png" in done.stderr


def program(*words: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "pipeall", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_ends_all_and_shows_the_figures(written):
    again = DET.replace('"photos"', json.dumps(["photos"] * 2000))
    process = program("schedule", written(again + REC), "--json")
    for _ in range(10):
        assert json.loads(process.stdout.readline())["format"] == "pipeall.answer/1"
    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=30)
    figures = json.loads(shown.splitlines()[-1])
    assert process.returncode == 130 and not errors and figures["interrupted"]
    assert all(one["frames"] > 0 for one in figures["networks"].values())


def test_the_page_shows_all_networks(folder, written):
    """Pictures side by side, one for each network that has a source; the figures of all."""
    grey_clip(folder / "clip.mp4", 10)
    two = '[networks.two]\nmodel = "species.onnx"\ntask = "classify"\nsource = "clip.mp4"\ndrop = "oldest"\n'
    many = DET.replace('"photos"', json.dumps(["photos"] * 200))
    process = program("schedule", written("seconds = 20\n" + many + REC + two), "--view", "0")
    try:
        address = process.stderr.readline().split()[1]
        with Viewer(address) as viewer:
            for _ in range(4):
                picture = viewer.next()
            (folder / "seen.jpg").write_bytes(picture)
            figures = viewer.figures()
        pixels = np.asarray(Image.open(folder / "seen.jpg"))
        assert pixels.shape[1] == 1280 and (pixels[:, :640].std(), pixels[:, 640:].max()) > (20, 0)
        assert [one["network"] for one in figures["networks"]] == ["det", "rec", "two"]
        assert figures["networks"][0]["fps_wanted"] == 15 and {"det", "rec"} <= {
            line.split(":")[0] for line in figures["answer"]
        }
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
