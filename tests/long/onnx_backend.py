"""ONNX's own backend tests, run as they are written: every operand is fed.

    python -m tests.long.onnx_backend [--device reference|cpu] [--only REGEX] [--all]

prints how many cases of numbers (types of ``TYPES`` at every border) are right, refused (and why), wrong and crashed;
``--all`` prints the right ones too. Exit status 1 if any is wrong or crashed. ``reference`` computes with the NumPy
references in float64, ``cpu`` with the kernels.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from pipeall import Board, Engine, load
from pipeall.errors import PipeallError
from pipeall.graph.ops import run_graph

TYPES = ("FLOAT", "INT64", "INT32", "BOOL", "UINT8", "INT8", "FLOAT16", "DOUBLE")
MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
VERDICTS = ("right", "refused", "wrong", "crashed")
SIGMAS = 5  # deviations that the worst element of a tensor may be off
ROUNDING = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-24}  # float64 is computed in float32
DOMAINS = {"", "ai.onnx"}
# A scale that leaves part of a pixel: corners are those of the pixels that there are, as in onnxruntime and PyTorch
# What is drawn is no other's
OTHERWISE = re.compile("test_resize_downsample_scales_(linear|cubic)_align_corners|test_bernoulli")


@dataclass(frozen=True)
class Case:
    """A model, and what its inputs make of it. ``name`` as ONNX has it."""

    name: str
    model: onnx.ModelProto
    inputs: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]

    @property
    def operators(self) -> frozenset[str]:
        return frozenset(node.op_type for node in self.model.graph.node)

    @property
    def fed(self) -> list[onnx.ValueInfoProto]:
        """The inputs that are no weights: old models list these too."""
        weights = {tensor.name for tensor in self.model.graph.initializer}
        return [value for value in self.model.graph.input if value.name not in weights]


@dataclass(frozen=True)
class Outcome:
    """What became of a case: one of VERDICTS; ``detail`` is the message or the error."""

    case: Case
    verdict: str
    detail: str = ""


def cases(only: str = "") -> Iterator[Case]:
    """Every case of numbers that float32 can hold whose name has the regular expression."""
    codes = {TensorProto.DataType.Value(name) for name in TYPES}
    for case in (*_node_cases(), *_folder_cases(only)):
        borders = [value.type for value in (*case.fed, *case.model.graph.output)]
        numbers = all(t.HasField("tensor_type") and t.tensor_type.elem_type in codes for t in borders)
        standard = {node.domain for node in case.model.graph.node} <= DOMAINS
        wanted = re.search(only, case.name) and not OTHERWISE.match(case.name)
        if numbers and standard and wanted and _fits((*case.inputs, *case.outputs)):
            yield case


def _fits(arrays: Sequence[np.ndarray]) -> bool:
    """Whether float32 can hold all float64 numbers."""
    doubles = [x[np.isfinite(x)] for x in arrays if x.dtype == np.float64]
    return all(np.abs(x).max(initial=0) <= np.finfo(np.float32).max for x in doubles)


def _node_cases() -> Iterator[Case]:
    """Computed by onnx as it loads them, in 10 s; older releases have them in files."""
    if (MODELS / "node").is_dir():
        return
    from onnx.backend.test.loader import load_node_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own computations
        tests = load_node_model_tests()
    for case in tests:
        for inputs, outputs in case.data_sets:
            if all(isinstance(value, np.ndarray | np.generic) for value in (*inputs, *outputs)):
                yield Case(case.name, case.model, list(map(np.asarray, inputs)), list(map(np.asarray, outputs)))


def _folder_cases(only: str) -> Iterator[Case]:
    """The cases that lie in files with their data."""
    for folder in sorted(path for kind in KINDS for path in (MODELS / kind).glob("*/")):
        data = folder / "test_data_set_0"
        if (folder / "model.onnx").is_file() and data.is_dir() and re.search(only, folder.name):
            sides = [
                [_stored(path) for path in sorted(data.glob(f"{side}_*.pb"), key=lambda path: (len(path.name), path))]
                for side in ("input", "output")
            ]
            if all(array is not None for side in sides for array in side):
                yield Case(folder.name, onnx.load(folder / "model.onnx"), *sides)


def _stored(path: Path) -> np.ndarray | None:
    """A tensor of a data set; None where it is a sequence or an optional."""
    try:
        return numpy_helper.to_array(onnx.load_tensor(path))
    except Exception:  # protobuf's own error has no public name, and whatever is no tensor is none of ours
        return None


def light_models(names: Sequence[str] = ()) -> Iterator[tuple[Path, np.ndarray, np.ndarray]]:
    """Whole networks, all weights of a tensor equal: file, input, output. Default all."""
    for path in sorted((MODELS / "light").glob("*.onnx")):
        if names and path.stem not in names:
            continue
        (value,) = Case(path.stem, onnx.load(path), (), ()).fed
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ramp = (np.arange(np.prod(shape)) / np.prod(shape)).reshape(shape).astype(np.float32)
        yield path, ramp, numpy_helper.to_array(onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb")))


def run_case(case: Case, device: str) -> Outcome:
    """A case through ``load`` and the references or an engine: as it is written; where that is refused, with some of
    its operands as weights, as sizes, axes and conditions are in networks."""
    verdict, detail = _run_form(case, device)
    for weights in _weights(case.inputs):
        if verdict == "refused" and weights:
            verdict, detail = _run_form(_with_weights(case, weights), device)
    return Outcome(case, verdict, detail)


def _weights(inputs: Sequence[np.ndarray]) -> Iterator[set[int]]:
    """Integers but for the first operand; single integers and bools; all but the first operand; single numbers."""
    yield {i for i, array in enumerate(inputs) if i and array.dtype.kind in "iu"}
    yield {i for i, array in enumerate(inputs) if array.ndim == 0 and array.dtype.kind in "iub"}
    yield set(range(1, len(inputs)))
    yield {i for i, array in enumerate(inputs) if array.ndim == 0}


def _with_weights(case: Case, weights: set[int]) -> Case:
    """The case with some of its inputs, given by their places, as initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    taken = {case.fed[i].name: case.inputs[i] for i in weights}
    kept = [value for value in model.graph.input if value.name not in taken]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in taken.items())
    fed = [array for i, array in enumerate(case.inputs) if i not in weights]
    return Case(case.name, model, fed, case.outputs)


