"""Every line of kernels.inc against the float64 references of the op table, over the one case table.

The transforms of Winograd and Strassen, which only compute a convolution together, have tests of their own
(test_winograd.py, test_strassen.py); so have the measures of a core, which are for no network (below), and kernels of
8-bit integers (test_s8_vectors.py).
"""

from dataclasses import replace

import numpy as np
import pytest
from bounds import bound
from kernel_runs import FLOAT_ISAS, FLOAT_ROWS, nhwc, reference_table, run_case, single_step, supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram, probe

from pipeall._kernels.cpu import kernels, table
from pipeall._kernels.cpu.algorithms import DIRECT
from pipeall._kernels.cpu.cores import CLASSES, CORE_TYPES, UNKNOWN
from pipeall._kernels.cpu.table import OPS, ROWS, KernelRow, choose, explain
from pipeall.errors import ArgumentError, DeviceError
from pipeall.graph.cases.op_cases import CASES
from pipeall.graph.ops import attributes, run_graph
from pipeall.graph.pointwise import BINARY, UNARY
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

MEASURES = ("peak", "stream")
TRAINING = ("gemv_t", "ger")  # test_mlp_kernels
ATTENTION = ("softmax_exp",)  # test_matmul_kernels
RESIZING = ("resample", "upsample")  # test_resize_kernels
KIND_OF_ROW = {"gemm": ("conv",), "gemv": ("conv",), "depthwise": ("conv",), "pool": ("maxpool", "avgpool")}
IR_OPS = {
    "conv": ("conv", "fc"),
    "binary": [op for op, entry in BINARY.items() if entry.floats],
    "unary": [op for op, entry in UNARY.items() if entry.floats],
}
ON_STRIDED = ("reduce", "argmax", "normalize", "softmax_columns")  # test_strided_kernels
BEHIND = ("silu",)  # test_silu
PICTURES = ("picture",)  # test_picture_kernels
COPIES = ("transpose",)  # test_copy_kernels
SPARSE = ("gemm_sparse",)  # test_sparse
RECURRENT = ("lstm", "gru")  # test_recurrent_kernels
ELSEWHERE = (*SPARSE, *RECURRENT, *MEASURES, *TRAINING, *ATTENTION, *RESIZING, *ON_STRIDED, *BEHIND, *PICTURES, *COPIES)


def is_depthwise(case):
    return case.op == "conv" and 1 < case.attrs["groups"] == case.shapes[0][1] == case.constants[0][0]


def algorithm_of(row_op, case):
    """The algorithm that computes a case by the kernel; None where a step has no choice."""
    return DIRECT if row_op == "depthwise" and not is_depthwise(case) else None


def cases_of(row_op):
    for kind in KIND_OF_ROW.get(row_op, (row_op,)):
        for op in IR_OPS.get(kind, (kind,)):
            for case in CASES[op]:
                whole = kind != "binary" or case.shapes[0] == np.broadcast_shapes(*case.shapes, *case.constants)
                if case.types or not whole:  # test_strided_kernels
                    continue
                grouped = kind == "conv" and case.op == "conv" and case.attrs["groups"] > 1
                if kind != "conv" or (grouped if row_op == "depthwise" else not is_depthwise(case)):
                    yield case


@pytest.mark.parametrize(
    "row",
    [row for row in FLOAT_ROWS if not row.op.startswith(("strassen", "winograd", *ELSEWHERE))],
    ids=lambda row: row.name,
)
def test_kernel_matches_reference(row, some):
    if row.isa not in supported_isas():
        pytest.skip(f"this CPU lacks {row.isa}: run the tests on one that has it")
    table = {**reference_table(), (row.op, row.type): row.name}
    cases = [case for case in cases_of(row.op) if single_step(case)]
    assert len(cases) >= 5, f"expected cases for {row.op}, got {len(cases)}"
    for case in some(cases):
        result, graph, inputs = run_case(case, table, (-1,), algorithm_of(row.op, case))
        (expected,) = run_graph(graph, inputs).values()
        error = np.abs(result - nhwc(expected).reshape(result.shape))
        allowed = nhwc(bound(graph, inputs, expected)).reshape(result.shape)
        assert (error <= allowed).all(), f"{case}: error {error.max():.3g}, allowed {allowed.flat[error.argmax()]:.3g}"
        again, _, _ = run_case(case, table, (-1, -1, -1), algorithm_of(row.op, case))
        assert np.array_equal(result, again), f"{case}: three threads give another result than one"


