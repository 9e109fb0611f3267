"""The networks of the test data's folder edge/ on photos of scenes/, compared with onnxruntime.

    python -m tests.long.edge_networks [NETWORK ...] [--all] [--half]

One line for each network: errors of engines and of three-stage pipelines at random cuts, relative to the largest value
of each output, and whether what is decoded (edge_decoders.py) is the same. --all: on every photo; --half: float16
versions of the files. ``edge.json`` says how a photo becomes an input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from edge_decoders import same
from onnx import TensorProto, numpy_helper
from PIL import Image

from pipeall import Board, Engine, Graph, Pipeline, load
from pipeall.errors import PipeallError
from pipeall.graph.ops import run_graph

HALF = (
    "face_detection_short_range", "mlperf_tiny_vww_float", "nanotrackv2_backbone", "selfie_segmentation",
    "superres_x3_d2s", "yolox_nano_416",
)  # fmt: skip
ORDERS = ("big-gpu-little", "gpu-little-big", "little-big-gpu")
LIMIT, HALF_LIMIT = 1e-4, 1e-3  # of the largest absolute value of an output
# One mask is the difference of large numbers: with exact arithmetic, and tensors alone rounded to float32,
# it is up to 2e-4 off, onnxruntime 4e-4, its sigmoid worse. The second has sums in one chain where OpenCL computes it
LIMITS = {"pose_landmark_full": 1e-3, "ch_PP-OCRv4_rec_infer": 2e-4}
TRACKED = "nanotrackv2_backbone"  # what the tracker's head reads

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Network:
    """A file of edge/ and its entry of edge.json."""

    path: Path
    about: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the inputs, in the sizes that the photos get."""
        if "size" not in self.about:
            return {x["name"]: tuple(x["shape"]) for x in self.about["inputs"]}
        (h, w), channels = self.about["size"], 1 if self.about["preprocess"]["order"] == "Y" else 3
        shape = (1, channels, h, w) if self.about["layout"] == "NCHW" else (1, h, w, channels)
        return {self.about["inputs"][0]["name"]: shape}

    def load(self, path: Path | None = None) -> Graph:
        """The network, or a version of it in another file."""
        shapes = self.shapes
        return load(path or self.path, input_shape=next(iter(shapes.values())) if len(shapes) == 1 else shapes)


def networks(folder: Path) -> list[Network]:
    """Those that compute in float."""
    entries = json.loads((folder / "edge.json").read_text())
    floats = {file: about for file, about in entries.items() if about["inputs"][0]["dtype"] == "float32"}
    return [Network(folder / file, about) for file, about in floats.items() if "_int8" not in file]


def photos(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".jpg", ".png"))


def picture(path: Path, about: dict[str, Any], size: tuple[int, int]) -> np.ndarray:
    """A photo as ``about["preprocess"]`` says, float32 (1, C, H, W) or (1, H, W, C)."""
    how, (h, w) = about["preprocess"], size
    photo = Image.open(path).convert("RGB")
    if "letterbox" in how:  # keeps its proportions, above and left
        shrunk = min(h / photo.height, w / photo.width)
        inner = photo.resize((round(photo.width * shrunk), round(photo.height * shrunk)), Image.Resampling.BILINEAR)
        photo = Image.new("RGB", (w, h), (how["letterbox"],) * 3)
        photo.paste(inner)
    else:
        photo = photo.resize((w, h), Image.Resampling.BILINEAR)
    x = np.asarray(photo, np.float32)
    if how["order"] == "Y":
        x = x @ np.array([[0.299], [0.587], [0.114]], np.float32)
    x = x[..., ::-1] if how["order"] == "BGR" else x
    x = (x / how["scale"] - np.array(how.get("mean", 0.0))) / np.array(how.get("std", 1.0))
    x = x.transpose(2, 0, 1) if about["layout"] == "NCHW" else x
    return np.ascontiguousarray(x[None], np.float32)


class Reference:
    """onnxruntime on a network's file, or on a version of it."""

    def __init__(self, network: Network, path: Path | None = None):
        self.network = network
        model = onnx.load(path or network.path)
        for value in model.graph.input:  # a file may declare a nonsense size
            if value.name in network.shapes:
                dims = value.type.tensor_type.shape
                dims.CopyFrom(onnx.TensorShapeProto())
                for n in network.shapes[value.name]:
                    dims.dim.add().dim_value = n
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        model.graph.ClearField("value_info")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)

    def __call__(self, inputs: Arrays) -> Arrays:
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, inputs), strict=True))


def frames(network: Network, chosen: list[Path]) -> list[Arrays]:
    """The inputs of a network, by name, for each of these photos."""
    if "size" in network.about:
        (name,) = network.shapes
        return [{name: picture(photo, network.about, network.about["size"])} for photo in chosen]
    folder = network.path.parent  # a tracker's head: features of the photo, and those of its middle
    about = json.loads((folder / "edge.json").read_text())[f"{TRACKED}.onnx"]
    backbone = Network(folder / f"{TRACKED}.onnx", about)
    features = [next(iter(Reference(backbone)(x).values())) for x in frames(backbone, chosen)]
    small, large = network.shapes
    return [{small: np.ascontiguousarray(x[..., 4:12, 4:12]), large: x} for x in features]


