"""Random shapes, strides, pads, dilations and groups through the native steps, against the float64 references.

Views have gaps and guard bands, as in the case table (kernel_runs.py); a shape that does not fit is refused by name.
"""

import numpy as np
import pytest
from bounds import bound
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kernel_runs import float_isas, nhwc, run_case, single_step

from pipeall._kernels.cpu import algorithms
from pipeall._kernels.cpu.table import choose
from pipeall.errors import ModelError
from pipeall.graph.cases.op_cases import Case
from pipeall.graph.ops import infer_shape, run_graph

SIZES, WINDOW = st.integers(1, 20), st.integers(1, 7)
PAIRS = st.tuples(WINDOW, WINDOW)
PADS = st.tuples(*[st.integers(0, 4)] * 4)
SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def conv(draw):
    groups = draw(st.sampled_from([1, 1, 2, 3, 5]))
    depthwise = draw(st.booleans()) and groups > 1
    cin, cout = (1, 1) if depthwise else (draw(st.integers(1, 40)), draw(st.integers(1, 40)))
    groups *= draw(st.integers(1, 8)) if depthwise else 1
    attrs = dict(
        strides=draw(st.tuples(*[st.integers(1, 4)] * 2)), pads=draw(PADS),
        dilations=draw(st.tuples(*[st.integers(1, 3)] * 2)), groups=groups,
        lo=draw(st.sampled_from([-np.inf, 0.0])), hi=draw(st.sampled_from([np.inf, 6.0])),
    )  # fmt: skip
    constants = ((cout * groups, cin, *draw(PAIRS)), (cout * groups,))
    return "conv", attrs, ((1, cin * groups, draw(SIZES), draw(SIZES)),), constants


@st.composite
def pool(draw):
    op = draw(st.sampled_from(["maxpool", "avgpool"]))
    attrs = dict(kernel=draw(PAIRS), strides=draw(PAIRS), pads=draw(PADS), ceil=draw(st.booleans()))
    attrs |= dict(dilations=draw(PAIRS)) if op == "maxpool" else dict(count_include_pad=draw(st.booleans()))
    return op, attrs, ((1, draw(st.integers(1, 40)), draw(SIZES), draw(SIZES)),), ()


@pytest.mark.parametrize("isa", float_isas())
@SETTINGS
@given(drawn=st.one_of(conv(), pool()), threads=st.integers(1, 3), data=st.data())
def test_any_shape_is_computed_right_or_refused(isa, drawn, threads, data):
    op, attrs, shapes, constants = drawn
    try:
        infer_shape(op, attrs, [*shapes, *constants], "node")
    except ModelError as error:
        assert str(error).startswith("node 'node'")
        return
    case = Case(op, attrs, shapes, constants)
    step = single_step(case)
    assume(step is not None)
    ways = algorithms.candidates(step)
    algorithm = data.draw(st.sampled_from(ways)) if ways else None
    result, graph, inputs = run_case(case, choose((isa, "ref"), "any"), (-1,) * threads, algorithm)
    (expected,) = run_graph(graph, inputs).values()
    error = np.abs(result - nhwc(expected))
    if algorithm in (None, algorithms.GEMM, algorithms.DIRECT):
        assert (error <= nhwc(bound(graph, inputs, expected))).all()
    else:  # test_winograd has the bounds of each tile
        assert error.max() <= 1e-2 * max(1, np.abs(expected).max())
