"""Long sums are sums of blocks: one large element swallows the small ones of its own block alone.

In a single chain, 1 + 2^-25 is 1 as often as it is added; all small elements would be lost. Bound: the first block
loses each of its elements, half an ulp, u = 2^-24, and so much each addition of a block to those before.
"""

import numpy as np
import pytest
from graphs import Net
from kernel_runs import float_isas

from pipeall import Board, Engine

U = 2.0**-24
LANES = {"avx512": 16, "avx2": 8, "neon": 4, "ref": 1}
ROWS, COLUMNS = 60, 100  # of the pooled image
CLASSES = 6625
FEATURES = 6000


def large_and_small(n: int) -> np.ndarray:
    """One, then 2^-25."""
    x = np.full(n, U / 2)
    x[0] = 1
    return x


def pooled(component: str, board: Board) -> float:
    """The relative error of an average over all of an image."""
    net = Net((1, 5, ROWS, COLUMNS))
    graph = net.graph(net.global_pool("x0"))
    x = np.tile(large_and_small(ROWS * COLUMNS).reshape(1, 1, ROWS, COLUMNS), (1, 5, 1, 1))
    return error(graph, x, x.mean(axis=(2, 3), keepdims=True), component, board)


def error(graph, x: np.ndarray, expected: np.ndarray, component: str, board: Board) -> float:
    with Engine(graph, component, board=board) as engine:
        y = engine(x.astype(np.float32)).astype(np.float64)
    return float(np.abs(y - expected).max() / np.abs(expected).max())


@pytest.fixture(params=float_isas())
def isa(request, monkeypatch):
    monkeypatch.setenv("PIPEALL_ISA", request.param)
    return request.param


@pytest.fixture
def cpu(isa):
    return Board.detect(gpu=False)


def test_average_pool(cpu):
    assert pooled("big", cpu) <= (16 + ROWS * -(-COLUMNS // 16)) * U  # in a chain: 3000 u


def test_average_pool_of_opencl(board_with_gpu):
    assert pooled("gpu", board_with_gpu) <= (COLUMNS + ROWS) * U


def softmax(component: str, board: Board) -> float:
    """The relative error of a softmax over many classes."""
    net = Net((1, CLASSES))
    graph = net.graph(net.op("softmax", "x0", axis=1))
    x = np.log(large_and_small(CLASSES)).astype(np.float32).reshape(1, -1)
    powers = np.exp(x.astype(np.float64))
    return error(graph, x, powers / powers.sum(), component, board)


def test_softmax(isa, cpu):
    lanes = LANES[isa]
    assert softmax("big", cpu) <= (16 + CLASSES / lanes / 16 + lanes + 3) * U  # in a chain: CLASSES / lanes / 2


def test_softmax_of_opencl(board_with_gpu):
    assert softmax("gpu", board_with_gpu) <= (64 + CLASSES / 64 + 8) * U  # in a chain: CLASSES / 2


def fully_connected(component: str, board: Board) -> float:
    """The relative error of one pixel's sums of many features."""
    net = Net((1, FEATURES))
    graph = net.graph(net.fc("x0", 70))
    weight, bias = graph.nodes[-1].inputs[1:]
    graph.constants[weight][...], graph.constants[bias][...] = 1, 0
    x = large_and_small(FEATURES).reshape(1, -1)
    return error(graph, x, np.full((1, 70), x.sum()), component, board)


def test_fully_connected(cpu):
    assert fully_connected("big", cpu) <= (192 + FEATURES / 192) * U  # in a chain: 3000 u


def test_fully_connected_of_opencl(board_with_gpu):
    assert fully_connected("gpu", board_with_gpu) <= (192 + FEATURES / 192) * U


def test_convolution_of_opencl(board_with_gpu):
    """Blocks of up to twice as many products: taps by channels, which are no multiple of a block."""
    net, channels = Net((1, 700, 5, 5)), 700
    graph = net.graph(net.conv("x0", 20, k=3, strides=(2, 2)))
    weight, bias = graph.nodes[-1].inputs[1:]
    graph.constants[weight][...], graph.constants[bias][...] = 1, 0
    x = np.full((1, channels, 5, 5), U / 2)
    x[0, 0] = 1
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    sums = windows[:, :, ::2, ::2].sum(axis=(1, 4, 5))
    expected = np.tile(sums[:, None], (1, 20, 1, 1))
    limit = (2 * 192 + 9 * channels / 192) * U  # in a chain: 3000 u
    assert error(graph, x, expected, "gpu", board_with_gpu) <= limit
