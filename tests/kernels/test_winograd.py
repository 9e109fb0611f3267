"""Convolution by Winograd's minimal filtering: every variant on every instruction set, within a derived bound."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from graphs import zoo_net
from kernel_runs import FLOAT_ISAS, FLOAT_ROWS, conv_step, nhwc, run_case, single_step, supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram
from winograd_reference import convolve, matrices, winograd_bound

from pipeall._kernels.cpu.algorithms import (
    COSTS,
    DIRECT,
    GEMM,
    Algorithm,
    candidates,
    modelled,
    points_bytes,
    sensible,
)
from pipeall._kernels.cpu.table import choose
from pipeall.errors import ArgumentError
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.steps import Step, is_depthwise

VARIANTS = [(2, 5), (3, 2), (3, 4), (3, 5), (3, 6), (4, 3), (4, 5), (5, 2), (5, 4)]  # r, m
ROW_OPS = ("gemm", "winograd_input", "winograd_weight", "winograd_output", "winograd_products", "winograd_columns")
KERNELS = sorted({(row.isa, row.core) for row in FLOAT_ROWS if row.op in ROW_OPS})
PANELS = sorted({row.nr for row in FLOAT_ROWS if row.op in ("gemm", "gemv")})


UNEVEN = conv_step(8, 8, 28, 3, dilation=2)
UNEVEN = replace(UNEVEN, params=UNEVEN.params | {"dilations": (2, 1), "pads": (2, 1, 2, 1)})


@cache
def fitting_cases():
    """(case, its one step) of the conv cases that Winograd computes."""
    steps = ((case, single_step(case)) for case in CASES["conv"])
    return [(case, step) for case, step in steps if step and any(way.kind == "winograd" for way in candidates(step))]


def taps_of(step):
    """r of a kernel of r x r taps, or of as many of each phase of a stride."""
    return -(-step.params["kernel"][0] // step.params["strides"][0])


@cache
def reference(index):
    """(graph, inputs, float64 result as (h, w, c)) of a case."""
    graph, inputs = case_graph(fitting_cases()[index][0])
    (expected,) = run_graph(graph, inputs).values()
    return graph, inputs, nhwc(expected)


@cache
def bound(index, m):
    """Largest allowed |result - expected|, (h, w, c)."""
    graph, inputs, _ = reference(index)
    return nhwc(winograd_bound(graph, inputs, m))


@pytest.mark.parametrize(("r", "m"), VARIANTS)
def test_the_matrices_compute_the_convolution(r, m):
    random = np.random.default_rng(0)
    for pads, groups in (((0, 0, 0, 0), 1), ((2, 1, 0, 2), 3)):
        x, weight = random.standard_normal((6, 11, 12)), random.standard_normal((9, 6 // groups, r, r))
        h, w = (size + pads[axis] + pads[axis + 2] - r + 1 for axis, size in enumerate(x.shape[1:]))
        padded = np.pad(x, ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]))).reshape(groups, -1, h + r - 1, w + r - 1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (r, r), axis=(2, 3))
        filters = weight.reshape(groups, -1, *weight.shape[1:])
        expected = np.einsum("gcyxij,gocij->goyx", windows, filters).reshape(-1, h, w)
        np.testing.assert_allclose(convolve(x, weight, pads, groups, *matrices(r, m)), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("isa", "core"), KERNELS, ids=str)
@pytest.mark.parametrize(("r", "m"), VARIANTS)
def test_variant(isa, core, r, m, some):
    """Within the bound, and the same bits from three threads as from one; weights kept, or transformed in the frame."""
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    table = choose((isa, "ref"), core)
    cases = [(index, *found) for index, found in enumerate(fitting_cases()) if taps_of(found[1]) == r]
    assert len(cases) >= 8, f"expected cases of {r} x {r} taps, got {len(cases)}"
    for index, case, step in some(cases):
        for way in {Algorithm("winograd", m, lazy) for lazy in (False, True)} & set(candidates(step)):
            result, _, _ = run_case(case, table, (-1,), way)
            error, allowed = np.abs(result - reference(index)[-1]), bound(index, m)
            worst = (error / allowed).argmax()
            assert (error <= allowed).all(), f"{way} {case}: {error.flat[worst]:.3g}, allowed {allowed.flat[worst]:.3g}"
            again, _, _ = run_case(case, table, (-1,) * 3, way)
            assert np.array_equal(result, again), f"{way} {case}: on 3 threads it differs"


def test_the_cases_cover_every_variant():
    plain, strided = (
        {(taps_of(step), way) for _, step in fitting_cases() if (step.params["strides"] > (1, 1)) == with_stride
         for way in candidates(step)}
        for with_stride in (False, True)
    )  # fmt: skip
    winograd = {(r, Algorithm("winograd", m)) for r, m in VARIANTS}
    lazy = {(r, replace(way, lazy=True)) for r, way in winograd}
    assert plain == winograd | lazy | {(r, way) for r in (2, 3, 4, 5) for way in (GEMM, DIRECT)}
    assert strided == winograd | {(r, GEMM) for r in (2, 3, 4, 5)}


def test_model_of_narrow_groups():
    """Direct where a panel of GEMM would be all but empty, and never where groups fill it."""
    assert {row.isa: row.nr for row in FLOAT_ROWS if row.op == "depthwise"} == {
        row.isa: COSTS[row.isa].lanes for row in FLOAT_ROWS if row.op == "depthwise"
    }
    narrow, wide = conv_step(48, 48, 56, 3, stride=2, groups=6), conv_step(96, 96, 27, 3, stride=2, groups=2)
    assert [modelled(narrow, *panel) for panel in ((32, "avx512"), (16, "avx2"))] == [DIRECT] * 2
    assert DIRECT in candidates(wide) and sensible(wide, 32, "avx512") == (GEMM,)


def test_names():
    """As files and reports have them."""
    assert " ".join(map(str, candidates(conv_step(1, 1, 12, 5)))) == (
        "gemm winograd2 winograd4 winograd2-lazy winograd4-lazy"
    )


@pytest.mark.parametrize("algorithm", candidates(conv_step(1, 1, 12, 3)), ids=str)
def test_nan_shows_in_every_result_it_is_part_of(algorithm):
    """And in no other than those of its tiles."""
    step = conv_step(8, 8, 12, 3)
    step = replace(step, weight=np.ones_like(step.weight))
    program = CpuProgram(choose(("ref",), "any"), (-1,), "test", (0, 4 * 12 * 12 * 8, 4 * 12 * 12 * 8))
    program.add(step, algorithm)
    x = np.full((12, 12, 8), 0.125, np.float32)
    x[7, 4, 3] = np.nan
    missing = np.isnan(program.run(x).reshape(12, 12, 8))
    assert missing[6:9, 3:6].all() and not missing[:4].any() and not missing[:, 10:].any()


@pytest.mark.parametrize("algorithm", candidates(conv_step(3, 8, 24, 7, stride=2)), ids=str)
def test_nan_stays_where_it_is_among_phases(algorithm):
    """In the results it is part of, and in no tile that does not read it."""
    step = conv_step(3, 8, 24, 7, stride=2)
    step = replace(step, weight=np.ones_like(step.weight))
    program = CpuProgram(choose(("ref",), "any"), (-1,), "test", (0, step.src[0].nbytes, step.dst.nbytes))
    program.add(step, algorithm)
    x = np.full((24, 24, 3), 0.125, np.float32)
    x[23, 23, 2] = np.nan
    missing = np.isnan(program.run(x).reshape(12, 12, 8))
    assert missing[11, 11].all() and not missing[:5].any() and not missing[:, :5].any()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (conv_step(128, 128, 56, 3, stride=3), GEMM),
        (UNEVEN, GEMM),
        (conv_step(64, 64, 28, (3, 1)), GEMM),
    ],
)
def test_gemm_where_winograd_does_not_fit(step, expected):
    assert candidates(step) == (GEMM,)
    assert {modelled(step, nr, isa) for nr in PANELS for isa in FLOAT_ISAS} == {expected}


@pytest.mark.parametrize(
    ("step", "expected", "m"),
    [
        (conv_step(3, 64, 224, 7, stride=2), Algorithm("winograd", 5), 5),  # the first of ResNet-50 and GoogLeNet
        (conv_step(3, 96, 227, 11, stride=4), Algorithm("winograd", 6), 6),  # of AlexNet
        (conv_step(3, 32, 320, 6, stride=2), Algorithm("winograd", 4), 6),  # of YOLOv5
        (conv_step(64, 192, 56, 3), Algorithm("winograd", 4), 6),  # GoogLeNet's conv2
        (conv_step(16, 32, 28, 5), Algorithm("winograd", 4), 4),  # GoogLeNet's first 5x5
        (conv_step(64, 64, 56, 3), Algorithm("winograd", 4), 6),  # the four sizes of ResNet-50
        (conv_step(128, 128, 28, 3), Algorithm("winograd", 4), 4),
        (conv_step(256, 256, 14, 3), Algorithm("winograd", 4, lazy=True), 5),
        (conv_step(512, 512, 7, 3), Algorithm("winograd", 4, lazy=True), 4),
        (conv_step(96, 256, 27, 5, groups=2), Algorithm("winograd", 4), 4),  # AlexNet's conv2
        (conv_step(128, 128, 28, 3, dilation=2), Algorithm("winograd", 5), 5),  # a ResNet with gaps, for segmentation
        (conv_step(256, 256, 28, 3, dilation=24), GEMM, 0),  # of DeepLab: few taps see pixels
    ],
)
def test_model_on_known_layers(step, expected, m):
    """``expected`` with AVX2, m on NEON."""
    assert {modelled(step, nr, "avx2") for nr in (16, 8)} == {expected}
    assert modelled(step, 8, "neon") == replace(expected, m=m, lazy=False), "transformed weights are kept there"


def test_model_returns_candidates_and_keeps_the_weights():
    """For every convolution of two networks and of the case table, whatever the tile."""
    steps = [step for name in ("googlenet", "resnet50") for step in lower(zoo_net(name)).steps]
    steps += [step for step in map(single_step, CASES["conv"]) if step]
    ran = 0
    for step in steps:
        if not candidates(step):
            assert step.kind != "conv" or is_depthwise(step)
            continue
        ran += 1
        chosen = {modelled(step, nr, "avx2") for nr in PANELS}
        assert chosen <= set(candidates(step)), step.node
        kept = [way for way in chosen if way.keeps_transform]
        assert all(points_bytes(step, way, min(PANELS)) <= 4 << 20 for way in kept), step.node
    assert ran > 100


POOL = replace(
    conv_step(8, 8, 6, 3), kind="maxpool", params=dict(kernel=(3, 3), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1))
)


@pytest.mark.parametrize(
    ("step", "algorithm"),
    [
        (conv_step(8, 8, 6, 3, stride=2), Algorithm("winograd", 4)),
        (UNEVEN, Algorithm("winograd", 2)),
        (conv_step(8, 8, 6, 1), Algorithm("winograd", 2)),
        (conv_step(8, 8, 6, (3, 5)), Algorithm("winograd", 2)),
        (conv_step(8, 8, 9, 7), Algorithm("winograd", 2)),
        (conv_step(8, 8, 9, 7, stride=2), Algorithm("winograd", 2)),
        (conv_step(8, 8, 9, 7, stride=2), Algorithm("winograd", 5, True)),
        (conv_step(8, 8, 9, 7, stride=2, groups=2), Algorithm("winograd", 5)),
        (conv_step(44, 8, 9, 7, stride=2), Algorithm("winograd", 5)),  # 176 channels in its phases, in rows of 88
        (conv_step(8, 8, 25, 15, stride=5), Algorithm("winograd", 4)),
        (conv_step(8, 8, 6, 5), Algorithm("winograd", 6)),
        (conv_step(8, 8, 6, 3), Algorithm("winograd", 7)),
        (conv_step(8, 8, 6, 3), Algorithm("winograd")),
        (conv_step(8, 8, 6, 3), "winograd4"),  # a name is no algorithm
        (conv_step(8, 8, 6, 3), Algorithm("winograd", 99999999999)),
        (conv_step(8, 8, 6, 3), Algorithm("fft")),
        (conv_step(8, 8, 6, 3), replace(GEMM, lazy=True)),
        (conv_step(8, 8, 6, 3, groups=8), Algorithm("winograd", 2)),
        (POOL, GEMM),
    ],
    ids=lambda value: f"{value.kind} {value.params['kernel']}" if isinstance(value, Step) else str(value),
)
def test_an_algorithm_that_does_not_fit_is_refused(step, algorithm):
    program = CpuProgram(choose(("ref",), "any"), (-1,), "test", (0, 4 * 1000, 4 * 1000))
    with pytest.raises(ArgumentError, match=rf"step c \({step.kind}\): expected .*, got "):
        program.add(step, algorithm)
    assert program.labels == ()
