"""``pipeall nas``: a whole search for the digits, its winner through the pipeline, interruptions, bad arguments."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from commands import BOARD, document, invoke, ran, two_clusters
from nas_landscapes import BitSpace, HashEvaluate
from PIL import Image

from pipeall import Plan, load
from pipeall.cli.nas.nas_options import finish_of, search_of
from pipeall.cli.nas.nas_text import Table
from pipeall.nas.architecture_search import activities
from pipeall.nas.datasets import load as load_data
from pipeall.nas.search.archive import Archive, History
from pipeall.nas.spaces.genome import Candidate

pytest.importorskip("torch", reason="needs pipeall[nas]")
pytest.importorskip("onnx", reason="needs pipeall[onnx]")

TRAINING = "--cycles 3,4,6 --lr 0.02,0.05,0.1 --batch 16"
SHORT = f"--start edge --space conv --nodes 1,1 --widths 4,6,8,12 --samples 200 {TRAINING} --prune 0.5"
FEW = "--population 4 --generations 1 --instances 2 --budget 7 --seed 3"
ARGUMENTS = ("nas", "--data", "digits", *SHORT.split(), *FEW.split())


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A finished search: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("nas") / "digits"
    return folder, document(*ARGUMENTS, "--board", "a311d-armcl", "--target-fps", "3000", "-o", folder)


def test_what_a_search_tells(searched):
    folder, found = searched
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    scores = [line["score"]["fitness"] for line in lines if "score" in line]
    assert len(scores) == 7 >= found["generations"][-1]["evaluations"]
    assert found["winner"]["fitness"] == min(score for score in scores if score is not None)
    best = [generation["fitness"] for generation in found["generations"] if generation["phase"] == "evolution"]
    assert best == sorted(best, reverse=True)  # the elite stays
    constant, regression = found["baselines"].values()
    assert constant["tested"] < 0.2 < 0.9 < regression["tested"]  # of ten classes; digits are nearly linear
    assert [*found["hours"].values()][0] > 0 and np.shape(found["winner"]["connections"])[0] > 1
    assert found["winner"]["fps"] > 0 and Plan.load(folder / "plan.json", load(folder / "winner.onnx"))


@two_clusters
def test_the_winner_runs_as_it_was_trained(searched, tmp_path):
    """The test digits as pictures through two stages: the accuracy that torch had."""
    folder, found = searched
    test = load_data("digits").test
    for place, (x, label) in enumerate(zip(test.x, test.y, strict=True)):
        Image.fromarray(np.round(x[0] * 240).astype(np.uint8)).save(tmp_path / f"{place:04}-{label}.png")
    words = found["run"].split()
    words[words.index("--scale") + 1] = "240"  # these pictures' sixteenths
    words[words.index("--plan") + 1] = "B-L:1"
    answers, figures = ran(*[str(tmp_path) if word == "PICTURES" else word for word in words[2:]])
    right = [Path(row["source"]).stem.endswith(f"-{row['classes'][0]['category_id']}") for row in answers]
    assert len(right) == len(test) and len(figures["stats"]["stages"]) == 2
    assert np.mean(right) == pytest.approx(found["accuracy"]["tested"], abs=1e-9)
    assert np.mean(right) > 0.2  # it learned something in a few passes over 200 samples: chance is 0.1


def test_an_interrupted_search_ends_the_same(searched, tmp_path, kept=4):
    """The history cut off after some evaluations and in the middle of a line."""
    folder, found = searched
    (tmp_path / "networks").mkdir()
    lines = (folder / "history.jsonl").read_bytes().splitlines(keepends=True)
    evaluations = [place for place, line in enumerate(lines) if b"score" in line]
    was_pruned = [json.loads(lines[place])["score"]["pruned"] > 0 for place in evaluations]
    cut = evaluations[kept]
    (tmp_path / "history.jsonl").write_bytes(b"".join(lines[:cut]) + lines[cut][:20])
    files = sorted((folder / "networks").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for path in files[: sum(2 if pruned else 1 for pruned in was_pruned[:kept])]:
        shutil.copy2(path, tmp_path / "networks")
    again = document(*ARGUMENTS, "--board", "a311d-armcl", "--target-fps", "3000", "-o", tmp_path)
    assert again["winner"] == found["winner"] and again["generations"] == found["generations"]
    assert (tmp_path / "winner.onnx").read_bytes() == (folder / "winner.onnx").read_bytes()


def test_processes_change_nothing_and_the_text_begins_with_accuracy(searched, tmp_path):
    folder, found = searched
    result = invoke(*ARGUMENTS, "--board", "a311d-armcl", "--target-fps", "3000", "-o", tmp_path, "--workers", 2)
    assert result.exit_code == 0, result.stderr
    tested, regression = found["accuracy"]["tested"], found["baselines"]["logistic regression"]["tested"]
    text = " ".join(result.stdout.split())
    assert f"accuracy {100 * tested:.1f} % on samples that no training saw (logistic" in text
    assert f"(logistic regression {100 * regression:.1f} %): the winner" in text
    judged = {name: 100 * figures["judged"] for name, figures in found["baselines"].items()}
    known = ", ".join(f"{name} {value:.1f} %" for name, value in judged.items())
    assert f"To beat, accuracy on the samples that judge: {known}." in text
    head = "FPS and memory are predicted for a311d-armcl. network accuracy weights FPS memory time left 1 of 7"
    assert text.index(known) < text.index(head)
    rows = re.findall(r"(\d) of 7 ([0-9.]+) % [0-9,]+ [0-9,]+ [0-9.]+ MB (?:under )?\d+ \w+( best so far)?", text)
    assert [int(number) for number, *_ in rows] == [1, 2, 3, 4, 5, 6, 7] and rows[0][2]
    for word in ("diversity", " F ", "as table II", found["winner"]["candidate"]):
        assert word not in text
    assert (tmp_path / "winner.onnx").read_bytes() == (folder / "winner.onnx").read_bytes()
    again = invoke(*ARGUMENTS, "--board", "a311d-armcl", "--target-fps", "3000", "-o", tmp_path).stdout
    assert f"7 networks are in {tmp_path / 'history.jsonl'} from before" in again and "8 of 7" not in again


def test_the_time_left_is_that_of_the_work(tmp_path):
    """A second for each unit of work, and 30 before the first network ends, which count in the first line, and in a
    pool, whose networks begin together, in all lines."""
    work = {Candidate(bits): 60.0 + 20 * sum(bits) for bits in product((0, 1), repeat=3)}
    search = search_of("digits", tmp_path, {"space": "tree", "seed": 0, "budget": 10})

    def lines(pool, history):
        """What each line is to end with, and the line."""
        done, found = 0.0, []

        def trained(candidate, score):
            nonlocal done
            done += work[candidate]
            more = 30 / done if pool or not found else 0
            left = 10 * 90 - done  # the mean is 90
            end = f"{'  ' if found else ' under '}{(1 + more) * left / 60:.0f} minutes"
            found.append((end, table.row(candidate, score).removesuffix("  best so far")))

        given = {"on_evaluated": trained, "work": work.get}
        archive = Archive(BitSpace(3), HashEvaluate(), 0, pool, History(tmp_path / history, {}), **given)
        table = Table(search, archive, 0, lambda: done + 30 * (done > 0))
        archive.score(list(work))
        return found

    with ThreadPoolExecutor(1) as pool:
        found = [*lines(None, "here.jsonl"), *lines(pool, "pool.jsonl")]
    assert len(found) == 16 and all(line.endswith(end) for end, line in found), found


def test_a_winner_that_is_finished_on_all_samples(searched, tmp_path):
    """The search is not run again, and more training on more samples helps."""
    folder, found = searched
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    options = ("--board", "a311d-armcl", "--target-fps", "3000", "--finish", "5")
    more = document(*ARGUMENTS, *options, "-o", tmp_path)
    assert more["winner"] == found["winner"] and more["accuracy"]["tested"] > found["accuracy"]["tested"]


def test_rates_for_all_networks(tmp_path):
    """Without crossover and mutation no network but those of the first generation comes."""
    few = FEW.replace(
        "--generations 1 --instances 2 --budget 7", "--generations 2 --guided 0 --crossover 0 --mutation 0"
    )
    arguments = (
        "nas",
        "--data",
        "digits",
        "--space",
        "tree",
        "--depth",
        1,
        "--neurons",
        4,
        "--samples",
        50,
        *TRAINING.split(),
    )
    found = document(*arguments, *few.split(), "-o", tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    first, *later = [set(line["members"]) for line in lines if line.get("phase") == "evolution"]
    assert len(later) == 2 and later[1] <= later[0] <= first
    assert (found["search"]["settings"]["crossover_rate"], found["search"]["settings"]["mutation_rate"]) == (0, 0)


def test_the_search_of_the_paper(tmp_path):
    """What is given wins; table I's settings for the rest."""
    few = ("--population", 3, "--budget", 3, "--samples", 40, "--cycles", "1,1,2", "--epochs", 2, "--depth", 2)
    found = document("nas", "--data", "digits", "--paper", *few, "--neurons", 3, "-o", tmp_path)["search"]
    settings, training = found["settings"], found["training"]
    assert (settings["population"], settings["generations"], settings["guided"]) == (3, 10, 0)
    assert (settings["compete"], found["start"], training["fitness"]["variant"]) == ("each", "edge", "printed")
    assert (training["recipe"]["batch"], training["recipe"]["steady"]) == (1, True)
    assert training["levels"][2:4] == [[2, 2, 4], [0.0, 0.5, 1.0]] and "TreeSpace(depth=2" in training["space"]


