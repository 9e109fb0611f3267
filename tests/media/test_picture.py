"""Pictures as input: against Pillow, torch and plain float64; frames of any size, format and layout in memory."""

import gc
import weakref

import numpy as np
import pytest
from graphs import picture_net
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_nets import named_y, network, seen

from pipeall import ArgumentError, Engine, Graph, ModelError, Picture, Pipeline
from pipeall.graph.ir import Node, Tensor
from pipeall.graph.ops import attributes, run_graph
from pipeall.graph.passes.picture_input import with_picture
from pipeall.picture import described, frame_of

RNG = np.random.default_rng(5)


def image(h, w, channels=3):
    return RNG.integers(0, 256, (h, w, channels) if channels else (h, w), dtype=np.uint8)


SIDES = st.integers(17, 400) | st.sampled_from([1, 2, 4000])


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES, st.integers(1, 90), st.integers(1, 90), st.sampled_from(["antialias", "nearest"]), st.booleans())
def test_pillow_sees_the_same(board, h, w, rows, columns, kind, crop):
    from PIL import Image

    frame = image(h, w)
    picture = Picture(filter=kind, fit="crop" if crop else "stretch", keep=0.8 if crop else 1.0)
    top, left, height, width = picture.placed((h, w), (rows, columns)).window
    if kind == "nearest" and crop:
        return  # Pillow rounds the corners of a box to pixels for it
    method = Image.Resampling.BILINEAR if kind == "antialias" else Image.Resampling.NEAREST
    box = (left, top, left + width, top + height)
    expected = np.asarray(Image.fromarray(frame).resize((columns, rows), method, box), np.float64)
    clear = [np.full(n, True) for n in (rows, columns)]
    if kind == "nearest":  # a middle between two pixels is nearer to neither
        clear = [((np.arange(n) + 0.5) * side / n + 1e-6) % 1 > 2e-6 for n, side in ((rows, h), (columns, w))]
    error = np.abs(seen(frame, picture, (rows, columns), board) - expected)[np.ix_(*clear)]
    assert error.max(initial=0) <= 1.001  # Pillow rounds after each axis, half a level each


@pytest.mark.parametrize(("h", "w", "size"), [(1080, 1920, (64, 64)), (33, 47, (90, 71)), (100, 31, (99, 32))])
def test_bilinear_as_torch(board, h, w, size):
    torch = pytest.importorskip("torch", reason="the reference: pip install torch")
    frame = image(h, w)
    x = torch.from_numpy(frame.astype(np.float64)).permute(2, 0, 1)[None]
    expected = (
        torch.nn.functional.interpolate(x, size, mode="bilinear", align_corners=False)[0].permute(1, 2, 0).numpy()
    )
    for layout in ("NCHW", "NHWC"):
        np.testing.assert_allclose(seen(frame, Picture(), size, board, layout=layout), expected, atol=1e-3)


def test_area_is_the_mean_of_what_a_pixel_covers(board):
    frame = image(30, 42)
    fine = frame.astype(np.float64).repeat(7, 0).repeat(5, 1)  # 210 x 210: both sides divide it
    expected = fine.reshape(7, 30, 15, 14, 3).mean((1, 3))
    np.testing.assert_allclose(seen(frame, Picture(filter="area"), (7, 15), board), expected, atol=1e-3)


def test_letterbox_keeps_proportions_and_fills(board):
    frame = np.full((50, 100, 3), 200, np.uint8)
    picture = Picture(fit="letterbox", value=114, scale=2, mean=(1, 2, 3), std=(1, 2, 4), channels="BGR")
    for centered, top in ((True, 10), (False, 0)):
        y = seen(frame, Picture(**{**asdict(picture), "centered": centered}), (40, 40), board)
        inside = np.zeros((40, 40), bool)
        inside[top : top + 20] = True
        for c, (mean, std) in enumerate(((1, 1), (2, 2), (3, 4))):
            np.testing.assert_allclose(y[inside][:, c], (100 - mean) / std, rtol=1e-6)
            np.testing.assert_allclose(y[~inside][:, c], (57 - mean) / std, rtol=1e-6)


