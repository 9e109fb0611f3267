"""Slices and ranges whose places are computed while a frame runs: as onnxruntime, in the runtime and in NumPy."""

import numpy as np
import pytest
from computed_lengths import compared, proto
from onnx_models import ints, run

import pipeall
from pipeall.errors import ModelError

X = np.random.default_rng(0).standard_normal((2, 9, 6)).astype(np.float32)
CONSTANTS = dict(
    n=ints(4), one=ints(1), zero=ints(0), two=ints(2), five=ints(5), far=np.array([2**63 - 1]), axes=ints(1, 2),
    flat=ints(2, 24), w=np.ones((2, 4, 6), np.float32), k=np.ones((3, 2, 3, 3), np.float32),
    four=np.int64(4), step=np.int64(1),
)  # fmt: skip
ANYWHERE = (0, 1, 5, 6, 8, 9, 12, -1, -2, -4, -5, -9, -10, -12)
INSIDE = (0, 1, 5, -9, -6)

SLICES = {  # nodes, and places for which onnxruntime gives the same
    "from a place": ("e = Add(i, n) y = Slice(x, i, e, one)", ANYWHERE),
    "up to a place": ("s = Sub(i, n) y = Slice(x, s, i, one)", ANYWHERE),
    "by steps": ("e = Add(i, n) y = Slice(x, i, e, one, two)", ANYWHERE),
    "the rest": ("y = Slice(x, i, far, one)", ANYWHERE),
    "the first": ("y = Slice(x, zero, i, one)", ANYWHERE),
    "a patch": ("s = Mul(i, n) e = Add(s, n) y = Slice(x, s, e, one)", ANYWHERE),
    "of two axes, one computed": (
        "s = Concat<axis=0>(i, zero) a = Add(i, n) e = Concat<axis=0>(a, two) y = Slice(x, s, e, axes)",
        ANYWHERE,
    ),
    "of two axes": ("s = Concat<axis=0>(i, i) e = Add(s, n) y = Slice(x, s, e, axes)", ANYWHERE),
    "through a softmax": ("e = Add(i, n) s = Slice(x, i, e, one) y = Softmax<axis=1>(s)", INSIDE + (7, 8)),
    "joined": ("e = Add(i, n) s = Slice(x, i, e, one) y = Concat<axis=1>(s, x)", INSIDE + (7, 9)),
    "with a tensor of one length": ("e = Add(i, n) s = Slice(x, i, e, one) y = Add(s, w)", INSIDE),
    "with another slice": (
        "e = Add(i, n) s = Slice(x, i, e, one) j = Sub(e, one) f = Add(j, n) t = Slice(x, j, f, one) y = Sub(s, t)",
        (0, 1, 2),
    ),
    "into a convolution": ("e = Add(i, n) s = Slice(x, i, e, one) u = Unsqueeze(s, zero) y = Conv(u, k)", INSIDE),
    "into one row": ("e = Add(i, n) s = Slice(x, i, e, one) y = Reshape(s, flat)", INSIDE),
    "into a product with itself": (
        "e = Add(i, n) s = Slice(x, i, e, one) t = Transpose<perm=[0,2,1]>(s) y = MatMul(s, t)",
        INSIDE,
    ),
}
CLAMPED = {
    "by bounds": "a = Max(i, zero) c = Min(a, five) e = Add(c, n) y = Slice(x, c, e, one)",
    "by a remainder": "c = Mod(i, five) e = Add(n, c) y = Slice(x, c, e, one)",
    "the place of a maximum": (
        "b = Slice(x, zero, five, one) c = ArgMax<axis=1>(b) d = Gather<axis=0>(c, zero) s = Slice(d, zero, one, two) "
        "v = Reshape(s, one) e = Add(v, n) z = Slice(x, v, e, one) f = Cast<to=1>(i) y = Add(z, f)"
    ),
}


def model(body: str, inputs: str = "float[2,9,6] x, int64[1] i"):
    return proto(body, inputs, "float y", {name: a for name, a in CONSTANTS.items() if name in _words(body)})


def _words(body: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in body).split())


@pytest.mark.parametrize("name", SLICES)
def test_slices_at_computed_places(name):
    body, places = SLICES[name]
    compared(model(body), [dict(x=X, i=ints(place)) for place in places])


@pytest.mark.parametrize("name", CLAMPED)
def test_slices_that_cannot_leave_their_axis_have_one_length(name):
    graph = compared(model(CLAMPED[name]), [dict(x=X, i=ints(place)) for place in ANYWHERE])
    assert not graph.lengths and graph.outputs[0].shape == (2, 4, 6)


def test_ranges_from_computed_places():
    body = "e = Add(i, four) r = Range(i, e, step) f = Cast<to=1>(r) g = Gather<axis=1>(x, r) u = Unsqueeze(f, one)"
    graph = compared(
        model(body + " y = Add(g, u)", "float[2,9,6] x, int64 i"), [dict(x=X, i=np.array(place)) for place in INSIDE]
    )
    assert not graph.lengths


def test_what_lies_beyond_its_axis_takes_the_nearest_where_one_length_is_needed():
    body = "e = Add(i, n) s = Slice(x, i, e, one) u = Unsqueeze(s, zero) y = Conv(u, k)"
    graph, frame = pipeall.load(model(body).SerializeToString()), dict(x=X, i=ints(7))
    longer = np.concatenate([X[:, 7:], X[:, 8:], X[:, 8:]], 1)
    expected = run(model("s = Identity(x) u = Unsqueeze(s, zero) y = Conv(u, k)", "float[2,4,6] x"), dict(x=longer))
    with pipeall.Engine(graph) as engine:
        np.testing.assert_allclose(engine(frame), expected["y"], 1e-5, 1e-5)


@pytest.mark.parametrize(
    "body, message",
    [
        ("y = Slice(x, i, i, one)", "the slice ends 0 elements ahead of its start"),
        ("s = Neg(n) y = Slice(x, i, zero, one, s)", "expected a step of at least 1"),
        ("y = Slice(x, i, zero, axes)", "as many starts"),
        ("y = Slice(x, x, zero, one)", "lists of integers"),
        ("r = Range(four, i, step) f = Cast<to=1>(r) y = Identity(f)", "must be a constant"),
    ],
)
def test_what_is_refused(body, message):
    with pytest.raises(ModelError, match=message):
        pipeall.load(model(body).SerializeToString())
