"""``pipeall train scaling``: the paper's tables, the model beside them, and what is said of a measurement."""

import importlib.util
import shutil

import pytest
from commands import document, invoke
from PIL import Image

from pipeall import PipeallError
from pipeall.cli.train.scaling_command import verdict
from pipeall.mlp import scaling, traffic
from pipeall.mlp.scaling import Setup, Turn, in_turns, measured_rows, overlap, planned, summary
from pipeall.mlp.traffic import BLUE_GENE_Q, PAPER, least_values


def turn(median, best=None, way=0.0, exposed=0.0, memory_rate=1e9):
    return Turn(10, median, median, best or median, 4.0, 100.0, 2 * way, way, exposed, 0.5 * median, memory_rate)


def content(rows, before, during, cores):
    others = {"before": before, "during": during}
    return {"measured": rows, "others_cores": others, "disturbed": max(before, during) > 0.5, "usable_cores": cores}


def test_the_papers_speed_ups_follow_from_its_times():
    """Table II has times to 1e-4 s and speed-ups cut to a digit or two; the last, 497.20, is 493.0 by its times."""
    found = {row.workers: row for row in traffic.scaled("S") if row.printed is not None}
    assert list(found) == [1, 4, 8, 16, 32]
    for workers, row in found.items():
        by_times = 17.452 / row.printed
        rounding = 0.1 + by_times * 0.5e-4 / row.printed
        assert (abs(row.printed_gain - by_times) <= rounding) == (workers != 32)
    assert traffic.scaled("L")[-1].printed_gain == pytest.approx(327, abs=0.5), "as its section V says"


def test_communication_is_the_papers_share():
    """Table IV's percentages are its most seconds by the iterations of Table III, rounded to three digits."""
    for workers, (most, mean, percent) in traffic.COMMUNICATION.items():
        assert mean < most and 100 * most / traffic.SECONDS["L"][workers] == pytest.approx(percent, abs=0.006)


@pytest.mark.parametrize("model", PAPER)
def test_the_model_counts_what_the_plan_sends(model):
    for row in traffic.scaled(model):
        assert row.full_bytes == 4 * least_values(PAPER[model]) * (row.workers - 1) // row.workers
        assert row.ghost_bytes == (24 if row.workers > 1 else 0), "two neurons of three layers"
        weights = sum(a * b for a, b in zip(PAPER[model], PAPER[model][1:], strict=False))
        own = 12 * weights / row.workers / BLUE_GENE_Q.memory
        assert row.full == pytest.approx(own + row.full_way) and row.full_way >= row.full_bytes / BLUE_GENE_Q.bandwidth
        assert 0 <= row.ghost_way < row.ghost <= row.full and row.full_gain <= row.workers


def test_twice_as_many_ranks_share_a_node():
    """Each has half the rate of its memory; messages take as long."""
    for one, two in zip(traffic.scaled("L"), traffic.scaled("L", traffic.blue_gene_q(32)), strict=True):
        assert two.full - two.full_way == pytest.approx(2 * (one.full - one.full_way))
        assert (two.full_way, two.ghost_way) == (one.full_way, one.ghost_way)


def test_work_of_a_ghost_worker():
    """63.5-fold less from 2 to 16 workers is what half of Table II's speed-up is: fewer weights, another function."""
    found = {row.workers: row.work for row in traffic.scaled("S")}
    assert found[8] == pytest.approx(57536 / 1032) and found[32] == pytest.approx(57536 / 90)


def test_every_setup_takes_part_in_every_round(monkeypatch):
    order, setups = [], planned(["S"], [1, 2], [1, 32])
    monkeypatch.setattr(scaling, "turn", lambda setup, seconds: order.append(setup) or turn(1.0))
    found = in_turns(setups, 2, 0.1)
    assert order == [*setups, *reversed(setups)] and all(len(of) == 2 for of in found.values())
    assert setups[0].engine == "numpy" and Setup("S", "ghost", 2) in setups and Setup("S", "full", 2, 32) in setups


