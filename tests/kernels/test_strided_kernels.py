"""Kernels of strided operands against NumPy: in float64 where they compute in floats, exactly where in integers."""

import numpy as np
import pytest
from bounds import U
from pipeall._kernels.cpu.kernels import CpuProgram
from strided_steps import everywhere, random_floats, random_of, run_strided, tables

from pipeall import ArgumentError
from pipeall.graph.ops import OPS
from pipeall.graph.pointwise import BINARY, UNARY
from pipeall.steps import SLOT_IN, SLOT_OUT, TYPES, Step, Strided

TABLE = next(iter(tables().values()))
SHAPES = [(5,), (3, 1, 70), (2, 3, 4, 17), (1000,), (2, 300, 5), (40, 700)]
INTEGERS = ("int8", "uint8", "int32", "int64")
SWAPPED = {entry.swapped: op for op, entry in BINARY.items() if entry.swapped}
INF = float("inf")


def params_of(op, sample):
    p0, p1 = (*sample, 0.0, 0.0)[:2]
    return dict(op=op, p0=p0, p1=p1, lo=-INF, hi=INF)


# ---- single elements ----


@pytest.mark.parametrize("op", [op for op, entry in UNARY.items() if entry.floats])
def test_function_of_floats(op):
    entry, rng = UNARY[op], np.random.default_rng(1)
    for seed, shape in enumerate(SHAPES):
        for sample in entry.samples:
            x = random_floats(rng, shape, entry.domain)
            expected = OPS[op].compute(dict(zip(entry.parameters, sample, strict=True)), x.astype(np.float64))
            limit = {"clip": 1, "gelu": 12}.get(op, 4) * U * (np.abs(expected) + (op != "clip"))
            for isa, y in everywhere(
                "pointwise", params_of(op, sample), [x], shape, "float32", seed=seed, plain=seed == 3
            ):
                error = np.abs(y - expected)
                assert (error <= limit).all(), f"{isa} {shape}: error {error.max():.3g} at {x.flat[error.argmax()]}"


RELATIVE = {"exp": 3, "log": 2, "sqrt": 1, "reciprocal": 1, "swish": 5, "mish": 8, "softplus": 6, "gelu_tanh": 100}


@pytest.mark.parametrize("op", RELATIVE)
def test_relative_error_over_many_magnitudes(op):
    """In units of the last place, where the result is a normal number."""
    rng = np.random.default_rng(2)
    x = np.exp(rng.uniform(-20, 4.4, 4000)).astype(np.float32)
    if op not in ("log", "sqrt"):
        x[::2] *= -1
    sample, exact = UNARY[op].samples[0], x.astype(np.longdouble)
    e = np.exp(np.minimum(exact, 40))
    with np.errstate(over="ignore"):
        expected = {  # as they do not cancel
            "swish": lambda: exact / (1 + np.exp(-exact)),
            "mish": lambda: exact * (e * (e + 2)) / (e * (e + 2) + 2),
            "gelu_tanh": lambda: exact / (1 + np.exp(-2 * (2 / np.pi) ** 0.5 * (exact + 0.044715 * exact**3))),
        }.get(op, lambda: OPS[op].compute({}, exact))()
    normal = np.abs(expected) > 1e-36
    for isa, y in everywhere("pointwise", params_of(op, sample), [x], x.shape, "float32"):
        error = np.abs(y - expected)[normal] / (2 * U * np.abs(expected[normal]))
        assert error.max() <= RELATIVE[op], f"{isa}: {error.max():.3g} ulp at {x[normal][error.argmax()]}"
        assert np.abs(y[~normal]).max(initial=0) <= 1e-35


def test_functions_where_they_end():
    x = np.array([0, -0.0, INF, -INF, np.nan, -1, 1e-42, 88.5, 89, -103.2, -110, 3e38, -3e38, 2.5, -0.5], np.float32)
    for op in "exp log sqrt reciprocal abs neg sign floor ceil round softplus".split():
        with np.errstate(all="ignore"):
            expected = OPS[op].compute({}, x.astype(np.float64)).astype(np.float32)
        for isa, y in everywhere("pointwise", params_of(op, ()), [x], x.shape, "float32"):
            np.testing.assert_allclose(y, expected, 4e-7, 2e-38 if op == "softplus" else 2e-45, err_msg=f"{isa} {op}")
    for op in "swish mish gelu_tanh".split():
        for isa, y in everywhere("pointwise", params_of(op, UNARY[op].samples[0]), [x], x.shape, "float32"):
            assert np.isnan(y[4]) and y[2] == INF and abs(y[12]) == 0 and y[11] == x[11], f"{isa} {op}: {y}"


