"""Searching detectors: made pictures, the loss and mean average precision against computations of their own, exports
against onnxruntime, and a whole search.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from commands import BOARD, document, invoke
from PIL import Image

import pipeall
from pipeall import ArgumentError, Engine, load, tasks
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.nas import datasets, digit_boxes
from pipeall.nas.spaces.detector_space import DetectorSpace
from pipeall.nas.spaces.genome import Hyper
from pipeall.nas.spaces.mobile_space import MobileSpace
from pipeall.nas.spaces.modern_space import ModernSpace
from pipeall.nas.training import detection
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.detection import average_precision, decoded, found
from pipeall.nas.training.fitness import deviations
from pipeall.nas.training.weighted_network import create, to_graph

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")
pytest.importorskip("onnx", reason="needs pipeall[onnx]")

from pipeall.nas.training.training_loop import calibrated, gradients, predict, train  # noqa: E402

SIDE, WIDTHS = 32, (4, 6, 8, 12)
SPACE = DetectorSpace(ModernSpace(2, WIDTHS, side=SIDE, blocks="residual"))
NARROW = (1, 0, 0) + 2 * (0, 1, 0, 0, 0, 1, 0, 0, 0) + (1, 0, 1, 0, 1)  # pictures as they are; first stride 2; fine
HYPER, RECIPE = Hyper(0.03, 0.9, 10, 0.0, 0.0), TrainingRecipe(8)


def squares(pictures, seed):
    """Two "digits" that a small network tells apart: a full square and a frame."""
    full, frame = np.ones((8, 8)), np.ones((8, 8))
    frame[2:6, 2:6] = 0
    return digit_boxes.draw(np.stack((full, frame)), np.array([0, 1]), pictures, seed, SIDE)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    (x, y), (x_test, y_test) = squares(160, 0), squares(24, 1)
    path = tmp_path_factory.mktemp("boxes") / "squares.npz"
    np.savez(path, x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    return path


@pytest.fixture(scope="module")
def data(file):
    return datasets.load(str(file))


@pytest.fixture(scope="module")
def trained(data):
    network = create(SPACE.decode(NARROW), data, 0)
    return calibrated(train(network, data.train, HYPER, 0, RECIPE)[0], data.train.x)


# ---- pictures ----


def test_pictures_are_a_function_of_the_seed():
    first, again, other = squares(8, 3), squares(8, 3), squares(8, 4)
    assert all((a == b).all() for a, b in zip(first, again, strict=True)) and (first[0] != other[0]).any()


def test_boxes_end_where_the_ink_does(monkeypatch):
    """A full square without noise: what is inside of an edge is brighter by the least contrast, less one for rounding
    and two for the slope behind, than what is outside."""
    monkeypatch.setattr(digit_boxes, "NOISE", 0.0)
    x, y = digit_boxes.draw(np.ones((1, 8, 8)), np.array([0]), 20, 0)
    least, seen = digit_boxes.CONTRAST[0] - 3, 0
    for picture, boxes in zip(x.astype(float), y, strict=True):
        owner = np.zeros(picture.shape, int)
        for number, (_, left, top, right, bottom) in enumerate(boxes[boxes[:, 0] >= 0].astype(int), 1):
            part = owner[top:bottom, left:right]
            assert part.size and not part.any() and 14 <= max(right - left, bottom - top) <= 32
            part[:] = number
        for step in (picture, owner), (picture.T, owner.T):
            jumps, changes = (np.diff(each, axis=1) for each in step)
            one = (step[1][:, 1:] == 0) | (step[1][:, :-1] == 0)  # not between two that touch
            assert (np.abs(jumps[(changes != 0) & one]) > least).all() and (np.abs(jumps[changes == 0]) < 4).all()
            seen += (changes != 0).sum()
    assert seen > 1000


def test_test_pictures_have_digits_of_their_own(monkeypatch):
    monkeypatch.setattr(datasets, "BOX_PICTURES", (10, 5))
    seen, draw = [], digit_boxes.draw
    monkeypatch.setattr(digit_boxes, "draw", lambda x, *rest: seen.append({d.tobytes() for d in x}) or draw(x, *rest))
    data = datasets.load("digit-boxes")
    assert data.outputs == 14 and data.shape == (1, 64, 64) and len(data.test) == 5
    assert len(seen[0] & seen[1]) == 0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((12, 2, 4)), "expected pictures and boxes (12, most, 5), got (12, 8, 8) and (12, 2, 4)"),
        (np.tile([0.0, 4, 1, 2, 3], (12, 1, 1)), "left, top, right, bottom, or class -1; got [[0.0, 4.0, 1.0"),
        (np.tile([0.5, 1, 1, 2, 3], (12, 1, 1)), "got [[0.5"),
        (np.tile([-1.0, 1, 1, 2, 3], (12, 1, 1)), "class -1; got []"),
        (np.tile([0, 1, 1, np.nan, 3], (12, 1, 1)), "nan"),
    ],
)
def test_boxes_that_are_none(tmp_path, y, message):
    path = tmp_path / "bad.npz"
    np.savez(path, x=np.zeros((12, 8, 8), np.uint8), y=y)
    with pytest.raises(ArgumentError) as caught:
        datasets.load(str(path))
    assert message in str(caught.value)


# ---- mean average precision ----


def output_of(y, classes, scores=0.9):
    """What a network says that finds just these boxes."""
    output = np.zeros((len(y), 4 + classes, y.shape[1]), np.float32)
    output[:, 0], output[:, 1] = (y[..., 1] + y[..., 3]) / 2, (y[..., 2] + y[..., 4]) / 2
    output[:, 2], output[:, 3] = y[..., 3] - y[..., 1], y[..., 4] - y[..., 2]
    for sample, cell in zip(*np.nonzero(y[..., 0] >= 0), strict=True):
        output[sample, 4 + int(y[sample, cell, 0]), cell] = np.broadcast_to(scores, y.shape[:2])[sample, cell]
    return output


def overlap(a, b):
    """Counted in tenths of pixels: the boxes of the tests have such edges."""
    masks = np.zeros((2, 10 * SIDE + 80, 10 * SIDE + 80), bool)
    for mask, box in zip(masks, (a, b), strict=True):
        left, top, right, bottom = np.round(box * 10).astype(int) + 40
        mask[left:right, top:bottom] = True
    return masks.all(0).sum() / masks.any(0).sum()


def plain_average_precision(output, y):
    """By the definition: at every score its precision and recall; the area under the highest precision to the right."""
    areas = []
    for label in range(output.shape[1] - 4):
        truths = [(i, box[1:]) for i, boxes in enumerate(y) for box in boxes if box[0] == label]
        rows = [(row[4], i, row[:4]) for i, each in enumerate(output) for row in found(each) if row[5] == label]
        if not truths:
            continue
        curve = []
        for least in {row[0] for row in rows}:
            some, free, right = sorted((r for r in rows if r[0] >= least), key=lambda r: -r[0]), list(truths), 0
            for _, i, box in some:
                shares = [(overlap(box, truth), place) for place, (j, truth) in enumerate(free) if i == j]
                if shares and max(shares)[0] >= 0.5:
                    free.pop(max(shares)[1])
                    right += 1
            curve.append((right / len(truths), right / len(some)))
        recalls = sorted({0.0, *(recall for recall, _ in curve)})
        areas.append(
            sum((b - a) * max(p for r, p in curve if r >= b) for a, b in zip(recalls, recalls[1:], strict=False))
        )
    return np.mean(areas)


def test_average_precision_is_the_published_one():
    """Boxes moved at random, some of them twice, with other classes and scores of their own."""
    y = squares(12, 5)[1]
    random = np.random.default_rng(0)
    said = np.concatenate((y, y), 1)
    said[..., 1:] += random.integers(-30, 31, (*said.shape[:2], 1)) / 10
    wrong = (random.random(said.shape[:2]) < 0.2) & (said[..., 0] >= 0)
    said[wrong, 0] = 1 - said[wrong, 0]
    output = output_of(said, 2, random.permutation(said[..., 0].size).reshape(said.shape[:2]) / said[..., 0].size)
    value = average_precision(output, y)
    assert 0.2 < value < 0.9 and value == pytest.approx(plain_average_precision(output, y), abs=1e-9)


def test_wrong_labels_and_moved_boxes_lower_it():
    y = squares(20, 6)[1]
    assert average_precision(output_of(y, 2), y) == 1
    shifted = y.copy()
    shifted[..., 0] = np.where(y[..., 0] >= 0, 1 - y[..., 0], -1)
    assert average_precision(output_of(shifted, 2), y) == 0
    one = y.copy()
    one[0, 0, 0] = 1 - one[0, 0, 0]
    assert 0.9 < average_precision(output_of(one, 2), y) < 1
    moved = y + np.array([0, 6, 0, 6, 0], np.float32)  # of 14 pixels or more, of which more than a third is needed
    assert average_precision(output_of(moved, 2), y) < 0.9 < average_precision(output_of(moved, 2), y, iou=0.1)
    assert average_precision(np.zeros((20, 6, 16), np.float32), y) == 0


def test_deviations_are_of_each_picture_with_boxes(data):
    y = squares(6, 8)[1]
    said, y[2] = y.copy(), digit_boxes.NO_BOX
    said[0, :, 0] = np.where(said[0, :, 0] >= 0, 1 - said[0, :, 0], -1)
    assert deviations(data, output_of(said, 2), y).tolist() == [1, 0, 0, 0, 0]


# ---- the loss ----


def plain_loss(logits, y):
    """Cell by cell in float64."""
    total, positives = 0.0, 0
    samples, outputs, rows, columns = logits.shape
    sure = 1 / (1 + np.exp(-logits.astype(float)))
    for i, row, column in product(range(samples), range(rows), range(columns)):
        px, py = (column + 0.5) * SIDE / columns, (row + 0.5) * SIDE / rows
        own = []
        for label, left, top, right, bottom in y[i].astype(float):
            reaches = max((right - left) / 4, SIDE / columns / 2), max((bottom - top) / 4, SIDE / rows / 2)
            off = abs(px - (left + right) / 2), abs(py - (top + bottom) / 2)
            if label >= 0 and off[0] <= reaches[0] and off[1] <= reaches[1]:
                own.append(((right - left) * (bottom - top), label, left, top, right, bottom))
        wanted = np.zeros(outputs - 4)
        if own:
            positives += 1
            _, label, *box = min(own)
            wanted[int(label)] = 1
            near = sure[i, :4, row, column] * SIDE
            edges = px - near[0], py - near[1], px + near[2], py + near[3]
            sides = [max(0, min(edges[a + 2], box[a + 2]) - max(edges[a], box[a])) for a in (0, 1)]
            areas = [(e[2] - e[0]) * (e[3] - e[1]) for e in (edges, box)]
            total += 2 * (1 - np.prod(sides) / (sum(areas) - np.prod(sides)))
        p = sure[i, 4:, row, column]
        total -= (wanted * np.log(p) + (1 - wanted) * np.log(1 - p)).sum()
    return total / max(1, positives)


def test_the_loss_is_that_of_its_definition():
    """Float32 sums of some thousand terms: 1e-4 of the whole. Without boxes all cells are background."""
    y = squares(5, 7)[1]
    y[4] = digit_boxes.NO_BOX
    logits = np.random.default_rng(0).standard_normal((5, 6, 8, 8)).astype(np.float32)
    for some in (slice(None), slice(4, 5)):
        value = detection.loss(torch, torch.tensor(logits[some]), torch.tensor(y[some]), (SIDE, SIDE))
        assert float(value) == pytest.approx(plain_loss(logits[some], y[some]), rel=1e-4)


def test_a_training_learns_to_find_boxes(data, trained):
    """A new network finds nothing; where classes of the truth are swapped the trained one is no better."""
    new = average_precision(predict(create(SPACE.decode(NARROW), data, 0), data.test.x), data.test.y)
    swapped = data.test.y.copy()
    swapped[..., 0] = np.where(swapped[..., 0] >= 0, 1 - swapped[..., 0], -1)
    output = predict(trained, data.test.x)
    assert new < 0.1 and average_precision(output, data.test.y) > 0.4 > average_precision(output, swapped)
    assert all(np.isfinite(each).all() for each in gradients(trained, data.train.x[:4], data.train.y[:4]).values())


# ---- spaces and exports ----


@pytest.mark.parametrize("body", [ModernSpace(2, WIDTHS, side=SIDE), MobileSpace(3, WIDTHS, side=24)])
def test_spaces_of_detectors(body, data):
    """Of all ones most weights; every locus has its level; and one stage alone has no finer cells."""
    for space in (DetectorSpace(body), DetectorSpace(replace(body, stages=1))):
        random = np.random.default_rng(0)
        most = create(space.decode((1,) * space.loci), data, 0).parameters
        assert all(create(space.decode(space.random(random)), data, 0).parameters <= most for _ in range(20))
        assert sorted(locus for level in space.levels for locus in level) == list(range(space.loci))


@pytest.mark.parametrize("seed", range(4))
def test_an_export_gives_the_boxes_that_torch_does(tmp_path, data, trained, seed):
    """Float32 rounding of some twenty layers, 2e-5 of logits, is up to 32 times that of pixels."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="compares with onnxruntime")
    network = trained
    if seed:
        network = create(SPACE.decode(SPACE.random(np.random.default_rng(seed))), data, seed)
    path = tmp_path / "network.onnx"
    path.write_bytes(onnx_bytes(to_graph(network, data)))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    engine, expected = Engine(load(path), "big", board=BOARD), predict(network, data.test.x[:4])
    for x, wanted in zip(data.test.x[:4], expected, strict=True):
        np.testing.assert_allclose(session.run(None, {"input": x[None]})[0][0], wanted, atol=1e-3)
        np.testing.assert_allclose(engine(x[None])[0], wanted, atol=1e-3)


