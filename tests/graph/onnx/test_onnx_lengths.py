"""Tensors whose sizes depend on data: as onnxruntime, for masks of some, none and all, in the runtime and in NumPy."""

import numpy as np
import pytest
from computed_lengths import compared, proto
from onnx_models import ints, refusal, run, saved

import pipeall

SOME = np.random.default_rng(5).standard_normal((3, 4, 5)).astype(np.float32)
FRAMES = {"some": SOME, "none": -np.abs(SOME), "all": np.abs(SOME) + np.float32(0.1)}
PICK = "m = Greater(x, zero) n = NonZero(m) p = Transpose<perm=[1,0]>(n) v = GatherND(x, p) "
CONSTANTS = dict(
    zero=np.float32(0), i0=ints(0), i1=ints(1), i2=ints(2), i3=ints(3), less=ints(-1), five=ints(5), far=ints(2**62),
    long=np.array(1), first=np.array(0), w=SOME[:1, :, 0],
)  # fmt: skip

BODIES = {  # nodes behind PICK, and the outputs
    "places": ("y = Identity(p)", "int64 y"),
    "picked": ("y = Mul(v, v)", "float y"),
    "sum": ("y = ReduceSum<keepdims=0>(v, i0)", "float y"),
    "mean": ("y = ReduceMean<axes=[0], keepdims=0>(v)", "float y"),
    "maximum with another": ("a = Reshape(zero, i1) b = Concat<axis=0>(v, a) y = ReduceMax(b)", "float y"),
    "how many": ("s = Shape(v) y = Cast<to=1>(s) z = Size(v)", "float y, int64 z"),
    "put back": ("t = Tanh(v) y = ScatterND(x, p, t)", "float y"),
    "added back": ('y = ScatterND<reduction="add">(x, p, v)', "float y"),
    "first five": ("y = Slice(v, i0, five, i0)", "float y"),
    "last": ("y = Slice(v, less, far, i0)", "float y"),
    "all but the last": ("y = Slice(v, i0, less, i0)", "float y"),
    "one behind the other": ("n2 = Neg(v) y = Concat<axis=0>(v, n2, v)", "float y"),
    "side by side": ("c = Unsqueeze(v, i1) d = Neg(c) y = Concat<axis=1>(c, d)", "float y"),
    "padded to a length": (
        "s = Shape(v) all = Size(x) r = Sub(all, s) q = Concat<axis=0>(i0, r) y = Pad(v, q, zero)",
        "float y",
    ),
    "a product of all pairs": (
        "c = Unsqueeze(v, i1) d = Unsqueeze(v, i0) e = Mul(c, d) y = ReduceSum<keepdims=0>(e, i1) z = Identity(e)",
        "float y, float z",
    ),
    "expanded by its length": (
        "c = Unsqueeze(v, i1) s = Shape(v) t = Concat<axis=0>(s, i3) y = Expand(c, t)",
        "float y",
    ),
    "repeated": ("c = Unsqueeze(v, i1) t = Concat<axis=0>(i1, i2) y = Tile(c, t)", "float y"),
    "numbered": ("s = Size(v) r = Range(first, s, long) f = Cast<to=1>(r) y = Add(v, f)", "float y"),
    "sorted": ("k = Shape(v) y, z = TopK(v, k)", "float y, int64 z"),
    "softmax": ("y = Softmax<axis=0>(v)", "float y"),
    "rows through a product": ("c = Unsqueeze(v, i1) y = MatMul(c, w)", "float y"),
    "as rows of one": ("t = Concat<axis=0>(less, i1) y = Reshape(v, t)", "float y"),
    "by a condition": ("g = Reshape(m, less) y = Compress(x, g)", "float y"),
    "by a condition on an axis": (
        "a = Slice(x, i0, i1, i2) b = Slice(a, i0, i1, i1) c = Reshape(b, less) d = Greater(c, zero) "
        "y = Compress<axis=0>(x, d)",
        "float y",
    ),
    "picked of what is picked": (
        "h = ReduceMean(x) h1 = Reshape(h, less) a = Greater(v, h1) q = NonZero(a) r = Squeeze(q, i0) y = Gather(v, r)",
        "float y",
    ),
    "number in places of what is picked": (
        "h = ReduceMean(x) h1 = Reshape(h, less) a = Greater(v, h1) q = NonZero(a) t = Transpose<perm=[1,0]>(q) "
        "s = Shape(q) l = Slice(s, i1, i2) e = Expand(zero, l) y = ScatterND(v, t, e)",
        "float y",
    ),
    "number in place of what is picked": ("g = Greater(v, zero) y = Where(g, zero, v)", "float y"),
    "two masks": (
        "a = Less(x, zero) b = NonZero(a) c = Transpose<perm=[1,0]>(b) d = GatherND(x, c) y = Concat<axis=0>(d, v)",
        "float y",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_is_done_with_picked_elements(name):
    body, outputs = BODIES[name]
    frames = [dict(x=x) for key, x in FRAMES.items() if not (name == "softmax" and key == "none")]
    used = {key: value for key, value in CONSTANTS.items() if key in body + PICK}
    graph = compared(proto(PICK + body, "float[3,4,5] x", outputs, used), frames)
    assert {tensor.name for tensor in graph.outputs} == {part.split()[1] for part in outputs.split(",")}


def test_counts_cross_cuts(board):
    """A network of several groups, cut before, among and behind what is picked."""
    draw = np.random.default_rng(3)
    constants = dict(
        k1=draw.standard_normal((4, 3, 3, 3)).astype(np.float32),
        k2=draw.standard_normal((4, 4, 1, 1)).astype(np.float32),
        a=draw.standard_normal((4, 6)).astype(np.float32), b=draw.standard_normal((6, 2)).astype(np.float32),
        zero=np.float32(0), i0=ints(0), rows=ints(-1, 4),
    )  # fmt: skip
    body = """c = Conv(x, k1) d = Conv(c, k2) t = Transpose<perm=[0,2,3,1]>(d) r = Reshape(t, rows)
        q = ReduceMax<axes=[1], keepdims=0>(r) m = Greater(q, zero) n = NonZero(m) s = Squeeze(n, i0)
        g = Gather(r, s) h = MatMul(g, a) u = Relu(h) y = MatMul(u, b)"""
    model = proto(body, "float[1,3,8,9] x", "float y", constants)
    graph = pipeall.load(model.SerializeToString())
    assert len(graph.groups) >= 3
    frames = list(draw.standard_normal((3, 1, 3, 8, 9)).astype(np.float32)) + [np.zeros((1, 3, 8, 9), np.float32)]
    expected = [run(model, dict(x=frame))["y"] for frame in frames]
    assert len({len(y) for y in expected}) > 2 and not len(expected[-1])
    for cut in range(1, len(graph.groups)):
        with pipeall.Pipeline(graph, f"B-L:{cut}", board=board) as pipe:
            for got, y in zip(pipe.map(frames), expected, strict=True):
                assert got.shape == y.shape
                np.testing.assert_allclose(got, y, 1e-4, 1e-4)


# ---- boxes ----

BOXES = 24
LIMITS = dict(k=ints(10), iou=np.float32([0.45]), least=np.float32([0.5]))
KEPT = "s = NonMaxSuppression(b, c, k, iou, least) "


def boxes(seed: int, low: float, high: float) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    corners = draw.uniform(0, 60, (1, BOXES, 2))
    return dict(
        b=np.concatenate([corners, corners + draw.uniform(5, 40, corners.shape)], 2).astype(np.float32),
        c=draw.uniform(low, high, (1, 2, BOXES)).astype(np.float32),
    )


DETECTORS = {
    "rows": (KEPT + "y = Identity(s)", "int64 y"),
    "boxes": (KEPT + "i = Gather<axis=1>(s, two) y = Gather<axis=1>(b, i)", "float y"),
    "batch, boxes, class, score": (
        "i0, i1, i2 = Split<axis=1, num_outputs=3>(s) f0 = Cast<to=1>(i0) f1 = Cast<to=1>(i1) "
        "ix = Concat<axis=1>(i0, i2) p = GatherND(b, ix) q = GatherND(c, s) u = Unsqueeze(q, one) "
        "y = Concat<axis=1>(f0, p, f1, u)",
        "float y",
    ),
    "the surest three, or what there is": (
        "q = GatherND(c, s) h = Shape(q) m = Min(h, three) v, t = TopK(q, m) y = Gather(s, t) z = Identity(v)",
        "int64 y, float z",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DETECTORS)
def test_boxes_that_are_kept(name):
    body, outputs = DETECTORS[name]
    body = body if KEPT in body else KEPT + body
    constants = LIMITS | {
        key: value for key, value in dict(one=ints(1), three=ints(3), two=np.array(2)).items() if key in body
    }
    frames = [boxes(1, 0, 1), boxes(2, 0, 0.4), boxes(3, 0.6, 1)]
    inputs = f"float[1,{BOXES},4] b, float[1,2,{BOXES}] c"
    compared(proto(body, inputs, outputs, constants, 18 if "Split" in body else 17), frames)


CHOSEN = """m = Greater(s, least) n = NonZero(m) p = Transpose<perm=[1,0]>(n) b = GatherND(x, p) q = GatherND(s, p)
    l = GatherND(c, p) h = Shape(b) k = Gather(h, i0) lf = Cast<to=1>(l) far = Mul(lf, wide) o = Unsqueeze(far, i1)
    shifted = Add(b, o) bb = Unsqueeze(shifted, i0) q1 = Unsqueeze(q, i0) qq = Unsqueeze(q1, i0)
    kept = NonMaxSuppression(bb, qq, k, iou) col = Gather<axis=1>(kept, i2) one = Squeeze(col, i1)
    few = Slice(one, i0, most, i0) yb = Gather(b, few) yq = Gather(q, few) yl = Gather(lf, few) u = Unsqueeze(yq, i1)
    v = Unsqueeze(yl, i1) rows = Concat<axis=1>(yb, u, v) """
FIXED = """e = Shape(rows) e0 = Gather(e, i0) r = Sub(most, e0)
    z3 = Constant<value_ints=[0,0,0]>() r0 = Slice(z3, i0, i2, i0)
    pads = Concat<axis=0>(r0, r, i0) y = Pad(rows, pads)"""


@pytest.mark.parametrize(("tail", "most"), [("y = Identity(rows)", 5), (FIXED, 5), (FIXED, 20)])
def test_class_wise_suppression_of_what_is_sure_enough(tail, most):
    """As detectors end: a threshold, classes put apart by an offset, the surest few, padded to a fixed size."""
    draw = np.random.default_rng(7)
    constants = dict(
        least=np.float32(0.5),
        i0=ints(0),
        i1=ints(1),
        i2=ints(2),
        wide=np.float32(1000),
        iou=np.float32([0.4]),
        most=ints(most),
    )
    frames = []
    for seed, low, high in ((1, 0, 1), (2, 0, 0.4), (3, 0.6, 1)):
        found = boxes(seed, low, high)
        frames.append(dict(x=found["b"][0], s=found["c"][0, 0], c=draw.integers(0, 3, BOXES)))
    inputs = f"float[{BOXES},4] x, float[{BOXES}] s, int64[{BOXES}] c"
    graph = compared(proto(CHOSEN + tail, inputs, "float y", constants), frames)
    assert graph.outputs[0].shape == (most, 6) and bool(graph.lengths) == (tail != FIXED)


# ---- what is refused ----

REFUSED = {
    "branches of two lengths": (
        "s = Size(v) q = Greater(s, long) y = If(q) <then_branch = t () => (float t1) { t1 = Identity(v) }, "
        "else_branch = e () => (float e1) { e1 = Reshape(x, less) }>",
        "and the sizes of what its branches make depend on the data",
    ),
    "two lengths on one axis": (
        "a = Less(x, zero) b = NonZero(a) c = Transpose<perm=[1,0]>(b) d = GatherND(x, c) y = Add(d, v)",
        "(Add): operands have sizes",
    ),
    "unique": ("y = Unique<sorted=1>(v)", "(Unique)"),
    "steps": ("y = Slice(v, i0, far, i0, i2)", "(Slice): steps of 2 on an axis whose size depends on the data"),
    "behind a smaller axis": ("c = Unsqueeze(v, i1) t = Concat<axis=0>(i1, i2) d = Tile(c, t) e = Transpose(d) "
                              "y = Reshape(e, less)", "(Reshape): cannot reshape"),
    "more than there can be": ("k = Mul(far, i1) y, z = TopK(v, k)", "(TopK): k is up to"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_bound_or_no_meaning(name, tmp_path):
    body, message = REFUSED[name]
    used = {key: value for key, value in CONSTANTS.items() if key in body + PICK}
    assert message in refusal(saved(proto(PICK + body, "float[3,4,5] x", "float y", used), tmp_path))


def test_a_graph_with_counts_travels():
    """Counts are no outputs, and are there after pickling, rewriting and quantizing the rest."""
    import pickle

    body, outputs = BODIES["picked"]
    model = proto(PICK + body, "float[3,4,5] x", outputs, dict(zero=np.float32(0)))
    graph = pickle.loads(pickle.dumps(pipeall.load(model.SerializeToString())))
    assert [tensor.name for tensor in graph.outputs] == ["y"] and graph.outputs[0].shape == (60,)
    with pipeall.Engine(graph) as engine:
        assert engine(SOME).shape == (int((SOME > 0).sum()),)
