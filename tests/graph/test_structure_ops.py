"""The NumPy references of the ops that index, sample and remember, against onnxruntime and ONNX's own reference."""

from dataclasses import replace

import numpy as np
import onnx_models
import pytest
from bounds import structural
from onnx.reference import ReferenceEvaluator

from pipeall.errors import ModelError
from pipeall.graph import ops
from pipeall.graph.cases.case import Case
from pipeall.graph.cases.cases_indexing import INDEXING
from pipeall.graph.cases.cases_rows import RECURRENT
from pipeall.graph.cases.cases_sampling import SAMPLING
from pipeall.graph.cases.op_cases import case_graph
from pipeall.graph.ops import sampling_ops as sampling

CASES = [case for group in (*INDEXING, *SAMPLING, *RECURRENT) for case in group]


def unknown_to_onnxruntime(case: Case) -> bool:
    """What it lacks, or where it rounds the size that ONNX means."""
    if case.op == "resize":
        a, shape = case.attrs, case.shapes[0]
        exact = all(abs(size * scale % 1) < 1e-5 for size, scale in zip(shape, a["scales"], strict=True))
        odd_rank = a["mode"] != "nearest" and len(shape) not in (2, 4)
        rounded = a["coordinates"] == "half_pixel_symmetric" and not exact
        return case.types == ("int64",) or rounded or odd_rank
    return False


def within(case: Case, indices: np.ndarray) -> np.ndarray:
    """Indices in their axes, as ONNX wants them: the nearest of those that a case draws."""
    x = case.shapes[0]
    if case.op in ("gather_nd", "scatter_nd"):
        batch = case.attrs.get("batch_dims", 0)
        size = np.array(x[batch : batch + indices.shape[-1]])
    else:
        size = np.array(x[case.attrs["axis"]])
    return np.clip(indices, -size, size - 1).astype(indices.dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reference_agrees(case):
    graph, inputs = case_graph(case)
    expected = ops.run_graph(graph, inputs)["y"]
    fed = dict(inputs)
    if "gather" in case.op or "scatter" in case.op:
        name = graph.nodes[0].inputs[1]
        values = fed if name in fed else (constants := dict(graph.constants))
        values[name] = within(case, values[name])
        graph = graph if name in fed else replace(graph, constants=constants)
    model = onnx_models.of_graph(graph)
    if unknown_to_onnxruntime(case):
        (got,) = ReferenceEvaluator(model).run(None, fed)
    else:
        got = onnx_models.run(model, fed)["y"]
    if case.op == "nms":  # rows that are not used
        assert (expected[len(got) :] == -1).all()
        expected = expected[: len(got)]
    assert got.shape == expected.shape
    assert np.abs(got.astype(np.float64) - expected).max(initial=0) <= structural(
        graph.nodes[0], inputs, graph.constants, np.abs(expected)
    )


# ---- taps ----


@pytest.mark.parametrize("case", [case for case in CASES if case.op == "resize"], ids=str)
def test_taps_lie_inside_and_add_up_to_1(case):
    for axis, size in enumerate(case.shapes[0]):
        indices, weights = sampling.taps(case.attrs, axis, size)
        assert indices.shape == weights.shape and len(indices) == case.attrs["sizes"][axis]
        assert 0 <= indices.min() and indices.max() < size
        assert np.abs(weights.sum(1) - 1).max() < 1e-12


# ---- malformed nodes ----

IMAGE = (1, 3, 6, 5)
RESIZE = ops.attributes("resize", sizes=(1, 3, 12, 5), scales=(1.0, 1.0, 2.0, 1.0))
COL2IM = dict(image=(5, 6), block=(2, 2), strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0))
LSTM = ops.attributes("lstm", hidden=4)
LSTM_SHAPES = [(3, 2, 5), (1, 16, 5), (1, 16, 4), (1, 32), (1, 2, 4), (1, 2, 4), (1, 12)]
MALFORMED = {
    "gather axis": ("gather", dict(axis=4), [IMAGE, (2,)], "axis must be an integer from 0 to 3"),
    "elements rank": ("gather_elements", dict(axis=1), [IMAGE, (1, 2)], "do not fit"),
    "elements size": ("gather_elements", dict(axis=1), [IMAGE, (1, 9, 7, 5)], "do not fit"),
    "tuples": ("gather_nd", dict(batch_dims=0), [(4, 5), (2, 3)], "exceed the axes"),
    "batch dims": ("gather_nd", dict(batch_dims=1), [(4, 5), (3, 1)], "must agree"),
    "updates": ("scatter_nd", dict(reduction="none"), [(4, 5), (2, 1), (2, 4)], r"updates must be \(2, 5\)"),
    "reduction": ("scatter_elements", dict(axis=0, reduction="mean"), [(4,), (2,), (2,)], "reduction must be one of"),
    "k": ("topk", dict(axis=1, k=4, largest=True, indices=False), [IMAGE], "k must be an integer from 1 to 3"),
    "scale": ("resize", RESIZE | dict(scales=(1.0, 1.0, 3.0, 1.0)), [IMAGE], "size 12 is not 3.0 times 6"),
    "no scale": ("resize", RESIZE | dict(scales=(1.0, 1.0, 0.0, 1.0)), [IMAGE], "positive numbers"),
    "mode": ("resize", RESIZE | dict(mode="lanczos"), [IMAGE], "mode must be one of"),
    "grid": ("grid_sample", ops.attributes("grid_sample"), [IMAGE, (1, 4, 4, 3)], r"grid must be \(1, H, W, 2\)"),
    "rois": ("roi_align", ops.attributes("roi_align"), [IMAGE, (7, 5), (7,)], r"rois must be \(R, 4\)"),
    "boxes": ("nms", ops.attributes("nms", max_output=3), [(1, 9, 4), (1, 2, 8)], "expected boxes"),
    "unpool": ("max_unpool", dict(shape=IMAGE), [IMAGE, (1, 3, 6, 6)], "indices must be"),
    "positions": ("col2im", COL2IM, [(1, 4, 21)], "positions, got 21"),
    "direction": ("lstm", LSTM | dict(direction="both"), LSTM_SHAPES, "direction must be one of"),
    "activation": ("lstm", LSTM | dict(activations=("sigmoid", "tanh", "gelu")), LSTM_SHAPES, "activations must be of"),
    "weights": ("lstm", LSTM | dict(hidden=5), LSTM_SHAPES, r"W must be \(1, 20, 5\)"),
    "result": ("gru", ops.attributes("gru", hidden=4, result="c"), LSTM_SHAPES[:5], "result must be one of y, h"),
}


@pytest.mark.parametrize("op, attrs, shapes, message", MALFORMED.values(), ids=MALFORMED)
def test_malformed_nodes_are_refused_by_name(op, attrs, shapes, message):
    with pytest.raises(ModelError, match=f"node 'n' .*{message}"):
        ops.infer_shape(op, attrs, shapes, "n")
