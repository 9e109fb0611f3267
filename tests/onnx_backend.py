"""ONNX's own tests of single operators, run as they are written: every operand is fed.

    python tests/onnx_backend.py [--device reference|cpu] [--only REGEX] [--all]

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

TYPES = ("FLOAT", "INT64", "INT32", "BOOL", "UINT8", "FLOAT16")
VERDICTS = ("right", "refused", "wrong", "crashed")
SIGMAS = 5  # deviations that the worst element of a tensor may be off
ROUNDING = {"float16": 2.0**-11, "float32": 2.0**-24}
DOMAINS = {"", "ai.onnx"}


@dataclass(frozen=True)
class Outcome:
    """What became of a case: one of VERDICTS; ``detail`` is the message or the error."""

    case: str
    verdict: str
    detail: str = ""


def cases(only: str = "") -> Iterator[tuple[str, onnx.ModelProto, Sequence, Sequence]]:
    """Name, model, inputs and outputs of every case of numbers whose name has the regular expression."""
    from onnx.backend.test.loader import load_node_model_tests

    codes = {TensorProto.DataType.Value(name) for name in TYPES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own computations
        tests = load_node_model_tests()
    for case in tests:
        graph = case.model.graph
        borders = [value.type for value in (*graph.input, *graph.output)]
        numbers = all(t.HasField("tensor_type") and t.tensor_type.elem_type in codes for t in borders)
        standard = {node.domain for node in graph.node} <= DOMAINS
        if numbers and standard and re.search(only, case.name):
            for inputs, outputs in case.data_sets:
                yield case.name, case.model, [_array(x) for x in inputs], [_array(y) for y in outputs]


def _array(value) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def run_case(name: str, model: onnx.ModelProto, inputs: Sequence, outputs: Sequence, device: str) -> Outcome:
    """A case through ``load`` and the references or an engine: as it is written; where that is refused, with some of
    its operands as weights, as sizes, axes and conditions are in networks."""
    outcome = _run_form(name, model, inputs, outputs, device)
    for weights in _weights(inputs):
        if outcome.verdict == "refused" and weights:
            fed = [array for i, array in enumerate(inputs) if i not in weights]
            outcome = _run_form(name, with_weights(model, inputs, weights), fed, outputs, device)
    return outcome


def _weights(inputs: Sequence[np.ndarray]) -> Iterator[set[int]]:
    """Integers but for the first operand; single integers and bools; all but the first operand; single numbers."""
    yield {i for i, array in enumerate(inputs) if i and array.dtype.kind in "iu"}
    yield {i for i, array in enumerate(inputs) if array.ndim == 0 and array.dtype.kind in "iub"}
    yield set(range(1, len(inputs)))
    yield {i for i, array in enumerate(inputs) if array.ndim == 0}


def with_weights(model: onnx.ModelProto, arrays: Sequence[np.ndarray], weights: set[int]) -> onnx.ModelProto:
    """The model with some of its inputs, given by their places, as initialisers."""
    form = onnx.ModelProto()
    form.CopyFrom(model)
    names = _fed(model)
    taken = {names[i]: arrays[i] for i in weights}
    kept = [value for value in form.graph.input if value.name not in taken]
    del form.graph.input[:]
    form.graph.input.extend(kept)
    form.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in taken.items())
    return form


def _fed(model: onnx.ModelProto) -> list[str]:
    """The inputs that are no weights."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in weights]


def _run_form(name: str, model: onnx.ModelProto, inputs: Sequence, outputs: Sequence, device: str) -> Outcome:
    fed = dict(zip(_fed(model), inputs, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            got = _computed(load(path), fed, device)
        except PipeallError as error:
            text = str(error).removeprefix(f"{path}: ")
            return Outcome(name, "crashed" if "\n" in text else "refused", text)
        except Exception as error:
            return Outcome(name, "crashed", f"{type(error).__name__}: {error}")
    for value, expected in zip(model.graph.output, outputs, strict=True):
        if _is_filled(model, got[value.name], expected):
            return Outcome(name, "refused", "its size depends on the data: the rows that are not used are -1")
        if problem := difference(got[value.name], expected, max(map(np.size, inputs), default=1)):
            return Outcome(name, "wrong", f"{value.name}: {problem}")
    return Outcome(name, "right")


def _is_filled(model: onnx.ModelProto, got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether boxes are those that are expected, and -1 behind them."""
    boxes = [node.op_type for node in model.graph.node] == ["NonMaxSuppression"] and len(got) > len(expected)
    return boxes and np.array_equal(got[: len(expected)], expected) and bool((got[len(expected) :] == -1).all())


def _computed(graph, fed: dict[str, np.ndarray], device: str) -> dict[str, np.ndarray]:
    """The outputs by name; inputs that nothing reads are left out."""
    read = {tensor.name: fed[tensor.name] for tensor in graph.inputs}
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
        outcome = run_case(*case, args.device)
        counts[outcome.verdict] += 1
        if args.all or outcome.verdict != "right":
            print(f"{outcome.verdict:8} {outcome.case:60} {outcome.detail[:300]}")
    share = 100 * counts["right"] / max(1, counts.total())
    print(
        f"{counts.total()} cases:",
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS),
        f"({share:.1f} %)",
    )
    return int(bool(counts["wrong"] or counts["crashed"]))


if __name__ == "__main__":
    sys.exit(main())
