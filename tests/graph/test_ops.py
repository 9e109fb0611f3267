"""The NumPy references and the shape inference of every op, against onnxruntime; malformed nodes, by name."""

import numpy as np
import onnx_models
import pytest
from bounds import U, bound
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeall.errors import ArgumentError, ModelError
from pipeall.graph import ops
from pipeall.graph.cases.cases_rows import RECURRENT
from pipeall.graph.cases.op_cases import CASES, CHANNELS, INDEXING, SAMPLING, Case, case_graph

INF = float("inf")
ELSEWHERE = {group[0].op for group in (*INDEXING, *SAMPLING, *RECURRENT)}  # in test_structure_ops
ALL_CASES = [case for op, group in CASES.items() if op not in ELSEWHERE for case in group]
# What onnxruntime has no kernel for, or crashes on (integers divided by 0); a clamp of integers by fractions
NO_ORACLE = dict(mod="float32 int", fmod="int", div="int", pow="int", shiftleft="int", shiftright="int", where="bool")


def has_oracle(case: Case) -> bool:
    """Whether onnxruntime computes a case; test_strided_kernels covers the rest."""
    dtype = case.types[-1] if case.types else "float32"
    if case.op == "picture":  # test_picture compares it with Pillow and torch
        return False
    if case.op == "cast":
        return case.types[0][:5] != "float" or case.attrs["to"] != "uint8"  # of negative numbers: undefined in ONNX
    whole = "int" in dtype
    if any(part in dtype for part in NO_ORACLE.get(case.op, "").split()):
        return False
    bounds = [case.attrs.get(side, INF) for side in ("lo", "hi")]
    fractions = any(bound % 1 for bound in bounds if abs(bound) < INF)
    return not whole or (dtype in ("int32", "int64") and not fractions)


CONV = ops.attributes("conv")
POOL = dict(kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), ceil=False)


def sliding_error(case: Case, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """onnxruntime slides LRN's sum of squares along the channels: two roundings of at most the largest sum per step."""
    size, alpha, beta, bias = (case.attrs[name] for name in ("size", "alpha", "beta", "bias"))
    sums = alpha / size * min(size, x.shape[1]) * (x.astype(np.float64) ** 2).max(axis=1, keepdims=True)
    return np.abs(y) * beta / bias * 2 * x.shape[1] * U * (bias + sums)


def check_against_onnxruntime(case: Case) -> None:
    graph, inputs = case_graph(case)
    with np.errstate(all="ignore"):
        expected = ops.run_graph(graph, inputs)["y"]
    got = onnx_models.run(onnx_models.of_graph(graph), inputs)["y"]
    assert got.shape == expected.shape == graph.outputs[0].shape
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    error, limit = np.abs(got - expected), bound(graph, inputs, expected)
    if case.op == "lrn":
        limit = limit + sliding_error(case, inputs["x0"], expected)
    assert np.all(error <= limit), f"{case}: worst error {error.max():.3g}, bound there {limit[error > limit][0]:.3g}"


@pytest.mark.parametrize("case", list(filter(has_oracle, ALL_CASES)), ids=str)
def test_reference_agrees_with_onnxruntime(case):
    check_against_onnxruntime(case)


@st.composite
def windows(draw, most_dilation=3):
    """Image size, kernel, stride, dilation and pads of both axes such that at least one window fits."""
    size, kernel, stride, dilation, before, after = [], [], [], [], [], []
    for _ in range(2):
        k, d = draw(st.integers(1, 5)), draw(st.integers(1, most_dilation))
        reach = d * (k - 1) + 1
        b, a = draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))
        size.append(draw(st.integers(max(d, reach - b - a), 13)))
        kernel.append(k)
        stride.append(draw(st.integers(1, 4)))
        dilation.append(d)
        before.append(b)
        after.append(a)
    pads = (*before, *after)
    return tuple(size), tuple(kernel), dict(strides=tuple(stride), pads=pads, dilations=tuple(dilation))