@pytest.mark.parametrize("op", [*(op for op, entry in BINARY.items() if entry.floats), *SWAPPED])
def test_two_operands_of_floats(op):
    entry, swapped = BINARY[SWAPPED.get(op, op)], op in SWAPPED
    rng = np.random.default_rng(1)
    for seed, (a_shape, b_shape) in enumerate(PAIRS):
        domains = [entry.domain, (-INF, INF)]
        a, b = (
            random_floats(rng, s, d) for s, d in zip((a_shape, b_shape), domains[:: -1 if swapped else 1], strict=True)
        )
        shape = np.broadcast_shapes(a_shape, b_shape)
        lo, hi = [(-INF, INF), (-1.0, 2.0), (0.0, INF)][seed % 3]
        attrs = dict(lo=lo, hi=hi, swapped=swapped)
        expected = OPS[SWAPPED.get(op, op)].compute(attrs, a.astype(np.float64), b.astype(np.float64))
        params = dict(op=op, p0=0.0, p1=0.0, lo=lo, hi=hi)
        for constants in ((), (1,), (0,)) if seed < 2 else ((),):
            for isa, y in everywhere("pointwise", params, [a, b], shape, "float32", seed=seed, constants=constants):
                assert (np.abs(y - expected) <= 2 * U * np.abs(expected)).all(), f"{isa} {a_shape} {b_shape}"


PAIRS = [
    ((7, 33), (7, 33)),
    ((3, 5, 40), (1, 5, 1)),
    ((1, 5, 1), (3, 5, 40)),
    ((1, 1, 300), (2, 9, 1)),
    ((2, 1), (1, 400)),
    ((1, 1), (600, 3)),
    ((1,), (1,)),
    ((6, 1, 5), (6, 4, 5)),
    ((1, 1), (1, 1)),
    ((20000,), (20000,)),
]


def typed_cases():
    for op, entry in UNARY.items():
        for sample in entry.samples:
            yield from ((op, dtype, sample) for dtype in entry.takes if not entry.floats or dtype != "float32")
    for op, entry in BINARY.items():
        yield from ((op, dtype, ()) for dtype in entry.takes if not entry.floats or dtype != "float32")


@pytest.mark.parametrize(("op", "dtype", "sample"), list(typed_cases()), ids=str)
def test_elements_of_other_types(op, dtype, sample):
    """Exactly, from one end of the type to the other, division by zero included."""
    rng, unary = np.random.default_rng(3), op in UNARY
    for seed, shapes in enumerate([((s,) for s in SHAPES), PAIRS][not unary]):
        shapes = tuple(shapes)
        operands = [random_of(rng, shape, dtype) for shape in shapes]
        if op in ("isnan", "isinf"):
            operands[0].flat[::3] = rng.choice([np.nan, INF, -INF], operands[0].flat[::3].size)
        if "shift" in op:
            operands[1] = rng.integers(0, 70 if dtype == "int64" else 9, shapes[1]).astype(dtype)
        if op in ("equal", "greaterequal"):
            operands[1].flat[::2] = operands[0].flat[0]
        params, attrs = params_of(op, sample), dict(zip(UNARY[op].parameters, sample, strict=True)) if unary else {}
        if not unary and BINARY[op].clamped:
            params["lo"], params["hi"] = [(-INF, INF), (-3.5, 90.0), (0.0, INF)][seed % 3]
            attrs = dict(lo=params["lo"], hi=params["hi"], swapped=False)
        with np.errstate(all="ignore"):
            expected = OPS[op].compute(attrs, *operands)
        for isa, y in everywhere("pointwise", params, operands, expected.shape, str(expected.dtype), seed=seed):
            np.testing.assert_array_equal(y, expected, f"{isa} {shapes}")


