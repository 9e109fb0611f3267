"""The device on a stand-in for librknnrt: from slices to answers, at every place of a pipeline, and whatever fails."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pipeall_rknn import device
from stand_in import convert

import pipeall
from pipeall import Board, DeviceError, Engine, Pipeline, Plan, write_slices
from pipeall.graph.builder import GraphBuilder
from pipeall.graph.ir import Graph, Tensor
from pipeall.graph.passes.int8 import to_int8
from pipeall.pipeline.lane import lowered_stages
from pipeall.pipeline.measuring.exhaustive import offered
from pipeall.pipeline.planning.units import may_be_neighbours
from pipeall.testing import check_device
from pipeall.testing.device_checks import CHECKS
from pipeall.testing.device_runs import small_graph

HERE = Path(__file__).parent
GROUPS = [(i, i + 1) for i in range(4)]


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory):
    """The stand-in, built."""
    library = tmp_path_factory.mktemp("library") / "librknnrt.so"
    folders = [Path(device.__file__).parent, HERE.parent / "pipeall_rknn", sysconfig.get_path("include")]
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", *(f"-I{folder}" for folder in folders)]
    subprocess.run(["cc", *flags, HERE / "stand_in.c", "-o", library], check=True)
    return library


@pytest.fixture(scope="session")
def slices(tmp_path_factory):
    """Folders of two networks of the same names with other weights: all groups apart, and some together."""
    folders = []
    for seed in range(2):
        folder = tmp_path_factory.mktemp("slices")
        write_slices(small_graph(seed), [*GROUPS, (0, 4), (1, 3)], folder)
        convert(folder)
        folders.append(str(folder))
    return os.pathsep.join(folders)


@pytest.fixture
def variables(monkeypatch, stand_in, slices):
    known = {"RKNN_LIBRARY": str(stand_in), "PIPEALL_RKNN_SLICES": slices, "RKNN_CORES": "3"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    return known | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
def board(variables):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core only")
    return Board.detect(clusters=[[cores[0]], [cores[1]]])


def test_it_passes_what_every_device_must(board):
    assert check_device("npu", board) == list(CHECKS)


@pytest.mark.parametrize(
    "plan", ["N", "B-N-L:1,3", "B-N:3", "N-N1-N2:1,2", "B-N1-B:1,3", "N+N1+N2", "B-N:1~3", "N-B:1~3"]
)
def test_at_every_place(plan, board):
    """One slice or several in a stage, cores beside each other, cuts that float."""
    graph = small_graph()
    given = [np.random.default_rng(seed).standard_normal((1, 4, 12, 10)).astype(np.float32) for seed in range(24)]
    with Engine(graph, "big", board=board) as engine, Pipeline(graph, plan, board) as pipe:
        for found, frame in zip(pipe.map(given), given, strict=True):
            np.testing.assert_allclose(found, engine(frame), atol=1e-4)


def integers():
    """A network of integers but for its ends."""
    floats = small_graph()
    samples = [np.random.default_rng(seed).standard_normal((1, 4, 12, 10)).astype(np.float32) for seed in range(8)]
    return to_int8(pipeall.quantize(floats, samples, method="minmax").written), samples


@pytest.mark.parametrize("plan", ["N", "N-B:2", "B-N:2", "B-N-L:1,3", "N-N1-N2:1,2", "B-N:1~3"])
def test_integers_cross_as_they_are(plan, board, tmp_path, monkeypatch):
    """No float between: the stand-in refuses other types, and of slots and buffers an element is a byte."""
    graph, samples = integers()
    write_slices(graph, [*GROUPS, (0, 4), (1, 3), (0, 2), (2, 4), (1, 4)], tmp_path)
    convert(tmp_path)
    monkeypatch.setenv("PIPEALL_RKNN_SLICES", str(tmp_path))
    with Engine(graph, "big", board=board) as engine, Pipeline(graph, plan, board) as pipe:
        expected = [engine(x) for x in samples]
        quantum = max(np.abs(wanted).max() for wanted in expected) / 100
        for found, wanted in zip(pipe.map(samples), expected, strict=True):
            assert np.abs(found - wanted).max() <= quantum
    (lane,) = Plan.parse("B-N-L:1,3").lanes
    lowered = lowered_stages(graph, lane, [board.component(stage.unit) for stage in lane])[1]
    assert {slot.dtype for slot in (*lowered.slot_in, *lowered.slot_out)} == {"int8"}


def test_other_levels_are_refused(variables, board, tmp_path, monkeypatch):
    graph, _ = integers()
    write_slices(graph, [(1, 3)], tmp_path)
    convert(tmp_path)
    monkeypatch.setenv("PIPEALL_RKNN_SLICES", str(tmp_path))
    monkeypatch.setenv("STAND_IN_FAULT", "levels")
    zero = graph.cuts[0].tensors[0].quantization.single[1]
    with pytest.raises(
        DeviceError, match=f"small.2-3.rknn: expected .* and zero {zero}, got type 2 .* and zero {zero + 1}"
    ):
        Pipeline(graph, "B-N-L:1,3", board)


def deeper():
    """Five convolutions, each a group."""
    image = Tensor("x", (1, 4, 12, 10))
    net = GraphBuilder(Graph("deeper", (), {image.name: image}, {}, (image,), (image,)))
    random, x = np.random.default_rng(0), "x"
    for number in range(5):
        constants = (
            net.constant(f"w{number}", random.standard_normal((4, 4, 1, 1))),
            net.constant(f"b{number}", np.full(4, 0.1)),
        )
        x = net.add("conv", f"layer{number}", [x, *constants])
    return net.graph([x]).finer(1)


def residual_net():
    """256 channels, whose pixels lie apart in slots; a tensor that passes a group; an early output."""
    image = Tensor("x", (1, 4, 6, 5))
    net = GraphBuilder(Graph("residual", (), {image.name: image}, {}, (image,), (image,)))
    random = np.random.default_rng(0)

    def conv(name, x, before, channels):
        weight = random.standard_normal((channels, before, 3, 3)) / (9 * before) ** 0.5
        constants = net.constant(f"{name}/w", weight), net.constant(f"{name}/b", random.standard_normal(channels))
        return net.add("conv", name, [x, *constants], pads=(1,) * 4)

    first = conv("first", "x", 4, 256)
    early = net.add("sigmoid", "early", [first])
    x = conv("third", conv("second", first, 256, 256), 256, 256)
    x = conv("fourth", net.add("add", "sum", [x, first]), 256, 8)
    return net.graph([early, net.add("softmax", "last", [x], axis=1)]).finer(2)


@pytest.mark.parametrize("plan", ["N", "N-B:2", "B-N:2", "B-N-L:1,2", "B-N-L:1,3", "N-N1-B:1,2"])
def test_whatever_crosses(plan, board, tmp_path, monkeypatch):
    graph = residual_net()
    count = len(graph.groups)
    write_slices(graph, [(i, j) for i in range(count) for j in range(i + 1, count + 1) if j - i != 2], tmp_path)
    convert(tmp_path)
    monkeypatch.setenv("PIPEALL_RKNN_SLICES", str(tmp_path))
    given = [np.random.default_rng(seed).standard_normal((1, 4, 6, 5)).astype(np.float32) for seed in range(8)]
    with Engine(graph, "big", board=board) as engine, Pipeline(graph, plan, board) as pipe:
        for found, frame in zip(pipe.map(given), given, strict=True):
            for name, wanted in engine(frame).items():
                np.testing.assert_allclose(found[name], wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("plan", "apart", "files"), [("B-N-L:1,3", False, 1), ("B-N-L:1,3", True, 2), ("B-N:2", False, 2)]
)
def test_a_stage_is_one_slice_where_there_is_one(plan, apart, files, board):
    """Else, and where groups are timed, a slice for each group."""
    (lane,) = Plan.parse(plan).lanes
    lowered = lowered_stages(small_graph(), lane, [board.component(stage.unit) for stage in lane])[1]
    assert len(device.compiled(lowered, apart)) == files


def test_planning_goes_around_what_has_no_slice(board, tmp_path, monkeypatch):
    write_slices(small_graph(), [(1, 2), (2, 3), (1, 3)], tmp_path)
    convert(tmp_path)
    (tmp_path / "small.3-3.rknn").unlink()
    monkeypatch.setenv("PIPEALL_RKNN_SLICES", str(tmp_path))
    graph = small_graph()
    profile = pipeall.profile(graph, board, ["npu", "big"], seconds=0.05)
    times = profile.units["npu"]
    assert sorted(times.refused) == [1, 4] and f"groups 4 to 4 in {tmp_path}, which has 2-2, 2-3;" in times.refused[4]
    plans = [row.plan for row in pipeall.search(graph, profile, plans="pipelines").ranked]
    assert plans and not any("npu" in plan.units for plan in plans)  # it would have to be between two others
    plans = [row.plan for row in pipeall.search(graph, profile, "latency").ranked]
    assert {str(plan) for plan in plans if "npu" in plan.units} <= {"big-npu-big:1,2", "big-npu-big:1,3"}
    every = [str(plan) for plan in offered(graph, board, ["npu", "big", "little"]) if "npu" in plan.units]
    assert sorted(every) == [f"{order}:1,{cut}" for order in ("big-npu-little", "little-npu-big") for cut in (2, 3)]


@pytest.mark.parametrize("plan", ["B-N-L:1,3", "B-N-L:1,2", "B-N-L:1,4"])
def test_a_stage_of_several_files(plan, board, tmp_path, monkeypatch):
    """Of five groups files of 2 to 3 and of 4, not of 1 and 5: planned, timed and run."""
    write_slices(graph := deeper(), [(1, 3), (3, 4), (1, 2)], tmp_path)
    convert(tmp_path)
    monkeypatch.setenv("PIPEALL_RKNN_SLICES", str(tmp_path))
    times = pipeall.profile(graph, board, ["npu"], seconds=0.05).units["npu"]
    assert times.ranges.text == "2-2, 2-3, 2-4, 4-4" and sorted(times.refused) == [1, 5]
    frame = np.random.default_rng(0).standard_normal((1, 4, 12, 10)).astype(np.float32)
    with Engine(graph, "big", board=board) as engine, Pipeline(graph, plan, board, trace=True) as pipe:
        (found,) = pipe.map([frame])
        np.testing.assert_allclose(found, engine(frame), atol=1e-4)


def test_a_plan_that_no_file_computes_is_refused(board, tmp_path, monkeypatch):
    """The refusal names the groups, the folder, and a command that writes the slice."""
    write_slices(small_graph(), [(1, 3)], tmp_path)
    convert(tmp_path)
    monkeypatch.setenv("PIPEALL_RKNN_SLICES", str(tmp_path))
    with pytest.raises(DeviceError) as error:
        Pipeline(small_graph(), "B-N-L:1,2", board)
    assert str(error.value) == (
        f"stage npu: expected groups that it can run; npu has no slice of groups 2 to 2 in {tmp_path}, which has 2-3; "
        f"pipeall slice small.onnx --plan big-npu-little:1,2 --units npu -o {tmp_path} writes it"
    )


def test_what_it_says(board):
    parts = [board.component(name).device for name in ("npu", "npu1", "npu2")]
    assert [part.mask for part in parts] == [1, 2, 4] and len({part.resources for part in parts}) == 3
    assert all(part.stand_in and "never run on hardware" in part.description for part in parts)
    assert may_be_neighbours("npu", "npu1")


@pytest.mark.parametrize(("chip", "cores"), [(b"rockchip,rk3588s\0", 3), (b"rockchip,rk3576\0", 2), (b"rk3568", 1)])
def test_cores_of_a_chip(chip, cores, monkeypatch):
    monkeypatch.delenv("RKNN_CORES", raising=False)
    assert device.cores_of(chip) == cores


RUN = """
import os
from pipeall import Board, Pipeline, PipelineError
from pipeall.testing.device_runs import DISTINCT, Runs, small_graph
board = Board.detect(clusters=[[core] for core in sorted(os.sched_getaffinity(0))[:2]])
graph = small_graph()
runs = Runs(board, board.components["big"], graph, graph, 1e-3, 0)
with Pipeline(graph, "B-N-L:1,3", board) as pipe:
    for number in range(9):
        pipe.submit(runs.frames[number % DISTINCT])
        try:
            runs.check(number, pipe.result(timeout=20))
        except PipelineError as error:
            print(number, error)
            break
    else:
        print("all")
