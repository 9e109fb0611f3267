"""What is right about a composition: the verdict over every way to compute it, against onnxruntime without its
optimizations.

The tolerance is derived. onnxruntime computes each node once more from inputs that carry the rounding errors so far,
some times over; what the outputs then vary by is what rounding may do to them. An element that jumps under it (a
comparison, a rounding, the place of a maximum) says nothing and is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from composed import Case, values_of
from unoptimized import Alone

import pipeall
from pipeall.graph.ops import run_graph

HARMLESS = ("right", "skipped")
ROUNDING = 2e-6  # a few float32 operations
TRANSFORMED = 1e-5  # convolutions, which may go through a transform (Winograd, Strassen)
HALF = 2.0**-10
TINY = float(np.finfo(np.float32).tiny)  # what is smaller may be 0
EPSILON = float(np.finfo(np.float32).eps)
RUNS, MORE_RUNS = 6, 100  # with rounding errors; more where something differs

MOVES = (
    "Abs ArgMax ArgMin Ceil Clip Compress Concat DepthToSpace Dropout Equal Expand Flatten Floor Gather GatherElements "
    "GatherND GlobalMaxPool Greater GreaterOrEqual Hardmax Identity Less LessOrEqual Max MaxPool Min Neg "
    "NonMaxSuppression NonZero OneHot Pad QuantizeLinear ReduceMax ReduceMin Relu Reshape ReverseSequence Round "
    "ScatterElements ScatterND Sign Slice SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unsqueeze Where"
).split()  # give some of their inputs' elements, or integers
SUMS = (
    "AveragePool BatchNormalization Conv ConvTranspose CumSum Einsum Gemm GlobalAveragePool MatMul Mean ReduceMean "
    "ReduceSum Sum"
).split()
AVERAGES = ("AveragePool", "BatchNormalization", "GlobalAveragePool", "Mean", "ReduceMean")
ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
ELEMENTWISE = (
    "Atan Celu Cos Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Log Mish Mod PRelu Pow Reciprocal Selu Sigmoid Sin "
    "Softplus Softsign Sqrt Tanh ThresholdedRelu DequantizeLinear"
).split()
CANCELLING = "Celu Elu Erf Gelu Mish Selu Sigmoid Softplus Tanh".split()  # differences of close numbers around 0
TO_ZERO = ("NonZero", "Sign", "Cast")  # tell 0 from what is close to it
DECIDING = (
    "ArgMax ArgMin Cast Ceil Equal Floor Greater GreaterOrEqual Hardmax Less LessOrEqual Mod NonMaxSuppression NonZero "
    "QuantizeLinear Round Sign ThresholdedRelu TopK"
).split()  # may tell a quotient from a product with the reciprocal: then a division by constants is exact
STEPPED = ("QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear")  # round what they compute to levels


class Verdict(NamedTuple):
    kind: str
    detail: str = ""


def is_real(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def _unit(array: np.ndarray) -> float:
    return HALF if array.dtype == np.float16 else ROUNDING


def _magnitude(alone: Alone, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The sums of the absolute terms."""
    terms = {name: np.abs(array) if is_real(array) else array for name, array in inputs.items()}
    if alone.node.op_type == "BatchNormalization":
        terms[alone.node.input[3]] *= -1  # the mean, which is subtracted
    return alone(terms)


