"""Text in pictures: where it is and what it says, rendered and photographed."""

import re

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
pytest.importorskip("PIL", reason="decoding photos needs Pillow: pip install 'pipeall[cli]'")

import edge_networks
import task_decoders as reference
from PIL import Image, ImageDraw, ImageFont
from task_images import opened
from task_photos import Seen, only

from pipeall import tasks
from pipeall.tasks.contours import clockwise, connected, outline, rectangle

LINES = ("Networks on Arm boards", "17 frames, 42.5 ms")
LINE_SIZE = [48, 960]  # the recognizer takes any width


@pytest.fixture(scope="module")
def readers(data_dir):
    networks = {network.name: network for network in edge_networks.networks(data_dir / "edge")}
    networks["ch_PP-OCRv4_rec_infer"].about["size"] = LINE_SIZE
    return Seen(networks["ch_PP-OCRv4_det_infer"]), Seen(networks["ch_PP-OCRv4_rec_infer"])


@pytest.fixture(scope="module")
def rendered():
    """Two lines, turned by six degrees."""
    paper, ink = (235, 235, 225), (20, 20, 60)
    page = Image.new("RGB", (640, 448), paper)
    for line, y in zip(LINES, (80, 200), strict=True):
        ImageDraw.Draw(page).text((60, y), line, ink, ImageFont.load_default(36))
    return page.rotate(-6, Image.Resampling.BILINEAR, fillcolor=paper)


def read(readers, photo):
    finder, reader = readers
    found = [tasks.cut_out(np.asarray(photo), line.corners) for line in finder(photo).texts]
    return [text.text for line in found for text in reader(Image.fromarray(line)).texts]


def plain(text):
    return re.sub(r"\W", "", text).lower()


def test_rendered_lines_are_read(readers, rendered):
    assert [plain(line) for line in read(readers, rendered)] == [plain(line) for line in LINES]


def test_a_photographed_sign_is_read(readers, data_dir):
    lines = [plain(line) for line in read(readers, opened(data_dir / "scenes" / "paddleocr_sample.jpg"))]
    assert {"japantourismagency", "japancoastguard"} <= set(lines)
    assert any(line.startswith("ministryofland") and line.endswith("andtourism") for line in lines)
    assert any(line.endswith("交通省") for line in lines)


def same_corners(a, b):
    """Two rectangles' corners lie on each other in some order: a square has no first corner."""
    distances = np.linalg.norm(np.array(a)[:, None] - np.array(b), axis=2)
    return distances.min(0).max() <= 0.5 and distances.min(1).max() <= 0.5


def test_lines_are_those_of_an_independent_decoder(readers, rendered, data_dir):
    finder, _ = readers
    scenes = data_dir / "scenes"
    for photo in (rendered, *(opened(scenes / name) for name in ("paddleocr_sample.jpg", "jetson_humans_6.jpg"))):
        outputs, placed = finder.outputs(photo)
        size, texts = (photo.height, photo.width), finder.task(outputs, placed).texts
        frame = reference.in_photo("letterbox", size, finder.task.size, False)
        expected = reference.text_lines(only(finder.graph, outputs)[0, 0])
        assert len(texts) == len(expected) > 1
        for score, corners in expected:
            spots = np.clip([frame(*corner) for corner in corners], 0, photo.size)
            near = [text for text in texts if same_corners(text.corners, spots)]
            assert len(near) == 1 and abs(near[0].score - score) <= 1e-3


def test_characters_are_those_of_an_independent_decoder(readers, rendered):
    _, reader = readers
    outputs, placed = reader.outputs(rendered.rotate(6).crop((50, 75, 480, 130)))
    (text,) = reader.task(outputs, placed).texts
    expected, score = reference.spoken(only(reader.graph, outputs)[0], reader.graph.metadata["character"])
    assert (text.text, text.score) == (expected, pytest.approx(score, abs=1e-5)) and len(expected) > 10


# ---- regions ----


@pytest.mark.parametrize("seed", range(5))
def test_connected_parts_are_those_of_a_flood(seed):
    random = np.random.default_rng(seed)
    pixels = random.random((random.integers(1, 40), random.integers(1, 40))) < (0.2, 0.35, 0.5, 0.9, 0.0)[seed]
    runs, parts = connected(pixels), {}
    for row, begin, end, part in zip(runs.row, runs.begin, runs.end, runs.part, strict=True):
        parts.setdefault(int(part), set()).update((int(row), column) for column in range(begin, end))
    left, expected = {tuple(pixel) for pixel in np.argwhere(pixels).tolist()}, []
    while left:
        whole, waiting = set(), {left.pop()}
        while waiting:
            whole |= waiting
            waiting = {(y + i, x + j) for y, x in waiting for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= waiting
        expected.append(whole)
    assert sorted(map(sorted, parts.values())) == sorted(map(sorted, expected)) and len(expected) == runs.parts


def test_the_smallest_rectangle_of_a_turned_one_is_that_one():
    for degrees in range(-44, 45, 11):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        corners = np.array([(-40, -8), (40, -8), (40, 8), (-40, 8)]) @ [[c, s], [-s, c]] + 100
        cut = np.insert(corners, 2, corners[1:3].mean(0) + (corners[1] - corners[0]) * 1e-9, 0)  # a corner more
        found, *sides = rectangle(cut)
        assert np.allclose(found, corners, atol=1e-6) and sorted(sides) == pytest.approx([16, 80])


@pytest.mark.parametrize("seed", range(6))
def test_outlines_are_convex_and_around_all_pixels(seed):
    random = np.random.default_rng(seed)
    row = np.sort(np.concatenate((np.arange(5, 25), random.integers(5, 25, 10))))  # some rows have two runs
    begin = random.integers(0, 40, 30)
    end = begin + random.integers(1, 20, 30)
    corners = outline(row, begin, end)
    pixels = {(x, y) for r, b, e in zip(row, begin, end, strict=True) for x in (b, e) for y in (r, r + 1)}
    assert set(map(tuple, corners.tolist())) <= pixels
    edges = np.roll(corners, -1, 0) - corners
    for (x, y), (dx, dy) in zip(corners, edges, strict=True):
        turns = [dx * (v - y) - dy * (u - x) for u, v in pixels]
        assert max(turns) <= 0 or min(turns) >= 0
    assert outline(np.array([7]), np.array([2]), np.array([3])).tolist() == [[2, 7], [2, 8], [3, 8], [3, 7]]


def test_a_line_is_cut_out_upright():
    picture = np.zeros((60, 80, 3), np.uint8)
    picture[20:30, 10:50] = np.arange(40)[:, None] * 5
    line = tasks.cut_out(picture, ((10, 20), (50, 20), (50, 30), (10, 30)))
    assert np.array_equal(line, picture[20:30, 10:50])
    again = tasks.cut_out(picture, ((50, 30), (10, 30), (10, 20), (50, 20)))  # any corner may be first
    assert np.array_equal(line, again)
    upright = tasks.cut_out(np.rot90(picture, -1).copy(), ((30, 10), (40, 10), (40, 50), (30, 50)))
    assert upright.shape == line.shape  # read from below to above


def test_corners_go_clockwise_from_above_and_left():
    assert clockwise(np.array([(1, 1), (0, 0), (1, 0), (0, 1)], float)).tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