"""


def run(variables):
    """What a pipeline of nine frames prints, or its traceback, in a process of its own that must end."""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=60,
                          env=os.environ | variables)  # fmt: skip
    return done.stdout or done.stderr[-1500:]


LATE_FAULTS = {  # frame 4 is refused; those before come out
    "inputs_set:-8:5": "rknn_inputs_set: an input that it does not take (-8)",
    "run:-2:5": "rknn_run: timeout (-2)",
    "run:-1:5": "rknn_run: failed (-1)",
    "run:-3:5": "rknn_run: no NPU, or no driver for it (-3)",
    "outputs_get:-9:5": "rknn_outputs_get: an output that it does not give (-9)",
    "outputs_get:-99:5": "rknn_outputs_get: an error of no known kind (-99)",
}
EARLY_FAULTS = {
    "init:-3": "rknn_init: no NPU, or no driver for it (-3)",
    "init:-4": "rknn_init: no memory (-4)",
    "init:-10": "rknn_init: the NPU's driver does not match librknnrt (-10)",
    "set_core_mask:-5": "rknn_set_core_mask: a parameter that it does not take (-5)",
    "query:-7": "rknn_query: a context that is not open (-7)",
    "count": "expected (inputs, outputs) (1, 1), got (1, 2)",
    "shape": "expected conv0 of shape (1, 12, 10, 8), got (1, 12, 10, 9) in format 1",
    "format": "in format 2",
}


@pytest.mark.parametrize(("fault", "message"), LATE_FAULTS.items())
def test_a_frame_that_fails_is_one_error(fault, message, variables):
    printed = run(variables | {"STAND_IN_FAULT": fault})
    assert printed.startswith("4 ") and len(printed.splitlines()) == 1, printed
    assert f"small.2-3.rknn: {message}" in printed and "npu" in printed, printed


@pytest.mark.parametrize(("fault", "message"), EARLY_FAULTS.items())
def test_a_slice_that_does_not_load(fault, message, variables):
    printed = run(variables | {"STAND_IN_FAULT": fault})
    assert printed.count("DeviceError: ") == 1 and "small.2-3.rknn: " in printed and message in printed, printed


def test_a_slow_npu_loses_no_frame(variables):
    assert run(variables | {"STAND_IN_FAULT": "late:50"}) == "all\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 7}, "rknn_init: failed (-1)"),
        ({"platform": "rk3568"}, "rknn_init: compiled for another chip (-13)"),
    ],
)
def test_a_file_for_another_runtime(options, message, variables, tmp_path):
    write_slices(small_graph(), [(1, 3)], tmp_path)
    convert(tmp_path, **options)
    printed = run(variables | {"PIPEALL_RKNN_SLICES": str(tmp_path)})
    assert f"small.2-3.rknn: {message}" in printed, printed


def test_a_file_that_is_cut_off(variables, tmp_path):
    write_slices(small_graph(), [(1, 3)], tmp_path)
    (tmp_path / "small.2-3.rknn").write_bytes(b"RK")
    printed = run(variables | {"PIPEALL_RKNN_SLICES": str(tmp_path)})
    assert "rknn_init: not a model for this version of librknnrt (-6)" in printed, printed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RKNN_LIBRARY": "/nowhere/librknnrt.so"}, "librknnrt: /nowhere/librknnrt.so: cannot open"),
        ({"RKNN_LIBRARY": "libm.so.6"}, "libm.so.6: expected librknnrt, which has rknn_init"),
        ({"PIPEALL_RKNN_SLICES": ""}, "PIPEALL_RKNN_SLICES: expected folders of slices"),
        ({"PIPEALL_RKNN_SLICES": "/nowhere"}, "/nowhere"),
        ({"RKNN_CORES": "9"}, "RKNN_CORES: expected 1 to 3, got 9"),
    ],
)
def test_an_environment_that_does_not_fit(changed, message, variables):
    printed = run(variables | changed)
    assert "DeviceError: " in printed and message in printed, printed


TOOL = """
from pathlib import Path
from stand_in import write
class RKNN:
    def config(self, target_platform): self.chip = target_platform
    def load_onnx(self, model): self.model = model
    def build(self, do_quantization, dataset):
        samples = [line.split() for line in Path(dataset).read_text().splitlines()]
        assert do_quantization and len(samples) == 3 and all(Path(file).exists() for one in samples for file in one)
    def export_rknn(self, path): write(self.model, path, platform=self.chip)
    def release(self): pass
