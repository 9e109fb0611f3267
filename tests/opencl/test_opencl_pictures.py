"""Pictures on OpenCL: against float64 and Pillow, the CPU's kernels, and through plans that begin with the GPU."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from bounds import bound
from commands import invoke, ran
from graphs import Net, picture_net
from strided_memory import HALF

from pipeall import Board, DeviceError, Engine, Picture, Pipeline, Plan, search, zoo
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.picture_input import with_picture
from pipeall.picture import MAX_SIDE
from pipeall.pipeline.devices.opencl.opencl_device import unsupported
from pipeall.pipeline.devices.opencl.opencl_program import ClProgram
from pipeall.pipeline.lane import lowered_stages
from pipeall.steps import ARENA

Image = pytest.importorskip("PIL.Image", reason="decoding photos needs Pillow: pip install 'pipeall[cli]'")

RNG = np.random.default_rng(11)
BOARDS = ("a311d", "a311d-armcl", "rk3399", "rk3399pro", "rk3588", "rk3588-ncnn", "rpi4", "rpi5")


def image(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_every_case(precision, device):
    """Every pixel format, filter, fit and standard, against float64."""
    for case in CASES["picture"][:: 1 if precision == "fp32" else 7]:
        graph, inputs = case_graph(case)
        expected, lowered = run_graph(graph, inputs)["y"], lower(graph)
        (out,) = lowered.slot_out
        program = ClProgram(lowered, device, precision=precision)
        found = program.run(np.zeros(lowered.slot_in_bytes // 8, np.int64)).view(np.float32)
        found = found[out.offset : out.offset + expected.size].reshape(expected.shape)
        error, allowed = np.abs(found - expected), bound(graph, inputs, expected)
        if precision == "mixed":
            allowed = allowed + HALF * np.abs(expected) + 2.0**-24
        assert (error <= allowed).all(), f"{case}: error {error.max():.3g}, allowed {allowed.min():.3g}"


def both(frames, picture, size, board, plan, **options):
    """What a network of 1x1 convolutions gives by the plan, and on the CPU's kernels."""
    graph = picture_net(size)
    with Engine(graph, "big", board, input=picture) as engine:
        expected = [engine(frame) for frame in frames]
    with Pipeline(graph, plan, board, input=picture, **options) as pipe:
        found = list(pipe.map(frames))
        assert str(pipe.plan) == str(Plan.parse(plan)) and len(pipe.stats().stages) == len(pipe.plan.units)
    return np.stack(found), np.stack(expected)


@pytest.mark.parametrize("plan", ["gpu", "G-B-L:1,2", "B+G", "G-B:1~2"])
def test_frames_of_all_sizes_and_places(plan, board_with_gpu):
    """They grow and shrink while others are under way; parts of larger ones, upside down, one row again and again."""
    big = image(300, 400, 3)
    frames = [image(20 + 37 * i % 400, 30 + 91 * i % 700, 3) for i in range(24)]
    frames += [big[40:250, 30:301], big[::-1], big[:, ::-1], big[::2], np.broadcast_to(big[:1], big.shape), big[:1]]
    found, expected = both(frames, Picture(fit="letterbox", value=114), (24, 40), board_with_gpu, plan)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.02)  # levels up to 255 through three layers


@pytest.mark.parametrize("frames", ["NV12", "I420", "YUYV", "GRAY", "BGR"])
@pytest.mark.parametrize("precision", ["mixed", "fp16"])
def test_in_half_precision(frames, precision, board_with_gpu):
    """Within what halves round the levels and sums of three layers to."""
    if precision == "fp16" and not board_with_gpu.component("gpu").device.info.fp16:
        precision = "mixed"
    shape = {"NV12": (90, 64), "I420": (90, 64), "YUYV": (60, 64, 2), "GRAY": (61, 63), "BGR": (61, 63, 3)}[frames]
    picture = Picture(frames=frames, filter="antialias", scale=255.0)
    found, expected = both([image(*shape)], picture, (20, 30), board_with_gpu, f"G@{precision}-B:2")
    assert np.abs(found - expected).max() <= 16 * HALF * max(1.0, np.abs(expected).max())


