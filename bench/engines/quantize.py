"""Quantized networks beside their floats: pipeall.quantize, onnxruntime's quantize_static, OpenVINO's NNCF, MNN's tool.

    pip install onnxruntime openvino nncf MNN pillow
    python -m bench.engines.quantize [NETWORK ...] [--json FILE] [--by pipeall,NNCF,...] [--methods MinMax,KL,...]

It may be stopped: rows that FILE has are taken from there. Remove it to measure anew. Tools that are not installed are
left out, and named; not so those that --by names.

Calibrated with the photos of the test data and 200 pictures of CIFAR-10. Classifiers are compared on the photos: how
many change their class, and by how much the probability of the floats' class changes in the mean. For detectors every
second picture of scenes/ is there too, and the others compare: the share of the floats' boxes that have one of the same
class with an overlap of 0.5 at least.
pipeall chooses its methods by the calibration pictures; its rows name the share of the multiply-adds that are int8. Of
the others each method has a row. onnxruntime: MinMax, Entropy, Percentile; weights int8 per channel, activations int8
(uint8 gives the same to the last digit). NNCF: presets performance and mixed, all pictures, biases corrected; run by
OpenVINO. MNN: KL and EMA (ADMM takes all pictures as one batch, more than memory holds); it reads the pictures cut to
the network's size, as 8-bit files.
"file": pipeall's file, run by onnxruntime. onnxruntime and OpenVINO run what the files say, without int8 kernels: on
x86 without VNNI the sums of theirs may saturate, which is no fault of the quantization.
"""

import importlib.util
import json
import logging
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from bench.common import DATA, Record, names, parser
from bench.engines.peers import reason
from pipeall import Engine, Picture, load, quantize, tasks
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.media import images
from pipeall.quantization.calibrate import samples_of
from pipeall.tasks.boxes import overlaps

