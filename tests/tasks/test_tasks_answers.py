"""Answers, the suppression of boxes, labels, and what is refused: no network is needed."""

import json
import os
import pickle
import re

import numpy as np
import pytest
from task_decoders import suppressed as reference
from task_graphs import answer, network, placed_whole

from pipeall import ArgumentError, ModelError, tasks
from pipeall.graph.partition import subgraph
from pipeall.picture import Picture
from pipeall.tasks import labels
from pipeall.tasks.boxes import BLOCK, above, suppressed
from pipeall.tasks.decoder import TASKS
from pipeall.tasks.segment import highest

SIZE = (96, 160)
COLUMNS = 12 * 20 + 6 * 10 + 3 * 5


@pytest.fixture
def detector():
    return network({"output0": (1, 84, COLUMNS)}, SIZE, name="net")


@pytest.mark.parametrize(("count", "spread"), [(0, 1), (1, 1), (60, 20), (3 * BLOCK, 60), (1000, 400)])
@pytest.mark.parametrize("iou", [0.0, 0.3, 0.7, 1.0])
def test_suppression_is_that_of_a_plain_loop(count, spread, iou):
    random = np.random.default_rng(count)
    low = random.random((count, 2)) * spread
    boxes = np.concatenate((low, low + random.random((count, 2)) * 20 + 0.1), 1)
    scores, classes = random.permutation(count) / max(count, 1), random.integers(0, 3, count)
    things = [(*box, score, label, []) for box, score, label in zip(boxes.tolist(), scores, classes, strict=True)]
    expected = [thing[4] for thing in reference(things, -1.0, iou)]
    assert scores[suppressed(boxes, scores, classes, iou, count + 1)].tolist() == expected
    assert scores[suppressed(boxes, scores, classes, iou, 5)].tolist() == expected[:5]


def test_rows_above_a_score():
    scores = np.random.default_rng(0).random((200, 7))
    rows, classes = above(scores, 0.9)
    assert rows.tolist() == np.flatnonzero(scores.max(1) >= 0.9).tolist()
    assert classes.tolist() == scores[rows].argmax(1).tolist()
    assert [part.tolist() for part in above(scores, 2.0)] == [[], []]


@pytest.mark.parametrize("layout", ["first", "last"])
def test_the_highest_map(layout):
    maps = np.random.default_rng(0).integers(0, 5, (9, 70, 40)).astype(np.float32)  # with equal ones
    given = maps if layout == "first" else np.moveaxis(np.ascontiguousarray(np.moveaxis(maps, 0, 2)), 2, 0)
    assert np.array_equal(highest(given), maps.argmax(0))


def run_lengths_of(pixels):
    """Plain: counts of zeros, ones, zeros ..., column by column."""
    counts, value = [0], 0
    for pixel in pixels.T.ravel().tolist():
        if pixel != value:
            counts.append(0)
            value = pixel
        counts[-1] += 1
    return counts


@pytest.mark.parametrize("seed", range(6))
def test_run_lengths(seed):
    pixels = np.random.default_rng(seed).random((5, 7)) < (0.0, 0.2, 0.5, 0.8, 1.0, 0.5)[seed]
    found = tasks.answer.run_lengths(pixels)
    assert found == {"size": [5, 7], "counts": run_lengths_of(pixels)}


def test_answers_are_json_as_coco_has_it():
    mask = tasks.Mask(np.ones((2, 2), np.float32), (2.0, 1.0, 4.0, 3.0), (4, 6))
    box = tasks.Box(2.0, 1.0, 4.0, 3.0, 0.5, 16, "dog", ((2.5, 1.5, 0.25),), mask)
    found = tasks.Answer("detect", (4, 6), boxes=(box,), point_names=("nose",))
    assert json.loads(found.to_json()) == {
        "task": "detect",
        "size": [4, 6],
        "boxes": [
            {
                "bbox": [2.0, 1.0, 2.0, 2.0], "category_id": 16, "category": "dog", "score": 0.5,
                "keypoints": [2.5, 1.5, 0.25], "segmentation": {"size": [4, 6], "counts": [9, 2, 2, 2, 9]},
            }
        ],
        "point_names": ["nose"],
    }  # fmt: skip
    assert "\n" not in found.to_json()
    (entry,) = found.to_coco(7, tasks.COCO_IDS)
    assert (entry["image_id"], entry["category_id"], entry["bbox"]) == (7, 18, [2.0, 1.0, 2.0, 2.0])
    assert found.to_coco(7)[0]["category_id"] == 16
    assert len(tasks.COCO_IDS) == len(labels.COCO) == 80 and tasks.COCO_IDS[79] == 90