def _run_form(case: Case, device: str) -> tuple[str, str]:
    """The verdict, and why."""
    fed = {value.name: array for value, array in zip(case.fed, case.inputs, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            got = _computed(load(path), fed, device)
        except PipeallError as error:
            text = str(error).removeprefix(f"{path}: ")
            return "crashed" if "\n" in text else "refused", text
        except Exception as error:
            return "crashed", f"{type(error).__name__}: {error}"
    for value, expected in zip(case.model.graph.output, case.outputs, strict=True):
        if problem := difference(got[value.name], expected, max(map(np.size, case.inputs), default=1)):
            return "wrong", f"{value.name}: {problem}"
    return "right", ""


def _computed(graph, fed: dict[str, np.ndarray], device: str) -> dict[str, np.ndarray]:
    """The outputs by name; inputs that nothing reads are left out, float64 enters as float32."""
    read = {tensor.name: fed[tensor.name] for tensor in graph.inputs}
    read = {name: array.astype(np.float32) if array.dtype == np.float64 else array for name, array in read.items()}
    if device == "reference":
        with np.errstate(all="ignore"):  # cases of NaN and infinity are among them
            return run_graph(graph, read)
    board = Board.detect(gpu=False)
    with Engine(graph, "big", board=board, threads=1) as engine:
        got = engine(next(iter(read.values())) if len(read) == 1 else read)
    return got if isinstance(got, dict) else {graph.outputs[0].name: got}


def difference(got: np.ndarray, expected: np.ndarray, terms: int) -> str:
    """Where ``got`` is not ``expected``, a result of sums of up to ``terms`` products; empty where it is.

    Each side errs by about sqrt(terms) roundings (of random sign) of the largest result, and its functions by a few.
    Integers and bools are equal.
    """
    got = np.asarray(got)
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if expected.dtype.kind != "f":
        return "" if np.array_equal(got, expected) else f"{np.sum(got != expected)} elements differ"
    if got.dtype.kind != "f":
        return f"type {got.dtype}, expected {expected.dtype}"
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return "infinities or NaN differ"
    rounding = ROUNDING[expected.dtype.name]
    got, exact = got[finite], expected[finite].astype(np.float64)
    limit = 2 * SIGMAS * (np.sqrt(terms) + 2) * rounding * np.abs(exact).max(initial=0)
    if np.allclose(exact, exact.round(4), rtol=0, atol=1e-6) and not np.array_equal(exact, exact.round(3)):
        limit += 1e-4  # inputs and results written by hand: half of the fourth decimal each
    error = np.abs(got - exact).max(initial=0)
    return "" if error <= limit else f"error {error:.3g}, limit {limit:.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("reference", "cpu"), default="reference")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name has it")
    parser.add_argument("--all", action="store_true", help="print the cases that are right too")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    for case in cases(args.only):
        outcome = run_case(case, args.device)
        counts[outcome.verdict] += 1
        if args.all or outcome.verdict != "right":
            print(f"{outcome.verdict:8} {outcome.case.name:60} {outcome.detail[:300]}")
    share = 100 * counts["right"] / max(1, counts.total())
    print(
        f"{counts.total()} cases:",
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS),
        f"({share:.1f} %)",
    )
    return int(bool(counts["wrong"] or counts["crashed"]))


if __name__ == "__main__":
    sys.exit(main())
