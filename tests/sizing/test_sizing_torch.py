"""Networks of layers computed by torch: outputs of pipeall's engine, and what torch's counter and hooks say."""

import warnings

import numpy as np
import pytest
from commands import document, invoke

pytest.importorskip("torch", reason="the reference: pip install torch")

from torch.utils.flop_counter import FlopCounterMode
from torch_modules import exported, network, nn, torch

import pipeall
from pipeall import ArgumentError, Board, ModelError
from pipeall.cli.model_argument import read_network
from pipeall.pipeline.engine import Engine
from pipeall.sizing.count import network_cost
from pipeall.sizing.torch_network import TorchNetwork, training_step


@pytest.mark.parametrize("name", ["googlenet", "mobilenet", "resnet50"])
def test_outputs_are_those_of_the_engine(name):
    """With the weights of the zoo. Both compute in float32, in other orders: 1e-4 of the largest output."""
    graph = getattr(pipeall.zoo, name)()
    net = TorchNetwork(read_network(name)[0], graph.constants)
    x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    with torch.no_grad():
        got = net(torch.tensor(x)).numpy()
    board = Board.detect(gpu=False)
    engine = Engine(graph, "big", board, 1)
    try:
        expected = engine(x)
    finally:
        engine.close()
    assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max()


def test_a_file_trains_as_the_module_does(tmp_path):
    """BatchNorm put back: multiply-accumulates by torch's counter, and gradients of all weights."""
    module = network()
    net, _, _ = read_network(str(exported(module, tmp_path / "net.onnx")))
    made = TorchNetwork(net)
    with FlopCounterMode(display=False) as counter:
        made.step(torch.zeros(3, 3, 32, 32) + torch.arange(32) / 32)
    with FlopCounterMode(display=False) as theirs:
        module.train()(torch.zeros(3, 3, 32, 32)).sum().backward()
    assert counter.get_total_flops() == theirs.get_total_flops() > 3 * 2 * network_cost(net).macs
    for name in net.parameters:
        gradient = made.tensors[name].grad
        assert gradient.shape == net.shapes[name] and torch.isfinite(gradient).all()


@pytest.mark.parametrize("counted", [True, False])
def test_padding(tmp_path, counted):
    """Of a pool that rounds up, which only the shapes tell, and of averages: the module's outputs."""
    average = nn.AvgPool2d(3, 2, padding=1, count_include_pad=counted)
    module = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.MaxPool2d(2, 2, ceil_mode=True), nn.Tanh(), average)
    path = exported(module, tmp_path / "net.onnx")
    net, _, _ = read_network(str(path))
    weights = {name: module.state_dict()[name].numpy() for name in net.parameters}
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(TorchNetwork(net, weights)(x), module(x), atol=1e-6)


def test_what_is_not_trained_here(tmp_path):
    path = exported(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2)), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="Resize is not among what is trained here"):
        TorchNetwork(read_network(str(path))[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(nn.Conv1d(3, 4, 3), (torch.zeros(1, 3, 9),), tmp_path / "line.onnx", dynamo=False)
    with pytest.raises(ModelError, match=r"expected a picture of rank 4, got \(1, 4, 7\)"):
        TorchNetwork(read_network(str(tmp_path / "line.onnx"))[0])
    with pytest.raises(ArgumentError, match="batch: expected at least 1"):
        training_step(read_network("squeezenet")[0], 0)
    done = invoke("cost", "threads", path, "--training", "2")
    assert done.exit_code == 2 and "Resize is not among" in done.stderr


def test_threads_of_training(tmp_path):
    path = exported(network(), tmp_path / "net.onnx")
    before = torch.get_num_threads()
    found = document("cost", "threads", path, "--training", "4", "--seconds", "0.01")
    (study,) = found["networks"]
    assert found["training_batch"] == 4 and torch.get_num_threads() == before
    for row in study["rows"]:
        assert row["fps"] == pytest.approx(4e3 / row["median_ms"]) and row["least_ms"] <= row["median_ms"]
    said = invoke("cost", "threads", path, "--training", "4", "--seconds", "0.01").stdout
    assert "training steps of 4 by number of threads" in said and "samples/s" in said
