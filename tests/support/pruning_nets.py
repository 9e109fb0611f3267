"""A network to prune, what it reads, and what onnxruntime makes of files."""

import numpy as np
import pytest
from graphs import Net, frames


def classifier():
    """A separable network of 1x1 layers whose channels depend on each other, as those of trained networks do."""
    net = Net((1, 3, 16, 16))
    x = net.conv("x0", 24, k=3, strides=(2, 2), lo=0.0)
    x = net.conv(x, 32, lo=0.0, hi=6.0)
    x = net.conv(x, 32, k=3, groups=32, lo=0.0)
    x = net.conv(x, 32, residual=x, lo=0.0)
    return net.graph(net.fc(net.global_pool(net.conv(x, 20, strides=(2, 2))), 10), name="small")


def samples(graph, count=24):
    """Smooth pictures: random ones of few pixels, made large."""
    return [np.kron(x[:, :, :4, :4], np.ones((4, 4), np.float32)) for x in frames(graph, count)]


def by_onnxruntime(path, xs):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'pipeall[test]'")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, {session.get_inputs()[0].name: x})[0] for x in xs])