@pytest.mark.parametrize("dtype", TYPES)
def test_choice(dtype):
    rng = np.random.default_rng(4)
    shapes = [
        ((40, 9), (40, 9), (40, 9)),
        ((1, 9), (40, 1), (1, 1)),
        ((300,), (1,), (300,)),
        ((1, 1), (5, 400), (1, 400)),
    ]
    for seed, (c, a, b) in enumerate(shapes):
        operands = [random_of(rng, c, "bool"), random_of(rng, a, dtype), random_of(rng, b, dtype)]
        expected = np.where(*operands)
        for _, y in everywhere(
            "pointwise", dict(op="where"), operands, expected.shape, dtype, seed=seed, plain=seed == 2
        ):
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_cast(source, target):
    """Between floats the nearest, ties to even; to integers the whole part, or the nearest end; a bool is x != 0."""
    rng = np.random.default_rng(5)
    for seed, shape in enumerate([(700,), (33, 40)]):
        x = random_of(rng, shape, source)
        if source.startswith("float"):
            bits = rng.integers(0, 2**16, shape).astype(np.uint16).view(np.float16)
            special = np.resize(
                [INF, -INF, np.nan, 1e9, -1e9, 9e18, 1e19, 2.5, -0.7, 255.9, 65519, 65520, 6e-8, 2e-8], shape
            )
            with np.errstate(all="ignore"):
                x = np.where(rng.random(shape) < 0.5, bits, special).astype(source)
        with np.errstate(all="ignore"):
            expected = x.astype(target)
            if source.startswith("float") and target in INTEGERS:
                expected = OPS["cast"].compute(dict(to=target), x)
        for _, y in everywhere("pointwise", dict(op="cast"), [x], shape, target, seed=seed, plain=seed == 0):
            np.testing.assert_array_equal(y, expected)


# ---- reductions ----

FOLDED = [
    ((5000,), (0,)),
    ((300, 7), (1,)),
    ((70, 3), (1,)),
    ((35, 21), (1,)),
    ((21, 35), (0,)),
    ((9, 40, 6, 5), (1, 2)),
    ((9, 40, 6, 5), (0, 3)),
    ((2, 1, 30, 600), (0, 2)),
    ((3, 200000), (1,)),
    ((70000, 20), (0,)),
    ((40, 50, 8), (0, 1)),
    ((4, 5, 6), ()),
    ((4, 5, 6), (0, 1, 2)),
]
HOW = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "l1": lambda x, axis: np.abs(x).sum(axis),
    "l2": lambda x, axis: np.sqrt((x**2).sum(axis)),
    "sumsquare": lambda x, axis: (x**2).sum(axis),
    "logsum": lambda x, axis: np.log(x.sum(axis)),
    "logsumexp": lambda x, axis: x.max(axis) + np.log(np.exp(x - x.max(axis, keepdims=True)).sum(axis)),
    "prod": np.prod,
}


def reduced_shape(shape, axes, keepdims):
    return tuple(1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("shape", "axes"), FOLDED, ids=str)
