"""What is around a convolution goes into its weights, and what its kernel never sees leaves them."""

import numpy as np
import pytest
from graphs import Net
from rewriting import IMAGE, ops_of, rewritten


@pytest.mark.parametrize("pads, groups, ops", [((0, 0, 0, 0), 1, "conv"), ((1, 1, 1, 1), 2, "add conv")])
def test_what_normalizes_a_convolutions_input_is_folded(pads, groups, ops):
    """x / 256, less a mean, by a deviation; padding stays zeros, so that there the mean is subtracted ahead of it."""
    net = Net(IMAGE)
    small, mean, deviation = net.constant((1, 1, 1, 1)), net.constant((1, 6, 1, 1)), net.constant((1, 6, 1, 1))
    net.constants[small][:] = 0.25
    net.constants[deviation][:] = np.reshape([0.5, 1, 2, 4, 8, 0.25], (1, 6, 1, 1))  # quotients by them are exact
    y = net.op("mul", net.op("sub", net.op("mul", "x0", small), mean), deviation)
    weight, bias = net.constant((8, 6 // groups, 3, 3)), net.constant((8,))
    assert ops_of(net.graph(net.op("conv", y, weight, bias, pads=pads, groups=groups))) == ops


@pytest.mark.parametrize("values", [0.0, 1e30])
def test_a_scale_that_cannot_be_folded_stays(values):
    net = Net(IMAGE)
    scale = net.constant((1, 6, 1, 1))
    net.constants[scale][:] = values
    y = net.op("add", net.op("mul", "x0", scale), net.constant((1, 6, 1, 1)))
    weight = net.constant((8, 6, 3, 3), 1e20 if values else 1.0)
    assert "mul" in ops_of(net.graph(net.op("conv", y, weight, net.constant((8,)), pads=(1,) * 4)))


@pytest.mark.parametrize(
    "dilations, pads, strides, kernel, left",
    [
        ((24, 24), (24, 24, 24, 24), (1, 1), (3, 3), (1, 1)),
        ((24, 2), (24, 2, 24, 2), (1, 1), (3, 3), (1, 3)),
        ((3, 3), (3, 3, 3, 3), (2, 2), (3, 3), (3, 2)),
        ((1, 1), (5, 0, 0, 0), (9, 1), (7, 1), (2, 1)),
        ((1, 1), (1, 1, 1, 1), (1, 1), (3, 3), (3, 3)),
    ],
)
def test_kernels_lose_rows_and_columns_that_see_padding_alone(dilations, pads, strides, kernel, left):
    net = Net(IMAGE)
    weight, bias = net.constant((8, 3, *kernel)), net.constant((8,))
    y = net.op("conv", "x0", weight, bias, groups=2, dilations=dilations, pads=pads, strides=strides)
    graph = rewritten(net.graph(y))
    (node,) = graph.nodes
    assert graph.constants[node.inputs[1]].shape[2:] == left
