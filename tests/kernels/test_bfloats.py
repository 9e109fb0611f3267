"""Convolutions whose products are of bfloat16 (``big@bf16``): against float64 on operands that NumPy has rounded, and
which layers of a network they are."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net, frames
from kernel_runs import nhwc, run_case, single_step, supported_isas
from rounding import bfloats

import pipeall
from pipeall import Engine
from pipeall._kernels.cpu.algorithms import BF16_GEMM, possible, work
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.graph.cases.op_cases import CASES
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph

ISAS = sorted({row.isa for row in ROWS if row.type == "f32_bf16w"} & set(supported_isas()))
ULP = 2.0**-23  # of a sum: two products are added with one rounding to odd, and to the sum with another


def layers():
    steps = ((case, single_step(case)) for op in ("conv", "fc") for case in CASES[op] if not case.types)
    return [case for case, step in steps if step and BF16_GEMM in possible(step)]


@pytest.mark.parametrize("case", layers(), ids=lambda case: str)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("isa", ISAS)
def test_products_of_rounded_operands_and_sums_of_floats(case, isa, threads):
    found, graph, inputs = run_case(case, choose((isa, "ref"), "any core"), (-1,) * threads, BF16_GEMM)
    (node,) = graph.nodes
    x, weight = node.inputs[:2]
    rounded = replace(graph, constants=dict(graph.constants) | {weight: bfloats(graph.constants[weight])})
    (expected,) = run_graph(rounded, inputs | {x: bfloats(inputs[x])}).values()
    # The sizes of all that is added: the same layer of absolute values, without bounds.
    sizes = {name: np.abs(array) for name, array in rounded.constants.items()}
    unbounded = replace(node, attrs=dict(node.attrs) | {"lo": -np.inf, "hi": np.inf})
    absolute = replace(rounded, constants=sizes, nodes=(unbounded,))
    (size,) = run_graph(absolute, {name: np.abs(bfloats(array)) for name, array in inputs.items()}).values()
    terms = graph.constants[weight].size // graph.constants[weight].shape[0] + 4
    error = np.abs(found - nhwc(expected).reshape(found.shape))
    assert (error <= terms * ULP * nhwc(size).reshape(found.shape)).all()


def network():
    """Layers of pixels, one of them before an average, a head and layers of one pixel."""
    net = Net((1, 16, 12, 12))
    x = net.conv("x0", 40, k=1, lo=0.0)
    x = net.conv(x, 24, k=3, lo=0.0)
    return net.graph(net.conv(x, 20, k=1), net.fc(net.op("avgpool", x, kernel=(12, 12), strides=(1, 1)), 9))


@pytest.fixture
def bf16_board(monkeypatch):
    """A board whose cores compute in bf16: by reference kernels, unless they are newer ones of Arm."""
    if "bf16" not in supported_isas():
        monkeypatch.setenv("PIPEALL_ISA", "ref")
    return pipeall.Board.detect(gpu=False)


def algorithms(board, graph):
    device = board.component("big@bf16").device
    lowered = lower(graph)
    program = device.compile(lowered, "test")
    ways = zip(program.algorithms, lowered.steps, strict=True)
    return {step.node: str(way) for way, step in ways if step.kind == "conv"}


def test_layers_before_others_round_but_for_heads_and_kept_ones(bf16_board, monkeypatch):
    """Where the model of work sees it ahead; a layer of one pixel rounds its weights to halves, as in mixed."""
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    graph = network()
    first, second, head, _, vector = (node.name for node in graph.nodes)
    found = algorithms(bf16_board, graph)
    assert found[first] == "bf16-gemm" and found[vector] == "half-gemm"
    assert found[head] not in ("bf16-gemm", "half-gemm")
    assert found[second] == "bf16-gemm" or found[second].startswith("winograd")
    kept = algorithms(bf16_board, pipeall.keep_float32(graph, [first]))
    assert kept == found | {first: kept[first]} and kept[first] not in ("bf16-gemm", "half-gemm")


def test_the_range_is_that_of_floats(bf16_board):
    """Sums of 1e30, which halves do not hold, and errors of the size of bfloat16's rounding."""
    graph = network()
    (x,) = frames(graph, 1)
    found = []
    for unit in ("big", "big@bf16"):
        with Engine(graph, unit, board=bf16_board) as engine:
            found.append({name: y.copy() for name, y in engine(x * np.float32(1e30)).items()})
    for name, y in found[0].items():
        error = np.abs(found[1][name] - y).max() / np.abs(y).max()
        assert np.isfinite(y).all() and 1e-5 < error < 3 * 2.0**-8, name  # three layers round one after the other


def test_the_model_counts_two_bytes_a_weight_and_the_rate_of_the_kernel():
    (case,) = [case for case in layers() if case.op == "fc"][:1]
    step = single_step(case)
    assert BF16_GEMM.inner_bytes(step) == 2 * step.weight.size
    net = Net((1, 64, 40, 40))
    (step,) = [step for step in lower(net.graph(net.conv("x0", 64, k=1))).steps if step.kind == "conv"]
    plain = possible(step)[0]
    assert 2.5 < work(step, plain, 8, "neon") / work(step, BF16_GEMM, 8, "neon") < 3