def half(path: Path, made: Path) -> Path:
    """Writes a version of a file with weights, inputs and outputs in float16. Scales of a Resize stay as they are."""
    model = onnx.load(path)
    graph = model.graph
    kept = {name for node in graph.node if node.op_type in ("Resize", "Upsample") for name in node.input[1:3]}
    for tensor in graph.initializer:
        if tensor.name not in kept:
            _halve(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and not kept & set(node.output):
                _halve(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    graph.ClearField("value_info")
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT and value.name not in kept:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(model, made)
    return made


def _halve(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        largest = float(np.finfo(np.float16).max)
        values = np.clip(numpy_helper.to_array(tensor), -largest, largest).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def random_plans(graph: Graph, seed: int) -> list[str]:
    """Three stages in three orders, at random cuts."""
    random = np.random.default_rng(seed)
    cuts = (sorted(random.choice(np.arange(1, len(graph.groups)), 2, replace=False)) for _ in ORDERS)
    return [f"{order}:{first},{second}" for order, (first, second) in zip(ORDERS, cuts, strict=True)]


def named(graph: Graph, result: np.ndarray | Arrays) -> Arrays:
    return result if isinstance(result, dict) else {graph.outputs[0].name: result}


def results(graph: Graph, board: Board, inputs: list[Arrays], seed: int) -> Iterator[tuple[str, int, Arrays]]:
    """What computes, the number of the frame, and its outputs: engines on CPU and OpenCL, then pipelines."""
    given = [x if len(x) > 1 else next(iter(x.values())) for x in inputs]
    for component in ("big", "gpu"):
        with Engine(graph, component, board=board) as engine:
            for number, x in enumerate(given):
                yield component, number, named(graph, engine(x))
    if len(graph.groups) >= 3:
        for plan in random_plans(graph, seed):
            with Pipeline(graph, plan, board=board) as pipe:
                for number, y in enumerate(pipe.map(given)):
                    yield plan, number, named(graph, y)


def error(found: Arrays, expected: Arrays) -> float:
    """The largest error of any output, relative to the output's largest absolute value."""
    assert found.keys() == expected.keys()
    errors = [0.0]
    for name, y in expected.items():
        assert found[name].shape == y.shape, name
        y, x = y.astype(np.float64), found[name].astype(np.float64)
        errors.append(np.abs(x - y).max() / max(np.abs(y).max(), np.finfo(np.float32).tiny))
    return float(max(errors))


def compared(
    network: Network, board: Board, chosen: list[Path], folder: Path | None = None, seed: int = 0
) -> Iterator[tuple[str, int, float, bool]]:
    """What computed, the photo's number, the error, and whether the decoded results are the same. With ``folder``
    the float16 version of the file, which is written there.

    Where a result is too far from onnxruntime's, the error is that from the references in float64, if it is less:
    onnxruntime's sigmoid is up to 7e-2 of the largest value off where a network sees nothing and all are near 0.
    """
    path = half(network.path, folder / network.path.name) if folder else None
    reference, inputs = Reference(network, path), frames(network, chosen)
    if folder:
        inputs = [{name: x.astype(np.float16) for name, x in frame.items()} for frame in inputs]
    expected = [reference(x) for x in inputs]
    graph, exact = network.load(path), {}
    for what, number, found in results(graph, board, inputs, seed):
        tolerance = HALF_LIMIT if folder else LIMITS.get(network.name, LIMIT)
        off = error(found, expected[number])
        if off > tolerance:
            if number not in exact:
                exact[number] = run_graph(graph, inputs[number])
            off = min(off, error(found, exact[number]))
        yield what, number, off, same(network.name, found, expected[number], tolerance)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("networks", nargs="*", metavar="NETWORK", help="default: all that compute in float")
    options.add_argument("--all", action="store_true", help="every photo; default: the first")
    options.add_argument("--half", type=Path, metavar="FOLDER", help="float16 versions, written to this folder")
    options = options.parse_args()
    os.environ.setdefault("PIPEALL_TUNE", "off")
    data = Path(os.environ.get("PIPEALL_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    chosen, board, bad = photos(data / "scenes")[: None if options.all else 1], Board.detect(), 0
    for network in networks(data / "edge"):
        if options.networks and network.name not in options.networks:
            continue
        worst: dict[str, float] = {}
        try:
            alike = True
            for what, _, found, as_expected in compared(network, board, chosen, options.half):
                worst[what] = max(worst.get(what, 0.0), found)
                alike &= as_expected
            limit = HALF_LIMIT if options.half else LIMITS.get(network.name, LIMIT)
            good = alike and max(worst.values()) <= limit
            text = "  ".join(f"{what} {found:.1e}" for what, found in worst.items())
            print(f"{network.name:40}{'right' if good else 'WRONG'}  {text}", "" if alike else "decoded differently")
        except PipeallError as refusal:
            good = False
            print(f"{network.name:40}REFUSED  {refusal}")
        bad += not good
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
