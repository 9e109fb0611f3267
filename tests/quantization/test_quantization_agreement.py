"""What a budget of a quantized network is counted in: classes, boxes, pixels; worked out by hand."""

import numpy as np
import pytest
from commands import invoke
from graphs import Net, frames
from quantization_nets import small
from task_graphs import network

from pipeall import ArgumentError, quantize, tasks
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.quantization import quantize as room
from pipeall.quantization.compare import CLEAR, agreement_of

pytest.importorskip("onnx", reason="needs pipeall[onnx]")
SIZE, ROWS = (96, 96), 189  # of YOLOv8's three grids on such an input


def seen(*boxes):
    """Outputs of a YOLOv8 with these boxes: middle x and y, width, height, class, score."""
    y = np.zeros((1, 84, ROWS), np.float32)
    for row, (*place, label, score) in enumerate(boxes):
        y[0, :4, row], y[0, 4 + label, row] = place, score
    return {"out": y}


@pytest.fixture
def detector():
    graph = network({"out": (1, 84, ROWS)}, SIZE)
    task = tasks.task(graph, decoder="yolov8")
    assert task.threshold == 0.25 and CLEAR == 0.25
    return agreement_of(graph, task)


DOG, CAT, FAINT = (20, 20, 20, 20, 16, 0.9), (60, 60, 20, 20, 15, 0.8), (20, 70, 20, 20, 1, 0.3)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((DOG, CAT), (DOG, CAT), (4, 4)),
        ((DOG, CAT), (DOG,), (2, 3)),  # a box is lost
        ((DOG,), (DOG, CAT), (2, 3)),  # one is made up
        ((DOG,), ((20, 20, 20, 20, 15, 0.9),), (0, 2)),  # another class
        ((DOG,), ((26, 20, 20, 20, 16, 0.9),), (2, 2)),  # overlap 14 / 26
        ((DOG,), ((28, 20, 20, 20, 16, 0.9),), (0, 2)),  # overlap 12 / 28
        ((DOG,), ((*DOG[:5], 0.3),), (1, 1)),  # seen by both, though not clearly by the other
        ((DOG, FAINT), (DOG,), (2, 2)),  # what is not clear is no loss
        ((FAINT,), (), (0, 0)),
    ],
)
def test_boxes(detector, one, other, expected):
    assert detector.what == "boxes" and detector.count(seen(*one), seen(*other)) == expected


def test_pixels():
    graph = network({"out": (1, 3, 8, 8)}, (8, 8))
    agreement = agreement_of(graph)
    one = {"out": np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    other = {"out": one["out"].copy()}
    for pixel in range(5):
        other["out"][0, :, pixel, 0] = np.roll(np.sort(one["out"][0, :, pixel, 0]), one["out"][0, :, pixel, 0].argmax())
    same = (one["out"][0].argmax(0) == other["out"][0].argmax(0)).sum()
    assert agreement.what == "pixels" and agreement.count(one, other) == (same, 64) and same < 64


def test_classes_and_others():
    agreement = agreement_of(network({"out": (1, 10)}, SIZE))
    one, other = ({"out": np.eye(10, dtype=np.float32)[None, place]} for place in (3, 4))
    assert agreement.what == "classes" and agreement.count(one, one) == (1, 1) and agreement.count(one, other) == (0, 1)
    assert agreement_of(network({"a": (1, 2, 3), "b": (1, 5)}, SIZE)) is None


def test_a_budget_needs_photos_that_show_something(detector):
    """All scores are below 0.001, so there is no box of which a share could be kept."""
    net = Net((1, 3, *SIZE))
    y = net.op("reshape", net.op("sigmoid", net.conv("x0", 84, k=6, strides=(6, 6))), shape=(1, 84, 289))
    graph = net.graph(
        net.op("slice", net.op("mul", y, net.constant((1, 1, 1), 1e-3)), axis=2, start=0, stop=ROWS, step=1)
    )
    task = tasks.task(graph, decoder="yolov8")
    photos = frames(graph, 2)
    assert quantize(graph, photos, method="minmax", task=task).report.agreement is None
    with pytest.raises(ArgumentError, match="^samples: expected some with clear boxes"):
        quantize(graph, photos, method="minmax", task=task, max_drop=0.1)


@pytest.mark.parametrize(("took", "said"), [((2.0, 3.0), True), ((3.0, 2.0), False)])
def test_a_network_that_is_no_faster_is_told(tmp_path, monkeypatch, took, said):
    monkeypatch.setattr(room, "frame_times", lambda *_: took)
    (tmp_path / "small.onnx").write_bytes(onnx_bytes(small()))
    np.save(tmp_path / "frames.npy", np.concatenate(frames(small(), 3)))
    text = invoke(
        "quantize", tmp_path / "small.onnx", tmp_path / "frames.npy", "-o", tmp_path / "out.onnx", "--method", "minmax"
    ).stdout
    assert f"{took[0]:.3f} ms in floats" in text and ("not faster here. Run" in text) == said
    assert "Samples whose class stays" in text