def test_pipeall_knows_the_file_and_gives_its_boxes(tmp_path, data, trained):
    path = tmp_path / "network.onnx"
    path.write_bytes(onnx_bytes(to_graph(trained, data)))
    assert tasks.recognized(load(path)).name == "yolov8"
    picture = np.round(data.test.x[0, 0] * 255).astype(np.uint8)
    Image.fromarray(picture).save(tmp_path / "picture.png")
    with pipeall.Model(path) as model:
        got = model(tmp_path / "picture.png").boxes
    expected = [row for row in found(predict(trained, data.test.x[:1])[0]) if row[4] >= 0.25]
    assert got and len(got) == len(expected)
    for box, (*edges, score, label) in zip(got, expected, strict=True):
        assert (box.left, box.top, box.right, box.bottom) == pytest.approx(np.clip(edges, 0, SIDE), abs=1e-2)
        assert box.score == pytest.approx(score, abs=1e-4) and box.name == str(int(label))


def test_decoded_boxes_are_distances_from_the_middle_of_a_cell():
    """Of a picture of 20 rows and 40 columns in 2 x 4 cells; a sigmoid of 1/4 is 10 pixels."""
    logits = np.full((1, 5, 2, 4), np.log(1 / 3))
    logits[0, 2, 1, 3] = 0  # right: half of 40
    x, y, width, height, score = decoded(logits, (20, 40))[0, :, 7]
    assert (x, y, width, height, score) == pytest.approx((35 + 5, 15, 30, 20, 0.25), abs=1e-5)


