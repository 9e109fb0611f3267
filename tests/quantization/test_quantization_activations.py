"""Channels that differ by orders of magnitude ahead of swish: scaled behind it, where that pays."""

from itertools import count

import numpy as np
import pytest
from graphs import Net, frames

from pipeall import Engine, Graph, load, quantize
from pipeall.graph.ops import run_graph
from pipeall.quantization import equalize
from pipeall.quantization.calibration_run import CalibrationRun
from pipeall.quantization.equalize import factors_of, of_activations, with_scaled_activations
from pipeall.quantization.quantize import observed

pytest.importorskip("onnx", reason="needs pipeall[onnx]")


def uneven(sizes: np.ndarray) -> Graph:
    """As the first layers of YOLOX-nano: a convolution whose channels have these sizes, swish, and one that reads them
    all alike."""
    net = Net((1, 3, 12, 12))
    x = net.conv("x0", len(sizes), k=3)
    for name in net.nodes[-1].inputs[1:]:
        net.constants[name] *= sizes.reshape(-1, *(1,) * (net.constants[name].ndim - 1)).astype(np.float32)
    x = net.op("swish", x, alpha=1.0)
    x = net.op("concat", x, net.op("maxpool", x, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4))
    y = net.conv(x, 8)
    net.constants[net.nodes[-1].inputs[1]] /= np.tile(sizes, 2).reshape(1, -1, 1, 1).astype(np.float32)
    return net.graph(net.conv(net.op("swish", y, alpha=1.0), 4))


def test_stretched_networks_compute_the_same():
    """In float64, but for weights and factors that are float32: twice a rounding of 2^-24 in each of 24 terms."""
    graph = uneven(np.geomspace(1, 200, 6))
    channels, sizes = of_activations(graph), np.geomspace(1, 200, 6)
    first, second = channels.made
    assert first.startswith("swish") and second.startswith("swish") and channels.free.sum() == 6 + 8
    assert sorted(read.tolist() for read in channels.read.values()) == [[*range(1, 7)] * 2, [*range(7, 15)]]
    factors = channels.numbered({first: factors_of(sizes, sizes.max()), second: np.arange(1.0, 9.0)})
    other = with_scaled_activations(graph, channels, factors)
    x = {"x0": frames(graph, 1)[0].astype(np.float64)}
    (expected,), (found,) = (run_graph(g, x).values() for g in (graph, other))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert [node.op for node in other.nodes].count("mul") == 2
    assert not np.array_equal(found, expected)


def test_channels_are_stretched_where_it_pays(monkeypatch, tmp_path):
    """Against the floats by NumPy, and by onnxruntime from the file. Six channels from 1 to 200 share 256 levels: the
    smallest has one. Stretched half the way, ratios of 200 become those of 14."""
    ort = pytest.importorskip("onnxruntime", reason="needs pipeall[peers]")
    graph = uneven(np.geomspace(1, 200, 6))
    photos = frames(graph, 12)
    made = quantize(graph, photos, method="minmax")
    assert [row.names for row in made.report.tensors if row.names[0].endswith("/stretched")]
    assert all(not row.floats for row in made.report.layers)
    with monkeypatch.context() as patched:
        patched.setattr(equalize, "SPREAD", np.inf)
        plain = quantize(graph, photos, method="minmax")
    assert made.report.error < 0.4 * plain.report.error
    made.save(tmp_path / "net.onnx")
    session = ort.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    largest = 0.0
    with Engine(load(tmp_path / "net.onnx")) as engine:
        for photo in photos:
            (exact,) = run_graph(graph, {"x0": photo.astype(np.float64)}).values()
            (theirs,) = session.run(None, {"x0": photo})
            ours = engine(photo)
            scale = np.sqrt(np.square(exact).mean())
            assert np.sqrt(np.square(ours - theirs).mean()) < 0.02 * scale  # ties, on the way to the last layer
            largest = max(largest, np.sqrt(np.square(ours - exact).mean()) / scale)
    assert 0 < largest < 2 * made.report.error


def test_channels_stay_where_it_does_not_pay():
    """A hundredth of the loss buys no real numbers; what loses more at a glance is not looked at."""
    graph = uneven(np.geomspace(1, 200, 6))
    photos = [{"x0": frame} for frame in frames(graph, 2)]
    run = CalibrationRun(photos)
    start = observed(graph, run)
    tried = []

    def loss(choice):
        tried.append(choice)
        return 1.0 if len(tried) == 1 else 0.99

    assert equalize.scale_activations(start, loss, lambda choice: 1.0, run) is start and len(tried) == 1
    tried.clear()
    ever_less = count(1.0, -0.01)
    assert equalize.scale_activations(start, loss, lambda choice: next(ever_less), run) is start
    assert len(tried) > 1 and any("/stretched" in name for name in tried[1].graph.tensors)