@settings(max_examples=150, deadline=None)
@given(windows(), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_any_conv_geometry_agrees_with_onnxruntime(window, groups, c_in, c_out, residual):
    size, kernel, attrs = window
    attrs |= dict(groups=groups, lo=-1.0, hi=2.0)
    constants = ((c_out * groups, c_in, *kernel), (c_out * groups,))
    x = (1, c_in * groups, *size)
    out = ops.infer_shape("conv", attrs, [x, *constants], "conv")
    check_against_onnxruntime(Case("conv", attrs, (x, out) if residual else (x,), constants))


@settings(max_examples=150, deadline=None)
@given(windows(), st.booleans())
def test_any_maxpool_geometry_agrees_with_onnxruntime(window, ceil):
    size, kernel, attrs = window
    check_against_onnxruntime(Case("maxpool", attrs | dict(kernel=kernel, ceil=ceil), ((1, 3, *size),)))


@settings(max_examples=150, deadline=None)
@given(windows(most_dilation=1), st.booleans(), st.booleans())
def test_any_avgpool_geometry_agrees_with_onnxruntime(window, ceil, count_include_pad):
    size, kernel, attrs = window
    del attrs["dilations"]
    attrs |= dict(kernel=kernel, ceil=ceil, count_include_pad=count_include_pad)
    check_against_onnxruntime(Case("avgpool", attrs, ((1, 3, *size),)))


# ---- graphs ----


def test_run_graph_returns_outputs_or_every_tensor_in_the_asked_type():
    graph, inputs = case_graph(Case("clip", dict(lo=0.0, hi=1.0), ((1, 4),)))
    assert set(ops.run_graph(graph, inputs)) == {"y"}
    every = ops.run_graph(graph, inputs, np.float32, all_tensors=True)
    assert set(every) == {"x0", "y"} and every["y"].dtype == np.float32


@pytest.mark.parametrize("inputs", [{}, {"x0": np.zeros((1, 5))}, {"x0": np.zeros((1, 4)), "z": np.zeros(1)}])
def test_run_graph_names_the_expected_inputs(inputs):
    graph, _ = case_graph(Case("sigmoid", {}, ((1, 4),)))
    with pytest.raises(ArgumentError, match=r"expected inputs \{'x0': \(1, 4\)\}"):
        ops.run_graph(graph, inputs)


def test_macs_count_one_product_per_weight_and_output():
    assert [macs_of(case) for case in CASES["conv"][:1]] == [35 * 1 * 96]
    grouped = Case("conv", CONV | dict(groups=2), ((1, 4, 5, 5),), ((6, 2, 3, 3), (6,)))
    assert macs_of(grouped) == 6 * 3 * 3 * (2 * 3 * 3)  # 3 x 3 outputs of 6 channels, 2 x 3 x 3 products each
    assert macs_of(CASES["fc"][0]) == CHANNELS[0] * CHANNELS[-1]
    rows = Case("fc", ops.attributes("fc", axis=2), ((2, 5, 33),), ((17, 33), (17,)))
    assert macs_of(rows) == 2 * 5 * 33 * 17
    deconv = Case("deconv", DECONV | dict(groups=2), ((1, 4, 5, 6),), ((4, 3, 2, 2), (6,)))
    assert macs_of(deconv) == 4 * 5 * 6 * 3 * 2 * 2
    assert macs_of(CASES["maxpool"][0]) == 0


def macs_of(case: Case) -> int:
    graph, _ = case_graph(case)
    return ops.macs(graph.nodes[0], graph)


# ---- malformed nodes ----

WEIGHT, BIAS, IMAGE = (8, 3, 3, 3), (8,), (1, 3, 5, 5)
DECONV = ops.attributes("deconv")
PAD = ops.attributes("pad", pads_begin=(0,) * 4, pads_end=(0,) * 4)
MALFORMED = {
    "unknown op": ("guess", {}, [IMAGE], "unknown op 'guess'"),
    "missing attribute": ("clip", dict(lo=0.0), [IMAGE], "expected attributes lo, hi, got lo"),
    "surplus attribute": ("sigmoid", dict(axis=1), [IMAGE], "expected attributes none, got axis"),
    "too few inputs": ("add", dict(lo=-INF, hi=INF, swapped=False), [IMAGE], "expected 2 to 2 inputs, got 1"),
    "empty input": ("sigmoid", {}, [(1, 0, 5, 5)], "below 1"),
    "conv rank": ("conv", CONV, [(1, 3, 5), WEIGHT, BIAS], r"must be \(N, C, H, W\)"),
    "weight rank": ("conv", CONV, [IMAGE, (8, 3, 3), BIAS], "weight must be"),
    "kernel beyond input": ("conv", CONV, [(1, 3, 2, 5), WEIGHT, BIAS], "kernel height 3"),
    "dilated kernel beyond input": ("conv", CONV | dict(dilations=(1, 3)), [IMAGE, WEIGHT, BIAS], "kernel width 7"),
    "groups": ("conv", CONV | dict(groups=2), [IMAGE, WEIGHT, BIAS], "2 groups do not divide 3"),
    "zero groups": ("conv", CONV | dict(groups=0), [IMAGE, WEIGHT, BIAS], "groups must be"),
    "channels": ("conv", CONV, [(1, 4, 5, 5), WEIGHT, BIAS], "needs 3 input channels, got 4"),
    "bias": ("conv", CONV, [IMAGE, WEIGHT, (7,)], r"bias must be \(8,\)"),
    "residual": ("conv", CONV, [IMAGE, WEIGHT, BIAS, (1, 8, 5, 5)], r"residual must be \(1, 8, 3, 3\)"),
    "zero stride": ("conv", CONV | dict(strides=(0, 1)), [IMAGE, WEIGHT, BIAS], "strides must be 2 integers >= 1"),
    "three strides": ("conv", CONV | dict(strides=(1, 1, 1)), [IMAGE, WEIGHT, BIAS], "strides must be"),
    "negative pads": ("conv", CONV | dict(pads=(0, -1, 0, 0)), [IMAGE, WEIGHT, BIAS], "pads must be"),
    "clamp": ("conv", CONV | dict(lo=1.0, hi=0.0), [IMAGE, WEIGHT, BIAS], "lo must not exceed hi"),
    "nan": ("leakyrelu", dict(alpha=float("nan")), [IMAGE], "alpha must be a number"),
    "flag": ("avgpool", POOL | dict(ceil=1, count_include_pad=False), [IMAGE], "ceil must be True or False"),
    "pool padding": ("avgpool", POOL | dict(pads=(0, 2, 0, 0), count_include_pad=True), [IMAGE], "padding 2"),
    "pool dilation": (
        "maxpool",
        POOL | dict(pads=(1,) * 4, dilations=(3, 3)),
        [(1, 1, 2, 2)],
        "dilation 3 exceeds the input",
    ),
    "fc input": ("fc", dict(axis=1, lo=-INF, hi=INF), [IMAGE, (10, 76), (10,)], "needs rows of 76, got 75"),
    "lrn size": ("lrn", dict(size=0, alpha=1.0, beta=1.0, bias=1.0), [IMAGE], "size must be"),
    "softmax axis": ("softmax", dict(axis=4), [IMAGE], "axis must be"),
    "broadcast": ("add", dict(lo=-INF, hi=INF, swapped=False), [IMAGE, (1, 4, 1, 1)], "do not broadcast"),
    "ranks": ("add", dict(lo=-INF, hi=INF, swapped=False), [(3, 5, 5), IMAGE], "must have the same rank"),
    "deconv weight": ("deconv", DECONV, [IMAGE, WEIGHT, (3,)], "needs 8 input channels, got 3"),
    "deconv output": ("deconv", DECONV | dict(pads=(9,) * 4), [IMAGE, (3, 8, 3, 3), BIAS], "leave nothing"),
    "output padding": ("deconv", DECONV | dict(output_padding=(1, 0)), [IMAGE, (3, 8, 3, 3), BIAS], "smaller than"),
    "expand": ("expand", dict(shape=(1, 4, 5, 5)), [IMAGE], "does not broadcast"),
    "pad mode": ("pad", PAD | dict(mode="mirror"), [IMAGE], "mode must be one of"),
    "product": ("matmul", dict(alpha=1.0), [(2, 3), (4, 2)], "cannot multiply"),
    "concat": ("concat", dict(axis=1), [IMAGE, (1, 3, 5, 4)], "shapes differ"),
    "reshape size": ("reshape", dict(shape=(1, 74)), [IMAGE], "cannot reshape"),
    "perm": ("transpose", dict(perm=(0, 1, 1, 3)), [IMAGE], "does not permute"),
    "slice": ("slice", dict(axis=1, start=2, stop=4, step=1), [IMAGE], "stop must be"),
    "pad": ("pad", PAD | dict(pads_begin=(0, 0)), [IMAGE], "pads_begin must be 4"),
    "shuffle": ("shuffle", dict(groups=2), [IMAGE], "2 groups do not divide 3"),
    "absurd output": ("pad", PAD | dict(pads_begin=(0,), pads_end=(2**31,)), [(1,)], "elements"),
}


@pytest.mark.parametrize("malformed", MALFORMED)
def test_malformed_node_is_refused_by_name(malformed):
    op, attrs, shapes, message = MALFORMED[malformed]
    with pytest.raises(ModelError, match=message) as error:
        ops.infer_shape(op, attrs, shapes, "layer7")
    assert "'layer7'" in str(error.value) and "\n" not in str(error.value)
