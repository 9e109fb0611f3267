"""What is fuzzed from Python: each target takes bytes, and any exception but a named refusal is a finding.

Whoever runs them calls ``limit`` first: they are bounded in memory by less than the package allows, since they run for
hours beside other work.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "support"))

import steps  # noqa: E402

from pipeall import PipeallError, Plan, Profile, arrays  # noqa: E402
from pipeall.errors import ArgumentError, ModelError  # noqa: E402
from pipeall.graph.ir import Graph, Node, Tensor  # noqa: E402
from pipeall.graph.lower.lower import lower  # noqa: E402
from pipeall.graph.onnx.read import build as onnx_build  # noqa: E402
from pipeall.graph.onnx.read import read as onnx_import  # noqa: E402
from pipeall.graph.onnx.read import reader as onnx_reader  # noqa: E402
from pipeall.graph.onnx.read import reference as onnx_evaluate  # noqa: E402
from pipeall.graph.ops import run_graph  # noqa: E402
from pipeall.graph.partition import subgraph  # noqa: E402
from pipeall.graph.passes.dequantize import dequantized  # noqa: E402
from pipeall.mlp import checkpoint, data  # noqa: E402
from pipeall.pipeline.boards.models.board_model import BoardModel  # noqa: E402
from pipeall.pipeline.devices.timings import add_times, read_times, shipped_times, write_shipped  # noqa: E402
from pipeall.pipeline.planning.search import search  # noqa: E402

LIMITS = (
    (onnx_reader, "MAX_CONSTANT_ELEMENTS", 1 << 20),
    (onnx_build, "MAX_CONSTANT_ELEMENTS", 1 << 20),
    (onnx_build, "MAX_UNROLLED", 1000),
    (onnx_evaluate, "MAX_ELEMENTS", 1 << 20),
    (arrays, "MAX_BYTES", 1 << 22),
)
ELEMENTS = 1 << 14  # of a network that is also computed
MACS = 1 << 22
STEEP = 1e2  # of what is no tensor: attention's scores and gates' sums, which may jump where they are as large
JUMPS = frozenset(  # ops where a rounding may change the result by far
    "floor ceil round fakequant quantize sign mod fmod equal less greater lessequal greaterequal cast arg topk nms "
    "thresholdedrelu shrink isnan isinf tan acosh atanh grid_sample roi_align maxpool_indices".split()
)
WRONG_VALUES = (None, True, -1, 0, 1, 2, 1e308, -1e308, 10**400, 0.5, "", "x" * 300, "\0", "big", [], [[]], {}, [None],
                {"": {}}, [1] * 50, "gpu-big:1", "../../x", 2**63, "\ud800")  # fmt: skip


def limit(set_: Callable[[Any, str, int], None] = setattr) -> None:
    for module, name, value in LIMITS:
        set_(module, name, value)


@contextmanager
def file_of(content: bytes, suffix: str) -> Iterator[Path]:
    """A file with this content, in memory where the system has such a folder."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / f"input{suffix}"
        path.write_bytes(content)
        yield path


def refused(path: Path, error: Exception) -> None:
    """A refusal is one line that names the file."""
    message = str(error)
    assert str(path) in message and "\n" not in message and len(message) < 2000 + len(str(path)), repr(message)


# ---- ONNX models


def onnx_file(content: bytes) -> None:
    """Reads a model; one that is accepted and small is computed, natively and by the references."""
    with file_of(content, ".onnx") as path:
        try:
            graph = onnx_import.load(path)
        except ModelError as error:
            refused(path, error)
            return
        if _is_small(graph):
            compute(graph)


def _is_small(graph: Graph) -> bool:
    from pipeall.graph.ops import macs

    tensors = sum(tensor.elements for tensor in graph.tensors.values())
    return tensors <= ELEMENTS and len(graph.nodes) <= 50 and sum(macs(node, graph) for node in graph.nodes) <= MACS


@cache
def _table() -> Any:
    from pipeall._kernels.cpu import cluster, table

    first = cluster.detect()[0]
    return table.choose(first.isas, first.core_type)


def compute(graph: Graph) -> None:
    """The native result is that of the references, up to rounding, where that is finite and moderate."""
    from pipeall._kernels.cpu.kernels import CpuProgram

    try:
        lowered = lower(subgraph(graph, 0, len(graph.groups)))
    except ModelError:
        return
    sizes = lowered.arena_bytes, lowered.slot_in_bytes, lowered.slot_out_bytes
    program = CpuProgram(_table(), (-1,), "fuzz", sizes)
    for step in lowered.steps:
        program.add(step)
    random = np.random.default_rng(0)
    inputs = {tensor.name: _drawn(random, tensor) for tensor in graph.inputs}
    slot = np.zeros(lowered.slot_in_bytes, np.uint8)
    for tensor in lowered.slot_in:
        content = inputs[tensor.name].reshape(-1).view(np.uint8)
        slot[tensor.offset_bytes : tensor.offset_bytes + content.size] = content
    out = program.run(slot)
    with np.errstate(all="ignore"):
        every = run_graph(dequantized(graph), inputs, all_tensors=True)
        single = run_graph(dequantized(graph), inputs, np.float32, all_tensors=True)
        largest = np.max([np.abs(value.astype(np.float64)).max() for value in every.values()])  # or NaN
    steep = any(_is_steep(node, graph) for node in graph.nodes)
    rounded = any(tensor.quantization for tensor in graph.tensors.values())  # a tie may go either way
    if not largest < 1e4 or steep or rounded or JUMPS & {node.op for node in graph.nodes}:
        return
    most = 1e-3 * max(1, largest)
    for name, value in every.items():  # float32 itself may lose the digits: differences of nearly equals, over that
        if not np.abs(single[name].astype(np.float64) - value).max() <= (most / 8 if value.dtype.kind == "f" else 0):
            return  # NaN, too
    for tensor in lowered.slot_out:
        expected, items = every[tensor.name], np.dtype(tensor.dtype).itemsize
        found = out[tensor.offset_bytes :][: expected.size * items].view(tensor.dtype).reshape(expected.shape)
        error = np.abs(found.astype(np.float64) - expected)
        assert (error <= (most if found.dtype.kind == "f" else 0)).all(), tensor.name


