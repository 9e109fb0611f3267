"""Boxes that are written as each YOLO would give them come back: no trained file is at hand for most of the family."""

import numpy as np
import pytest
from task_decoders import priors
from task_graphs import answer, network

import pipeall
from pipeall import tasks
from pipeall.tasks import boxes, ssd

SIZE = (96, 160)  # height, width: 12 x 20, 6 x 10 and 3 x 5 cells
STRIDES = (8, 16, 32)
BOXES = ((10.0, 12.0, 50.0, 60.0, 0.9, 7), (70.0, 20.0, 131.0, 84.0, 0.8, 0), (100.0, 40.0, 112.0, 50.0, 0.6, 79))
CELLS = [(row, column, stride) for stride in STRIDES for row in range(96 // stride) for column in range(160 // stride)]
V3 = (((10, 13), (16, 30), (33, 23)), ((30, 61), (62, 45), (59, 119)), ((116, 90), (156, 198), (373, 326)))
V4 = (((12, 16), (19, 36), (40, 28)), ((36, 75), (76, 55), (72, 146)), ((142, 110), (192, 243), (459, 401)))


def logit(p):
    return np.log(p / (1 - p))


def middle(box):
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0], box[3] - box[1]


def cell_of(box, stride):
    """Its number among all cells, its row and its column."""
    x, y, _, _ = middle(box)
    row, column = int(y // stride), int(x // stride)
    return CELLS.index((row, column, stride)), row, column


def same(answer, expected=BOXES, labels=tasks.labels.COCO):
    found = [(b.left, b.top, b.right, b.bottom, b.score, b.label) for b in answer.boxes]
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-3)
    assert [box.name for box in answer.boxes] == [labels[box[5]] for box in expected]


def of_class(label, score, count=80):
    return np.eye(count)[label] * score


def written(rows, anchors, numbers, encode):
    """(1, anchors x cells, numbers): each box in a row of a stride of its own, and the first one twice, less sure."""
    y = np.zeros((1, rows, numbers))
    for number, (box, stride) in enumerate(zip((*BOXES, BOXES[0]), (*STRIDES, 32), strict=True)):
        index, row, column = cell_of(box, stride)
        sure = 0.9 if number == 3 else 1.0
        y[0, index * anchors] = encode(box, row, column, stride, sure)
    return y


def decoded(box, row, column, stride, sure):
    return [*middle(box), box[4] * sure / 0.95, *of_class(box[5], 0.95)]


def test_yolox():
    def encode(box, row, column, stride, sure):
        x, y, w, h = middle(box)
        place = x / stride - column, y / stride - row, np.log(w / stride), np.log(h / stride)
        return [*place, box[4] * sure / 0.95, *of_class(box[5], 0.95)]

    y = written(len(CELLS), 1, 85, encode)
    graph = network({"output": y.shape}, SIZE, op="conv")
    assert tasks.recognized(graph).name == "yolox"
    same(answer(graph, {"output": y}))


@pytest.mark.parametrize(("name", "anchors"), [("yolov5", 3), ("yolov6", 1), ("yolox-decoded", 1)])
def test_with_objectness_and_decoded(name, anchors):
    y = written(len(CELLS) * anchors, anchors, 85, decoded)
    graph = network({"output": y.shape}, SIZE, name=f"{name}_s", op="mul")
    assert tasks.recognized(graph).name == name
    same(answer(graph, {"output": y}))


def test_without_objectness():
    y = written(len(CELLS), 1, 84, lambda box, *at: [*middle(box), *of_class(box[5], box[4] * at[3])])
    graph = network({"output0": (1, 84, len(CELLS))}, SIZE)
    assert tasks.recognized(graph).name == "yolov8"
    same(answer(graph, {"output0": y.transpose(0, 2, 1)}))


def test_end_to_end():
    y = np.zeros((1, 300, 6))
    y[0, :3] = BOXES[::-1]
    graph = network({"output0": y.shape}, SIZE)
    assert tasks.recognized(graph).name == "yolov10"
    same(answer(graph, {"output0": y}))


def test_end_to_end_with_names_of_its_own():
    names = ["cup", "plate"]
    y = np.zeros((1, 300, 6))
    y[0, 5] = 1, 2, 30, 40, 0.5, 1
    graph = network({"output0": y.shape}, SIZE, metadata={"names": str(dict(enumerate(names)))})
    same(answer(graph, {"output0": y}), [(1, 2, 30, 40, 0.5, 1)], names)


@pytest.mark.parametrize(("name", "anchors", "way"), [
    ("yolov3", V3, "exp"), ("yolov4", V4, "spread"), ("yolov5s", V3, "square"), ("yolov7", V4, "square"),
])  # fmt: skip
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "apart", "apart NHWC"])
def test_heads_with_anchors(name, anchors, way, layout):
    maps = [np.full((3, 96 // s, 160 // s, 85), -9.0) for s in STRIDES]
    for box, stride, y, sides in zip(BOXES, STRIDES, maps, anchors, strict=True):
        x, z, w, h = middle(box)
        _, row, column = cell_of(box, stride)
        near, (anchor_w, anchor_h) = np.array((x / stride - column, z / stride - row)), sides[1]
        size = np.array((w / anchor_w, h / anchor_h))
        spread = {8: 1.2, 16: 1.1, 32: 1.05}[stride]
        if way == "square":
            place = *logit((near + 0.5) / 2), *logit(np.sqrt(size) / 2)
        elif way == "spread":
            place = *logit((near + (spread - 1) / 2) / spread), *np.log(size)
        else:
            place = *logit(near), *np.log(size)
        y[1, row, column] = [*place, logit(box[4] / 0.95), *logit(of_class(box[5], 0.9499) + 1e-4)]
    if layout == "NCHW":
        outputs = [y.transpose(0, 3, 1, 2).reshape(1, 255, *y.shape[1:3]) for y in maps]
    elif layout == "NHWC":
        outputs = [y.transpose(1, 2, 0, 3).reshape(1, *y.shape[1:3], 255) for y in maps]
    else:
        outputs = [y[None] if layout == "apart" else y.transpose(1, 2, 0, 3)[None] for y in maps]
    named = {f"o{i}": y for i, y in enumerate(outputs[::-1])}  # in any order
    graph = network({key: y.shape for key, y in named.items()}, SIZE, name=name, op="conv")
    assert tasks.recognized(graph).name == f"{name.removesuffix('s')}-heads"
    same(answer(graph, named))


def test_version_4_as_edges_and_classes():
    boxes, scores = np.zeros((1, 500, 1, 4)), np.zeros((1, 500, 80))
    for row, box in enumerate(BOXES):
        boxes[0, row * 7, 0] = np.array(box[:4]) / (160, 96, 160, 96)
        scores[0, row * 7] = of_class(box[5], box[4])
    graph = network({"boxes": boxes.shape, "confs": scores.shape}, SIZE)
    assert tasks.recognized(graph).name == "yolov4"
    same(answer(graph, {"boxes": boxes, "confs": scores}))


def test_version_8_without_its_decoding():
    maps = [np.full((1, 144, 96 // s, 160 // s), -9.0) for s in STRIDES]
    for box, stride, y in zip(BOXES, STRIDES, maps, strict=True):
        _, row, column = cell_of(box, stride)
        x, z = (column + 0.5) * stride, (row + 0.5) * stride
        for side, distance in enumerate(np.array((x - box[0], z - box[1], box[2] - x, box[3] - z)) / stride):
            low = int(distance)  # between two bins, as likely as it is near
            y[0, side * 16 + low, row, column] = np.log(low + 1 - distance) if low + 1 > distance else -50
            y[0, side * 16 + low + 1, row, column] = np.log(distance - low) if distance > low else -50
            others = [side * 16 + i for i in range(16) if i not in (low, low + 1)]
            y[0, others, row, column] = -50
        y[0, 64 + box[5], row, column] = logit(box[4])
    graph = network({f"o{s}": y.shape for s, y in zip(STRIDES, maps, strict=True)}, SIZE, name="yolo11n", op="conv")
    assert tasks.recognized(graph).name == "yolov8-heads"
    same(answer(graph, {f"o{s}": y for s, y in zip(STRIDES, maps, strict=True)}))


@pytest.mark.parametrize("version", [5, 8])
def test_masks(version):
    """The second prototype is one below row 12 of 24, the first everywhere else."""
    coefficients = np.zeros((3, 32))
    coefficients[:, 1] = 1
    prototypes = np.full((1, 32, 24, 40), 0.0)
    prototypes[0, 1, 12:], prototypes[0, 1, :12] = 8, -8
    more = [] if version == 8 else [1.0]
    rows = np.zeros((len(CELLS) * (3 if version == 5 else 1), 4 + len(more) + 80 + 32))
    for row, box in enumerate(BOXES):
        rows[row * 3] = [*middle(box), *more, *of_class(box[5], box[4]), *coefficients[row]]
    y = rows[None] if version == 5 else rows.T[None]
    graph = network({"output0": y.shape, "output1": prototypes.shape}, SIZE)
    assert tasks.recognized(graph).name == f"yolov{version}-seg"
    found = answer(graph, {"output0": y, "output1": prototypes})
    same(found)
    for box in found.boxes:
        expected = np.zeros(SIZE, bool)  # cells have four pixels
        expected[48 : int(np.ceil(box.bottom / 4)) * 4, int(box.left // 4) * 4 : int(np.ceil(box.right / 4)) * 4] = True
        assert np.array_equal(box.mask.pixels > 0, expected)


def test_key_points():
    y = np.zeros((1, 56, len(CELLS)))
    points = np.stack((np.arange(17) * 5.0, np.arange(17) * 3.0, np.linspace(0.1, 0.9, 17)), 1)
    y[0, :, 30] = [*middle(BOXES[0]), 0.9, *points.ravel()]
    graph = network({"output0": y.shape}, SIZE)
    assert tasks.recognized(graph).name == "yolov8-pose"
    found = answer(graph, {"output0": y})
    same(found, [(*BOXES[0][:5], 0)])
    assert np.array(found.boxes[0].points) == pytest.approx(points, abs=1e-4) and found.point_names[0] == "nose"


def test_what_a_file_says_of_itself_is_believed():
    """Points of a hand; boxes that are turned, which no decoder reads."""
    y = np.zeros((1, 5 + 21 * 3, len(CELLS)))
    y[0, :5, 30], y[0, 5:, 30] = [*middle(BOXES[0]), 0.9], 7
    graph = network({"output0": y.shape}, SIZE, metadata={"task": "pose", "names": "{0: 'hand'}"})
    found = answer(graph, {"output0": y})
    same(found, [(*BOXES[0][:5], 0)], ["hand"])
    assert found.boxes[0].points == ((7, 7, 7),) * 21 and found.point_names == ()
    turned = network({"output0": (1, 20, len(CELLS))}, SIZE, metadata={"task": "obb"})
    with pytest.raises(pipeall.ModelError, match="give decoder="):
        tasks.recognized(turned)


def test_nanodet_plus():
    cells = [(r, c, s) for s in (8, 16, 32, 64) for r in range(-(-96 // s)) for c in range(-(-160 // s))]
    y = np.full((1, len(cells), 112), -50.0)
    y[..., :80] = 0
    box = (16.0, 8.0, 56.0, 56.0, 0.7, 3)
    row = cells.index((2, 2, 16))
    y[0, row, 3] = 0.7
    for side, distance in enumerate((1, 1.5, 1.5, 1.5)):
        y[0, row, 80 + side * 8 + int(distance)] = 0
        y[0, row, 80 + side * 8 + int(np.ceil(distance))] = 0
    graph = network({"output": y.shape}, SIZE, name="nanodet-plus-m")
    assert tasks.recognized(graph).name == "nanodet-plus"
    same(answer(graph, {"output": y}), [box])


def test_picodet():
    """Distances of 1.25 strides from the middles of cells; the last stride is 64."""
    shapes = boxes.fields(SIZE, (8, 16, 32, 64))
    scores = [np.zeros((1, rows * columns, 80)) for rows, columns in shapes]
    bins = [np.full((1, rows * columns, 4, 8), -50.0) for rows, columns in shapes]
    expected = []
    for score, level, row, column, label in ((0.8, 1, 2, 3, 3), (0.6, 0, 8, 10, 7), (0.5, 3, 0, 1, 9)):
        cell, stride = row * shapes[level][1] + column, 8 << level
        scores[level][0, cell, label] = score
        bins[level][0, cell, :, 1], bins[level][0, cell, :, 2] = np.log(0.75), np.log(0.25)
        edges = np.array([column - 0.75, row - 0.75, column + 1.75, row + 1.75]) * stride
        expected.append((*np.clip(edges, 0, (160, 96, 160, 96)), score, label))
    outputs = {f"o{i}": y.reshape(*y.shape[:2], -1) for i, y in enumerate((*scores, *bins))}
    graph = network({name: y.shape for name, y in outputs.items()}, SIZE)
    assert tasks.recognized(graph).name == "picodet"
    same(answer(graph, outputs), expected)


def test_fastestdet():
    y = np.zeros((1, 85, 6, 10))
    for box in BOXES:
        x, z, w, h = middle(box)
        row, column = int(z // 16), int(x // 16)
        place = np.arctanh(x / 16 - column), np.arctanh(z / 16 - row), logit(w / 160), logit(h / 96)
        y[0, :, row, column] = [(box[4] / 0.9**0.4) ** (1 / 0.6), *place, *of_class(box[5], 0.9)]
    graph = network({"758": y.shape}, SIZE)
    assert tasks.recognized(graph).name == "fastestdet"
    same(answer(graph, {"758": y}, threshold=0.55))


@pytest.mark.parametrize("retina", [True, False])
def test_anchors_of_faces(retina):
    """The largest of UltraFace are higher than the input, and end at it."""
    (h, w), sizes = SIZE, (ssd.RETINA_SIZES if retina else ssd.ULTRA_SIZES)
    expected = np.array(list(priors(SIZE, sizes, not retina)))
    assert np.allclose(ssd.face_anchors(SIZE, retina) * (w, h, w, h), expected)


def test_ultraface_as_its_authors_export_it():
    """Edges as shares of the sides, which nothing but more ops behind the convolutions tells apart."""
    scores, boxes = np.zeros((1, 4420, 2)), np.zeros((1, 4420, 4))
    scores[0, 100, 1], boxes[0, 100] = 0.9, (0.25, 0.5, 0.5, 1.5)
    graph = network({"scores": scores.shape, "boxes": boxes.shape}, (240, 320), op="mul")
    assert tasks.recognized(graph).name == "ultraface"
    same(answer(graph, {"scores": scores, "boxes": boxes}), [(80, 120, 160, 240, 0.9, 0)], ["face"])
