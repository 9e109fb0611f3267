"""What FFT and Winograd would make of published layers, against numbers worked out apart from the code."""

import numpy as np
import pytest
from graphs import Net

from pipeall.sizing.conv_algorithms import algorithm_costs, smooth
from pipeall.sizing.size_network import Layer, Network, of_graph


def layer(size, channels, filters, kernel, stride=1, pad=0, groups=1):
    out = (size + 2 * pad - kernel) // stride + 1
    shapes = {
        "x": (1, channels, size, size),
        "w": (filters, channels // groups, kernel, kernel),
        "y": (1, filters, out, out),
    }
    attrs = {"strides": (stride,) * 2, "pads": (pad,) * 4, "group": groups}
    conv = Layer("c", "Conv", ("x", "w"), ("y",), attrs)
    return {
        choice.algorithm: choice
        for choice in algorithm_costs(Network("n", (conv,), shapes, ("x",), ("y",), ("w",)), conv)
    }


@pytest.mark.parametrize(
    "shape, direct, fft, kernels, activations, memory",  # million operations; times the direct bytes
    [
        ((227, 3, 96, 11, 4), 210.8, 292.3, 655.8, 12.9, 480),  # AlexNet conv1
        ((27, 96, 256, 5, 1, 2, 2), 447.9, 62.5, 314.6, 1.49, 43),  # conv2
        ((13, 256, 384, 3, 1, 1), 299.0, 97.2, 432.1, 1.42, 27),  # conv3
        ((112, 128, 128, 3, 1, 1), 3699, 1087, 8148, 1.17, 1627),  # VGG conv2_2
        ((14, 512, 512, 3, 1, 1), 925, 307, 1342, 1.47, 32),  # VGG conv5
        ((28, 32, 96, 5, 1, 2), 120.4, 16.6, 78.6, 1.39, 43),  # GoogLeNet 5 x 5
    ],
)
def test_fft_of_published_layers(shape, direct, fft, kernels, activations, memory):
    found = layer(*shape)
    assert found["direct"].flops / 1e6 == pytest.approx(direct, rel=1e-3)
    assert found["fft"].flops / 1e6 == pytest.approx(fft, rel=4e-3)
    assert found["fft"].prepare / 1e6 == pytest.approx(kernels, rel=1e-3)
    assert found["fft"].activations / found["direct"].activations == pytest.approx(activations, rel=4e-3)
    assert found["fft"].weights / found["direct"].weights == pytest.approx(memory, rel=0.02)


def test_winograd_by_hand():
    """VGG conv5: 7 x 7 tiles of 16 points for 2 x 2 pixels; 2.25 times fewer products."""
    found = layer(14, 512, 512, 3, 1, 1)
    products = 2 * 49 * 16 * 512 * 512
    assert found["winograd2"].flops == products + 49 * 512 * (32 + 24) and found["direct"].flops == 2.25 * products
    assert found["winograd4"].weights == 4 * found["direct"].weights
    assert found["im2col"].activations - found["direct"].activations == 4 * 9 * 512 * 14 * 14


@pytest.mark.parametrize(
    "shape", [(28, 32, 32, 3, 2, 1), (28, 32, 32, 5, 1, 2), (28, 32, 32, 1), (28, 32, 32, 3, 1, 1, 32)]
)
def test_where_winograd_does_not_apply(shape):
    assert set(layer(*shape)) == {"direct", "im2col", "fft"}


def test_smooth_sizes():
    """Every number up to 2,000 against its factors."""
    numbers = {2**a * 3**b * 5**c for a in range(12) for b in range(8) for c in range(6)}
    assert [smooth(n) for n in range(1, 2001)] == [min(m for m in numbers if m >= n) for n in range(1, 2001)]
    assert np.all(np.diff([smooth(n) for n in range(1, 500)]) >= 0)


def test_other_layers_have_no_choice():
    net = Net((1, 16, 8, 8))
    network = of_graph(net.graph(net.conv("x0", 16, k=3)))
    assert [bool(algorithm_costs(network, layer)) for layer in network.layers] == [
        layer.op == "Conv" for layer in network.layers
    ]
