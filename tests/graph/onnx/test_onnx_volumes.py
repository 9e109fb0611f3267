"""GridSample of volumes against onnxruntime."""

import numpy as np
import onnx_models
import pytest
from load_models import TOLERANCE
from onnx import helper
from onnx_models import rand, saved

from pipeall import Engine, load
from pipeall.graph.ops import run_graph


@pytest.mark.parametrize("sizes", [(4, 5, 6), (1, 3, 2)])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_volumes(mode, padding, corners, sizes):
    grid = np.random.default_rng(1).uniform(-2.6, 2.6, (2, 3, 4, 5, 3)).astype(np.float32)
    grid[:, 0] = np.round(4 * grid[:, 0]) / 4  # ties and borders
    feeds = {"x": rand(2, 3, *sizes), "grid": grid}
    node = helper.make_node("GridSample", list(feeds), ["y"], mode=mode, padding_mode=padding, align_corners=corners)
    proto = onnx_models.model([node], {name: array.shape for name, array in feeds.items()}, ["y"], opset=20)
    expected = onnx_models.run(proto, feeds)["y"]
    found = run_graph(load(proto), feeds)["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


def test_places_that_are_no_numbers_stay_within_the_volume(tmp_path):
    grid = np.zeros((1, 1, 1, 3, 3), np.float32)
    grid[..., 0] = [np.nan, np.inf, -1e30]
    node = helper.make_node("GridSample", ["x", "grid"], ["y"])
    proto = onnx_models.model([node], {"x": (1, 2, 3, 3, 3), "grid": grid.shape}, ["y"], opset=20)
    with Engine(load(saved(proto, tmp_path)), "big", threads=1) as engine:
        found = engine({"x": rand(1, 2, 3, 3, 3), "grid": grid})
    assert not found[..., 1:].any()