def test_reduction_of_floats(shape, axes, how):
    """At most 4096 elements are summed in float32, by at least 8 chains: some 520 roundings of sums of |x|."""
    rng = np.random.default_rng(6)
    x = random_floats(rng, shape)
    if how == "logsum":
        x = np.abs(x) + np.float32(0.1)
    if how == "prod":
        x = np.exp(x / 100).astype(np.float32)
    exact = x.astype(np.float64)
    expected = HOW[how](exact, axis=axes)
    count = np.prod([shape[d] for d in axes], dtype=int)
    chain = min(count, 4096) / 8 + 16
    size = {"sum": np.abs(exact).sum(axis=axes), "mean": np.abs(exact).sum(axis=axes) / count}.get(
        how, np.abs(expected)
    )
    limit = {
        "max": 0,
        "min": 0,
        "logsum": (chain + 4 + np.abs(expected)) * U,
        "logsumexp": (chain + 40 + np.abs(expected)) * U,
    }
    limit = limit.get(how, (chain if how != "prod" else count + 8) * U * size + U * np.abs(expected))
    for seed, (keepdims, plain) in enumerate([(True, True), (False, False), (True, False)]):
        out = reduced_shape(shape, axes, keepdims)
        for isa, y in everywhere(
            "reduce", dict(how=how, axes=axes, keepdims=keepdims), [x], out, "float32", seed=seed, plain=plain
        ):
            error = np.abs(y.reshape(expected.shape) - expected)
            assert (error <= limit).all(), f"{isa}: error {error.max():.3g} of {np.abs(expected).max():.3g}"


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@pytest.mark.parametrize("how", ["sum", "max", "min", "prod", "l1", "sumsquare", "mean"])
def test_reduction_of_integers(how, dtype):
    if dtype == "bool" and how not in ("max", "min"):
        with pytest.raises(ArgumentError, match="operands of"):
            run_strided("reduce", [np.ones(3, bool)], dict(how=how, axes=(0,), keepdims=True), (1,), dtype, TABLE)
        return
    rng = np.random.default_rng(7)
    for seed, (shape, axes) in enumerate([((40, 9, 5), (1,)), ((3, 900), (1,)), ((300, 3), (0,)), ((4, 5, 6), (0, 2))]):
        x = random_of(rng, shape, dtype)
        wide = x if dtype == "bool" else x.astype(np.int64)
        if how == "mean":
            count = np.prod([shape[d] for d in axes])
            total = wide.sum(axis=axes)
            expected = np.where(total < 0, -(-total // count), total // count).astype(dtype)
        else:
            expected = HOW[how](wide, axis=axes).astype(dtype)
        out = reduced_shape(shape, axes, False)
        for _, y in everywhere("reduce", dict(how=how, axes=axes, keepdims=False), [x], out, dtype, seed=seed):
            np.testing.assert_array_equal(y, expected)


def test_nan_and_infinity_show_in_a_reduction():
    x = np.ones((8, 700), np.float32)
    x[0, 3], x[1, 699], x[2, 5], x[3], x[4, 9] = np.nan, np.nan, INF, -INF, -INF
    for how in ("max", "min", "sum", "logsumexp"):
        with np.errstate(invalid="ignore"):
            expected = HOW[how](x.astype(np.float64), axis=1)
        expected[2:4] = {"logsumexp": (INF, -INF)}.get(how, expected[2:4])
        for data, axis in ((x, 1), (x.T, 0)):
            for plain in (True, False):
                params = dict(how=how, axes=(axis,), keepdims=False)
                for _, y in everywhere("reduce", params, [np.ascontiguousarray(data)], (8,), "float32", plain=plain):
                    np.testing.assert_allclose(y, expected, 1e-6, err_msg=how)


PLACED = [((9, 700), 1), ((700, 9), 0), ((5, 6, 7), 1), ((300, 40), 0), ((1, 4), 0), ((2, 70, 21), 2), ((100, 5), 1)]
PLACED += [((150, n), 1) for n in (1, 2, 4, 16, 19, 32, 33, 64, 65)]


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("how", ["max", "min"])
def test_place_of_an_extreme(how, dtype):
    rng = np.random.default_rng(8)
    for seed, (shape, axis) in enumerate(PLACED):
        x = np.round(random_of(rng, shape, dtype)) if dtype == "float32" else random_of(rng, shape, dtype)
        if dtype == "float32" and seed == 0:
            x[2, 5], x[2, 9] = np.nan, np.nan
        for last in (False, True):
            turned = np.flip(x, axis) if last else x
            expected = getattr(np, f"arg{how}")(turned, axis)
            expected = shape[axis] - 1 - expected if last else expected
            for plain in (True, False):
                params = dict(how=how, axis=axis, keepdims=True, last=last)
                out = reduced_shape(shape, (axis,), True)
                for _, y in everywhere("arg", params, [x], out, "int64", seed=seed, plain=plain):
                    np.testing.assert_array_equal(y.squeeze(axis), expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("n", [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 21, 33, 64, 65, 127, 128, 129, 4096, 4097, 9000])
def test_lines_of_every_length(n, axis):
    """Whole numbers, many of them equal, whose sums are exact; 19 lines, some with NaN, of which one only of NaN."""
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (19, n)).astype(np.float32)
    x[2, n // 2], x[18, -1], x[7, 0], x[9], x[11] = np.nan, np.nan, -INF, -INF, np.nan
    data = np.ascontiguousarray(x if axis else x.T)
    for how, function in (("sum", np.sum), ("max", np.max), ("min", np.min)):
        params = dict(how=how, axes=(axis,), keepdims=False)
        for isa, y in everywhere("reduce", params, [data], (19,), "float32", plain=True):
            np.testing.assert_array_equal(y, function(data, axis=axis), f"{isa} {how}")
    for how, last in (("max", False), ("max", True), ("min", False), ("min", True)):
        expected = getattr(np, f"arg{how}")(np.flip(data, axis) if last else data, axis)
        params = dict(how=how, axis=axis, keepdims=False, last=last)
        for isa, y in everywhere("arg", params, [data], (19,), "int64", plain=True):
            np.testing.assert_array_equal(y, n - 1 - expected if last else expected, f"{isa} {how} {last}")


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sum(exclusive, reverse, dtype):
    rng = np.random.default_rng(9)
    for seed, (shape, axis) in enumerate([((3, 2000), 1), ((2000, 3), 0), ((5, 6, 7), 1), ((20, 600), 0)]):
        x = random_floats(rng, shape) if dtype == "float32" else rng.integers(-99, 99, shape).astype(dtype)
        turned = np.flip(x, axis) if reverse else x
        wide = turned.astype(np.float64 if dtype == "float32" else dtype)
        sums = np.cumsum(wide, axis, dtype=wide.dtype)
        expected = sums - wide if exclusive else sums
        expected = np.flip(expected, axis) if reverse else expected
        params = dict(axis=axis, exclusive=exclusive, reverse=reverse)
        for plain in (True, False):
            for _, y in everywhere("cumsum", params, [x], shape, dtype, seed=seed, plain=plain):
                assert (np.abs(y - expected) <= U * np.abs(expected) + 1e-12 * (dtype == "float32")).all()


# ---- what does not fit ----

X = np.ones((4, 5), np.float32)


@pytest.mark.parametrize(
    ("kind", "params", "shape", "dtype", "message"),
    [
        ("pointwise", dict(op="teleport"), (4, 5), "float32", "expected one of"),
        ("pointwise", dict(op="not"), (4, 5), "bool", "types that not takes"),
        ("pointwise", dict(op="exp", p0=0, p1=0), (4, 5), "int32", "types that exp takes"),
        ("pointwise", dict(op="add", lo=0, hi=1), (4, 5), "float32", "2 operands, got 1"),
        ("reduce", dict(how="sum", axes=(2,), keepdims=True), (4, 1), "float32", "different axes below 2"),
        ("reduce", dict(how="sum", axes=(1, 1), keepdims=True), (4, 1), "float32", "different axes"),
        ("reduce", dict(how="median", axes=(1,), keepdims=True), (4, 1), "float32", "one of sum"),
        ("reduce", dict(how="sum", axes=(1,), keepdims=True), (4,), "float32", "a result of .4, 1."),
        ("reduce", dict(how="sum", axes=(1,), keepdims=False), (4,), "int64", "a result of float32"),
        ("arg", dict(how="max", axis=1, keepdims=False, last=False), (4,), "int32", "a result of int64"),
        ("arg", dict(how="max", axis=-1, keepdims=False, last=False), (4,), "int64", "different axes"),
        ("cumsum", dict(axis=0, exclusive=False, reverse=False), (4, 6), "float32", "a result of"),
        ("softmax_nd", dict(axis=0), (5, 4), "float32", "a result of"),
        ("layernorm_nd", dict(axes=(5,), epsilon=1e-5, center=True), (4, 5), "float32", "different axes"),
    ],
)
def test_a_step_that_does_not_fit_is_refused(kind, params, shape, dtype, message):
    with pytest.raises(ArgumentError, match=f"step node.*{message}"):
        run_strided(kind, [X], params, shape, dtype, TABLE)


def test_an_operand_that_is_broadcast_without_end_is_refused():
    """It takes no memory, but for ever."""
    src, dst = Strided(SLOT_IN, 0, (3, 2**40), (1, 0)), Strided(SLOT_OUT, 0, (3, 1), (1, 1))
    program = CpuProgram(TABLE, (-1,), "test", (0, 64, 64))
    with pytest.raises(ArgumentError, match=r"^step s \(reduce\): expected at most 2147483647 elements"):
        program.add(Step("reduce", "s", (src,), dst, dict(how="sum", axes=(1,), keepdims=True)))
