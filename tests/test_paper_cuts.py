"""What a user's first script meets: models of any form, plans that nobody gives, pickles, texts, types, logs."""

import copy
import importlib.util
import json
import logging
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import invoke, quick_net, toy_board
from graphs import frames, small_net
from onnx_models import of_graph
from profiles import made_up

import pipeall
from pipeall import ArgumentError, Board, DeviceError, Engine, Graph, ModelError, Pipeline, Plan, Profile, notebook
from pipeall._kernels.cpu.cluster import equal, joined
from pipeall.graph.ir import Quantization, Tensor
from pipeall.graph.onnx.write import onnx_bytes
from pipeall.graph.partition import subgraph
from pipeall.pipeline.boards.default_plan import default_plan
from pipeall.pipeline.boards.kept import profile_path
from pipeall.pipeline.boards.machine import describe
from pipeall.pipeline.planning.profile import UnitTimes, crossing_bytes
from pipeall.pipeline.planning.teams import teams

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("user_script.py")


@pytest.fixture
def net():
    return quick_net()


@pytest.fixture
def file(net, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_bytes(net))
    return path


@pytest.fixture
def keeping(tmp_path, monkeypatch):
    """Profiles are kept, in a folder of the test's own."""
    monkeypatch.setenv("PIPEALL_TUNE", "on")
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path / "cache"))


def timed(graph: Graph, board: Board, **ms) -> Profile:
    """A profile as if it had been measured on the board: units with ms for every group."""
    units = {unit: UnitTimes((each,) * len(graph.groups), (0.0,) * len(graph.groups)) for unit, each in ms.items()}
    names = tuple(group.name for group in graph.groups)
    return Profile(graph.name, names, crossing_bytes(graph), units, about=describe(board))


# ---- models ----


def forms(path: Path) -> list:
    return [str(path), path, path.read_bytes(), bytearray(path.read_bytes()), onnx.load(path)]


def test_a_model_is_a_path_bytes_or_a_message(file):
    graphs = [pipeall.load(form) for form in forms(file)]
    for graph in graphs:
        assert [node.op for node in graph.nodes] == [node.op for node in graphs[0].nodes]
        assert all(np.array_equal(graph.constants[name], array) for name, array in graphs[0].constants.items())
    assert [graph.name for graph in graphs] == ["net", "net", "quick", "quick", "quick"]


def test_what_a_nameless_model_is_called(file):
    proto = onnx.load(file)
    proto.graph.name = "\n\x1b"
    assert pipeall.load(proto).name == "model"


@pytest.mark.parametrize(
    "model, error, message",
    [
        (3, ArgumentError, "model: expected a path, bytes or an onnx.ModelProto, got int"),
        (b"", ModelError, "model of 0 bytes: not an ONNX file"),
        (b"\x01\x02\x03", ModelError, "model of 3 bytes: not an ONNX file"),
        (onnx.ModelProto(), ModelError, "ModelProto: not an ONNX file"),
        ("nowhere.onnx", ModelError, "nowhere.onnx: cannot read: No such file"),
    ],
    ids=repr,
)
def test_what_is_no_model(model, error, message):
    with pytest.raises(error, match=message):
        pipeall.load(model)