# ---- the command ----


def test_a_search_of_detectors(tmp_path, file, data):
    pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    arguments = (
        "--widths 4,6,8,12 --stages 2 --kernels 3 --blocks residual --cycles 1,1,2 --lr 0.03,0.03,0.03 --batch 8 "
        "--population 2 --generations 1 --guided 0 --budget 2 --start random --board rpi5 --min-fps 100"
    )
    found_by = document("nas", "--data", file, *arguments.split(), "--plot", "-o", tmp_path / "out")
    score = found_by["winner"]
    assert score["fps"] > 100 and score["error"] == pytest.approx(1 - found_by["accuracy"]["judged"])
    assert len((tmp_path / "out" / "history.jsonl").read_text().splitlines()) >= 3
    assert found_by["baselines"] == {"no boxes": {"error": 1.0, "judged": 0.0, "tested": 0.0}}
    outputs = [Engine(load(tmp_path / "out" / "winner.onnx"), "big", board=BOARD)(x[None])[0] for x in data.test.x]
    tested = average_precision(np.stack(outputs), data.test.y)
    assert tested == pytest.approx(found_by["accuracy"]["tested"], abs=0.02)  # boxes of nearly equal scores may swap


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--space conv", "--space conv: expected mobile or modern, squares has boxes"),
        ("--flip", "--flip: expected classes or numbers, squares has boxes"),
        ("--space mobile --presets", "--presets: expected classes or numbers, squares has boxes"),
        ("--task numbers", "squares: expected targets of one kind"),
    ],
)
def test_bad_arguments(tmp_path, monkeypatch, file, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = invoke("nas", "--data", str(file), *arguments.split())
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1, result.stderr