def test_a_report():
    turns = {
        Setup("M"): [turn(0.03), turn(0.02, 0.018), turn(0.04)],
        Setup("M", ranks=2): [turn(0.02, 0.009, 0.004, 0.001, 1.8e9)] * 3,
        Setup("M", "ghost", 2): [turn(0.01)],
    }
    assert summary(turns[Setup("M")]).median == 0.03 and summary(turns[Setup("M")]).best == 0.018
    one, two, ghost = rows = measured_rows(turns)
    assert one["gain"] is None and ghost["gain"] is None, "another function is no speed-up"
    assert two["gain"] == pytest.approx(1.5) and two["gain_of_bests"] == pytest.approx(2.0)
    assert two["overlap"] == pytest.approx(0.75) and two["share"] == pytest.approx(0.4) and ghost["overlap"] is None
    assert overlap(turn(1.0, way=2.0, exposed=0.5)) == 0.75
    first, second = verdict(content(rows, 0.0, 0.1, 2))
    assert "2.00 x one rank" in first and "1.50 x by medians." in first and "1.80 x as fast" in first
    assert second == "Other programs took 0.00 of 2 cores before and 0.10 meanwhile."


@pytest.mark.parametrize(("before", "during", "cores"), [(0.9, 0.0, 2), (0.0, 0.9, 2), (0.0, 0.0, 1)])
def test_cores_that_are_not_free(before, during, cores):
    rows = measured_rows({Setup("M"): [turn(1.0)], Setup("M", ranks=2): [turn(2.0)]})
    first, _, last = verdict(content(rows, before, during, cores))
    assert "M on 2 ranks: 0.50 x one rank" in first
    assert last.startswith("NOT FREE")


def test_the_command(tmp_path):
    """One rank needs no MPI."""
    arguments = ("train", "scaling", "--models", "S", "--ranks", "1", "--batch", "1", "--seconds", "0.01")
    found = document(*arguments, "--rounds", 1, "--plot", tmp_path / "scaling.png")
    assert found["format"] == "pipeall.scaling/1" and len(found["paper"]) == 7 + 11 + 11
    assert (
        found["communication"] == traffic.communication_rows(traffic.scaled("L")) and len(found["communication"]) == 6
    )
    numpy, pipeall = found["measured"]
    assert (numpy["engine"], pipeall["engine"]) == ("numpy", "pipeall") and pipeall["iterations"] >= 3
    assert 0 < pipeall["best_seconds"] <= pipeall["median_seconds"] and pipeall["messages"] == 0
    assert set(found["others_cores"]) == {"before", "during"}
    with Image.open(tmp_path / "scaling.png") as drawn:
        assert drawn.format == "PNG" and drawn.getextrema() != ((255, 255),) * len(drawn.getbands())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--models", "S,X"], "--models: expected some of S, M, L"), (["--ranks", "0"], "--ranks, --batch: expected")],
)
def test_bad_options(arguments, said):
    done = invoke("train", "scaling", *arguments)
    assert done.exit_code == 2 and said in done.stderr


def test_several_ranks_need_mpirun(monkeypatch):
    monkeypatch.setattr(scaling.shutil, "which", lambda name: None)
    with pytest.raises(PipeallError, match="apt-get install openmpi-bin"):
        scaling.turn(Setup("S", ranks=2), 0.1)


@pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or shutil.which("mpirun") is None,
    reason="needs pipeall[mpi] and an MPI: apt-get install openmpi-bin",
)
def test_ranks_of_mpi_count_as_the_model_does():
    found = scaling.turn(Setup("S", ranks=2), 0.001)
    assert found.bytes == 4 * least_values(PAPER["S"]) / 2 == 1024 and found.messages == 2 * 3
    assert 0 < found.exposed <= found.way_mean <= found.way_max and found.iterations >= 3


def test_ranks_that_fail_are_told():
    with pytest.raises(PipeallError, match="scaling: S on 1 ranks failed: .*engine"):
        scaling.turn(Setup("S", engine="absent"), 0.1)