def test_bytes_have_no_files_beside_them(net, tmp_path):
    """External data is refused by its name, even where a file of that name lies in the present folder."""
    path = tmp_path / "net.onnx"
    onnx.save(of_graph(net), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").exists() and pipeall.load(path).nodes
    for form in (path.read_bytes(), onnx.load(path, load_external_data=False)):
        with pytest.raises(ModelError, match="external data 'weights.bin': expected the model's path"):
            pipeall.load(form)


def test_engines_and_pipelines_take_models(file, net, board):
    (x,) = frames(net, 1)
    with Engine(net, "big", board) as engine:
        expected = engine(x)
    for form in forms(file):
        with Engine(form, board=board) as engine, Pipeline(form, "B-L:2", board=board) as pipe:
            assert np.array_equal(engine(x), expected) and engine.graph.outputs[0].shape == expected.shape
            assert all(np.array_equal(y, expected) for y in pipe.map([x, x]))
    for kind in (Engine, lambda model, board: Pipeline(model, "B", board)):
        with pytest.raises(ArgumentError, match="a model's path, bytes or ModelProto, got list"):
            kind([1], board=board)


# ---- plans that nobody gives ----


def test_default_plan_has_equal_macs(net, board):
    with Pipeline(net, board=board) as pipe:
        assert str(pipe.plan) == str(Plan.balanced(["big", "little"], net))
        assert str(pipe.plan) in repr(pipe) and "equal MACs: no profile is kept" in repr(pipe)
        assert pipe.result is not None and list(pipe.map(frames(net, 2)))
    assert "2 frames done" in repr(pipe) and "closed" in repr(pipe)


def test_default_plan_of_a_measured_network(net, board, keeping, monkeypatch):
    assert default_plan(net, board)[1].endswith("no profile is kept")
    profile = pipeall.profile(net, board, seconds=0.05)
    plan, why = default_plan(net, board)
    best = pipeall.search(net, profile, cores={"big": 1, "little": 1}).ranked[0]
    assert (plan, plan.network) == (best.plan, ("quick", 4)) and "by its profile, measured 20" in why
    with Pipeline(net, board=board) as pipe:
        assert pipe.plan == best.plan and "by its profile" in repr(pipe)
    assert default_plan(small_net(), board)[1].endswith("no profile is kept")  # another network
    one = Board.detect(clusters=[board.component("big").device.cores], gpu=False)
    assert default_plan(net, one)[1].endswith("no profile is kept")  # another board
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    assert default_plan(net, board)[1].endswith("no profile is kept")


def test_a_profile_that_cannot_be_used(net, board, keeping):
    path = profile_path(net, board)
    path.parent.mkdir(parents=True)
    elsewhere = replace(timed(net, board, big=1.0, little=1.0), about={"components": {"big": "another"}})
    for content in ("{", "", None):
        elsewhere.save(path) if content is None else path.write_text(content)
        assert default_plan(net, board)[1].endswith("no profile is kept")


def test_a_profile_of_some_components_is_not_kept(net, board, keeping):
    pipeall.profile(net, board, ["big"], seconds=0.02)
    assert not profile_path(net, board).exists()
    path = profile_path(net, board)
    path.parent.parent.mkdir(exist_ok=True)
    path.parent.write_text("a file, where the folder should be")
    pipeall.profile(net, board, seconds=0.02)  # it cannot be kept: nobody needs to know


def test_default_plans_by_profiles_that_are_given(net, board, tmp_path):
    slow = timed(net, board, big=1.0, little=50.0)
    with Pipeline(net, board=board, rebalance=slow) as pipe:
        assert "by its profile, measured" in pipe.choice
    model = Board.load(toy_board(tmp_path / "toy.json"))
    with Pipeline(net, board=model, pace=True, time_scale=0.1) as pipe:
        assert "by its profile, modelled" in repr(pipe)
    nothing = timed(net, board, gpu=1.0)
    assert default_plan(net, board, nothing)[1].startswith("with equal MACs")


def test_the_command_line_takes_the_same_plan(net, board, keeping, monkeypatch):
    from pipeall.cli.plans import chosen_plan

    options = dict.fromkeys(("plan", "order", "cuts", "partition_point", "partition_point2"))
    path = profile_path(net, board)
    path.parent.mkdir(parents=True)
    timed(net, board, big=1.0, little=100.0).save(path)
    assert str(chosen_plan(net, board, **options)) == "big"
    assert str(chosen_plan(net, board, **options | {"order": "B-L"})) == str(Plan.balanced(["B", "L"], net))


# ---- plan files ----


def test_plans_are_saved_and_loaded_without_a_graph(net, board, tmp_path):
    path = tmp_path / "plan.json"
    found = pipeall.search(net, timed(net, board, big=1.0, little=2.0))
    for plan in (found.best, Plan.balanced(["B", "L"], net)):
        plan.save(path)
        content = json.loads(path.read_text())
        assert (content["network"], content["groups"]) == ("quick", 4)
        loaded = Plan.load(path)
        assert loaded == plan and loaded.network == ("quick", 4) and "of quick" in repr(loaded)
        with pytest.raises(ArgumentError, match="expected a plan for the 3 groups .* got one for 4 groups of 'quick'"):
            Pipeline(quick_part(net), loaded, board=board)
        with pytest.raises(ArgumentError, match="got one for 4 groups of 'quick'"):
            loaded.save(path, quick_part(net))
        loaded.save(path)  # it has kept the name
        assert Plan.load(path, net).network == ("quick", 4)


def quick_part(net: Graph) -> Graph:
    return subgraph(net, 1, 4)


def test_a_plan_of_no_network(net, board, tmp_path):
    path = tmp_path / "plan.json"
    Plan.parse("B-L:2").save(path)
    assert "network" not in json.loads(path.read_text())
    with Pipeline(net, Plan.load(path), board=board, threads={"big": 1}) as pipe:
        assert pipe.plan.units == ("bigx1", "little")
    assert invoke("info", "squeezenet", "--plan", str(path)).exit_code == 0


# ---- verify ----


def test_verify_runs_the_best_plans(net, board):
    found = pipeall.search(net, timed(net, board, big=0.1, little=0.1))
    turns = []
    verified = pipeall.verify(found, board, top=3, seconds=0.05, done=lambda: turns.append(1))
    assert len(turns) == 15 and len(verified.rows) == 3 and not verified.refused and verified.within_limits
    rates = [row.fps for row in verified.rows]
    assert rates == sorted(rates, reverse=True) and verified.best == verified.rows[0].plan
    assert {row.plan for row in verified.rows} == {choice.plan for choice in found.ranked[:3]}
    assert str(verified.best) in repr(verified) and "measured" in repr(verified.rows[0])
    assert verified._repr_html_().count("<tr>") == 4


def test_verify_knows_the_limits_of_the_search(net, board):
    found = pipeall.search(net, timed(net, board, big=1e-6, little=1e-6), max_latency_ms=1e-4)
    verified = pipeall.verify(found, board, top=1, seconds=0.02)
    assert not verified.within_limits and "not within the limits" in repr(verified)


def test_verify_refuses_what_cannot_run_here(net, board):
    modelled = pipeall.search(net, Board.load("a311d").model.profile(net))
    with pytest.raises(ArgumentError, match="expected a search in a profile that was measured on this machine"):
        pipeall.verify(modelled, board)
    found = pipeall.search(net, timed(net, board, big=1.0))
    for top in (0, True, 1.5):
        with pytest.raises(ArgumentError, match="top: expected a whole number"):
            pipeall.verify(found, board, top=top)


# ---- pickles ----


@pytest.mark.parametrize(
    "copied", [lambda graph: pickle.loads(pickle.dumps(graph)), copy.deepcopy], ids=["pickle", "deep"]
)
def test_graphs_survive_a_pickle(net, board, file, copied):
    for graph in (net, pipeall.load(file), net.finer(2), quick_part(net)):
        again = copied(graph)
        assert repr(again) == repr(graph) and again.max_crossing == graph.max_crossing
        assert [cut.nbytes for cut in again.cuts] == [cut.nbytes for cut in graph.cuts]
        assert again.nodes == graph.nodes and again.receives == graph.receives
        with pytest.raises(TypeError):
            again.nodes[0].attrs["pads"] = ()  # as immutable as the first
        (x,) = frames(graph, 1)
        with Engine(graph, "big", board) as first, Engine(again, "big", board) as second:
            assert np.array_equal(first(x), second(x))


def test_what_a_search_found_survives_a_pickle(net, board):
    found = pipeall.search(net, timed(net, board, big=1.0, little=2.0))
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)