def test_other_answers_as_json():
    mask = tasks.Mask(np.array([[0, 2]], np.uint8), (0.0, 0.0, 4.0, 1.0), (1, 4), ("background", "a", "b"))
    found = tasks.Answer("segment", (1, 4), mask=mask).to_dict()["mask"]
    assert found == [{"category_id": 2, "category": "b", "area": 2, "segmentation": {"size": [1, 4], "counts": [2, 2]}}]
    text = tasks.Text("a b", 0.5, ((0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (0.0, 3.0)))
    assert tasks.Answer("text", (9, 9), texts=(text,)).to_dict()["texts"][0]["corners"][2] == [2.0, 3.0]
    vector = tasks.Answer("embed", (9, 9), vector=np.array([0.6, 0.8], np.float32))
    assert json.loads(vector.to_json())["vector"] == pytest.approx([0.6, 0.8])
    one = tasks.Answer("classify", (9, 9), classes=(tasks.Class(0.75, 3, "cat"),))
    assert one.to_dict()["classes"] == [{"category_id": 3, "category": "cat", "score": 0.75}]


def test_boxes_are_cut_at_the_edges_and_go_beyond(detector):
    y = np.zeros((1, 84, COLUMNS))
    y[0, :5, 0], y[0, :5, 9] = (10, 10, 40, 40, 0.9), (-30, 50, 20, 20, 0.9)
    (box,) = answer(detector, {"output0": y}).boxes
    assert (box.left, box.top, box.right, box.bottom) == (0, 0, 30, 30)


def test_masks_of_a_middle_part_are_empty_beside_it():
    mask = tasks.Mask(np.full((3, 3), 1, np.uint8), (10.0, 0.0, 20.0, 10.0), (10, 30), ("", "a"))
    assert mask.pixels.sum(0).tolist() == [0] * 10 + [10] * 10 + [0] * 10
    assert np.array_equal(mask.pixels, mask.alpha)


def test_numbers_that_are_none_are_no_boxes(detector):
    y = np.full((1, 84, COLUMNS), np.nan)
    assert answer(detector, {"output0": y}).boxes == ()


def test_settings(detector):
    y = np.zeros((1, 84, COLUMNS))
    for column, (x, score) in enumerate(((20, 0.9), (22, 0.8), (80, 0.3))):
        y[0, :5, column * 20] = x, 30, 20, 20, score
    assert len(answer(detector, {"output0": y}).boxes) == 2
    assert len(answer(detector, {"output0": y}, iou=0.95).boxes) == 3
    assert len(answer(detector, {"output0": y}, threshold=0.5).boxes) == 1
    assert len(answer(detector, {"output0": y}, most=1).boxes) == 1
    assert tasks.task(detector, picture=Picture(scale=2)).picture.scale == 2


def test_labels(tmp_path, detector):
    names = [f"thing {number}" for number in range(80)]
    file = tmp_path / "names.txt"
    file.write_text("\n".join(names) + "\n")
    for given in (names, str(file), file, dict(enumerate(names))):
        assert tasks.task(detector, labels=given).labels == tuple(names)
    own = network({"output0": (1, 84, COLUMNS)}, SIZE, metadata={"names": str(dict(enumerate(names)))})
    assert tasks.task(own).labels == tuple(names)
    broken = network({"output0": (1, 84, COLUMNS)}, SIZE, metadata={"names": "{0: 'person'"})
    assert tasks.task(broken).labels == labels.COCO
    others = network({"output0": (1, 14, COLUMNS)}, SIZE)
    assert tasks.task(others).labels == ()
    classifier = network({"y": (1, 1001)}, SIZE)
    file.write_text("".join(f"n{number:08} name {number}\n" for number in range(1000)))
    assert tasks.task(classifier, labels=file).labels[:2] == ("background", "name 0")


@pytest.mark.parametrize("done", [True, False])
def test_classes_of_logits_and_of_probabilities(done):
    logits = np.array([[1.0, 3.0, 2.0]])
    probabilities = np.exp(logits) / np.exp(logits).sum()
    graph = network({"y": (1, 3)}, SIZE, op="softmax" if done else "fc")
    found = answer(graph, {"y": probabilities if done else logits}, decoder="classify", labels=["a", "b", "c"], most=2)
    assert [(c.name, c.label) for c in found.classes] == [("b", 1), ("c", 2)]
    assert [c.score for c in found.classes] == pytest.approx(sorted(probabilities[0])[:0:-1])


@pytest.mark.parametrize("shape", [(1, 6, 8), (1, 1, 6, 8), (1, 6, 8, 1)])
def test_maps_of_classes(shape):
    pixels = np.random.default_rng(0).integers(0, 21, shape)
    graph = network({"y": shape}, (6, 8), dtype="int64")
    assert tasks.recognized(graph).name == "class-map"
    found = tasks.task(graph, labels=labels.VOC)(pixels, placed_whole((6, 8)))
    assert np.array_equal(found.mask.pixels, pixels.reshape(6, 8)) and found.mask.names == labels.VOC


def test_tasks_pickle(detector):
    y, task = np.zeros((1, 84, COLUMNS), np.float32), tasks.task(detector, threshold=0.5)
    y[0, :5, 3] = 50, 30, 20, 20, 0.9
    again = pickle.loads(pickle.dumps(task))
    found = again(y, placed_whole(SIZE))
    assert repr(again) == repr(task) and found.boxes == task(y, placed_whole(SIZE)).boxes
    assert pickle.loads(pickle.dumps(found)).boxes == found.boxes


def test_every_decoder_says_what_it_reads():
    for name, entry in tasks.DECODERS.items():
        assert entry.name == name and entry.task in TASKS and entry.about[0].isupper(), name
        assert len(entry.about) < 130 and 0 <= entry.threshold < 1, name


# ---- what is refused ----


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"decoder": "yolo"}, "decoder: expected one of .*yolox.*, got 'yolo'"),
        ({"task": "find"}, "task: expected one of classify, detect.*, got 'find'"),
        ({"decoder": "yolov8", "task": "text"}, "decoder 'yolov8' is of the task detect, not of text"),
        ({"decoder": "yunet"}, r"net: expected outputs for 'yunet' \(.*\), got output0 \(1, 84, 315\)"),
        ({"threshold": 1.5}, "threshold: expected a number from 0 to 1, got 1.5"),
        ({"iou": "much"}, "iou: expected a number from 0 to 1, got 'much'"),
        ({"most": 0}, "most: expected a whole number of at least 1, got 0"),
        ({"labels": ["a", "b"]}, "labels: expected 80 names for the classes of net, got 2"),
        ({"labels": []}, r"labels: expected a file, a list or a dict of names, got \[\]"),
        ({"labels": 5}, "labels: expected a file, a list or a dict of names, got 5"),
        ({"labels": {1: "a"}}, r"labels: expected names for 0 to 0, got \[1\]"),
        ({"labels": "nowhere.txt"}, "labels: cannot read nowhere.txt: No such file"),
        ({"labels": os.devnull}, "/dev/null: expected a file, got a device"),
        ({"picture": Picture(channels="GRAY")}, "picture: expected 3 channels, as net has, got GRAY"),
    ],
)
def test_bad_settings(detector, settings, said):
    with pytest.raises(ArgumentError, match=said) as caught:
        tasks.task(detector, **settings)
    assert "\n" not in str(caught.value)


