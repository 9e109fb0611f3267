"""What the stand-in for librknnrt computes with, and what it has in the place of the vendor's tool."""

import ctypes
import json
from pathlib import Path

import numpy as np
import onnxruntime

MAGIC, VERSION, PLATFORM = b"a stand-in for an .rknn file\n", 6, "rk3588"
FAILED, MODEL_INVALID, PLATFORM_UNMATCH = -1, -6, -13
NCHW, NHWC, UNDEFINED = 0, 1, 3


def convert(folder, **options):
    """Writes a file beside each .onnx that a manifest lists, as the vendor's tool would."""
    for one in json.loads((Path(folder) / "manifest.json").read_text())["slices"]:
        model, ends = Path(folder, one["file"]), [*one["inputs"], *one["outputs"]]
        levels = {end["name"]: [end["scale"], end["zero_point"]] for end in ends if end["type"] == "int8"}
        write(model, model.with_suffix(".rknn"), levels=levels, **options)


def write(model, path, version=VERSION, platform=PLATFORM, levels=None):
    head = json.dumps({"version": version, "platform": platform, "levels": levels or {}}).encode() + b"\n"
    Path(path).write_bytes(MAGIC + head + Path(model).read_bytes())


def load(path):
    """A model, or the code that the vendor's library gives."""
    content = Path(path).read_bytes() if Path(path).exists() else b""
    if not content.startswith(MAGIC):
        return MODEL_INVALID
    head, model = content[len(MAGIC) :].split(b"\n", 1)
    about = json.loads(head)
    if about["version"] > VERSION:
        return FAILED
    if about["platform"] != PLATFORM:
        return PLATFORM_UNMATCH
    return Model(model, about["levels"])


class Model:
    def __init__(self, content, levels):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.inputs = tuple(_tensor(end, NHWC, levels) for end in self.session.get_inputs())
        self.outputs = tuple(_tensor(end, NCHW, levels) for end in self.session.get_outputs())

    def run(self, from_addresses, to_addresses):
        given = {}
        for (name, shape, layout, whole, *_), address in zip(self.inputs, from_addresses, strict=True):
            array = _at(address, shape, whole)
            given[name] = np.ascontiguousarray(array.transpose(0, 3, 1, 2)) if layout == NHWC else array
        made = self.session.run(None, given)
        for array, (_, shape, _, whole, *_), address in zip(made, self.outputs, to_addresses, strict=True):
            _at(address, shape, whole)[...] = array


def _tensor(end, layout, levels):
    """Name, shape and layout; whether it is of int8, with its levels."""
    shape, whole = tuple(end.shape), end.type == "tensor(int8)"
    about = (whole, *(levels[end.name] if whole else (0.0, 0)))
    if len(shape) != 4:
        return end.name, shape, UNDEFINED, *about
    return end.name, (shape[0], *shape[2:], shape[1]) if layout == NHWC else shape, layout, *about


def _at(address, shape, whole):
    kind = ctypes.c_int8 if whole else ctypes.c_float
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), shape)