# ---- texts ----


def test_objects_say_what_they_are(net, board):
    profile = timed(net, board, big=1.0, little=2.0)
    found = pipeall.search(net, profile)
    with Engine(net, board=board) as engine, Pipeline(net, "B-L:2", board) as pipe:
        list(pipe.map(frames(net, 3)))
        engine(frames(net, 1)[0])
        texts = {
            repr(net): "<Graph quick: x0 float32 1x16x32x32 -> ",
            repr(net.inputs[0]): "<Tensor x0 float32 1x16x32x32>",
            repr(Tensor("s", (), "int8", Quantization((1.0,), (0,)))): "<Tensor s int8 scalar, quantized>",
            repr(net.groups[0]): "<Group 1 ",
            repr(net.cuts[0]): "<Cut after group 1: ",
            repr(net.nodes[0]): "= conv(x0, ",
            repr(board): "<Board: big ",
            repr(Board.load("a311d")): "<Board a311d, a model: big 4 x Cortex-A73",
            repr(board.component("big")): "<Component big: ",
            repr(engine): "<Engine of quick on cpu: 1 frames done, 0 pending, open>",
            repr(pipe): "<Pipeline of quick on big-little:2: 3 frames done, 0 pending, open, plan given>",
            repr(profile): "<Profile of quick, measured 20",
            repr(
                replace(profile, modelled=True, about={})
            ): "<Profile of quick, modelled: big 4.00 ms, little 8.00 ms>",
            repr(Plan.parse("B-L:2")): "<Plan big-little:2>",
            repr(found): "<Found for quick, best throughput: ",
            repr(found.ranked[0].prediction): " FPS, latency ",
            repr(pipeall.simulate(profile, found.best, 50)): "<Simulation of 50 frames: ",
            repr(pipe.stats()): "<Stats of 3 frames in ",
            repr(pipe.stats().stages[0]): "<StageStats of big: 3 frames, busy ",
        }
    for text, begin in texts.items():
        assert begin in text and len(text) < 300 and "\n" not in text


