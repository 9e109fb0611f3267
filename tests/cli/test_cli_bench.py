"""``pipeall bench``: Peak, Parallel, pipelines and the best plan, here and on an emulated board, averages, the plot."""

import json
import os
import re
import subprocess
import sys
from math import ceil
from statistics import mean

import pytest
from commands import BOARD, document, invoke, quick_net, toy_board, two_clusters
from PIL import Image

from pipeall import Board, Plan, search
from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.cli.bench import bench_command as bench_module
from pipeall.cli.model_argument import ZOO
from pipeall.pipeline.measuring import comparison
from pipeall.pipeline.measuring.trial import Trial
from pipeall.pipeline.planning.predict import Prediction, predict
from pipeall.pipeline.planning.profile import DISTURBED
from pipeall.pipeline.stats import StageStats, Stats

QUICK = ("--seconds", "0.05", "--turns", "2")
MODES = ["peak", "parallel", "pipe-all"]  # of the paper
SEARCHED = ["pipe-all", "floating", "best"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """MODELs "quick" and "other": under a millisecond a frame."""
    monkeypatch.setitem(ZOO, "quick", quick_net)
    monkeypatch.setitem(ZOO, "other", quick_net)
    monkeypatch.setenv("PIPEALL_OPENCL", "off")


def modes(rows):
    return {row["mode"]: row for row in rows}


def consistent(rows):
    """Ratios, latencies and stages of the rows of one network fit together."""
    peak = modes(rows)["peak"]
    assert peak["fps"] == max(row["fps"] for row in rows if row["mode"] in ("single", "peak"))
    for row in rows:
        assert row["fps_to_peak"] == pytest.approx(row["fps"] / peak["fps"])
        assert row["latency_to_peak"] == pytest.approx(row["latency_worst_ms"] / peak["latency_worst_ms"])
        assert 0 < row["latency_p50_ms"] <= row["latency_p95_ms"] <= row["latency_p99_ms"]
        assert [stage["unit"] for stage in row["stages"]] == list(Plan.parse(row["plan"]).units)
        assert all(stage["frames"] > 0 and stage["busy_ms"] > 0 for stage in row["stages"])
        assert row["valid"] == (row["late_share"] <= 0.01)
        assert row["memory_bytes"] > 1e5
    named = modes(rows)
    for mode in SEARCHED:  # each may be what the others before it may
        for other in set(comparison.MAY_BE[mode]) & named.keys():
            spread = (1 - named[other]["fps_spread"]) / (1 + named[mode]["fps_spread"])
            assert named[mode]["fps"] >= spread * named[other]["fps"]


# ---- this machine ----


@two_clusters
def test_bench_compares_the_modes_with_peak():
    found = document("bench", "quick", "--components", "B,L", *QUICK)
    rows = found["runs"]
    assert sorted(row["mode"] for row in rows) == ["best", "floating", "parallel", "peak", "pipe-all", "single"]
    assert {row["plan"] for row in rows if row["mode"] in ("single", "peak")} == {"big", "little"}
    assert modes(rows)["parallel"]["plan"] == "big+little"
    consistent(rows)
    assert found["valid"] and found["board"] is None and found["time_scale"] is None
    assert found["before"]["load"] >= 0 and found["after"]["load"] >= 0
    assert [part["component"] for part in found["components"]] == ["big", "little"]
    assert not any("simulated_fps" in row for row in rows)


@two_clusters
def test_peak_may_be_all_cores_at_once():
    """Of equal cores, unless components are named: "cpu" is alone, never a lane of Parallel or a stage."""
    if BOARD.default_component != "cpu":
        pytest.skip("cores differ here")
    rows = document("bench", "quick", *QUICK)["runs"]
    assert {row["plan"] for row in rows if row["mode"] in ("single", "peak")} == {"big", "little", "cpu"}
    assert modes(rows)["parallel"]["plan"] == "big+little"
    consistent(rows)


@two_clusters
def test_bench_averages_over_networks():
    found = document("bench", "quick", "other", "--components", "B,L", *QUICK)
    nets = {net: modes(row for row in found["runs"] if row["net"] == net) for net in ("quick", "other")}
    percents = {(row["figure"], row["mode"], row["over"]): row for row in found["averages"]}
    assert [row["paper_percent"] for row in percents.values()] == [75.88, 5.42, 55.59, 419.87, None]
    for (figure, mode, over), row in percents.items():
        by_hand = mean(rows[mode][figure] / rows[over][figure] for rows in nets.values()) * 100 - 100
        assert row["percent"] == pytest.approx(by_hand) and row["networks"] == 2


def test_averages_leave_out_what_is_not_valid_or_not_complete():
    def rows(net, factor, valid=True):
        figures = {"fps": 1.0, "latency_p50_ms": 1.0, "latency_worst_ms": 1.0}
        peak, others = {"net": net, "mode": "peak", "valid": True, **figures}, {key: factor for key in figures}
        return [peak, *({"net": net, "mode": mode, "valid": valid, **others} for mode in MODES[1:])]

    found = comparison.averages([*rows("a", 2), *rows("b", 4), *rows("c", 100, valid=False), *rows("d", 100)[:2]])
    assert [row["percent"] for row in found] == pytest.approx([200, 0, 200, 200, 200])
    assert {row["networks"] for row in found} == {2}
    assert comparison.averages(rows("c", 100, valid=False)) == []


def test_bench_as_text_marks_a_single_component():
    result = invoke("bench", "quick", "--components", "big", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "One component: neither Parallel nor pipelines" in result.stdout and "Peak" in result.stdout
    assert "Averages" not in result.stdout


@two_clusters
def test_bench_as_text():
    text = invoke("bench", "quick", "other", "--components", "B,L", *QUICK).stdout
    assert (
        "Stages of Pipe-All and Best" in text and "+75.88 %" in text and "+419.87 %" in text and "INVALID" not in text
    )


def test_bench_leaves_a_stand_in_out_unless_it_is_named(monkeypatch):
    stand_in = opencl.DeviceInfo(0, "Platform", "pthread", "Vendor", "1.0", 2, True, False, stand_in=True)
    asked = []

    def stop(graph, board, names, *rest):
        asked.append(names)
        raise KeyboardInterrupt

    monkeypatch.delenv("PIPEALL_OPENCL")
    monkeypatch.setattr(opencl, "devices", lambda: (stand_in,))
    monkeypatch.setattr(bench_module, "measured", stop)
    invoke("bench", "quick")
    invoke("bench", "quick", "--components", "B,G")
    assert "big" in asked[0] and "gpu" not in asked[0] and asked[1] == ["big", "gpu"]


def test_a_trace_of_one_network(tmp_path):
    path = tmp_path / "trace.json"
    found = document("bench", "quick", "--components", "B", "--trace", path, *QUICK)
    trace = json.loads(path.read_text())
    assert trace["otherData"]["plans"] == [[0, found["runs"][-1]["plan"]]] and trace["traceEvents"]


def test_notes_name_the_missing():
    def notes(names, *modes):
        return bench_module.plan_notes(names, [dict(zip(("mode", "plan"), mode, strict=True)) for mode in modes])

    big, little = ("single", "big"), ("single", "little")
    missing = "little cannot run all of it, so it has no more than a stage"
    assert notes(["big", "little"], big, ("best", "big-little:3")) == [missing]
    left_out = "the best plan, big, leaves out little"
    assert notes(["big", "little"], little, big, ("best", "big")) == [left_out]
    assert notes(["big"], big) == []
    assert notes(["big", "little", "cpu"], ("single", "cpu"), big, little, ("best", "cpu")) == []


# ---- a busy machine ----


@pytest.fixture
def busy_machine():
    """A program that never waits on every core that this process may use."""
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
    try:
        for program in programs:
            program.stdout.readline()  # it runs
        yield
    finally:
        for program in programs:
            program.kill()
            program.communicate()


@two_clusters
def test_what_is_measured_beside_busy_programs_is_marked(busy_machine, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    from pipeall.cli.bench import bench_plot as plot

    drawn, measured, compared = [], [], bench_module.compared
    monkeypatch.setattr(plot, "save", lambda figure, path: drawn.append(figure))
    monkeypatch.setattr(bench_module, "compared", lambda *given: measured.append(compared(*given)) or measured[0])
    arguments = ("bench", "quick", "--components", "B,L", "--seconds", "0.2", "--turns", "2")
    text = invoke(*arguments, "--plot", tmp_path / "busy.png").stdout
    (figure,), ((runs, notes),) = drawn, measured
    assert all(row["disturbed"] and row["others_cores"] > DISTURBED for row in runs)
    assert any("BUSY: while the profile was measured" in note for note in notes)
    hatched = [bar.get_hatch() for container in figure.axes[0].containers for bar in container]
    assert hatched == ["//"] * 5
    assert "BUSY: other programs ran" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert "Peak BUSY" in text and "BUSY: while these rows ran, other programs took" in " ".join(text.split())


def test_a_mode_is_another_plan_of_its_kind_where_its_own_ran_slower():
    def trial(*rates):
        return Trial(big, tuple(Stats(9, 1.0, fps, 1.0, 1.0, 1.0, ()) for fps in rates))

    big, little = Plan.single("big"), Plan.single("little")
    both, pair = Plan.parse("big+little"), Plan.parse("big-little:3")
    many, floats = Plan.parse("big-little-big:1,3"), Plan.parse("big-little:2~3")
    entries = [("single", big), ("single", little), ("pipe-all", pair)]
    alone = {big: trial(49, 50, 51), little: trial(9, 10, 11)}
    for rates in ((60, 61, 62), (30, 49, 52)):  # faster, and within what the turns differ by
        assert comparison.settled(entries, alone | {pair: trial(*rates)}) == (entries, ())
    found, notes = comparison.settled(entries, alone | {pair: trial(20, 21, 22)})
    assert found == [*entries[:2], ("pipe-all", big)]
    assert notes == ("big-little:3 ran slower than big (21.00 and 50.00 FPS): Pipe-All is big",)
    assert comparison.settled(entries[:1], alone) == (entries[:1], ())
    entries = [*entries[:2], ("parallel", both), ("pipe-all", pair), ("floating", floats), ("best", many)]
    ran = alone | {both: trial(70, 70, 70), pair: trial(60, 60, 60), floats: trial(55, 55, 55), many: trial(65, 65, 65)}
    found, notes = comparison.settled(entries, ran)
    assert found == [*entries[:4], ("floating", pair), ("best", both)]  # Parallel is no pipeline
    assert [note.split(": ")[-1] for note in notes] == ["Floating is big-little:3", "Best is big+little"]


# ---- an emulated board ----


@pytest.mark.parametrize("scale", [1, 2])
def test_bench_on_an_emulated_board(tmp_path, scale):
    board = toy_board(tmp_path / "toy.json")
    found = document("bench", "quick", "--board", board, "--time-scale", scale, *QUICK)
    rows = modes(found["runs"])
    consistent(found["runs"])
    assert found["board"] == "toy" and found["time_scale"] == scale
    assert found["valid"] == all(row["valid"] for row in found["runs"])
    graph = quick_net()
    profile = Board.load(board).model.profile(graph)
    assert rows["peak"]["plan"] == "big" and rows["single"]["plan"] == "little"
    for mode in SEARCHED:
        best = str(search(graph, profile, **comparison.SEARCHES[mode]).best)
        assert rows[mode]["plan"] == best or any(f"{best} ran slower than" in note for note in found["notes"])
    for row in found["runs"]:
        prediction = predict(profile, Plan.parse(row["plan"]))
        assert row["predicted_fps"] == prediction.fps and row["energy_mj"] == prediction.energy_mj
        # deterministic, and every stage takes what the prediction says: the first and last frame may be cut
        assert row["simulated_fps"] == pytest.approx(prediction.fps, rel=2 / comparison.SIMULATED)
        off = 100 * (row["simulated_fps"] - row["fps"]) / row["fps"]
        assert row["simulated_error_percent"] == pytest.approx(off, abs=1e-6)
        stages = [ms for lane in prediction.stage_ms for ms in lane]
        # no stage ends before its time; where a cut floats the runtime finds the shares
        assert Plan.parse(row["plan"]).floats or all(
            s["busy_ms"] >= ms * (1 - 1e-6) for s, ms in zip(row["stages"], stages, strict=True)
        )
        assert row["latency_worst_ms"] >= prediction.latency_ms * (1 - 1e-6) or Plan.parse(row["plan"]).floats
    for name in ("peak", "single"):  # one stage: so no two results are nearer to each other either
        assert rows[name]["fps"] <= rows[name]["predicted_fps"] * (1 + 1e-6)


def test_turns_and_seconds_are_of_the_machine_unless_they_are_given(tmp_path, monkeypatch):
    asked = []

    def stop(graph, board, names, seconds, *rest):
        asked.append(seconds)
        raise KeyboardInterrupt

    board = toy_board(tmp_path / "toy.json")
    found = document("bench", "quick", "--board", board, "--seconds", "0.05")
    assert found["turns"] == 1 and any("times of toy: made up" in note for note in found["notes"])
    monkeypatch.setattr(bench_module, "measured", stop)
    for arguments in ((), ("--board", board), ("--seconds", "3")):
        invoke("bench", "quick", *arguments)
    assert asked == [2.0, 4.0, 3.0]


def test_an_emulated_board_that_cannot_keep_up_is_marked(tmp_path):
    board = toy_board(tmp_path / "toy.json", scale=1e-6)
    found = document("bench", "quick", "--board", board, *QUICK)
    assert not found["valid"] and not any(row["valid"] for row in found["runs"]) and found["averages"] == []
    assert all(row["late_share"] > 0.5 for row in found["runs"])
    result = invoke("bench", "quick", "--board", board, *QUICK)
    assert not any(row["disturbed"] for row in found["runs"])  # an emulation keeps the board's pace, or is not valid
    assert result.exit_code == 0 and "Peak INVALID" in result.stdout and "pipeall simulate" in result.stdout
    assert all(row["fitting_time_scale"] > 1 for row in found["runs"])
    assert re.search(r"--time-scale \d+ fits this machine", result.stdout)


def test_the_time_scale_that_fits_is_that_of_the_slowest_stage():
    """Of the model's 2 and 4 ms; the stages took up to 3 times as long in one of the trials."""

    def trial(*busy_ms):
        stages = tuple(StageStats("big", (0, 1), 9, 9, ms, 0.0, 0.0, 0.0, 0.0, 1.0) for ms in busy_ms)
        return Trial(Plan.parse("big-little:3"), (Stats(9, 1.0, 9.0, 1.0, 1.0, 1.0, stages),))

    prediction = Prediction(((2.0, 4.0),), 4.0, 8.0, 6.0, None)
    assert comparison.fitting(prediction, (trial(2.0, 4.1), trial(6.0, 5.0)), 1.0) == ceil(3 * comparison.MARGIN)
    assert comparison.fitting(prediction, (trial(4.1, 8.1), trial(4.0, 8.0)), 2.0) == ceil(2.05 * comparison.MARGIN)


# ---- the plot ----


def bars(axes):
    """Mode (as the legend has it) -> heights of its bars."""
    return {container.get_label(): [bar.get_height() for bar in container] for container in axes.containers}


@two_clusters
def test_the_plot_shows_the_figures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    from pipeall.cli import figures
    from pipeall.cli.bench import bench_plot as plot

    drawn = []

    def kept(*arguments, own=plot.figure):
        drawn.append(own(*arguments))
        return drawn[-1]

    monkeypatch.setattr(plot, "figure", kept)
    path = tmp_path / "fig7.png"
    found = document("bench", "quick", "other", "--components", "B,L", "--plot", path, *QUICK)
    with Image.open(path) as image:
        assert image.format == "PNG" and image.size == tuple(round(side * figures.DPI) for side in figures.INCHES)
        assert len(image.convert("L").getcolors()) > 10  # not blank: antialiased text and three colours
    (figure,) = drawn
    nets = {net: modes(row for row in found["runs"] if row["net"] == net) for net in ("quick", "other")}
    for axes, key in zip(figure.axes, ("fps", "latency_worst_ms"), strict=True):
        assert [label.get_text() for label in axes.get_xticklabels()] == ["quick", "other"]
        names = {comparison.MODES[mode]: mode for mode in ("peak", "parallel", *SEARCHED)}
        expected = {text: [rows[mode][key] for rows in nets.values()] for text, mode in names.items()}
        assert bars(axes) == expected
        lefts = [[round(bar.get_x() + bar.get_width() / 2) for bar in c] for c in axes.containers]
        assert lefts == [[0, 1]] * 5  # each over its network's name


def test_a_plot_that_cannot_be_written_names_the_file(tmp_path):
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    result = invoke("bench", "quick", "--components", "B", "--plot", "/dev/full", *QUICK)
    assert result.exit_code == 2 and "/dev/full: cannot be written" in result.stderr


def test_a_plot_without_matplotlib_names_the_extra(tmp_path):
    code = "import sys; sys.modules['matplotlib'] = None; from pipeall.cli import main; main()"
    command = [sys.executable, "-c", code, "bench", "--plot", str(tmp_path / "x.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert "pip install 'pipeall[plot]'" in done.stderr and done.stderr.count("\n") == 1


# ---- errors ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["vgg16"], "'vgg16'"),
        (["--components", ""], "got an empty one"),
        (["--components", "B,big"], "expected distinct components"),
        (["--components", "M"], "no component 'mid'"),
        (["--board", "a311d-armcl", "--components", "X"], "expected big, mid, little, gpu, npu or cpu"),
        (["--board", "a311d-armcl", "--components", "M"], "no component 'mid'"),
        (["--board", "raspberry"], "expected one of a311d, a311d-armcl, a311d-ncnn"),
        (["--time-scale", "2"], "expected --board beside it"),
        (["--board", "a311d-armcl", "--time-scale", "0"], "x>0"),
        (["--board", "a311d-armcl", "--time-scale", "inf"], "expected a finite number"),
        (["--turns", "0"], "x>=1"),
        (["--plot", "absent/fig.png"], "a folder that exists"),
        (["quick", "other", "--trace", "trace.json"], "expected one network, got 2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(arguments, words):
    result = invoke("bench", *arguments, "--json")
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("error: ") and words in result.stderr and result.stderr.count("\n") == 1