def test_of_many_samples_a_search_sees_a_part(tmp_path):
    """And the winner all; unless samples, passes or the paper are asked for."""
    random = np.random.default_rng(0)
    np.savez(tmp_path / "many.npz", x=random.integers(0, 256, (3200, 2, 2), np.uint8), y=np.arange(3200) % 2)

    def seen(**given):
        options = dict.fromkeys(("samples", "finish", "paper")) | {"seed": 0} | given
        search = search_of(str(tmp_path / "many.npz"), tmp_path, options)
        return len(search.training.load().train), finish_of(search, options)

    assert len(load_data(str(tmp_path / "many.npz")).train) == 2048
    assert seen() == (2000, 10) and seen(finish=3) == (2000, 3)
    assert seen(samples=50) == (50, 0) and seen(samples=50, finish=2) == (50, 2) and seen(paper=True) == (2048, 0)


def test_another_search_in_the_same_folder_is_refused(searched):
    folder, _ = searched
    result = invoke(*ARGUMENTS, "-o", folder)
    assert result.exit_code == 2 and "history.jsonl: belongs to another" in result.stderr


def test_a_front_and_a_drawing(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    found = document(*ARGUMENTS, "--board", "a311d-armcl", "--pareto", "--plot", "-o", tmp_path)
    monkeypatch.setenv("PIPEALL_VERBOSE", "1")  # for readers of the paper
    text = invoke(*ARGUMENTS, "--board", "a311d-armcl", "--pareto", "-o", tmp_path).stdout
    assert "diversity" in text and "as table II" in text and found["winner"]["candidate"] in text
    rows = [(row["error"], 1 / row["fps"], row["memory_bytes"]) for row in found["front"]]
    assert rows
    for row in rows:  # nothing on the front beats another
        assert not any(all(a <= b for a, b in zip(other, row, strict=True)) and other != row for other in rows)
    assert Image.open(tmp_path / "search.png").size[0] > 1000


def test_numbers_and_no_board(tmp_path):
    random = np.random.default_rng(0)
    x = random.standard_normal((400, 4))
    rows = np.column_stack([x, 3 * x[:, 0] - x[:, 1] + 20.5])
    np.savetxt(tmp_path / "line.csv", rows, delimiter=",")
    arguments = ("--space tree --depth 2 --neurons 8 --cycles 4,8,12 --lr 0.03,0.1,0.3 --batch 8 " + FEW).split()
    found = document("nas", "--data", tmp_path / "line.csv", "-o", tmp_path / "out", *arguments)
    assert found["accuracy"]["tested"] > 0.7 and found["run"] is None and found["winner"]["fps"] > 0
    assert load(tmp_path / "out" / "winner.onnx").inputs[0].shape == (1, 4)
    plan = Plan.load(tmp_path / "out" / "plan.json", load(tmp_path / "out" / "winner.onnx"))
    assert set(plan.components) <= set(BOARD.components)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere.npz"], "expected digits, digit-boxes or a file ending in"),
        (["--data", "digits", "--target-fps", "5"], "expected --board beside"),
        (["--data", "digits", "--min-fps", "5"], "expected --board beside"),
        ([*ARGUMENTS[1:], "--board", "rpi5", "--min-fps", "1e9"], "none of 4 networks can be trained"),
        (["--data", "digits", "--prune-below", "0.1"], "expected --prune beside it"),
        (["--data", "digits", "--lambda", "chaos"], "--lambda: expected a number or sweep"),
        (["--data", "digits", "--lambda", "2"], "lambda: expected"),
        (["--data", "digits", "--budget", "9"], "expected at least a population, 10, got 9"),
        (["--data", "digits", "--mutation", "1.5"], "1.5 is not in the range 0<=x<=1"),
        (
            ["--data", "digits", "--space", "conv", "--nodes", "1,1,1,1,1"],
            "fewer stages for pictures of 8 x 8",
        ),
        (["--data", "digits", "--compete", "never"], "'never' is not one of 'end', 'each'"),
        (["--data", "digits", "--until", "0"], "0.0 is not in the range x>0"),
        (["--data", "digits", "--lr", "1,2"], "expected three numbers above 0"),
        (["--data", "digits", "--board", "nothing"], "board 'nothing': expected one of a311d, a311d-armcl"),
        (["--data", "digits", "--workers", "math"], "expected MODULE:CLASS"),
        (["--data", "digits", "--workers", "no_such_package:Pool"], "no_such_package"),
    ],
)
def test_bad_arguments(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = invoke("nas", *arguments)
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1, result.stderr


def test_states_that_train_alike_are_equally_active(tmp_path):
    """Nine rates and momenta with three cycles each: 27 kinds, nine states in each kind."""
    from nas_nets import STAGES

    from pipeall.nas.spaces.genome import LEVELS, STATES
    from pipeall.nas.training.evaluation import Training

    levels = LEVELS._replace(learning_rate=(1e-4, 1e-2, 1e30), cycles=(1, 2, 3))
    training = Training(STAGES, "digits", str(tmp_path), samples=64, levels=levels)
    found = np.array(activities(training, 0))
    assert len(found) == STATES
    kinds = found.reshape(27, 9)
    assert ((kinds == kinds[:, :1]) | np.isnan(kinds)).all()
    assert np.isnan(kinds[18:]).all()  # a rate of 1e30
    assert kinds[9:18].mean() > kinds[:9].mean()  # a hundred times the rate moves the loss further
