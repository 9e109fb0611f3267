"""Cases of ops as ONNX files: exported by the tests, read and rewritten, each is one node again."""

import numpy as np
import onnx_models
import pytest
from onnx_models import saved

from pipeall.graph import ops
from pipeall.graph.cases.cases_rows import RECURRENT
from pipeall.graph.cases.op_cases import CASES, INDEXING, SAMPLING, Case, case_graph
from pipeall.graph.onnx.read.read import load
from pipeall.graph.passes.rewrite import rewrite

ELSEWHERE = {group[0].op for group in (*INDEXING, *SAMPLING, *RECURRENT)}  # in test_onnx_structure
# Ops that ONNX has in parts, or in other parts
IN_PARTS = {"attention", "cast", "deconv", "expand", "fmod", "layernorm", "mod", "quantize", "shiftleft", "shiftright"}
IN_PARTS |= {"swish"}


def has_one_node(case: Case) -> bool:
    """Whether ONNX has a node that means the case, and onnxruntime runs it on its types."""
    usual = USUAL.get(case.op, {})
    rare = case.op == "where" or any(case.attrs[name] != value for name, value in usual.items())
    even = case.op == "lrn" and case.attrs["size"] % 2 == 0
    rows = case.op == "fc" and (case.attrs["axis"] != 1 or (len(case.shapes[0]) != 2 and case.shapes[0][0] > 1))
    rare |= case.op == "prelu" and len(set(case.shapes)) > 1  # ONNX's slope has no axis that x has not
    rare |= case.op in ("div", "matmul") and len(case.constants) > 0  # are read as mul and fc
    rare |= case.attrs.get("how") == "mean" and case.attrs["axes"] == (2, 3)  # is read as avgpool
    rare |= case.op == "concat" and len(case.shapes) == 1  # moves nothing
    floats = set(case.types) <= {"float32"}
    return floats and not (case.op in IN_PARTS or rare or even or rows)


USUAL = {"matmul": {"alpha": 1.0}, "slice": {"step": 1}, "pad": {"mode": "constant"}}
IMPORTED = [case for op, group in CASES.items() if op not in ELSEWHERE for case in group if has_one_node(case)]


@pytest.mark.parametrize("case", IMPORTED, ids=str)
def test_every_case_survives_onnx(case, tmp_path):
    """Exported, read and rewritten, a case is one node again and computes the same."""
    graph, inputs = case_graph(case)
    got = load(saved(onnx_models.of_graph(graph), tmp_path))
    assert [node.op for node in got.nodes] == [case.op]
    if not (case.attrs.get("swapped") or got.nodes[0].attrs.get("swapped")):  # then operands come the other way round
        (kept,) = rewrite(graph).nodes  # a kernel may lose rows that see padding alone
        close = {name: near(value) for name, value in kept.attrs.items()}
        assert got.nodes[0].attrs == close
    expected = ops.run_graph(graph, inputs)["y"]
    result = ops.run_graph(got, inputs)["y"]
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(result, expected)
        return
    limit = 2e-7 * np.abs(expected).max()  # attributes are float32 in ONNX
    assert np.abs(result - expected).max() <= limit


def near(value):
    return pytest.approx(value, rel=1e-7) if isinstance(value, float) else value
