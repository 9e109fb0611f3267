"""Quantised networks beside their floats: pipeall.quantize and onnxruntime's quantize_static, on the same photos.

    python bench/quantize.py [NETWORK ...] [--json FILE]

Calibrated with the photos of the test data and 200 pictures of CIFAR-10. Classifiers are compared on the photos: how
many change their class, and by how much the probability of the floats' class changes in the mean. For detectors every
second picture of scenes/ is there too, and the others compare: the share of the floats' boxes that have one of the same
class with an overlap of 0.5 at least. Layers of detectors may stay floats for a relative error of DROP.
Of onnxruntime's methods (MinMax, Entropy, Percentile; weights per channel, int8 throughout) the best is shown, chosen
by these very figures; pipeall chooses by the calibration pictures. "file": pipeall's file, run by onnxruntime.
"""

import json
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from common import DATA, Record, parser
from onnxruntime import quantization as tool

from pipeall import Engine, Picture, load, quantize, tasks
from pipeall.cli import images
from pipeall.graph.onnx.write import onnx_bytes
from pipeall.quantization.photos import frames_of
from pipeall.tasks.boxes import overlaps

CLASSIFIERS = ("googlenet", "mobilenet_v1_0.75_192", "resnet50", "squeezenet1.0", "squeezenet1.1")
DETECTORS = ("nanodet_m_320", "yolox_nano_416")
METHODS = ("MinMax", "Entropy", "Percentile")
OTHERS, HELD, DROP = 200, 8, 0.15  # pictures of CIFAR-10; frames whose tensors onnxruntime's tool holds at once
COLUMNS = (
    "network", "by", "method", "classes changed", "mean change of probability .4f", "boxes found .3f", "boxes",
    "quantised in [s] .0f",
)  # fmt: skip


class Frames:
    """As onnxruntime's tool reads them."""

    def __init__(self, frames):
        self._left = list(frames[::-1])

    def get_next(self):
        return self._left.pop() if self._left else None


def folder(name):
    return [images.read(path) for path in images.inside(DATA / name, False)]


def others():
    with np.load(DATA / "datasets" / "cifar10_10k.npz") as data:
        return list(data["x_test"][:OTHERS])


def picture_of(name):
    known = json.loads((DATA / "models" / "models.json").read_text())[f"{name}.onnx"]
    return Picture(
        "crop", "antialias", known["order"], known["scale"], tuple(known["mean"]), tuple(known["std"]),
        keep=known["size"] / known["resize"],
    )  # fmt: skip


class Classes:
    """What a classifier says of the photos."""

    def __init__(self, graph, name):
        self.picture = picture_of(name)
        self.frames, self.seen, self.drop = frames_of(graph, folder("photos"), self.picture), [], None

    def compared(self, floats, run):
        pairs = [(a.reshape(-1), run(frame)[0].reshape(-1)) for (a,), frame in zip(floats, self.frames, strict=True)]
        changed = sum(int(a.argmax() != b.argmax()) for a, b in pairs)
        return changed, float(np.mean([abs(a.max() - b[a.argmax()]) for a, b in pairs])), None, None


class Boxes:
    """What a detector sees in the scenes."""

    def __init__(self, graph, name):
        self.task = tasks.task(graph)
        self.names = [tensor.name for tensor in graph.outputs]
        self.picture = self.task.picture
        self.seen, pictures, self.drop = folder("scenes")[::2], folder("scenes")[1::2], DROP
        self.frames = frames_of(graph, pictures, self.picture)
        self.placed = [self.picture.placed(picture.shape[:2], self.task.size) for picture in pictures]

    def boxes(self, outputs, placed):
        boxes = self.task(dict(zip(self.names, outputs, strict=True)), placed).boxes
        return np.array([(b.left, b.top, b.right, b.bottom) for b in boxes]).reshape(-1, 4), np.array(
            [b.label for b in boxes]
        )

    def compared(self, floats, run):
        found = total = 0
        for outputs, frame, placed in zip(floats, self.frames, self.placed, strict=True):
            (a, a_labels), (b, b_labels) = self.boxes(outputs, placed), self.boxes(run(frame), placed)
            alike = (overlaps(a, b) >= 0.5) & (a_labels[:, None] == b_labels)
            found, total = found + int(alike.any(1).sum()), total + len(a)
        return None, None, found / total, total


def with_pipeall(graph):
    engine = Engine(graph)

    def run(frame):
        made = engine(frame)
        return [made[tensor.name] for tensor in graph.outputs] if isinstance(made, dict) else [made]

    return run


def with_onnxruntime(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda frame: session.run(None, frame)


def by_onnxruntime(floats_file, calibration, method, made):
    tool.quantize_static(
        floats_file, made, Frames(calibration), per_channel=True, activation_type=tool.QuantType.QInt8,
        weight_type=tool.QuantType.QInt8, calibrate_method=tool.CalibrationMethod[method],
        extra_options={"CalibMaxIntermediateOutputs": HELD},
    )  # fmt: skip


def rows(name, scratch):
    path = DATA / ("models" if name in CLASSIFIERS else "edge") / f"{name}.onnx"
    graph, floats_file = load(path), scratch / f"{name}.float.onnx"
    floats_file.write_bytes(onnx_bytes(graph))  # of an opset that has a scale for each output
    task = (Classes if name in CLASSIFIERS else Boxes)(graph, name)
    calibration = frames_of(graph, folder("photos") + task.seen + others(), task.picture)
    run = with_pipeall(graph)
    floats = [[array.copy() for array in run(frame)] for frame in task.frames]
    begin = time.perf_counter()
    made = quantize(graph, calibration, max_drop=task.drop)
    took = time.perf_counter() - begin
    file = scratch / f"{name}.onnx"
    made.save(file)
    kept = sum(row.floats for row in made.report.layers)
    method = f"{made.report.method}{', equalised' * made.report.equalised}{f', {kept} layers floats' * bool(kept)}"
    yield name, "pipeall", method, *task.compared(floats, with_pipeall(made.graph)), took
    yield name, "pipeall's file", method, *task.compared(floats, with_onnxruntime(file)), None
    found = []
    for method in METHODS:
        begin = time.perf_counter()
        by_onnxruntime(floats_file, calibration, method, file)
        took = time.perf_counter() - begin
        found.append((name, "onnxruntime", method, *task.compared(floats, with_onnxruntime(file)), took))
    yield min(found, key=lambda row: (row[3] or 0, row[4] or 0, -(row[5] or 0)))


def main():
    options = parser(__doc__, networks=(*CLASSIFIERS, *DETECTORS)).parse_args()
    logging.disable(logging.WARNING)  # onnxruntime's tool advises to prepare what is prepared
    with tempfile.TemporaryDirectory() as scratch, Record(options, *COLUMNS, keys=2) as record:
        for name in options.networks:
            for row in rows(name, Path(scratch)):
                record.add(*row)


if __name__ == "__main__":
    main()