def _arithmetic_error(op: str, a: np.ndarray, b: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Where the result is not exact."""
    a, b, wide = a.astype(np.float64), b.astype(np.float64), result.astype(np.float64)
    with np.errstate(all="ignore"):
        exact = (ARITHMETIC[op](a, b) == wide) & (wide.astype(np.float32) == wide)
    return np.where(exact, 0, _unit(result) * (abs(a) + abs(b) if op in ("Add", "Sub") else abs(wide)))


def _scaled_error(unit: float, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Where scale / deviation times x and times the mean are subtracted, as onnxruntime does by channel."""
    wide = x.astype(np.float64)
    rows = tuple(range(2, x.ndim))
    return unit * np.abs(scale).max(initial=0) * abs(wide) / np.sqrt(wide.var(rows, keepdims=True) + 1e-5)


def errors(
    alone: Alone, inputs: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray], fixed: set[str], decided: bool
) -> dict[str, np.ndarray]:
    """By output, how far rounding may put each element. decided: some node may tell a quotient from what is near it."""
    node, op = alone.node, alone.node.op_type
    reals = [array for array in inputs.values() if is_real(array)]
    whole = all(array.size == 0 or np.all(array == np.rint(array)) for array in reals)
    magnitude = _magnitude(alone, inputs) if op in SUMS else {}
    found = {}
    for name, result in results.items():
        divided = op == "Div" and node.input[1] in fixed and result.dtype == "f4"
        if not is_real(result) or op in MOVES or (divided and decided):
            continue
        unit = max(_unit(array) for array in (*reals, result))
        if op in ARITHMETIC:
            found[name] = _arithmetic_error(op, inputs[node.input[0]], inputs[node.input[1]], result)
        elif op == "Cast":
            found[name] = np.where(inputs[node.input[0]] == result, 0, unit * abs(result.astype(np.float64)))
        elif op in SUMS:
            terms = magnitude[name].astype(np.float64)
            exact = whole and op not in AVERAGES and terms.max(initial=0) < (2048 if result.dtype == "f2" else 2**24)
            found[name] = 0 if exact else max(unit, TRANSFORMED if op.startswith("Conv") else 0) * terms
        elif op == "Mod":  # moves as its first operand does, by no more than the second
            a, b = (abs(inputs[each].astype(np.float64)) for each in node.input)
            found[name] = np.minimum(unit * a, b)
        elif op in CANCELLING:
            found[name] = unit * (abs(result.astype(np.float64)) + abs(reals[0].astype(np.float64))) + EPSILON
        elif op in ("GroupNormalization", "InstanceNormalization"):
            found[name] = unit * np.abs(result).max(initial=0) + _scaled_error(unit, *reals[:2])
        elif op in (*ELEMENTWISE, "Softmax"):
            found[name] = unit * abs(result.astype(np.float64))
        else:
            gates = EPSILON if op in ("GRU", "LSTM", "RNN") else 0  # sigmoid and tanh, around 0
            found[name] = unit * np.abs(result).astype(np.float64).max(initial=0) + gates
    return found


def _jittered(
    op: str, inputs: Mapping[str, np.ndarray], fixed: set[str], random: np.random.Generator
) -> dict[str, np.ndarray]:
    """The inputs as far off as computing inexactly amounts to."""
    if op in (*MOVES, *SUMS, *ARITHMETIC, "Cast"):
        return dict(inputs)
    moved = {}
    for name, array in inputs.items():
        if is_real(array) and (name not in fixed or op in STEPPED):
            size = abs(array) if op in ELEMENTWISE or op in STEPPED else np.abs(array).max(initial=0)
            array = np.asarray(array + _unit(array) * size * random.uniform(-1, 1, array.shape)).astype(array.dtype)
        moved[name] = array
    return moved


def _snapped(op: str, inputs: dict[str, np.ndarray], random: np.random.Generator) -> dict[str, np.ndarray]:
    """The inputs, of which some that are all but equal are equal: chance alone never makes them so."""
    reals = [name for name, array in inputs.items() if is_real(array)]
    if op in TO_ZERO and reals:
        array = inputs[reals[0]]
        near = (array != 0) & (abs(array) < 4 * _unit(array) * np.abs(array).max(initial=0))
        return {reals[0]: np.where(near & (random.random(array.shape) < 0.5), array.dtype.type(0), array)}
    if op == "Equal" and len(reals) == 2:
        a, b = (inputs[name] for name in reals)
        near = abs(a - b) < 4 * _unit(a) * max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
        return {reals[0]: np.where(near & (random.random(near.shape) < 0.5), b, a), reals[1]: b}
    return inputs


def _other_levels(alone: Alone, inputs: dict[str, np.ndarray], random: np.random.Generator) -> np.ndarray:
    """Integers between elements: rounded down or towards the nearest of sums that carry errors."""
    x = alone.node.input[0]
    (exact,) = Alone(alone.node, floats := {**inputs, x: inputs[x].astype(np.float32)}, alone.opset)(floats).values()
    moved = exact + 8 * ROUNDING * np.abs(exact).max(initial=0) * random.uniform(-1, 1, exact.shape)
    (result,) = alone(inputs).values()
    crossed = (np.floor(2 * exact) != np.floor(2 * moved)) | (2 * exact == np.rint(2 * exact))
    return result + (crossed * random.integers(-1, 2, exact.shape)).astype(result.dtype)


