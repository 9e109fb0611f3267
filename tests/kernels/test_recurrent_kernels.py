"""LSTM, GRU and RNN: native steps against float64 references, and onnxruntime."""

from math import inf

import numpy as np
import pytest
from strided_steps import expected, run_op, run_strided, tables

from pipeall import ArgumentError
from pipeall.graph.ops import OPS, attributes
from pipeall.graph.ops.recurrent_ops import ACTIVATIONS

TABLES = tables()
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
RESULTS = {"rnn": ("y", "h"), "gru": ("y", "h"), "lstm": ("y", "h", "c", "yc")}
# Gates are sums of I + H products of about 0.3, rounded to 2^-24 each; activations are 2e-7 off and what is remembered
# shrinks, so that an error does not grow over the steps
BOUND = 2e-5


def operands(op, steps, batch, width, hidden, directions, seed=0):
    rng, rows = np.random.default_rng(seed), GATES[op] * hidden

    def draw(*shape, scale=0.3):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    found = [draw(steps, batch, width, scale=1), draw(directions, rows, width), draw(directions, rows, hidden)]
    found += [draw(directions, 2 * rows), draw(directions, batch, hidden)]
    return found + ([draw(directions, batch, hidden), draw(directions, 3 * hidden)] if op == "lstm" else [])


def attrs_of(op, hidden, direction="forward", **given):
    count, usual = 1 + (direction == "bidirectional"), OPS[op].attrs["activations"]
    zeros = (0.0,) * (count * len(usual))
    given = {"activations": usual * count, "alphas": zeros, "betas": zeros} | given
    return attributes(op, hidden=hidden, direction=direction, **given)


def check(op, arrays, attrs, table, seeds=(None, 0), threads=(1, 3), constants=()):
    with np.errstate(over="ignore"):
        want = expected(op, arrays, attrs)
    for seed in seeds:
        one, *others = (
            run_op(op, arrays, attrs, table, seed=seed, cores=(-1,) * n, constants=constants) for n in threads
        )
        np.testing.assert_allclose(one, want, atol=BOUND * max(1, np.abs(want).max()), rtol=0)
        for other in others:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("op", GATES)
def test_directions_and_results(op, isa):
    for direction in ("forward", "reverse", "bidirectional"):
        directions = 1 + (direction == "bidirectional")
        for steps, batch, width, hidden in ((5, 1, 7, 6), (1, 3, 2, 1), (9, 2, 33, 17)):
            arrays = operands(op, steps, batch, width, hidden, directions)
            for result in RESULTS[op]:
                check(op, arrays, attrs_of(op, hidden, direction, result=result), TABLES[isa])


@pytest.mark.parametrize("isa", TABLES)
def test_usual_cells(isa):
    """Without peepholes, and with the reset behind the product: a kernel computes them."""
    for hidden in (1, 4, 16, 37):
        arrays = operands("lstm", 5, 2, 3, hidden, 2)
        arrays[6][...] = 0
        for result in ("y", "c", "yc"):
            attrs = attrs_of("lstm", hidden, "bidirectional", result=result)
            check("lstm", arrays, attrs, TABLES[isa], constants=(1, 2, 3, 6))
        attrs = attrs_of("gru", hidden, linear_before_reset=True)
        check("gru", operands("gru", 5, 2, 3, hidden, 1), attrs, TABLES[isa])


@pytest.mark.parametrize("op", GATES)
def test_blocks_of_steps_and_shared_products(op):
    """More steps than a block, alone and in a batch; a state wide enough that a team shares its products."""
    table = TABLES[list(TABLES)[-1]]
    check(op, operands(op, 300, 1, 5, 8, 1), attrs_of(op, 8), table, constants=(1, 2, 3))
    check(op, operands(op, 9, 100, 5, 8, 2), attrs_of(op, 8, "bidirectional"), table, constants=(1, 2, 3))
    for batch in (3, 4, 7):  # some for each thread; as many as one tile of the smaller kernel has, and more
        check(op, operands(op, 3, batch, 5, 19, 1), attrs_of(op, 19), table, constants=(1, 2, 3))
    hidden = 260
    arrays = operands(op, 4, 1, 20, hidden, 1)
    arrays[2] *= 0.2  # or a sum of so many grows beyond what activations tell apart
    check(op, arrays, attrs_of(op, hidden), table, constants=(1, 2, 3))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    """A plain layer whose state is not fed back, so that each activation sees numbers from -8 to 8."""
    values = np.linspace(-8, 8, 129, dtype=np.float32)
    arrays = [values.reshape(-1, 1, 1), np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)]
    arrays += [np.zeros((1, 2), np.float32), np.zeros((1, 1, 1), np.float32)]
    for clip in (inf, 2.5):
        attrs = attrs_of("rnn", 1, activations=(name,), alphas=(0.3,), betas=(0.6,), clip=clip)
        for table in TABLES.values():
            got = run_op("rnn", arrays, attrs, table)
            np.testing.assert_allclose(got, expected("rnn", arrays, attrs), atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("option", [True, False])
def test_options_and_clip(option):
    table = next(iter(TABLES.values()))
    for clip in (inf, 0.4):
        for direction in ("forward", "bidirectional"):
            directions = 1 + (direction == "bidirectional")
            attrs = attrs_of("gru", 9, direction, linear_before_reset=option, clip=clip)
            check("gru", operands("gru", 6, 2, 5, 9, directions), attrs, table)
            attrs = attrs_of("lstm", 9, direction, input_forget=option, clip=clip)
            check("lstm", operands("lstm", 6, 2, 5, 9, directions), attrs, table)


@pytest.mark.parametrize("op", GATES)
def test_like_onnxruntime(op):
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    steps, batch, width, hidden = 7, 2, 12, 10
    arrays = operands(op, steps, batch, width, hidden, 2)
    names = ["x", "w", "r", "b", "", "h", "c", "p"][: len(arrays) + 1]
    inputs = dict(zip(filter(None, names), arrays, strict=True))
    node = onnx.helper.make_node(op.upper(), names, ["y"], hidden_size=hidden, direction="bidirectional")
    values = [onnx.helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, v.shape) for k, v in inputs.items()]
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", values, [out]),
        opset_imports=[onnx.helper.make_opsetid("", 14)],
        ir_version=8,
    )
    (want,) = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)
    got = run_op(op, arrays, attrs_of(op, hidden, "bidirectional"), TABLES[list(TABLES)[-1]])
    np.testing.assert_allclose(got, want.transpose(0, 1, 2, 3), atol=BOUND, rtol=0)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"direction": "sideways"}, "one of forward, reverse"),
        ({"result": "c"}, "one of y, h"),
        ({"hidden": 5}, "weights and states of shape"),
        ({"activations": ("sigmoid",)}, "2 activations"),
        ({"activations": ("sigmoid", "swish")}, "one of sigmoid"),
    ],
)
def test_steps_that_do_not_fit_are_refused(change, message):
    arrays = operands("gru", 3, 1, 2, 4, 1)
    with pytest.raises(ArgumentError, match=f"step node \\(gru\\): expected .*{message}"):
        run_strided("gru", arrays, attrs_of("gru", 4) | change, (3, 1, 1, 4), "float32", TABLES["ref"])