"""


def test_from_slices_to_answers(variables, tmp_path):
    """By the commands of the README, with a stand-in for the vendor's tool."""
    (tmp_path / "tool" / "rknn").mkdir(parents=True)
    (tmp_path / "tool" / "rknn" / "api.py").write_text(TOOL)
    variables["PYTHONPATH"] = f"{tmp_path / 'tool'}{os.pathsep}{variables['PYTHONPATH']}"
    pipeall.save_onnx(pipeall.zoo.squeezenet(), tmp_path / "net.onnx")
    for seed in range(3):
        pixels = np.random.default_rng(seed).integers(0, 256, (240, 250, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{seed}.png")

    def command(*words):
        return subprocess.run([sys.executable, *words], cwd=tmp_path, env=os.environ | variables, text=True, check=True,
                              stdout=subprocess.PIPE, timeout=120).stdout  # fmt: skip

    pictures = [f"{seed}.png" for seed in range(3)]
    command("-m", "pipeall", "slice", "net.onnx", *pictures, "--plan", "B-N-B:5,11", "--units", "npu", "-o", "slices")
    command(str(HERE.parent / "convert.py"), "slices", "rk3588")
    variables["PIPEALL_RKNN_SLICES"] = str(tmp_path / "slices")
    run_it = ("-m", "pipeall", "run", "net.onnx", *pictures, "--json", "--plan")
    found, wanted = (list(map(json.loads, command(*run_it, plan).splitlines())) for plan in ("B-N-B:5,11", "B"))
    for mine, alone in zip(found[:3], wanted[:3], strict=True):
        assert mine["source"] == alone["source"]
        ids, scores = zip(*((one["category_id"], one["score"]) for one in mine["classes"]), strict=True)
        assert ids[0] == alone["classes"][0]["category_id"]
        np.testing.assert_allclose(scores, [one["score"] for one in alone["classes"]], atol=1e-4)
