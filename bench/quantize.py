"""Quantised networks beside their floats: pipeall.quantize, onnxruntime's quantize_static and OpenVINO's NNCF.

    pip install openvino nncf
    python bench/quantize.py [NETWORK ...] [--json FILE] [--by pipeall,onnxruntime,NNCF]

It may be stopped: rows that FILE has are taken from there. Remove it to measure anew.

Calibrated with the photos of the test data and 200 pictures of CIFAR-10. Classifiers are compared on the photos: how
many change their class, and by how much the probability of the floats' class changes in the mean. For detectors every
second picture of scenes/ is there too, and the others compare: the share of the floats' boxes that have one of the same
class with an overlap of 0.5 at least.
Of onnxruntime's methods (MinMax, Entropy, Percentile; weights per channel, int8 throughout) and of NNCF's presets
(performance, mixed; all pictures, biases corrected) the best is shown, chosen by these very figures; pipeall chooses by
the calibration pictures. "file": pipeall's file, run by onnxruntime. NNCF's networks are run by OpenVINO.
"""

import json
import logging
import tempfile
import time
from itertools import chain
from pathlib import Path

import numpy as np
import onnxruntime
from common import DATA, Record, names, parser
from onnxruntime import quantization as tool

from pipeall import Engine, Picture, load, quantize, tasks
from pipeall.cli import images
from pipeall.graph.onnx.write import onnx_bytes
from pipeall.quantization.photos import frames_of
from pipeall.tasks.boxes import overlaps

CLASSIFIERS = ("squeezenet1.1", "squeezenet1.0", "mobilenet_v1_0.75_192", "googlenet", "resnet50")
DETECTORS = ("nanodet_m_320", "yolox_nano_416")
METHODS = ("MinMax", "Entropy", "Percentile")
PRESETS = ("PERFORMANCE", "MIXED")
OTHERS, HELD = 200, 8  # pictures of CIFAR-10; frames whose tensors onnxruntime's tool holds at once
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
        self.frames, self.seen = frames_of(graph, folder("photos"), self.picture), []

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
        self.seen, pictures = folder("scenes")[::2], folder("scenes")[1::2]
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


def with_openvino(model):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    return lambda frame: [array.copy() for array in request.infer(frame).to_tuple()]


class Compared:
    """A network, what it is calibrated with, and what it is compared on."""

    def __init__(self, name, scratch):
        self.name, self.file, self.floats_file = name, scratch / f"{name}.onnx", scratch / f"{name}.float.onnx"
        path = DATA / ("models" if name in CLASSIFIERS else "edge") / f"{name}.onnx"
        self.graph = load(path)
        self.floats_file.write_bytes(onnx_bytes(self.graph))  # of an opset that has a scale for each output
        self.task = (Classes if name in CLASSIFIERS else Boxes)(self.graph, name)
        self.calibration = frames_of(self.graph, folder("photos") + self.task.seen + others(), self.task.picture)
        run = with_pipeall(self.graph)
        self.floats = [[array.copy() for array in run(frame)] for frame in self.task.frames]

    def row(self, by, method, run, took):
        return self.name, by, method, *self.task.compared(self.floats, run), took

    def pipeall(self):
        begin = time.perf_counter()
        made = quantize(self.graph, self.calibration)
        took = time.perf_counter() - begin
        made.save(self.file)
        method = f"tensor by tensor, from {made.report.method}{', equalised' * made.report.equalised}"
        yield self.row("pipeall", method, with_pipeall(made.graph), took)
        yield self.row("pipeall's file", method, with_onnxruntime(self.file), None)

    def onnxruntime(self):
        found = []
        for method in METHODS:
            begin = time.perf_counter()
            by_onnxruntime(self.floats_file, self.calibration, method, self.file)
            took = time.perf_counter() - begin
            found.append(self.row("onnxruntime", method, with_onnxruntime(self.file), took))
        yield best(found)

    def nncf(self):
        import nncf
        import openvino

        found = []
        for preset in PRESETS:
            begin = time.perf_counter()
            made = nncf.quantize(
                openvino.Core().read_model(self.floats_file), nncf.Dataset(self.calibration),
                preset=nncf.QuantizationPreset[preset], subset_size=len(self.calibration), fast_bias_correction=False,
            )  # fmt: skip
            took = time.perf_counter() - begin
            found.append(self.row("NNCF", preset.lower(), with_openvino(made), took))
        yield best(found)


def best(found):
    return min(found, key=lambda row: (row[3] or 0, row[4] or 0, -(row[5] or 0)))


TOOLS = {"pipeall": Compared.pipeall, "onnxruntime": Compared.onnxruntime, "NNCF": Compared.nncf}


def measured(file):
    """Rows of a record, by network and tool."""
    found = {}
    for row in json.loads(file.read_text())["rows"] if file and file.exists() else ():
        found.setdefault((row[0], row[1].removesuffix("'s file")), []).append(row)
    return found


def main():
    options = parser(__doc__, networks=(*DETECTORS, *CLASSIFIERS))
    options.add_argument("--by", type=names, default=list(TOOLS), help=f"default {','.join(TOOLS)}")
    options = options.parse_args()
    logging.disable(logging.WARNING)  # onnxruntime's tool advises to prepare what is prepared
    known = measured(options.json)
    with tempfile.TemporaryDirectory() as scratch, Record(options, *COLUMNS, keys=2) as record:
        for row in chain(*known.values()):
            record.add(*row)
        for name in options.networks:
            network = None
            for tool in options.by:
                if (name, tool) not in known:
                    network = network or Compared(name, Path(scratch))
                    for row in TOOLS[tool](network):
                        record.add(*row)


if __name__ == "__main__":
    main()