@pytest.mark.parametrize("kind", [Pipeline, Engine])
def test_what_did_not_start_has_a_text_too(kind):
    """A debugger may ask for it in the middle of an error."""
    assert repr(kind.__new__(kind)) == f"<{kind.__name__}, not started>"


def test_notebooks_show_tables(net, board):
    named = replace(net, name="<script>alert(1)</script>")
    profile = replace(timed(named, board, big=1.0, little=2.0), groups=("<b>",) * 4)
    found = pipeall.search(named, profile)
    with Pipeline(named, "B-L:2", board) as pipe:
        list(pipe.map(frames(net, 2)))
        shown = [named, profile, found, pipe.stats()]
    rows = [4, 4, len(found.ranked), 2]
    for thing, count in zip(shown, rows, strict=True):
        html = thing._repr_html_()
        assert html.startswith("<table>") and html.endswith("</table>") and html.count("<tr>") == count + 1
        assert "<script" not in html and "<b>" not in html
    assert "&lt;script&gt;" in named._repr_html_() and "&lt;b&gt;" in profile._repr_html_()


def test_long_tables_end():
    html = notebook.html_table("many", ("a", "b"), [(i, i / 3) for i in range(1000)])
    assert html.count("<tr>") == notebook.MAX_ROWS + 2 and "and 940 more" in html and ">0.333<" in html


# ---- types ----


def mypy(script: Path, folder: Path) -> subprocess.CompletedProcess:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("no mypy: pip install mypy")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        f"--cache-dir={folder}",
        str(script),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_users_script_is_typed(tmp_path):
    text = SCRIPT.read_text()
    assert not [name for name in pipeall.__all__ if f"pipeall.{name}" not in text]
    done = mypy(SCRIPT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_scripts_are_found(tmp_path):
    """That the types above are types, and not all ``Any``."""
    script = tmp_path / "wrong.py"
    lines = ["pipeall.nothing", "pipeall.Engine(3)", "pipeall.search(1, 2)", "n: int = pipeall.load('x').groups"]
    script.write_text("\n".join(["import pipeall", *lines, "b: int = pipeall.Board.detect().components['big'].letter"]))
    done = mypy(script, tmp_path)
    assert done.returncode == 1
    assert {int(line.split(":")[1]) for line in done.stdout.splitlines()[:-1]} == {2, 3, 4, 5, 6}, done.stdout


# ---- logs ----


def test_logs_say_why(net, board, keeping, caplog):
    caplog.set_level(logging.DEBUG, "pipeall")
    there = Board.detect(gpu=False)
    with Pipeline(net, board=there):
        pipeall.search(net, timed(net, there, big=1.0, little=2.0))
    messages = {record.name: record.getMessage() for record in caplog.records}
    assert all(record.levelno == logging.DEBUG and record.name.startswith("pipeall.") for record in caplog.records)
    assert "no opencl device: this board was made with gpu=False" in caplog.text
    assert "big: 1 x" in caplog.text or "big: " in caplog.text
    assert "default plan of quick: big-little" in messages["pipeall.pipeline.boards.default_plan"]
    assert "takes the kernels" in messages["pipeall.pipeline.devices.cpu.device"]
    assert "us; the model's choice is" in messages["pipeall.pipeline.devices.cpu.tune"]
    assert "best big" in messages["pipeall.pipeline.planning.search"]


def test_nothing_is_shown_unasked(tmp_path):
    """And no handler is there but the one that does nothing."""
    script = (
        "import logging, sys; sys.path.insert(0, sys.argv[1]); import pipeall; from graphs import small_net\n"
        "with pipeall.Pipeline(small_net(), board=pipeall.Board.detect(gpu=False)): pass\n"
        "assert [type(h).__name__ for h in logging.getLogger('pipeall').handlers] == ['NullHandler']\n"
        "assert not logging.getLogger().handlers"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent)], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- all cores ----


