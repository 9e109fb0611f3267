"""ONNX's own backend tests and torchvision's networks through the engine; the sweep over all is bench/breadth.py."""

import numpy as np
import onnx
import onnx_cases
import pytest
import torch_nets

from pipeall import Engine, load
from pipeall.graph.onnx.convert import OPERATORS
from pipeall.graph.onnx.read import OPSETS

NO_CASE = {"Cast", "Size", "LayerNormalization"}  # other types; a constant; further outputs
NO_CASE |= {"CumSum", "Einsum", "GlobalLpPool", "ReduceLogSumExp"}  # doubles, or a computed axis: test_onnx_operators
NO_CASE |= {"NonZero", "Unique"}  # sizes that depend on data: they are refused by name
# Rows of -1 where ONNX has fewer, inputs of types without a name here or made weights: onnx_backend.py judges them
OTHERWISE = ("test_nonmaxsuppression", "test_scan9", "test_operator_params", "test_pow_types_float32_uint")
LIGHT = ("light_squeezenet", "light_shufflenet", "light_densenet121")
NETWORKS = (
    torch_nets.Export("squeezenet1_1", 64, "torchscript", 9),
    torch_nets.Export("mobilenet_v3_small", 64, "torchscript", 13),
    torch_nets.Export("shufflenet_v2_x0_5", 64, "torchscript", 17),
)

newest_onnx = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < OPSETS[1], reason=f"about operators of opset {OPSETS[1]}: pip install a newer onnx"
)


@pytest.fixture(scope="module")
def outcomes(board, tmp_path_factory):
    return list(onnx_cases.outcomes(board, tmp_path_factory.mktemp("cases")))


def test_onnx_cases_are_right_or_refused_in_one_line(outcomes):
    judged = [o for o in outcomes if not o.case.startswith(OTHERWISE)]
    bad = [f"{o.case}: {o.verdict}: {o.detail}" for o in judged if o.verdict not in ("right", "refused")]
    assert not bad
    assert len(outcomes) >= 300


@newest_onnx
def test_every_operator_has_a_case_that_is_right(outcomes):
    right = {operator for outcome in outcomes if outcome.verdict == "right" for operator in outcome.operators}
    assert {name for name in OPERATORS if "." not in name} - right <= NO_CASE


def test_light_models_give_their_outputs(board):
    """One number a thousand times each. bench/breadth.py runs the others as well."""
    for path, frame, expected in onnx_cases.light_models(LIGHT):
        with Engine(load(path), "big", board=board) as engine:
            np.testing.assert_allclose(engine(frame), expected, rtol=1e-4, err_msg=path.stem)


@pytest.mark.parametrize("export", NETWORKS, ids=lambda export: export.network)
def test_torch_networks_give_what_onnxruntime_gives(export, board_with_gpu, tmp_path):
    pytest.importorskip("torchvision", reason="networks to export: pip install torch torchvision")
    path = tmp_path / "network.onnx"
    frame = torch_nets.write(export, path)
    errors = torch_nets.errors(load(path), frame, torch_nets.expected(path, frame), board_with_gpu)
    assert max(errors) <= 1e-4, errors