def _is_steep(node: Node, graph: Graph) -> bool:
    if node.op in ("lstm", "gru", "rnn"):
        weights = [graph.constants[name] for name in node.inputs if name in graph.constants]
        return not all(np.abs(array).max(initial=0) <= STEEP for array in weights)  # NaN, too
    return node.op == "attention" and abs(node.attrs.get("scale", 0)) > STEEP


def _drawn(random: np.random.Generator, tensor: Tensor) -> np.ndarray:
    """Elements of an input; whole numbers are small, since many are indices."""
    if tensor.dtype.startswith("float"):
        return random.standard_normal(tensor.shape).astype(tensor.dtype)
    return random.integers(0, 2 if tensor.dtype == "bool" else 5, tensor.shape).astype(tensor.dtype)


# ---- JSON files


def _read_board(path: Path) -> None:
    BoardModel.load(str(path))


def _read_profile(path: Path) -> None:
    found = Profile.load(path)
    if len(found.units) <= 4:
        search(_net(), found, top=1)


@cache
def _net() -> Graph:
    from graphs import small_net

    return small_net()


JSON_READERS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("plan", lambda path: Plan.load(path, _net())),
    ("profile", _read_profile),
    ("board", _read_board),
    ("algorithms", lambda path: read_times(path, "algorithms")),
    ("tuning", lambda path: shipped_times(path, "algorithms-any")),
)


@cache
def json_seeds() -> tuple[bytes, ...]:
    """A valid file for each reader, small, in their order."""
    from toy_board import profile_of, toy_board

    graph = _net()
    times = {"big": [0.3] * len(graph.groups), "gpu": [0.2] * len(graph.groups)}
    with file_of(b"", ".json") as path:
        made = []
        for save in (
            lambda: Plan.parse("G-B:2").save(path, graph),
            lambda: profile_of(graph, times).save(path),
            lambda: toy_board(graph, times).model.save(path),
            lambda: add_times(path, "algorithms", {"8x8x4-8": {"gemm": 1.5}}),
            lambda: write_shipped(path, {"algorithms-any": {"8x8x4-8": {"gemm": 1.5}}}),
        ):
            save()
            made.append(path.read_bytes())
    return tuple(made)


def json_file(content: bytes) -> None:
    """First byte: the reader; is it odd, the rest says what is changed in a valid file, else it is the file."""
    if not content:
        return
    kind, read = JSON_READERS[content[0] // 2 % len(JSON_READERS)]
    text = _changed(json_seeds()[content[0] // 2 % len(JSON_READERS)], content[1:]) if content[0] % 2 else content[1:]
    with file_of(text, ".json") as path:
        try:
            read(path)
        except ArgumentError as error:
            if kind != "profile":
                refused(path, error)
        except PipeallError:
            assert kind == "profile"  # search says what does not fit


def _changed(seed: bytes, choices: bytes) -> bytes:
    """The document with some of its values replaced, dropped or renamed, as the bytes say."""
    document = json.loads(seed)
    for at in range(0, len(choices) - 3, 4):
        places = list(_places(document))
        if not places:
            break
        owner, key = places[(choices[at] * 256 + choices[at + 1]) % len(places)]
        how = choices[at + 2] % (len(WRONG_VALUES) + 3)
        if how < len(WRONG_VALUES):
            owner[key] = deepcopy(WRONG_VALUES[how])
        elif how == len(WRONG_VALUES) and isinstance(owner, dict):
            del owner[key]
        elif how == len(WRONG_VALUES) + 1 and isinstance(owner, list):
            owner.append(deepcopy(owner[key]))
        elif isinstance(owner, dict):
            owner[str(choices[at + 3])] = deepcopy(owner[key])
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


# ---- samples and checkpoints of perceptrons


def sample_file(content: bytes) -> None:
    """First byte: .csv, .npz as it is, .npz of which the rest is an entry, or a checkpoint."""
    if not content:
        return
    kind, rest = content[0] % 4, content[1:]
    if kind == 2:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("x.npy", rest)
            archive.writestr("y.npy", _npy(np.zeros(4)))
        rest = packed.getvalue()
    with file_of(rest, ".csv" if kind == 0 else ".npz") as path:
        try:
            checkpoint.load(path, _perceptron()) if kind == 3 else data.split(str(path))
        except ArgumentError as error:
            assert str(path) in str(error)


def _npy(array: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


@cache
def _perceptron() -> Any:
    from pipeall.mlp import Perceptron

    net = Perceptron()
    for kind, neurons in (("input", 4), ("hidden", 3), ("output", 2)):
        net.add_layer(kind, neurons)
    net.initialize()
    return net


# ---- native steps


def native_step(content: bytes) -> None:
    steps.native_step(_table(), content)


TARGETS = {"onnx": onnx_file, "json": json_file, "samples": sample_file, "steps": native_step}
