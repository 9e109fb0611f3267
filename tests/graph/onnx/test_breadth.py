"""ONNX's own backend tests and torchvision's networks through the engine; bench/engines/breadth.py sweeps over all."""

import numpy as np
import onnx
import onnx_backend
import pytest
import torch_nets

from pipeall import Engine, load
from pipeall.graph.onnx.read.convert import OPERATORS
from pipeall.graph.onnx.read.read import OPSETS

NO_CASE = {  # in ONNX's own cases, or none with numbers to compare; test_onnx_*.py here have those that load
    *("GlobalLpPool", "Unique", "Optional", "SequenceMap", "SimplifiedLayerNormalization"),
    *("Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"),  # of early ONNX
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
}
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
def outcomes():
    return [onnx_backend.run_case(case, "cpu") for case in onnx_backend.cases()]


def test_onnx_cases_are_right_or_refused_in_one_line(outcomes):
    bad = [f"{o.case.name}: {o.verdict}: {o.detail}" for o in outcomes if o.verdict not in ("right", "refused")]
    assert not bad
    assert len(outcomes) >= 300


@newest_onnx
def test_every_operator_has_a_case_that_is_right(outcomes):
    right = {operator for outcome in outcomes if outcome.verdict == "right" for operator in outcome.case.operators}
    assert {name for name in OPERATORS if "." not in name} - right <= NO_CASE


def test_light_models_give_their_outputs(board):
    """One number a thousand times each. bench/engines/breadth.py runs the others as well."""
    for path, frame, expected in onnx_backend.light_models(LIGHT):
        with Engine(load(path), "big", board=board) as engine:
            np.testing.assert_allclose(engine(frame), expected, rtol=1e-4, err_msg=path.stem)


@pytest.mark.parametrize("export", NETWORKS, ids=lambda export: export.network)
def test_torch_networks_give_what_onnxruntime_gives(export, board_with_gpu, tmp_path):
    pytest.importorskip("torchvision", reason="networks to export: pip install torch torchvision")
    path = tmp_path / "network.onnx"
    frame = torch_nets.write(export, path)
    errors = torch_nets.errors(load(path), frame, torch_nets.expected(path, frame), board_with_gpu)
    assert max(errors) <= 1e-4, errors