class Truth:
    """onnxruntime's results, and how far from them rounding may lead."""

    def __init__(self, case: Case) -> None:
        self.case, self.fixed = case, set(case.constants)
        self.nodes: list[Alone] = []
        values = values_of(case, self.nodes)
        self.decided = any(alone.node.op_type in DECIDING for alone in self.nodes)
        self.results = {name: values[name] for name in case.outputs}
        self.spread: dict[str, np.ndarray] = {name: np.zeros(value.shape) for name, value in self.results.items()}
        self.random = np.random.default_rng(0)
        self.stable = self.vary(RUNS)

    def _once(self) -> dict[str, np.ndarray]:
        values = {**self.case.constants, **self.case.feeds}
        without_tiny = self.random.random() < 0.5
        for alone in self.nodes:
            inputs = {name: values[name] for name in alone.names}
            op = alone.node.op_type
            results = alone(_snapped(op, _jittered(op, inputs, self.fixed, self.random), self.random))
            if op in ("Resize", "Upsample") and not is_real(values[alone.node.input[0]]):
                results = {alone.node.output[0]: _other_levels(alone, inputs, self.random)}
            for name, error in errors(alone, inputs, results, self.fixed, self.decided).items():
                wide = results[name] + error * self.random.uniform(-1, 1, results[name].shape)
                results[name] = np.asarray(wide).astype(results[name].dtype)
                if without_tiny:
                    results[name] = np.where(abs(results[name]) < TINY, 0, results[name]).astype(results[name].dtype)
            values |= results
        return values

    def vary(self, runs: int) -> bool:
        """Widens ``spread`` by what more runs differ in; False where even a shape does."""
        for _ in range(runs):
            try:
                values = self._once()
            except Exception:  # an index left its axis
                return False
            for name, value in self.results.items():
                if values[name].shape != value.shape:
                    return False
                with np.errstate(all="ignore"):
                    apart = np.abs(values[name].astype(np.float64) - value.astype(np.float64))
                    apart = np.where(np.isnan(apart), np.inf, apart)
                self.spread[name] = np.maximum(self.spread[name], apart)
        return True

    def difference(self, results: Mapping[str, np.ndarray]) -> str:
        """'' or where the first element lies that is not right."""
        for name, right in self.results.items():
            got = np.asarray(results[name])
            if (got.shape, got.dtype) != (right.shape, right.dtype):
                return f"{name}: {got.dtype}{got.shape}, expected {right.dtype}{right.shape}"
            a, b, spread = got.astype(np.float64), right.astype(np.float64), self.spread[name]
            if is_real(right):
                allowed = 4 * spread + _unit(right) * (abs(b) + 1e-3 * np.abs(b).max(initial=0)) + 1e-30
            else:
                allowed = np.where(spread > 0, np.inf, 0)
            with np.errstate(invalid="ignore"):
                wrong = ~((a == b) | (allowed == np.inf) | (np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b)))
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                count = f"{int(wrong.sum())} of {wrong.size}"
                return f"{name}: {count} elements, at {at} {got[at]}, expected {right[at]} within {allowed[at]:.2g}"
        return ""


@cache
def _board() -> pipeall.Board:
    cores = sorted(os.sched_getaffinity(0))
    return pipeall.Board.detect(clusters=[[core] for core in cores[:2]], gpu=False)


def ways(case: Case) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Every way to compute the case: its name and the outputs by name."""
    frame = case.feeds if len(case.feeds) > 1 else next(iter(case.feeds.values()))
    model = case.model()
    for told, rewrite in (("", True), (" without rewriting", False)):
        graph = pipeall.load(model, rewrite=rewrite)
        if not graph.quantized:
            taken = {tensor.name: case.feeds[tensor.name].astype(tensor.dtype) for tensor in graph.inputs}
            reference = run_graph(graph, taken, dtype=np.float32)
            yield f"the reference{told}", {name: value.astype(case.outputs[name]) for name, value in reference.items()}
        with pipeall.Engine(graph, "big", board=_board()) as engine:
            for turn in ("the engine", "the engine's second frame"):
                yield turn + told, _named(case, engine(frame))
        if graph.cuts and len(_board().components) > 1:
            with pipeall.Pipeline(graph, f"B-L:{len(graph.groups) // 2}", board=_board()) as pipe:
                for results in pipe.map([frame] * 3):
                    yield f"the pipeline{told}", _named(case, results)


def _named(case: Case, results: Any) -> dict[str, np.ndarray]:
    results = results if isinstance(results, dict) else {next(iter(case.outputs)): results}
    return {name: np.array(value) for name, value in results.items()}


def judge(case: Case) -> Verdict:
    if not case.nodes:
        return Verdict("skipped")
    try:
        truth = Truth(case)
    except Exception:  # a smaller case that onnxruntime refuses
        return Verdict("skipped")
    if not truth.stable:
        return Verdict("skipped")
    way = "reading"
    try:
        for way, results in ways(case):
            if truth.difference(results):
                if not truth.vary(MORE_RUNS):
                    return Verdict("skipped")
                if difference := truth.difference(results):
                    return Verdict("wrong", f"{way}: {difference}")
    except pipeall.PipeallError as error:
        return Verdict("refused", str(error))
    except Exception as error:
        return Verdict("error", f"after {way}: {type(error).__name__}: {error}")
    return Verdict("right")
