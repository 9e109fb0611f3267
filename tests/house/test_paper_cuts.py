"""What a user's first script meets: models of any form, pickles, texts, types, logs, all cores of a machine."""

import copy
import importlib.util
import logging
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import quick_net
from graphs import frames
from onnx_models import of_graph
from profiles import made_up, measured_here, quick_part

import pipeall
from pipeall import ArgumentError, Board, DeviceError, Engine, ModelError, Pipeline, Plan, notebook
from pipeall._kernels.cpu.cluster import equal, joined
from pipeall.graph.ir import Quantization, Tensor
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.pipeline.planning.units import unit_sets

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/support/user_script.py"


@pytest.fixture
def net():
    return quick_net()


@pytest.fixture
def file(net, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_bytes(net))
    return path


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
    found = pipeall.search(net, measured_here(net, board, big=1.0, little=2.0))
    assert repr(pickle.loads(pickle.dumps(found))) == repr(found)


# ---- texts ----


def test_objects_say_what_they_are(net, board):
    profile = measured_here(net, board, big=1.0, little=2.0)
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
            repr(Board.load("a311d-armcl")): "<Board a311d-armcl, a model: big 4 x Cortex-A73",
            repr(board.component("big")): "<Component big: ",
            repr(engine): "<Engine of quick on cpu: 1 frames done, 0 pending, open>",
            repr(pipe): "<Pipeline of quick on big-little:2: 3 frames done, 0 pending, open, plan given>",
            repr(profile): "<Profile of quick, measured 20",
            repr(
                replace(profile, modelled=True, about={})
            ): "<Profile of quick, modelled: big 4.00 ms, little 8.00 ms>",
            repr(Plan.parse("B-L:2")): "<Plan big-little:2>",
            repr(found): "<SearchResult for quick, best throughput: ",
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
    profile = replace(measured_here(named, board, big=1.0, little=2.0), groups=("<b>",) * 4)
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
        pipeall.search(net, measured_here(net, there, big=1.0, little=2.0))
    messages = {record.name: record.getMessage() for record in caplog.records}
    assert all(record.levelno == logging.DEBUG and record.name.startswith("pipeall.") for record in caplog.records)
    assert "no opencl device: this board was made with gpu=False" in caplog.text
    assert "big: 1 x" in caplog.text or "big: " in caplog.text
    assert "default plan of quick: big-little" in messages["pipeall.pipeline.boards.default_plan"]
    assert "takes the kernels" in messages["pipeall.pipeline.devices.cpu.cpu_device"]
    assert "us; the model's choice is" in messages["pipeall.pipeline.devices.cpu.tune_cpu"]
    assert "best " in messages["pipeall.pipeline.planning.search"]


def test_nothing_is_shown_unasked(tmp_path):
    """And no handler is there."""
    script = (
        "import logging, sys; sys.path.insert(0, sys.argv[1]); import pipeall; from graphs import small_net\n"
        "with pipeall.Pipeline(small_net(), board=pipeall.Board.detect(gpu=False)): pass\n"
        "assert not (logging.getLogger('pipeall').handlers or logging.getLogger().handlers)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(ROOT / "tests/support")], cwd=ROOT, capture_output=True, text=True
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
        Board.load("a311d-armcl").component("cpu")


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
    assert unit_sets(["big", "cpu", "gpu"], 3) == [("big",), ("cpu",), ("gpu",), ("big", "gpu"), ("cpu", "gpu")]
    profile = made_up({"cpu": [1.0] * 4, "big": [2.0] * 4, "little": [2.0] * 4})
    assert np.isinf(profile.handover("cpu", "big")[0]).all() and not profile.handover("big", "little")[0].any()


def test_all_cores_in_profile_and_search_by_name(net, board):
    profile = pipeall.profile(net, board, ["big", "little", "cpu"], seconds=0.05)
    assert set(profile.units) == {"big", "little", "cpu"} and not {("cpu", "big"), ("big", "cpu")} & set(profile.links)
    assert "cpu" not in profile.contention.get("big", {})
    found = pipeall.search(net, profile, top=100)
    assert not [choice for choice in found.ranked if len(choice.plan.units) > 1 and "cpu" in choice.plan.units]
    assert "cpu" in {str(choice.plan) for choice in found.ranked}
