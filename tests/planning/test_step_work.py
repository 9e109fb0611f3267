"""What steps do, as price lists count it: lowered as a CPU lowers them, by the kernels that a CPU of Arm's takes."""

import numpy as np
import pytest
from graphs import Net

from pipeall import Board
from pipeall.graph.lower.lower import lower
from pipeall.graph.partition import subgraph
from pipeall.pipeline.boards.models.price_list import PriceList, Sample
from pipeall.pipeline.boards.models.step_work import FEATURES, Work, works

PRODUCTS, SILU = FEATURES.index("ms_per_g_products"), FEATURES.index("ms_per_g_silu")


def with_silu():
    """3x3, and 1x1 with a sum behind its SiLU, on 12 x 12 pixels; at last a SiLU that is behind no convolution."""
    net = Net((1, 16, 12, 12))
    x = net.op("swish", net.conv("x0", 32, k=3), alpha=1.0)
    y = net.op("add", net.op("swish", net.conv(x, 32), alpha=1.0), x)
    return net.graph(net.op("swish", net.op("maxpool", y), alpha=1.0))


def kernels_of(graph, precision=""):
    return [work.kernel for work in works(graph, precision=precision)]


@pytest.mark.parametrize("precision", ["", "fp16", "mixed", "bf16"])
def test_steps_are_those_of_a_compiled_program(precision):
    graph = with_silu()
    device = Board.detect(clusters=[[0]], gpu=False).component("big").device
    lowered = lower(subgraph(graph, 0, len(graph.groups)), int8=device.int8, fp16=precision == "fp16", silu=device.silu)
    found = works(graph, precision=precision)
    assert [work.node for work in found] == [node for _, node in device.compile(lowered, "test").labels]
    elements = [round(1e9 * work.features[SILU]) for work in found]
    assert [count for count in elements if count] == [32 * 12 * 12, 32 * 12 * 12]
    assert sum("swish" in work.kernel for work in found) == 1


def test_products_of_bfloat16_have_a_kernel_of_their_own():
    """Panels of 16 filters: 20 are 32. A layer of one pixel keeps halves, and heads stay floats."""
    net = Net((1, 64, 16, 16))
    x = net.conv(net.conv("x0", 20), 64, k=3)
    graph = net.graph(net.fc(net.conv(net.global_pool(x), 64), 10))
    found = {work.node: work for work in works(graph, precision="bf16")}
    first, second, _, third, _ = (found[node.name] for node in graph.nodes)
    assert [first.kernel, second.kernel, third.kernel] == ["bf16:gemm 1x1", "bf16:gemm kxk", "half-gemv"]
    assert round(1e9 * first.features[PRODUCTS]) == 64 * 32 * 16 * 16
    assert not any(kernel.startswith("bf16") for kernel in kernels_of(graph))


def test_zeros_in_common_leave_products_out():
    net = Net((1, 64, 16, 16))
    x = net.conv("x0", 64)
    weight = net.constants[net.nodes[-1].inputs[1]]
    weight[:, 16:] = 0
    (_, work, _) = works(net.graph(x))
    assert work.kernel == "sparse" and round(1e9 * work.features[PRODUCTS]) == 16 * 64 * 16 * 16


def test_a_stride_of_2_is_computed_by_phases():
    """F(5x5) of 2x2 taps: tiles of 6 x 6 points, 4 phases of 64 channels, for 20 x 20 pixels of 64 filters."""
    net = Net((1, 64, 40, 40))
    graph = net.graph(net.conv("x0", 64, k=3, strides=(2, 2)))
    (work,) = [work for work in works(graph) if work.kernel == "winograd 5"]
    assert round(1e9 * work.features[PRODUCTS]) == 4 * 64 * 64 * 36 * 4 * 4


@pytest.mark.parametrize("groups", [8, 16])
def test_groups_narrower_than_a_panel_have_a_kernel(groups):
    """Direct: vectors of four filters."""
    net = Net((1, 32, 10, 10))
    found = kernels_of(net.graph(net.conv("x0", 32, k=3, groups=groups)))
    assert "direct" in found


def test_a_kernel_whose_silu_nobody_priced_has_that_of_its_nearest():
    """Of samples of 1x1 with and without, and of Winograd without."""
    random = np.random.default_rng(0)
    prices = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0])
    steps = []
    for kernel, silu in (("gemm 1x1", True), ("gemm 1x1", False), ("winograd 4", False), ("maxpool 3x3", False)):
        for _ in range(20):
            features = random.random(7)
            features[SILU] *= silu
            steps.append(Work("node", kernel, 0, tuple(features)))
    found = PriceList.fit([Sample(steps, [prices[:7] @ work.features for work in steps])], 100.0)
    np.testing.assert_allclose(found.price_of("gemm 1x1"), prices, atol=1e-6)
    np.testing.assert_allclose(found.price_of("winograd 4"), prices, atol=1e-6)
    assert found.price_of("maxpool 3x3")[SILU] == 0
