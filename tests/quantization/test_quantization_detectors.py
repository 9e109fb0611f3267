"""Detectors keep their boxes: by how much boxes differ, where the answers lie, which layers compute with floats."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from graphs import Net, frames

from pipeall import quantize, tasks
from pipeall.graph.ops import run_graph
from pipeall.quantization.calibrate import more_pictures, with_logits
from pipeall.quantization.calibration_run import CalibrationRun, Reference
from pipeall.quantization.compare import FAINT, LITTLE, SAME, agreement_of, compare
from pipeall.quantization.keep_boxes import NEAR, SHARE, keep_boxes
from pipeall.quantization.quantizable import layers_with_activations, logits, quantizable
from pipeall.quantization.quantize import observed

SIDE, CELLS, ROWS = 8, 12, 189  # pixels of a cell, cells of a side; rows of YOLOv8's three grids on 96 pixels
SIZE = (SIDE * CELLS,) * 2


def detector(reach: float):
    """A YOLOv8 that sees a red or green square in each cell of 8 pixels, and its task.

    The last layer reads one tensor that has the brightness of blue, times ``reach``, beside the colours. They share 256
    levels: a colour has 256 / ``reach`` of them. A wide layer ahead has nine tenths of the multiply-accumulates.
    """
    net = Net((1, 3, *SIZE))

    def constant(value):
        name = net.constant(np.shape(value))
        net.constants[name] = np.asarray(value, np.float32)
        return name

    def conv(x, weight, bias, stride=1):
        return net.op("conv", x, constant(weight), constant(bias), strides=(stride, stride), pads=(0,) * 4)

    means, mixed, last = np.zeros((64, 3, SIDE, SIDE)), np.zeros((8, 64, 1, 1)), np.zeros((84, 8, 1, 1))
    for i in range(64):
        means[i, i % 3] = 1 / SIDE**2
    mixed[0, 2], mixed[1, 0], mixed[2, 1] = reach, 1, 1
    last[4, 1] = last[5, 2] = 16
    x = conv("x0", means, np.zeros(64), SIDE)
    x = conv(x, mixed, [0] + [-0.5] * 7)
    y = net.op("reshape", conv(x, last, [0] * 4 + [0, 0] + [-9] * 78), shape=(1, 84, CELLS**2))
    scores = net.op("sigmoid", net.op("slice", y, start=4, stop=84, step=1))
    middles = np.stack(np.meshgrid(np.arange(CELLS), np.arange(CELLS))).reshape(1, 2, -1) * SIDE + SIDE / 2
    places = constant(np.concatenate((middles, np.full_like(middles, SIDE)), 1))
    edges = net.op("add", net.op("slice", y, start=0, stop=4, step=1), places)
    more = constant(np.zeros((1, 84, ROWS - CELLS**2)))
    graph = net.graph(net.op("concat", net.op("concat", edges, scores), more, axis=2), name="squares")
    return graph, tasks.task(graph, decoder="yolov8")


def photos(count: int, seed: int) -> list[np.ndarray]:
    """Red and green squares in the dark, of any brightness from a third on, behind blue noise."""
    random, made = np.random.default_rng(seed), []
    for _ in range(count):
        photo = np.zeros((1, 3, *SIZE), np.float32)
        photo[0, 2] = random.random(SIZE)
        for row, column in SIDE * random.integers(0, CELLS, (8, 2)):
            photo[0, random.integers(0, 2), row : row + SIDE, column : column + SIDE] = random.uniform(1 / 3, 1)
        made.append(photo)
    return made


def seen(*boxes):
    """Outputs with these boxes: middle x and y, width, height, class, score."""
    y = np.zeros((1, 84, ROWS), np.float32)
    for row, (*place, label, score) in enumerate(boxes):
        y[0, :4, row], y[0, 4 + label, row] = place, score
    return y


DOG, CAT = (20, 20, 20, 20, 16, 0.8), (60, 60, 20, 20, 15, 0.4)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((DOG, CAT), (DOG, CAT), (0, 2.4, 0, 4)),
        ((DOG, CAT), (DOG,), (0.4, 2.0, 1, 3)),
        ((DOG,), ((20, 20, 20, 20, 15, 0.8),), (1.6, 1.6, 2, 2)),  # another class
        ((DOG,), ((26, 20, 20, 20, 16, 0.8),), (1.6 * (1 - 14 / 26), 1.6, 0, 2)),
        ((DOG,), ((28, 20, 20, 20, 16, 0.8),), (1.6 * (1 - 12 / 28), 1.6, 2, 2)),  # too far beside it
        ((DOG,), ((20, 20, 20, 20, 16, 0.2),), (1.0 * 0.75, 1.0, 1, 1)),  # less sure, and below the threshold
        ((DOG,), ((20, 20, 20, 20, 16, 0.1),), (0.8, 0.8, 1, 1)),  # below half of it
        ((), (), (0, 0, 0, 0)),
    ],
)
def test_how_boxes_differ(one, other, expected):
    graph, task = detector(1)
    assert (task.threshold, FAINT, SAME) == (0.25, 0.5, 0.5)
    agreement, (name,) = agreement_of(graph, task), (tensor.name for tensor in graph.outputs)
    outputs = [{name: seen(*one)}] * 2, [{name: seen(*other)}] * 2
    assert astuple(agreement.differ(outputs[0][0], outputs[1][0])) == pytest.approx(expected, abs=1e-6)
    made = compare([name], *outputs, agreement)
    off, scores, lost, total = expected
    assert made.boxes.share == pytest.approx(off / scores if scores else 0, abs=1e-6)
    assert made.boxes.drop == (lost / total if total else 0)
    assert made.loss == pytest.approx(made.error * (LITTLE + made.boxes.share))


@pytest.mark.parametrize(("shape", "width"), [((1, 3, 5, 6), 3), ((1, 5, 6, 3), 2)])
def test_few_photos_become_more(shape, width):
    """Mirrored, and four to a picture: the means of 2 x 2 pixels, no row of an odd number."""
    net = Net(shape)
    graph = net.graph(net.op("sigmoid", "x0"))
    samples = [{"x0": photo} for photo in frames(graph, 4)]
    assert more_pictures(graph, samples, 4) == samples
    made = [sample["x0"] for sample in more_pictures(graph, samples, 5)]
    assert len(made) == 10 and all(x.flags.c_contiguous and x.dtype == np.float32 for x in made)
    for sample, first, second in zip(samples, made, made[4:], strict=False):
        np.testing.assert_array_equal(first, sample["x0"])
        np.testing.assert_array_equal(second, np.flip(first, width))
    for number, x in enumerate(made[8:]):
        x, *parts = (np.moveaxis(y, 1, 3) if width == 3 else y for y in (x, *made[number:8:2]))
        for (row, column), part in zip(((0, 0), (0, 1), (1, 0), (1, 1)), parts, strict=True):
            half = part[:, :4].reshape(1, 2, 2, 3, 2, 3).mean((2, 4), dtype=np.float64)
            found = x[:, 2 * row : 2 * row + 2, 3 * column : 3 * column + 3]
            np.testing.assert_allclose(found, half, atol=4e-7)  # of values up to 4, four roundings to 24 bits
        assert not x[:, 4:].any()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_photos_than_a_picture_has(count):
    net = Net((1, 3, 4, 4))
    graph = net.graph(net.op("sigmoid", "x0"))
    assert len(more_pictures(graph, [{"x0": x} for x in frames(graph, count)], 5)) == 2 * count + count // 2


def test_answers_lie_ahead_of_a_choice():
    """Of the surest rows, as networks have it that need no suppression. Rows that change places are no error."""
    net = Net((1, 3, 8, 8))
    boxes, scores = (net.op("reshape", net.conv("x0", n), shape=(1, n, 64)) for n in (4, 1))
    sure = net.op("sigmoid", scores)
    best = net.op("topk", sure, axis=2, k=5)
    rows = net.op("topk", sure, axis=2, k=5, indices=True)
    four = net.op("expand", rows, shape=(1, 4, 5))
    for name in (rows, four):
        net.tensors[name] = replace(net.tensors[name], dtype="int64")
    graph = net.graph(net.op("concat", net.op("gather_elements", boxes, four, axis=2), best))
    convolutions = [node.output for node in graph.nodes if node.op == "conv"]
    assert set(logits(graph)) == {convolutions[0], sure}
    answering = with_logits(graph)
    assert logits(answering) == logits(graph)
    assert [tensor.name for tensor in answering.outputs] == [*logits(graph), graph.outputs[0].name]
    arrays = [{"x0": frame} for frame in frames(graph, 4)]
    run, reference = CalibrationRun(arrays), Reference(answering, arrays)
    assert 0 < run.loss(observed(answering, run), reference) / LITTLE < 0.05  # 256 levels; about 1 for rows misplaced


def test_means_by_probabilities_stay_floats():
    """As detectors have distances: the mean of bins. A layer behind another op does not."""
    net = Net((1, 8, 6, 6))
    bins = net.op("softmax", net.conv("x0", 8), axis=1)
    distance = net.conv(net.op("transpose", bins, perm=(0, 1, 3, 2)), 1)
    other = net.conv(net.op("sigmoid", bins), 1)
    graph = net.graph(distance, other)
    convolutions = [node.name for node in graph.nodes if node.op == "conv"]
    assert [node.name for node in quantizable(graph).layers] == [convolutions[0], convolutions[2]]
    assert [*layers_with_activations(graph)] == [convolutions[0], convolutions[2]]


@pytest.fixture(scope="module")
def plain():
    """The detector whose colours have less than a level, quantized as it is."""
    graph, task = detector(500)
    arrays = [{"x0": photo} for photo in photos(8, 1)]
    run = CalibrationRun(arrays)
    return observed(with_logits(graph), run), Reference(with_logits(graph), arrays, agreement_of(graph, task)), run


def test_the_layer_that_loses_boxes_is_found(plain):
    config, reference, run = plain
    assert run.box_difference(config.resolve().build(), reference) > 0.5
    kept = keep_boxes(config, reference, run)
    assert kept.float_nodes == {config.graph.nodes[2].name}
    assert run.box_difference(kept.resolve().build(), reference) < NEAR


def test_floats_have_a_bound(plain, monkeypatch):
    """The layer has 5 % of the multiply-accumulates."""
    monkeypatch.setattr("pipeall.quantization.keep_boxes.SHARE", 0.04)
    config, reference, run = plain
    assert config.graph.nodes[2].name not in keep_boxes(config, reference, run).float_nodes


@pytest.mark.parametrize(("bound", "found"), [("TIME", 0.04), ("TIME", 0.06), ("SHARE", 0.06)])
def test_what_floats_cost(plain, monkeypatch, bound, found):
    """The layer has 5 % of the multiply-accumulates, and no elements beside them."""
    monkeypatch.setattr(f"pipeall.quantization.keep_boxes.{bound}", found)
    config, reference, run = plain
    assert (config.graph.nodes[2].name in keep_boxes(config, reference, run).float_nodes) == (found > 0.05)


def test_one_tensor_is_quantized_alone(plain):
    """Against NumPy: its values on its levels, all else in float64."""
    config, reference, run = plain
    resolved, x = config.resolve(), {"x0": reference.samples[0]["x0"].astype(np.float64)}
    exact = run_graph(config.graph, x, all_tensors=True)
    for root, (name,) in resolved.quantizable.sources.items():
        params = resolved.qparams[root]
        levels = np.clip(np.rint(exact[name] / params.scale), params.low, params.low + 255) * params.scale
        made = run_graph(resolved.alone(root), x, all_tensors=True)
        output = next(each for each in resolved.alone(root).nodes if each.op == "fakequant").output
        np.testing.assert_allclose(made[output], levels, atol=1.01 * params.scale)  # a level where it is a tie
        assert np.abs(made[output] - levels).mean() < 1e-3 * params.scale
        assert sum(node.op == "fakequant" for node in resolved.alone(root).nodes) == 1


def test_photos_without_boxes():
    """The error of the answers counts there."""
    graph, task = detector(1)
    blue = np.random.default_rng(0).random((1, 3, *SIZE), np.float32) * np.float32([[[0]], [[0]], [[1]]])
    reference = Reference(with_logits(graph), [{"x0": blue}], agreement_of(graph, task))
    run = CalibrationRun([{"x0": photo} for photo in photos(8, 1)])
    quantized = observed(with_logits(graph), run).resolve().build()
    exact, made = (run_graph(each, {"x0": blue}) for each in (graph, quantized))
    (name,) = reference.names
    error = np.sqrt(np.square(made[name] - exact[name]).mean() / np.square(exact[name]).mean())
    assert run.box_difference(quantized, reference) == pytest.approx(error, rel=0.05) and error > 0


def test_samples_with_the_most_boxes(plain):
    _, reference, _ = plain
    dark = {"x0": np.zeros_like(reference.samples[0]["x0"])}
    more = Reference(reference.graph, [dark, reference.samples[0], dark], reference.agreement)
    (chosen,) = more.busiest(1).samples
    assert chosen is reference.samples[0]


def test_a_detector_keeps_its_boxes():
    """Of photos that were not calibrated with, against float64. Nothing stays floats where nothing is lost; what
    equalized channels, 16 times as large, cannot mend, does."""
    for reach, floats in ((1e5, True), (1, False)):
        graph, task = detector(reach)
        made = quantize(graph, photos(12, 2), task=task, method="minmax")
        kept = [row for row in made.report.layers if row.floats]
        assert made.report.rounding == "gptq"
        assert bool(kept) == floats and made.report.integer_macs >= 1 - SHARE and made.report.agreement == 1
        agreement = agreement_of(graph, task)
        same = total = 0
        for photo in photos(12, 3):
            x = {"x0": photo.astype(np.float64)}
            one, other = ({k: v.astype(np.float32) for k, v in run_graph(g, x).items()} for g in (graph, made.written))
            alike, of = agreement.count(one, other)
            same, total = same + alike, total + of
        assert total > 100 and same >= 0.99 * total
