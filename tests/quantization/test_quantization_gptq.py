"""Rounding of weights by the layers' outputs: against float64 products, and through the file."""

from itertools import product

import numpy as np
import pytest
from commands import invoke
from graphs import Net, frames
from quantization_nets import quiet, small

from pipeall import ArgumentError, Engine, quantize
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.graph.ops import run_graph
from pipeall.quantization import gptq
from pipeall.quantization.calibration_run import CalibrationRun
from pipeall.quantization.gptq import rounded, rows, second_moments
from pipeall.quantization.qparams import weight_scales
from pipeall.quantization.quantize import observed

pytest.importorskip("onnx", reason="needs pipeall[onnx]")


def input_params(graph, photos):
    return observed(graph, CalibrationRun(photos)).resolve().input_params


@pytest.mark.parametrize("groups, stride, dilation", [(1, 1, 1), (2, 2, 1), (8, 1, 2)])
def test_rows_are_what_outputs_are_products_of(groups, stride, dilation):
    net = Net((1, 8, 9, 7))
    name = net.conv("x0", 16, k=3, groups=groups, strides=(stride, stride), dilations=(dilation, dilation))
    graph = net.graph(name)
    (node,), (x,) = graph.nodes, frames(graph, 1)
    weight, bias = (graph.constants[name].astype(np.float64) for name in node.inputs[1:])
    made = rows(graph, node, x.astype(np.float64)) @ weight.reshape(groups, 16 // groups, -1).swapaxes(1, 2)
    (expected,) = run_graph(graph, {"x0": x.astype(np.float64)}).values()
    whole = made.swapaxes(1, 2).reshape(16, -1) + bias[:, None]
    np.testing.assert_allclose(whole, expected.reshape(16, -1), atol=1e-12)


@pytest.mark.parametrize("groups, run, parts", [(1, 1024, 1), (1, 40, 2), (4, 1024, 1)])
def test_layers_err_less_than_by_the_nearest(groups, run, parts, monkeypatch):
    """In the mean square over the rows, of weights with few levels; also where a row is cut into runs."""
    monkeypatch.setattr(gptq, "RUN", run)
    monkeypatch.setattr(gptq, "BLOCK", 7)
    net = Net((1, 8, 12, 12))
    graph = net.graph(net.conv(net.conv("x0", 8, k=3, lo=0.0), 8, k=3, groups=groups))
    photos = [{"x0": frame} for frame in frames(graph, 6)]
    of = input_params(graph, photos)
    node = graph.nodes[-1]
    weight = graph.constants[node.inputs[1]].astype(np.float64)
    scales = weight_scales(weight, np.zeros(8), 1.0) * 16  # 15 levels
    moments = second_moments(graph, graph.nodes, of, photos, quiet)[node.name]
    whole = rounded(weight, scales, moments)
    assert len(moments) == parts and np.array_equal(whole, np.rint(whole))
    assert np.abs(whole).max() <= 127
    errors = {"gptq": 0.0, "nearest": 0.0}
    exact = weight / scales.reshape(-1, 1, 1, 1)
    for photo in photos:
        first = run_graph(net.graph(graph.nodes[0].output), {"x0": photo["x0"].astype(np.float64)})
        x = rows(graph, node, of(node)(next(iter(first.values()))))
        for how, q in (("gptq", whole), ("nearest", np.rint(exact))):
            off = x @ (exact - q).reshape(groups, 8 // groups, -1).swapaxes(1, 2)
            errors[how] += np.square(off).sum()
    assert errors["gptq"] < 0.9 * errors["nearest"]


def test_a_rounding_is_near_the_best_of_all():
    """Of every choice up or down, by trying them; rounding to the nearest is farther from it."""
    random = np.random.default_rng(3)
    x = random.standard_normal((200, 3)) @ random.standard_normal((3, 8)) + 1
    mean = x.T @ x / len(x)
    found = {"best": 0.0, "gptq": 0.0, "nearest": 0.0}
    for _ in range(20):
        exact = random.uniform(-5, 5, (1, 8))
        choices = np.floor(exact) + np.array(list(product((0, 1), repeat=8)))
        cost = lambda q, exact=exact: np.einsum("ni,ij,nj->n", exact - q, mean, exact - q)  # noqa: E731
        found["best"] += cost(choices).min()
        found["gptq"] += cost(rounded(exact, np.ones(1, np.float32), [mean[None]]))[0]
        found["nearest"] += cost(np.rint(exact))[0]
    assert found["gptq"] - found["best"] < 0.5 * (found["nearest"] - found["best"])


def test_uncorrelated_inputs_round_to_the_nearest():
    """Then no weight can make up for another."""
    weight = np.random.default_rng(0).uniform(-20, 20, (4, 30))
    assert np.array_equal(rounded(weight, np.ones(4, np.float32), [np.eye(30)[None]]), np.rint(weight))


def test_layers_that_saw_nothing_but_zeros():
    weight = np.random.default_rng(0).uniform(-20, 20, (4, 30))
    assert np.array_equal(rounded(weight, np.ones(4, np.float32), [np.zeros((1, 30, 30))]), np.rint(weight))


def test_one_pass_or_many(monkeypatch):
    """However much memory there is, the network is the same."""
    graph = small()
    photos = frames(graph, 5)
    whole = quantize(graph, photos, method="minmax", rounding="gptq")
    monkeypatch.setattr(gptq, "MAX_BYTES", 1)
    assert onnx_bytes(quantize(graph, photos, method="minmax", rounding="gptq").written) == onnx_bytes(whole.written)
    assert whole.report.rounding == "gptq"
    assert onnx_bytes(quantize(graph, photos, method="minmax").written) != onnx_bytes(whole.written)


def test_the_file_gives_the_same_answers(tmp_path):
    """Of onnxruntime, as those of networks rounded to the nearest: within a hundredth."""
    ort = pytest.importorskip("onnxruntime", reason="needs pipeall[peers]")
    graph = small()
    made = quantize(graph, frames(graph, 20), method="minmax", rounding="gptq")
    made.save(tmp_path / "small.onnx")
    session = ort.InferenceSession(tmp_path / "small.onnx", providers=["CPUExecutionProvider"])
    with Engine(made.graph) as engine:
        for frame in frames(graph, 8):
            assert np.abs(engine(frame) - session.run(None, {"x0": frame})[0]).max() <= 0.01


def test_command_and_refusal(tmp_path):
    graph = small()
    (tmp_path / "small.onnx").write_bytes(onnx_bytes(graph))
    np.save(tmp_path / "frames.npy", np.concatenate(frames(graph, 6)))
    given = ("quantize", tmp_path / "small.onnx", tmp_path / "frames.npy", "-o", tmp_path / "out.onnx")
    result = invoke(*given, "--method", "minmax", "--rounding", "gptq")
    assert result.exit_code == 0 and "levels by minmax, rounding gptq; 6 samples" in result.stdout.replace(
        ", channels equalized", ""
    )
    with pytest.raises(ArgumentError, match="rounding: expected one of auto, nearest, gptq, got 'best'"):
        quantize(graph, frames(graph, 1), rounding="best")
