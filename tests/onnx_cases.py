"""ONNX's own backend tests, run through pipeall: one operator each, in the forms that a network has.

A case feeds every operand at run time, in any shape; a network has weights, and batch 1. So a case is run as it is
written, and with each of its float operands in turn as the input and the others as weights; an input whose first
dimension is not 1 gets one in front, which a Reshape in the model takes away again. Of a batch that an operator works
on sample by sample, the first is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from bounds import U
from onnx import TensorProto, helper, numpy_helper

from pipeall import Board, Engine, load
from pipeall.errors import PipeallError
from pipeall.graph.onnx.convert import OPERATORS, SUPPORTED
from pipeall.graph.pointwise import BY_OPERATOR

MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
VERDICTS = ("right", "refused", "wrong", "crashed")
PER_SAMPLE = BY_OPERATOR.keys() | set(
    "AveragePool BatchNormalization Clip Conv Div GlobalAveragePool GlobalMaxPool LRN Max MaxPool Min Neg PRelu Pow "
    "Relu Sum Swish".split()
)  # work on each sample of a batch alone
SIGMAS = 5  # deviations that the worst element of a tensor may be off


@dataclass(frozen=True)
class Outcome:
    """What became of a case: one of VERDICTS; ``detail`` is the message or the error."""

    case: str
    operators: frozenset[str]
    verdict: str
    detail: str = ""


def outcomes(board: Board, folder: Path) -> Iterator[Outcome]:
    """Every case of the installed onnx that consists of operators that pipeall reads, one of them on activations."""
    for name, model, inputs, results in (*_node_cases(), *_folder_cases()):
        operators = {node.op_type for node in model.graph.node}
        if operators <= SUPPORTED and operators & OPERATORS.keys():
            yield run_case(name, model, inputs, results, board, folder)


def light_models(names: Sequence[str] = ()) -> Iterator[tuple[Path, np.ndarray, np.ndarray]]:
    """Whole networks, all weights of a tensor equal: file, input, output. Default all."""
    for path in sorted((MODELS / "light").glob("*.onnx")):
        if names and path.stem not in names:
            continue
        (value,) = values_fed(onnx.load(path))
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        ramp = (np.arange(np.prod(shape)) / np.prod(shape)).reshape(shape).astype(np.float32)
        yield path, ramp, numpy_helper.to_array(onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb")))


Case = tuple[str, onnx.ModelProto, Sequence, Sequence]  # name, model, inputs, outputs


def _node_cases() -> Iterator[Case]:
    """Computed by onnx as it loads them, in 10 s; older releases have them in files."""
    if (MODELS / "node").is_dir():
        return
    from onnx.backend.test.loader import load_node_model_tests

    for case in load_node_model_tests():
        for inputs, results in case.data_sets:
            yield case.name, case.model, inputs, results


def _folder_cases() -> Iterator[Case]:
    """The cases that lie in files with their data."""
    for folder in sorted(path for kind in KINDS for path in (MODELS / kind).glob("*/")):
        data = folder / "test_data_set_0"
        if (folder / "model.onnx").is_file() and data.is_dir():
            sides = [
                [_stored(path) for path in sorted(data.glob(f"{side}_*.pb"), key=lambda path: (len(path.name), path))]
                for side in ("input", "output")
            ]
            if all(array is not None for side in sides for array in side):
                yield folder.name, onnx.load(folder / "model.onnx"), *sides


def values_fed(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """What a model is fed: old ones list their weights as inputs too."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _stored(path: Path) -> np.ndarray | None:
    """A tensor of a data set; None where it is a sequence or an optional."""
    try:
        return numpy_helper.to_array(onnx.load_tensor(path))
    except Exception:  # protobuf's own error has no public name, and whatever is no tensor is none of ours
        return None