CLASSIFIERS = ("squeezenet1.1", "squeezenet1.0", "mobilenet_v1_0.75_192", "googlenet", "resnet50")
DETECTORS = (
    "nanodet_m_320", "yolox_nano_416", "fastestdet_352", "ssd_mobilenetv2_oidv4_fp16", "retinaface_mbnet025",
    "yunet_n_dynamic", "centerface", "ultraface_version-RFB-320_simplified",
)  # fmt: skip
SHAPES = {  # of inputs whose file leaves them open
    "retinaface_mbnet025": (1, 3, 640, 640), "yunet_n_dynamic": (1, 3, 320, 320), "centerface": (1, 3, 480, 640),
}  # fmt: skip
OTHERS, HELD = 200, 8  # pictures of CIFAR-10; frames whose tensors onnxruntime's tool holds at once
COLUMNS = (
    "network", "by", "method", "classes changed", "mean change of probability .4f", "boxes found .3f", "boxes",
    "quantized in [s] .0f",
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
        self.frames, self.seen = samples_of(graph, folder("photos"), self.picture), []

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
        self.frames = samples_of(graph, pictures, self.picture)
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
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # no int8 kernels
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda frame: session.run(None, frame)


def by_onnxruntime(floats_file, calibration, method, made):
    from onnxruntime import quantization as tool

    tool.quantize_static(
        floats_file, made, Frames(calibration), per_channel=True, activation_type=tool.QuantType.QInt8,
        weight_type=tool.QuantType.QInt8, calibrate_method=tool.CalibrationMethod[method],
        extra_options={"CalibMaxIntermediateOutputs": HELD},
    )  # fmt: skip


def with_openvino(model):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": False}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    return lambda frame: [array.copy() for array in request.infer(frame).to_tuple()]


def with_mnn(file, outputs):
    """``outputs``: names of the network's, in order."""
    import MNN

    interpreter = MNN.Interpreter(str(file))
    session = interpreter.createSession({"backend": "CPU", "numThread": 1, "precision": "high"})
    source = interpreter.getSessionInput(session)

    def run(frame):
        (x,) = frame.values()
        source.copyFrom(MNN.Tensor(x.shape, MNN.Halide_Type_Float, x, MNN.Tensor_DimensionType_Caffe))
        interpreter.runSession(session)
        found = []
        for name in outputs:
            made = interpreter.getSessionOutput(session, name)
            shape = made.getShape()
            y = MNN.Tensor(shape, MNN.Halide_Type_Float, np.zeros(shape, np.float32), MNN.Tensor_DimensionType_Caffe)
            made.copyToHostTensor(y)
            found.append(np.array(y.getNumpyData()).reshape(shape))
        return found

    return run


def by_mnn(floats_file, calibration, picture, method):
    """MNN's tool reads pictures: what the network reads goes back to 8 bits."""
    floats, made, described = (floats_file.with_suffix(f".{end}") for end in ("mnn", f"{method}.mnn", f"{method}.json"))
    pictures = floats_file.with_suffix(".pictures")
    height, width = written(pictures, calibration, picture)
    mean, std = (np.broadcast_to(np.float64(of), 3) for of in (picture.mean, picture.std))
    config = {
        "format": picture.channels, "mean": (mean * picture.scale).tolist(),
        "normal": (1 / (std * picture.scale)).tolist(), "width": width, "height": height,
        "path": str(pictures), "used_image_num": len(calibration),
        "feature_quantize_method": method, "weight_quantize_method": "MAX_ABS", "batch_size": HELD,
    }  # fmt: skip
    described.write_text(json.dumps(config))
    with_tool("mnnconvert", "-f", "ONNX", "--modelFile", floats_file, "--MNNModel", floats, "--bizCode", "none")
    with_tool("mnnquant", floats, made, described)
    return made


def with_tool(tool, *arguments):
    """One of MNN's, in a process of its own. Its scripts would install packages first, and mnnquant's passes its
    arguments in a form that the tool no longer takes."""
    command = [sys.executable, "-c", f"import sys, _tools; _tools.{tool}(sys.argv)", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stderr.strip()[-200:]}")


def written(folder, calibration, picture):
    """Pictures as PPM files; returns their height and width."""
    folder.mkdir(exist_ok=True)
    for number, frame in enumerate(calibration):
        (x,) = frame.values()
        pixels = np.rint((x[0].transpose(1, 2, 0) * np.float64(picture.std) + picture.mean) * picture.scale)
        pixels = pixels.clip(0, 255).astype(np.uint8)[:, :, :: -1 if picture.channels == "BGR" else 1]
        head = f"P6 {pixels.shape[1]} {pixels.shape[0]} 255\n".encode()
        (folder / f"{number:04}.ppm").write_bytes(head + pixels.tobytes())
    return pixels.shape[:2]


class Compared:
    """A network, what it is calibrated with, and what it is compared on."""

    def __init__(self, name, scratch):
        self.name, self.file, self.floats_file = name, scratch / f"{name}.onnx", scratch / f"{name}.float.onnx"
        path = DATA / ("models" if name in CLASSIFIERS else "edge") / f"{name}.onnx"
        self.graph = load(path, input_shape=SHAPES.get(name))
        self.floats_file.write_bytes(onnx_bytes(self.graph))  # of an opset that has a scale for each output
        self.task = (Classes if name in CLASSIFIERS else Boxes)(self.graph, name)
        self.calibration = samples_of(self.graph, folder("photos") + self.task.seen + others(), self.task.picture)
        run = with_pipeall(self.graph)
        self.floats = [[array.copy() for array in run(frame)] for frame in self.task.frames]

    def row(self, by, method, run, took):
        return self.name, by, method, *self.task.compared(self.floats, run), took

    def pipeall(self, _):
        begin = time.perf_counter()
        made = quantize(self.graph, self.calibration)
        took = time.perf_counter() - begin
        made.save(self.file)
        share = f"{100 * made.report.integer_macs:.1f} % int8"
        method = f"tensor by tensor, from {made.report.method}{', equalized' * made.report.equalized}, {share}"
        yield self.row("pipeall", method, with_pipeall(made.graph), took)
        yield self.row("pipeall's file", method, with_onnxruntime(self.file), None)

    def onnxruntime(self, method):
        begin = time.perf_counter()
        by_onnxruntime(self.floats_file, self.calibration, method, self.file)
        took = time.perf_counter() - begin
        yield self.row(f"onnxruntime {version('onnxruntime')}", method, with_onnxruntime(self.file), took)

    def nncf(self, method):
        import nncf
        import openvino

        begin = time.perf_counter()
        made = nncf.quantize(
            openvino.Core().read_model(self.floats_file), nncf.Dataset(self.calibration),
            preset=nncf.QuantizationPreset[method.upper()], subset_size=len(self.calibration),
            fast_bias_correction=False,
        )  # fmt: skip
        took = time.perf_counter() - begin
        yield self.row(f"NNCF {version('nncf')}", method, with_openvino(made), took)

    def mnn(self, method):
        begin = time.perf_counter()
        file = by_mnn(self.floats_file, self.calibration, self.task.picture, method)
        took = time.perf_counter() - begin
        run = with_mnn(file, [tensor.name for tensor in self.graph.outputs])
        yield self.row(f"MNN {version('MNN')}", method, run, took)


TOOLS = {  # name -> the packages it needs, its methods, and what makes the rows of one
    "pipeall": (("onnxruntime",), ("auto",), Compared.pipeall),
    "onnxruntime": (("onnxruntime", "onnx"), ("MinMax", "Entropy", "Percentile"), Compared.onnxruntime),
    "NNCF": (("nncf", "openvino"), ("performance", "mixed"), Compared.nncf),
    "MNN": (("MNN",), ("KL", "EMA"), Compared.mnn),
}


def key(network, by, method):
    """Of rows that are measured together."""
    return (network, "pipeall", "auto") if by.startswith("pipeall") else (network, by.split()[0], method)


def main():
    options = parser(__doc__, networks=(*DETECTORS, *CLASSIFIERS))
    options.add_argument("--by", type=names, help=f"default {','.join(TOOLS)}")
    options.add_argument("--methods", type=names, help="default all")
    options = options.parse_args()
    absent = {t for t in options.by or TOOLS for package in TOOLS[t][0] if importlib.util.find_spec(package) is None}
    if options.by and absent:
        sys.exit(f"--by: not installed: {', '.join(sorted(absent))}")
    logging.disable(logging.WARNING)  # onnxruntime's tool advises to prepare what is prepared
    rows = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    known = {key(*row[:3]) for row in rows}
    with tempfile.TemporaryDirectory() as scratch, Record(options, *COLUMNS, keys=2) as record:
        if absent:
            record.say(f"not installed: {', '.join(sorted(absent))}")
        for row in rows:
            record.add(*row)
        for name in options.networks:
            network = None
            for tool, method in wanted(options.by or [tool for tool in TOOLS if tool not in absent], options.methods):
                if (name, tool, method) in known:
                    continue
                network = network or Compared(name, Path(scratch))
                try:
                    for row in TOOLS[tool][2](network, method):
                        record.add(*row)
                except Exception as error:  # a peer's tool; the others go on without it
                    if tool == "pipeall":
                        raise
                    record.say(f"{name}: not by {tool}, {method}: {reason(error):.100}")


def wanted(tools, methods):
    """Tools and their methods, all where none is named."""
    return [(tool, method) for tool in tools for method in TOOLS[tool][1] if methods is None or method in methods]


if __name__ == "__main__":
    main()
