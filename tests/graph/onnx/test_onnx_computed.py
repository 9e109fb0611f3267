"""Convolutions whose weights or places are computed, against onnxruntime."""

import numpy as np
import onnx_models
import pytest
from load_models import TOLERANCE, model, value
from onnx import helper
from onnx_models import rand, saved

from pipeall import Engine, load

CONVOLUTIONS = {  # operator, input, weight, attributes
    "a tracker's": ("Conv", (1, 4, 12, 12), (4, 1, 4, 4), dict(group=4)),
    "of the whole": ("Conv", (1, 3, 5, 5), (3, 3, 5, 5), {}),
    "strides, pads, dilations": (
        "Conv", (2, 4, 9, 10), (6, 4, 3, 3), dict(pads=[1, 2, 0, 1], strides=[2, 1], dilations=[1, 2])),
    "groups": ("Conv", (1, 6, 9, 8), (4, 3, 3, 2), dict(group=2, pads=[1] * 4)),
    "same": ("Conv", (1, 3, 8, 8), (4, 3, 3, 3), dict(auto_pad="SAME_UPPER", strides=[2, 2])),
    "sequences": ("Conv", (1, 3, 9), (5, 3, 4), dict(strides=[2])),
    "volumes": ("Conv", (1, 2, 5, 6, 7), (3, 2, 2, 3, 2), dict(pads=[1] * 6)),
    "transposed": (
        "ConvTranspose", (1, 4, 6, 5), (4, 3, 3, 3), dict(strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])),
    "transposed groups": ("ConvTranspose", (2, 4, 6, 5), (4, 2, 3, 2), dict(group=2, strides=[2, 1])),
    "transposed volumes": ("ConvTranspose", (1, 2, 3, 4, 5), (2, 3, 2, 3, 2), dict(strides=[2, 1, 2])),
}  # fmt: skip


def check(node, fed, constants, folder, opset=17):
    inputs = [value(name, 1, array.shape) for name, array in fed.items()]
    proto = model([node], inputs, [value("y", 1, None)], constants, opset=opset)
    expected = onnx_models.run(proto, fed)["y"]
    with Engine(load(saved(proto, folder)), "big", threads=1) as engine:
        found = engine(fed)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("computed", ["w", "b", "wb"])
def test_convolutions_of_computed_operands(name, computed, tmp_path):
    op, shape, kernel, attrs = CONVOLUTIONS[name]
    outputs = kernel[0] if op == "Conv" else kernel[1] * attrs.get("group", 1)
    operands = {"w": rand(*kernel, seed=1), "b": rand(outputs, seed=2)}
    fed = {"x": rand(*shape)} | {name: operands.pop(name) for name in computed}
    check(helper.make_node(op, ["x", "w", "b"], ["y"], **attrs), fed, operands, tmp_path)


DEFORMED = {  # image, weight, groups of offsets, groups, window
    "one channel": ((1, 1, 3, 3), (1, 1, 2, 2), 1, 1, {}),
    "groups of offsets": ((2, 4, 7, 8), (6, 4, 3, 3), 2, 1, dict(pads=[1] * 4)),
    "all": ((1, 4, 9, 8), (4, 2, 3, 2), 4, 2, dict(strides=[2, 1], dilations=[1, 2], pads=[1, 0, 1, 1])),
}


@pytest.mark.parametrize("name", DEFORMED)
@pytest.mark.parametrize("masked", [False, True])
def test_deformed_convolutions(name, masked, tmp_path):
    shape, kernel, parts, group, attrs = DEFORMED[name]
    keys = dict(pads=0, strides=1, dilations=1)
    pads, strides, dilations = (attrs.get(key, [number] * 4) for key, number in keys.items())
    sizes = [
        (shape[2 + i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[2 + i] - 1) - 1) // strides[i] + 1
        for i in (0, 1)
    ]
    taps = parts * kernel[2] * kernel[3]
    fed = {"x": rand(*shape), "o": 2 * rand(shape[0], 2 * taps, *sizes, seed=1)}
    fed |= {"m": rand(shape[0], taps, *sizes, seed=2)} if masked else {}
    node = helper.make_node(
        "DeformConv", ["x", "w", "o", "b", *(["m"] if masked else [])], ["y"],
        kernel_shape=kernel[2:], offset_group=parts, group=group, **attrs,
    )  # fmt: skip
    check(node, fed, {"w": rand(*kernel, seed=3), "b": rand(kernel[0], seed=4)}, tmp_path, opset=19)