def asdict(picture):
    return {name: getattr(picture, name) for name in picture.__dataclass_fields__}


def test_yuv_as_pillow_converts_it(board):
    """Within two levels: Pillow's is full range, so the levels are stretched first."""
    from PIL import Image

    y, u, v = (RNG.integers(60, 190, (8, 8)).repeat(4, 0).repeat(4, 1).astype(np.uint8) for _ in range(3))
    full = [np.clip((y - 16.0) * 255 / 219, 0, 255), *((c - 128.0) * 255 / 224 + 128 for c in (u, v))]
    expected = np.asarray(Image.fromarray(np.stack(full, 2).round().astype(np.uint8), "YCbCr").convert("RGB"), float)
    quarter = [c[::2, ::2] for c in (u, v)]
    frames = {
        "NV12": np.vstack([y, np.stack(quarter, 2).reshape(16, 32)]),
        "I420": np.vstack([y, np.stack(quarter).reshape(16, 32)]),
        "YUYV": np.stack([y, np.stack([u[:, ::2], v[:, ::2]], 2).reshape(32, 32)], 2),
    }
    for name, frame in frames.items():
        assert np.abs(seen(frame, Picture(frames=name), (32, 32), board) - expected).max() <= 2, name


def test_frames_as_they_come(board):
    """Parts of larger pictures, upside down, wider rows, buffers, Pillow's pictures; sizes that change."""
    from PIL import Image

    big = image(300, 400)
    picture, size = Picture(filter="area"), (20, 30)
    with Engine(network(size), "big", board, 1, input=picture) as engine:
        for frame in (big[40:250, 30:301], big[::-1], big[:, ::-1], big[::2], memoryview(big), Image.fromarray(big)):
            plain = np.ascontiguousarray(np.asarray(frame))
            np.testing.assert_array_equal(engine(frame), engine(plain))
            rows, sides = frame_of(plain, "RGB")
            graph = with_picture(network(size), picture)
            words = described(rows, sides, picture.placed(sides, size))
            np.testing.assert_allclose(engine(frame), run_graph(graph, {"x": words})["y"], atol=1e-3)


def test_in_a_pipeline_frames_live_until_they_are_read(board_with_gpu):
    """On the last of three stages' threads, after the caller has let go of them; then they are free."""
    graph = picture_net((24, 24))
    frames = [image(31 + i, 57) for i in range(20)]
    expected = []
    with Engine(graph, "big", board_with_gpu, input=Picture()) as engine:
        expected = [engine(frame) for frame in frames]
    alive = [weakref.ref(frame) for frame in frames]
    with Pipeline(graph, "big-gpu-little:1,2", board_with_gpu, input=Picture()) as pipe:
        results = list(pipe.map(frames.pop(0) for _ in range(20)))
        gc.collect()
        assert [ref for ref in alive if ref() is not None] == []
    for y, z in zip(results, expected, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-4)


def test_apart_it_is_a_group_of_its_own(board):
    graph = picture_net((24, 24))
    whole, apart = (with_picture(graph, Picture(apart=apart)) for apart in (False, True))
    assert (len(graph.groups), len(whole.groups), len(apart.groups)) == (3, 3, 4)
    frame = image(40, 60)
    with (
        Pipeline(graph, "little-big:1", board, input=Picture(apart=True)) as pipe,
        Engine(whole, "big", board) as engine,
    ):
        pipe.submit(frame)
        np.testing.assert_allclose(pipe.result(), engine(frame), rtol=1e-5)