def test_pillow_sees_the_same(board_with_gpu):
    x, (h, w) = image(331, 467, 3), (40, 56)
    net = Net((1, 3, h, w))
    as_it_is = net.graph(net.op("clip", "x0", lo=-1e9, hi=1e9))
    with Engine(as_it_is, "gpu", board_with_gpu, input=Picture(filter="antialias")) as engine:
        found = engine(x)[0].transpose(1, 2, 0)
    expected = np.asarray(Image.fromarray(x).resize((w, h), Image.Resampling.BILINEAR), np.float64)
    assert np.abs(found - expected).max() <= 1.001  # Pillow rounds after each axis, half a level each


@pytest.mark.parametrize("shape", [(2, MAX_SIDE, 3), (MAX_SIDE, 2, 3)])
def test_the_largest_sides(shape, board_with_gpu):
    for kind in ("antialias", "area"):
        found, expected = both([image(*shape)], Picture(filter=kind), (37, 53), board_with_gpu, "gpu")
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.02)


def test_frames_live_until_they_are_read(board_with_gpu):
    frames = [image(31 + i, 57, 3) for i in range(12)]
    alive = [weakref.ref(frame) for frame in frames]
    copies = [frame.copy() for frame in frames]
    with Pipeline(picture_net((24, 24)), "G-B:1", board_with_gpu, input=Picture()) as pipe:
        found = list(pipe.map(frames.pop(0) for _ in range(12)))
        gc.collect()
        assert [ref for ref in alive if ref() is not None] == []
        np.testing.assert_array_equal(found, list(pipe.map(copies)))


def test_a_picture_that_is_stored_as_integers_is_refused(device):
    graph, _ = case_graph(CASES["picture"][0])
    lowered = lower(graph)
    (step, *rest) = lowered.steps
    stored = replace(lowered, steps=(replace(step, dst=replace(step.dst, dtype="uint8")), *rest))
    assert "OpenCL has no picture kernel for uint8" in unsupported(stored, "fp32")
    moved = replace(lowered, steps=(replace(step, src=(replace(step.src[0], base=ARENA),)), *rest))
    with pytest.raises(DeviceError, match="expected what describes a frame in a slot"):
        ClProgram(moved, device)
    assert all(unsupported(lowered, precision) is None for precision in ("fp32", "fp16", "mixed"))


# ---- plans that tools write ----


@pytest.mark.parametrize("name", ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet"))
def test_plans_that_search_writes_run_on_pictures(name, board_with_gpu, tmp_path):
    """For every board: every stage has all its kernels here, also of the step that reads pictures."""
    graph = getattr(zoo, name)()
    pictured, plans = with_picture(graph, Picture()), set()
    for board in map(Board.load, BOARDS):
        search(graph, board.model.profile(graph)).best.save(tmp_path / "plan.json", graph)
        plans.add(Plan.load(tmp_path / "plan.json", pictured))
    for lane in (lane for plan in plans for lane in plan.lanes):
        for stage, part in zip(lane, lowered_stages(pictured, lane), strict=True):
            assert board_with_gpu.component(stage.unit.whole).device.unsupported(part) is None, f"{lane}: {stage}"
    assert any(plan.units[0] == "gpu" for plan in plans)


@pytest.mark.parametrize("words", [["--plan", "PLAN"], ["--plan", "B+L+G"], ["--plan", "G-B-L:3,5"]])
def test_the_command_runs_them(words, board_with_gpu, tmp_path):
    Image.fromarray(image(50, 70, 3)).save(tmp_path / "photo.png")
    assert invoke("search", "squeezenet", "--board", "a311d-armcl", "-o", tmp_path / "PLAN.json").exit_code == 0
    words = [word.replace("PLAN", str(tmp_path / "PLAN.json")) for word in words]
    expected, _ = ran("squeezenet", tmp_path / "photo.png", "--plan", "B")
    (found,), figures = ran("squeezenet", tmp_path / "photo.png", *words)
    assert "gpu" in figures["plan"]
    assert found["classes"][0]["category_id"] == expected[0]["classes"][0]["category_id"]