def test_an_engine_takes_all_equal_cores(net, board):
    everyone = sorted(core for part in board.components.values() for core in part.device.cores)
    assert sorted(board.component("cpu").device.cores) == everyone and board.component("C").name == "cpu"
    assert "cpu" not in board.components  # a search and a profile have it only by its name
    (x,) = frames(net, 1)
    answers = []
    for component in (None, "cpu", "C", "cpux1", "big"):
        with Engine(net, component, board) as engine:
            answers.append(engine(x))
            if component in (None, "cpu", "C"):
                assert engine.stats().stages[0].unit == "cpu"
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    with Engine(net, board=board, threads=1) as engine:
        assert engine.stats().stages[0].unit == "cpux1"


def test_unequal_clusters(vim3_clusters):
    board = Board(vim3_clusters, gpu=False)
    assert not equal(vim3_clusters) and board.default_component == "big"
    cpu = joined(vim3_clusters)
    assert set(cpu.cores) == {core for cluster in vim3_clusters for core in cluster.cores}
    assert cpu.core_type == "cortex-a73" and cpu.isas == ("neon", "ref")
    assert board.component("cpu").device.width == len(cpu.cores)
    with pytest.raises(DeviceError, match="no component 'cpu' on this board"):
        Board.load("a311d").component("cpu")


@pytest.fixture
def vim3_clusters(board):
    whole = board.component("big").device.cluster
    big = replace(whole, core_type="cortex-a73", isas=("neon", "ref"), cores=(2, 3, 4, 5), max_mhz=2208.0)
    return big, replace(big, name="little", core_type="cortex-a53", cores=(0, 1), max_mhz=1800.0)


def test_all_cores_stand_beside_no_cluster(net, board):
    for text in ("cpu-big:2", "C+L", "Cx1-L:1"):
        with pytest.raises(ArgumentError, match="expected no cores in common"):
            Plan.parse(text)
    assert Plan.parse("C-G:2").units == ("cpu", "gpu") and Plan.parse("Cx1-Cx1:2").units == ("cpux1", "cpux1")
    assert teams(["big", "cpu", "gpu"], 3) == [("big",), ("cpu",), ("gpu",), ("big", "gpu"), ("cpu", "gpu")]
    profile = made_up({"cpu": [1.0] * 4, "big": [2.0] * 4, "little": [2.0] * 4})
    assert np.isinf(profile.handover("cpu", "big")[0]).all() and not profile.handover("big", "little")[0].any()


def test_all_cores_in_profile_and_search_by_name(net, board):
    profile = pipeall.profile(net, board, ["big", "little", "cpu"], seconds=0.05)
    assert set(profile.units) == {"big", "little", "cpu"} and not {("cpu", "big"), ("big", "cpu")} & set(profile.links)
    assert "cpu" not in profile.contention.get("big", {})
    found = pipeall.search(net, profile)
    assert not [choice for choice in found.ranked if len(choice.plan.units) > 1 and "cpu" in choice.plan.units]
    assert "cpu" in {str(choice.plan) for choice in found.ranked}
