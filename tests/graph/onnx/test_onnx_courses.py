"""Networks that are no plain list of operators on tensors: branches, turns, sequences, optional values, lots."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_models import refusal, run, saved

from pipeall import Engine, load
from pipeall.graph.ops import run_graph

X = "float[2,4] x"
FRAME = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
K = dict(
    half=np.float32(0.5), zero=np.array(0), one=np.array(1), last=np.array(-1), three=np.array(3), six=np.array(6),
    parts=np.array([1, 3]), limit=np.float32(0.6), row=np.ones((1, 4), np.float32), nan=np.float32(np.nan),
    inf=np.float32(np.inf), two=np.array([1, 2]),
)  # fmt: skip


def parsed(body, inputs=X, outputs="float y", opset=17):
    graph = onnx.parser.parse_graph(f"test ({inputs}) => ({outputs}) {{ {body} }}")
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in K.items() if name in body
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees(proto, tmp_path, feeds):
    """The reference and the engine make what onnxruntime does; floats within a few roundings."""
    graph, wanted = load(saved(proto, tmp_path)), run(proto, feeds)
    given = {tensor.name: feeds[tensor.name] for tensor in graph.inputs}
    with Engine(graph) as engine:
        made = engine(given)
    made = made if isinstance(made, dict) else {graph.outputs[0].name: made}
    with np.errstate(invalid="ignore"):
        reference = run_graph(graph, given)
    for results in (made, reference):
        for name, array in wanted.items():
            assert results[name].shape == array.shape
            np.testing.assert_allclose(results[name], array, rtol=8 * 2.0**-24, atol=1e-7)
    assert all(made[name].dtype == array.dtype for name, array in wanted.items())


def branches(then, other, condition="c"):
    """An If, y, whose branches make p and q."""
    bodies = f"then_branch = a () => (float p) {{ {then} }}, else_branch = b () => (float q) {{ {other} }}"
    return f"y = If({condition}) <{bodies}>"


NESTED = "q = If(d) <then_branch = e () => (float r) { r = Abs(x) }, else_branch = f () => (float t) { t = Neg(x) }>"
CONSTANTS = [f"{name} = Constant<value = float[2] {{{name == 'p':d}, 2}}>()" for name in "pq"]


# ---- branches ----


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        branches("p = Relu(x)", "q = Neg(x)"),
        "r = Relu(x) " + branches("p = Add(r, half)", "q = Identity(x)"),  # both read what is around them
        branches("p = Sqrt(x)", "q = Neg(x)"),  # what is not chosen may be no number
        "d = Not(c) " + branches("p = Relu(x)", NESTED).replace("float ", "float[2,4] "),
        branches(*CONSTANTS) + " z = Neg(x)",
    ],
    ids=["plain", "around", "not a number", "nested", "constants"],
)  # fmt: skip
def test_both_branches_of_a_computed_condition(body, holds, tmp_path):
    outputs = "float y, float z" if "z =" in body else "float y"
    agrees(parsed(body, f"{X}, bool c", outputs), tmp_path, {"x": FRAME, "c": np.array(holds)})


def test_branches_of_two_shapes_name_the_input_to_give(tmp_path):
    path = saved(parsed(branches("p = ReduceSum(x)", "q = Neg(x)"), f"{X}, bool c"), tmp_path)
    message = refusal(path)
    assert "got float32 (1, 1) and float32 (2, 4)" in message and "values={'c': ...} or --value c=..." in message
    assert load(path, values={"c": True}).outputs[0].shape == (1, 1)


# ---- turns ----

WHILE = """m = ReduceMax<keepdims=0>(x) c = Greater(m, limit) y = Loop(six, c, x) <body = b
 (int64 i, bool on, float[2,4] s) => (bool go, float[2,4] t) { t = Mul(s, half) n = ReduceMax<keepdims=0>(t)
 go = Greater(n, limit) }>"""


@pytest.mark.parametrize("scale", [0.1, 1, 4, 1000])
def test_turns_while_a_computed_condition_holds(scale, tmp_path):
    agrees(parsed(WHILE), tmp_path, {"x": np.float32(scale) * FRAME})


def test_turns_that_an_input_counts(tmp_path):
    turn = "(int64 i, bool on, float[2,4] s) => (bool go, float[2,4] t) { t = Mul(s, half) go = Identity(on) }"
    body = f"y = Loop(n, , x) <body = b {turn}>"
    path = saved(parsed(body, f"{X}, int64 n"), tmp_path)
    assert "values={'n': ...} or --value n=..." in refusal(path)
    np.testing.assert_allclose(run_graph(load(path, values={"n": 3}), {"x": FRAME})["y"], FRAME / 8)


# ---- sequences ----

SEQUENCES = {
    "parts": "s = SplitToSequence<axis=1>(x, three) n = SequenceLength(s) f = Cast<to=1>(n) a = SequenceAt(s, zero) "
    "y = Mul(a, f)",
    "sizes": "s = SplitToSequence<axis=1>(x, parts) a = SequenceAt(s, last) b = SequenceAt(s, zero) "
    "y = Concat<axis=1>(a, b)",
    "singles": "s = SplitToSequence<axis=1, keepdims=0>(x) y = ConcatFromSequence<axis=0, new_axis=1>(s)",
    "insert, erase": "e = SequenceEmpty() a = Relu(x) s = SequenceInsert(e, x) t = SequenceInsert(s, a, zero) "
    "u = SequenceErase(t, zero) v = SequenceInsert(u, a) y = ConcatFromSequence<axis=-1, new_axis=1>(v)",
    "constants": "s = SequenceConstruct(x, row) i = Identity(s) y = ConcatFromSequence<axis=0>(i)",
    "map": "a = Relu(x) s = SequenceConstruct(x, a) m = SequenceMap <body = b (float[2,4] p) => (float[2,4] q) "
    "{ q = Neg(p) }> (s) y = ConcatFromSequence<axis=0>(m)",
    "turns": "e = SequenceEmpty() v, s = Loop(three, , x, e) <body = b (int64 i, bool c, float[2,4] p, "
    "seq(float[2,4]) q) => (bool g, float[2,4] r, seq(float[2,4]) t) { r = Mul(p, half) t = SequenceInsert(q, r) "
    "g = Identity(c) }> y = ConcatFromSequence<axis=0>(s)",
    "optional": "o = Optional(x) c = OptionalHasElement(o) e = OptionalGetElement(o) f = Cast<to=1>(c) y = Mul(e, f)",
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name, tmp_path):
    agrees(parsed(SEQUENCES[name], opset=18), tmp_path, {"x": FRAME})


@pytest.mark.parametrize(
    "body, said",
    [
        ("s = SequenceConstruct(x) y = Relu(s)", "node 'y' (Relu): expected tensors, got a sequence"),
        ("s = SequenceConstruct(x) y = SequenceAt(s, three)", "expected a place in a sequence of 1, got 3"),
        ("e = SequenceEmpty() y = ConcatFromSequence<axis=0>(e)", "the sequence is empty"),
        ("y = SequenceConstruct(x)", "output 'y' is a sequence or an optional, expected a tensor"),
    ],
)
def test_sequences_that_are_refused(body, said, tmp_path):
    assert said in refusal(saved(parsed(body), tmp_path))


# ---- numbers that are none, lots ----


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    "body", ["y = Add(x, {})", "y = Mul({}, x)", "y = Max(x, {})", "g = Greater(x, half) y = Where(g, {}, x)"]
)
def test_constants_that_are_not_finite(body, number, tmp_path):
    agrees(parsed(body.format(number)), tmp_path, {"x": FRAME})


def drawn(body, tmp_path):
    return run_graph(load(saved(parsed(f"{body} y = Add(d, x)"), tmp_path)), {"x": np.zeros((2, 4))})["y"]


def test_random_numbers_are_drawn_once(tmp_path):
    """They are the same at each load, others for another node, those of a seed for each node that has it."""
    shape = "shape = [2, 4]"
    first = drawn(f"d = RandomNormal<{shape}>()", tmp_path)
    assert (first == drawn(f"d = RandomNormal<{shape}>()", tmp_path)).all() and len(np.unique(first)) == 8
    assert (first != drawn("e = RandomNormalLike(x) d = Identity(e)", tmp_path)).all()
    uniform = "e = RandomUniformLike<seed = 3.0, low = {}, high = 5.0>(x) d = Identity(e)"
    seeded = [drawn(uniform.format(low), tmp_path) for low in (3.0, 3.0, 4.0)]
    assert (seeded[0] == seeded[1]).all() and seeded[0].min() >= 3 and seeded[2].min() >= 4
    np.testing.assert_allclose((seeded[0] - 3) / 2, seeded[2] - 4, atol=1e-6)


def test_lots_follow_their_probabilities(tmp_path):
    """10,000 draws: means within 5 standard deviations, sqrt(p (1 - p) / 10,000)."""
    proto = parsed("d = Bernoulli(x)", "float[10000] x", "float d")
    for p in (0.0, 0.2, 1.0):
        mean = run_graph(load(saved(proto, tmp_path)), {"x": np.full(10000, p)})["d"].mean()
        assert abs(mean - p) <= 0.05 * np.sqrt(p * (1 - p))
    proto = parsed("d = Multinomial<sample_size = 10000>(x)", "float[2,3] x", "int32 d")
    weights = np.array([[0.2, 0.3, 0.5], [1, 0, 0]])
    with np.errstate(divide="ignore"):
        made = run_graph(load(saved(proto, tmp_path)), {"x": np.log(weights)})["d"]
    found = np.stack([(made == k).mean(axis=1) for k in range(3)], axis=1)
    assert made.dtype == np.int32 and (np.abs(found - weights) <= 0.05 * np.sqrt(weights * (1 - weights))).all()