FORMULAS = {  # op -> ulps (elementwise_f32.inc) and the float64 result
    "exp": (2, np.exp),
    "sigmoid": (3, lambda x: 1 / (1 + np.exp(-x))),
    "swish": (4, lambda x: x / (1 + np.exp(-x))),
    "mish": (4, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "sin": (2, np.sin),
    "cos": (2, np.cos),
}


@pytest.mark.parametrize("op", FORMULAS)
@pytest.mark.parametrize("row", [row for row in FLOAT_ROWS if row.op == "unary"], ids=lambda row: row.name)
def test_formulas_at_every_size(row, op):
    """Floats of all magnitudes, within ulps; a power below the least normal float may be 0, and what x is gated by."""
    if row.isa not in supported_isas():
        pytest.skip(f"this CPU lacks {row.isa}: run the tests on one that has it")
    ulps, compute = FORMULAS[op]
    x = np.arange(0, 2**32, 65521, np.uint32).view(np.float32)  # a prime: mantissas of all kinds
    x = np.concatenate([x[np.isfinite(x)], np.linspace(-104, 104, 20011, dtype=np.float32)])
    params = {"op": op, "p0": 1.0, "p1": 0.0}
    step = Step(
        "unary", "u", (View(SLOT_IN, 0, 1, 1, x.size, x.size),), View(SLOT_OUT, 0, 1, 1, x.size, x.size), params
    )
    program = CpuProgram({**reference_table(), ("unary", "f32"): row.name}, (-1,), "test", (0, x.nbytes, x.nbytes))
    program.add(step, None)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        expected = compute(x.astype(np.float64))
        limit = expected.astype(np.float32)
    got = program.run(x)
    assert not np.isnan(got).any() and (got[np.isinf(limit)] == np.inf).all()
    finite = np.isfinite(limit)
    error = np.abs(got[finite] - expected[finite])
    least = np.finfo(np.float32).tiny * np.maximum(1, np.abs(x[finite].astype(np.float64)))
    allowed = ulps * 2.0**-23 * np.abs(expected[finite]) + least
    worst = (error / allowed).argmax()
    assert (error <= allowed).all(), f"{x[finite][worst]}: {got[finite][worst]}, expected {expected[finite][worst]}"


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("channels", [2, 24, 100, 256, 257])
@pytest.mark.parametrize("row", [row for row in FLOAT_ROWS if row.op == "binary"], ids=lambda row: row.name)
def test_a_number_for_each_channel_of_pixels_without_gaps(row, channels, constant):
    """Rows of few channels are repeated for many pixels at once: differences, rounded once, are NumPy's."""
    if row.isa not in supported_isas():
        pytest.skip(f"this CPU lacks {row.isa}: run the tests on one that has it")
    rng = np.random.default_rng(channels)
    a, b = rng.standard_normal((61, 7, channels), np.float32), rng.standard_normal((1, 1, channels), np.float32)
    x, y = View(SLOT_IN, 0, 61, 7, channels, channels), View(SLOT_IN, a.size, 1, 1, channels, channels)
    params = {"op": "sub", "lo": -1.0, "hi": np.inf}
    step = Step("binary", "b", (x,) if constant else (x, y), replace(x, base=SLOT_OUT), params, b if constant else None)
    expected = np.maximum(a - b, np.float32(-1)).reshape(-1)
    for cores in ((-1,), (-1, -1, -1)):
        table = {**reference_table(), ("binary", "f32"): row.name}
        program = CpuProgram(table, cores, "test", (0, a.nbytes + b.nbytes, a.nbytes))
        program.add(step, None)
        assert np.array_equal(program.run(np.concatenate([a.reshape(-1), b.reshape(-1)])), expected)


@pytest.mark.parametrize("row", [row for row in FLOAT_ROWS if row.op in MEASURES], ids=lambda row: row.name)
def test_measure_of_a_core(row):
    """It does what it is counted for: the sum of small integers is exact."""
    if row.isa not in supported_isas():
        pytest.skip(f"this CPU lacks {row.isa}: run the tests on one that has it")
    rounds = 7
    count = row.mr + 2 if row.op == "peak" else row.mr * rounds
    x = np.random.default_rng(0).integers(-9, 10, (count, row.nr)).astype(np.float32)
    *chains, a, b = x
    expected = np.sum(chains) + row.mr * rounds * (a @ b) if row.op == "peak" else x.sum()
    memory = np.pad(x.reshape(-1), (3, 3), constant_values=np.nan)  # as little aligned as can be
    assert probe(row.name, rounds, memory[3:-3]) == expected
    assert probe(row.name, 0, memory[3:-3]) == (np.sum(chains) if row.op == "peak" else 0)


@pytest.mark.parametrize("row", [row for row in ROWS if (row.op, row.type) == ("peak", "s8")], ids=lambda row: row.name)
@pytest.mark.parametrize("a, b", [(0, 5), (1, 1), (127, 127), (127, -128), (90, -3)])
def test_measure_of_products_of_bytes(row, a, b):
    if row.isa not in supported_isas():
        pytest.skip(f"this CPU lacks {row.isa}: run the tests on one that has it")
    for rounds in (0, 1, 7):
        assert probe(row.name, rounds, np.int8([a, b])) == rounds * row.mr * row.nr * a * b


def test_every_op_has_a_reference_kernel():
    assert all(any((row.op, row.type) == key and row.isa == "ref" for row in ROWS) for key in OPS)
    assert all([row.isa for row in ROWS if (row.op, row.type) == key][-1] == "ref" for key in OPS), (
        "the reference comes last"
    )


def test_every_pointwise_op_has_a_formula():
    assert set(kernels.UNARY) == set(UNARY)
    assert set(kernels.BINARY) == {*BINARY, *(entry.swapped for entry in BINARY.values() if entry.swapped)}


def test_choice_follows_the_list():
    assert choose(("ref",), "any core") == reference_table()
    with pytest.raises(DeviceError, match="no gemm kernel"):
        choose((), "any core")


def test_a_row_for_one_core_is_taken_there_and_passed_over_elsewhere(monkeypatch):
    special = KernelRow(op="gemm", type="f32", name="gemm_f32_x", isa="ref", core="cortex-a53", mr=4, nr=8)
    first = next(i for i, row in enumerate(ROWS) if row.isa == "ref")
    monkeypatch.setattr(table, "ROWS", (*ROWS[:first], special, *ROWS[first:]))
    general = next(row for row in ROWS if row.name == reference_table()["gemm", "f32"])

    assert choose(("ref",), "cortex-a53") == {**reference_table(), ("gemm", "f32"): "gemm_f32_x"}
    reasons = dict(explain(("ref",), "cortex-a53"))
    assert reasons[special] == "taken: first that fits" and reasons[general] == "no: gemm_f32_x comes first"

    for core in ("cortex-a72", "unknown"):
        assert choose(("ref",), core) == reference_table()
        reasons = dict(explain(("ref",), core))
        assert reasons[special] == "no: for cortex-a53" and reasons[general] == "taken: first that fits"


def test_a_row_for_a_class_is_taken_on_its_cores(monkeypatch):
    special = KernelRow(op="gemm", type="f32", name="gemm_f32_x", isa="ref", core="in-order", mr=4, nr=8)
    monkeypatch.setattr(table, "ROWS", (special, *ROWS))
    chosen = {core: choose(("ref",), core)["gemm", "f32"] for core in ("cortex-a53", "cortex-a55", "cortex-a76")}
    assert [name == special.name for name in chosen.values()] == [True, True, False]


def test_the_classes_are_of_known_cores():
    assert all(types <= {*CORE_TYPES, UNKNOWN} for types in CLASSES.values())
    assert {row.core for row in ROWS} <= {"any", *CORE_TYPES, *CLASSES}


def nan_step(lo=0.0):
    view = View(SLOT_IN, 0, 2, 2, 8, 8)
    params = dict(kernel=(1, 1), **attributes("conv", lo=lo, hi=6.0))
    return Step("conv", "c", (view,), replace(view, base=SLOT_OUT), params, np.eye(8)[:, :, None, None], np.zeros(8))


@pytest.mark.parametrize("isa", FLOAT_ISAS)
def test_clamp_lets_nan_through(isa):
    """A NaN in a frame must show in the result, not be clamped away."""
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    program = CpuProgram(choose((isa, "ref"), "any core"), (-1,), "test", (0, 128, 128))
    program.add(nan_step())
    x = np.ones(32, np.float32)
    x[9] = np.nan
    out = program.run(x)
    assert np.isnan(out[8:16]).all() and (np.delete(out, range(8, 16)) == 1).all()


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(src=(View(SLOT_IN, 8, 2, 2, 8, 8),)), "at most 128 bytes in the input slot"),
        (dict(dst=View(SLOT_OUT, 0, 2, 2, 8, 9)), "at most 128 bytes in the output slot"),
        (dict(src=(View(7, 0, 2, 2, 8, 8),)), "step c"),
        (dict(src=(View(SLOT_IN, -1, 2, 2, 8, 8),)), "view of positive size"),
        (dict(weight=np.zeros((8, 4, 1, 1))), "weight: expected shape"),
        (dict(bias=np.zeros(3)), "bias: expected shape"),
        (dict(kind="teleport"), "no kernel for teleport"),
    ],
)
def test_a_step_that_does_not_fit_is_refused(change, message):
    program = CpuProgram(reference_table(), (-1,), "test", (0, 128, 128))
    with pytest.raises((ArgumentError, DeviceError), match=message):
        program.add(replace(nan_step(), **change))