def run_case(
    name: str, model: onnx.ModelProto, inputs: Sequence, outputs: Sequence, board: Board, folder: Path
) -> Outcome:
    """A case on the engine: right if one of its forms is and none is wrong; refused if all are."""
    operators = frozenset(node.op_type for node in model.graph.node)
    right, refusals, path = False, [], folder / "case.onnx"
    for form, fed, results in _forms(model, inputs, outputs):
        path.write_bytes(form.SerializeToString())
        try:
            with Engine(load(path), "big", board=board, threads=1) as engine:
                names = [tensor.name for tensor in values_fed(form)]
                got = engine(fed[0] if len(fed) == 1 else dict(zip(names, fed, strict=True)))
        except PipeallError as error:
            if "\n" in str(error):
                return Outcome(name, operators, "crashed", f"more than one line: {error!r}")
            refusals.append(str(error).removeprefix(f"{path}: "))
            continue
        except Exception as error:
            return Outcome(name, operators, "crashed", f"{type(error).__name__}: {error}")
        got = got if isinstance(got, dict) else {form.graph.output[0].name: got}
        for value, expected in zip(form.graph.output, results, strict=True):
            if problem := difference(got[value.name], np.asarray(expected), max(map(np.size, inputs))):
                return Outcome(name, operators, "wrong", f"{value.name}: {problem}")
        right = True
    return (
        Outcome(name, operators, "right") if right else Outcome(name, operators, "refused", refusals[:2][-1])
    )  # the weights as weights


def difference(got: np.ndarray, expected: np.ndarray, terms: int) -> str:
    """Where ``got`` is not ``expected``, both float32 results of sums of up to ``terms`` products; else empty.

    Each side errs by about sqrt(terms) roundings (of random sign) of the largest result, and its functions by a few.
    """
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return "infinities or NaN differ"
    got, expected = got[finite], expected[finite].astype(np.float64)
    limit = 2 * SIGMAS * (np.sqrt(terms) + 2) * U * np.abs(expected).max(initial=0)
    if np.allclose(expected, expected.round(4), rtol=0, atol=1e-6) and not np.array_equal(expected, expected.round(3)):
        limit += 1e-4  # inputs and results written by hand: half of the fourth decimal each
    error = np.abs(got - expected).max(initial=0)
    if got.dtype == np.float16:  # the last rounding of either
        limit += 2.0**-10 * np.abs(expected).max(initial=0)
    return "" if error <= limit else f"error {error:.3g}, limit {limit:.3g}"


Form = tuple[onnx.ModelProto, Sequence[np.ndarray], Sequence[np.ndarray]]  # a model, its inputs, its outputs


def _forms(model: onnx.ModelProto, inputs: Sequence, outputs: Sequence) -> Iterator[Form]:
    yield model, inputs, outputs
    if not all(isinstance(array, np.ndarray | np.generic) for array in (*inputs, *outputs)):
        return
    inputs, outputs = [np.asarray(array) for array in inputs], [np.asarray(array) for array in outputs]
    for place, array in enumerate(inputs):
        if array.dtype != np.float32:
            continue
        yield _with_weights(model, inputs, place), [array if array.shape[:1] == (1,) else array[None]], outputs
        if {node.op_type for node in model.graph.node} <= PER_SAMPLE and array.ndim > 1 and array.shape[0] > 1:
            samples = array.shape[0]
            first = [a[:1] if a.shape[:1] == (samples,) and a.ndim == array.ndim else a for a in inputs]
            if all(output.shape[:1] == (samples,) for output in outputs):
                yield _with_weights(model, first, place), [first[place]], [output[:1] for output in outputs]


def _with_weights(model: onnx.ModelProto, arrays: list[np.ndarray], place: int) -> onnx.ModelProto:
    """The case with operand ``place`` as its input, behind a leading 1, and the others as weights."""
    form = onnx.ModelProto()
    form.CopyFrom(model)
    graph, shape = form.graph, arrays[place].shape
    names = [value.name for value in values_fed(model)]
    del graph.input[:]
    for i, (name, array) in enumerate(zip(names, arrays, strict=True)):
        if i != place:
            graph.initializer.append(numpy_helper.from_array(array, name))
    first = names[place]
    if shape[:1] != (1,):
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), f"{first}/shape"))
        graph.node.insert(0, helper.make_node("Reshape", [f"{first}/behind 1", f"{first}/shape"], [first]))
        first, shape = f"{first}/behind 1", (1, *shape)
    graph.input.append(helper.make_tensor_value_info(first, TensorProto.FLOAT, shape))
    return form