def test_files_of_labels_that_are_none(tmp_path, detector):
    file = tmp_path / "names"
    file.write_bytes(b"\xff\xfe\n")
    with pytest.raises(ArgumentError, match="is no text in UTF-8"):
        tasks.task(detector, labels=file)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"output0": np.zeros((1, 84, 9), np.float32)}, r"output 'output0' of shape \(1, 84, 315\), got \(1, 84, 9\)"),
        ({"other": np.zeros(1)}, "expected output 'output0' .*, got only other"),
        ([1.0], "expected output 'output0' of shape .*, got <class 'list'>"),
    ],
)
def test_bad_outputs(detector, given, said):
    with pytest.raises(ArgumentError, match=said):
        tasks.task(detector)(given, placed_whole(SIZE))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (network({"y": (1, 7, 9)}, SIZE), r"what its outputs mean is not clear: y \(1, 7, 9\); give decoder= one of"),
        (network({"y": (1, 80)}, SIZE), "give decoder= one of classify, embed"),
        (network({"y": (1, 10)}, SIZE, shape=(1, 16)), r"expected one input .*, got x \(1, 16\)"),
        (network({"y": (1, 10)}, SIZE, shape=(2, 3, 8, 8)), r"expected one input .*, got x \(2, 3, 8, 8\)"),
    ],
)
def test_networks_that_are_not_recognized(graph, said):
    with pytest.raises(ModelError, match=said) as caught:
        tasks.task(graph)
    assert re.fullmatch("network: .*", str(caught.value))


# ---- what a file says of itself ----


@pytest.mark.parametrize("opset", [1, 13])  # an early one is converted by the onnx package
def test_a_graph_keeps_what_its_file_says(tmp_path, opset):
    onnx = pytest.importorskip("onnx", reason="reading models: pip install 'pipeall[onnx]'")
    from onnx import TensorProto, helper

    from pipeall import load

    nodes = [helper.make_node("Relu", [a], [b]) for a, b in (("x", "h"), ("h", "y"))]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy")
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", opset)])
    long = "a" * 2**20
    helper.set_model_props(model, {"names": "{0: 'é'}", "": "", "long": long})
    onnx.save(model, tmp_path / "net.onnx")
    graph = load(tmp_path / "net.onnx")
    assert dict(graph.metadata) == {"names": "{0: 'é'}", "": ""}  # what is too long is left out
    assert subgraph(graph, 0, len(graph.groups)).metadata == graph.finer(2).metadata == graph.metadata
    with pytest.raises(TypeError):
        graph.metadata["names"] = ""