def test_what_a_network_does_first_is_done_on_the_way_in(board):
    """uint8 NHWC, cast, divided, mean and deviation of each channel, transposed: one step."""
    x = Tensor("x", (1, 9, 7, 3), "uint8")
    mean = np.array([0.4, 0.5, 0.6], np.float32).reshape(1, 1, 1, 3)
    chain = [
        ("cast", (), attributes("cast", to="float32")),
        ("mul", (np.full((1, 1, 1, 1), 1 / 255, np.float32),), attributes("mul")),
        ("sub", (mean,), attributes("sub")),
        ("transpose", (), attributes("transpose", perm=(0, 3, 1, 2))),
        ("sub", (np.ones((1, 1, 1, 1), np.float32),), attributes("sub", swapped=True)),
    ]
    nodes, tensors, constants, before = [], {"x": x}, {}, "x"
    for i, (op, arrays, attrs) in enumerate(chain):
        constants |= {f"c{i}": array for array in arrays}
        shape = (1, 9, 7, 3) if i < 3 else (1, 3, 9, 7)
        nodes.append(Node(f"n{i}", op, (before, *(f"c{i}" for _ in arrays)), f"t{i}", attrs))
        before, tensors[f"t{i}"] = f"t{i}", Tensor(f"t{i}", shape)
    nodes.append(Node("last", "abs", (before,), "y", attributes("abs")))
    tensors["y"] = Tensor("y", (1, 3, 9, 7))
    graph = with_picture(Graph("first", tuple(nodes), tensors, constants, (x,), (tensors["y"],)), Picture())
    assert [node.op for node in graph.nodes] == ["picture", "abs"] and not graph.constants
    frame = image(9, 7)
    expected = np.abs(1 - (frame / 255 - mean[0])).transpose(2, 0, 1)[None]
    with Engine(graph, "big", board) as engine:
        np.testing.assert_allclose(engine(frame), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("frame", "frames"),
    [
        (np.zeros((4, 4, 3), np.float32), "RGB"),
        (np.zeros((4, 4, 4), np.uint8), "RGB"),
        (np.zeros((0, 4, 3), np.uint8), "BGR"),
        (np.zeros((2, 2**14 + 1, 3), np.uint8), "RGB"),
        (np.zeros((5, 4), np.uint8), "NV12"),
        (np.zeros((6, 3), np.uint8), "I420"),
        (np.zeros((4, 3, 2), np.uint8), "YUYV"),
        ("picture.jpg", "RGB"),
        (np.ones(12, np.int64), "RGB"),
    ],
)
def test_other_frames_are_refused(frame, frames, board):
    with Engine(network((8, 8)), "big", board, input=Picture(frames=frames)) as engine:
        with pytest.raises(ArgumentError, match=f"^frame: expected {frames} as uint8"):
            engine(frame)


@pytest.mark.parametrize(
    ("name", "value"),
    [("fit", "squeeze"), ("filter", "sinc"), ("channels", "CMYK"), ("frames", "RGBA"), ("scale", 0), ("std", (1, 0, 1)),
     ("mean", (1, 2)), ("keep", 1.5), ("value", 256), ("scale", "255"), ("mean", float("nan"))],
)  # fmt: skip
def test_other_pictures_are_refused(name, value):
    with pytest.raises(ArgumentError, match=f"^{name}: expected"):
        Picture(**{name: value})


def test_networks_without_an_image_are_refused():
    with pytest.raises(ModelError, match=r"expected one input for a picture, \(1, 3, H, W\)"):
        with_picture(network((8, 8), 5), Picture())
    with pytest.raises(ModelError, match=r"expected one input for a picture, \(1, 1, H, W\)"):
        with_picture(network((8, 8)), Picture(channels="GRAY"))
    x = Tensor("x", (1, 3, 8, 8), "uint8")
    graph = Graph("bytes", (Node("n", "abs", ("x",), "y", {}),), {"x": x, "y": named_y(x)}, {}, (x,), (named_y(x),))
    with pytest.raises(ModelError, match="expected an input 'x' of float32, or a Cast or .* of it first, got uint8"):
        with_picture(graph, Picture())


def test_places_go_there_and_back():
    for picture in (Picture(fit="letterbox"), Picture(fit="crop", keep=0.9), Picture()):
        placed = picture.placed((480, 641), (320, 256))
        points = RNG.uniform(0, 256, (10, 2))
        np.testing.assert_allclose(placed.to_input(placed.to_picture(points)), points)
    placed = Picture(fit="letterbox").placed((100, 200), (64, 64))
    np.testing.assert_allclose(placed.to_picture([[0, 16], [64, 48]]), [[0, 0], [200, 100]])
