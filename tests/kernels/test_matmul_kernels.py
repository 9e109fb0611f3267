"""Products of two computed operands, and attention, on every instruction set, against float64 NumPy.

A sum of n products, each rounded to 2^-24, is within (n + 4) 2^-24 sum |a b| of the exact one (bounds.py); a factor in
front costs one rounding more.
"""

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from bounds import U
from graphs import Net, inputs_of
from kernel_runs import FLOAT_ISAS, GUARD, supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall import ArgumentError, DeviceError
from pipeall._kernels.cpu.table import choose
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.rewrite import rewrite
from pipeall.steps import CONSTANT, SLOT_IN, SLOT_OUT, Step, Strided


def dense(shape, order=None, gap=0):
    """Strides of a tensor whose axes lie in memory in this order, outermost first; ``gap`` elements between rows."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order or range(len(shape))):
        strides[axis] = step
        step = step * shape[axis] + gap
    return tuple(strides)


def window(memory, operand):
    item = memory.itemsize
    return np.lib.stride_tricks.as_strided(
        memory[operand.offset :], operand.shape, [item * stride for stride in operand.strides]
    )


def end(operand):
    reach = [(size - 1) * stride for size, stride in zip(operand.shape, operand.strides, strict=True)]
    return operand.offset + sum(r for r in reach if r > 0) + 1


def laid_out(base, offset, shape, strides, dtype="float32"):
    """The first operand of these strides at or after ``offset`` that lies inside memory: strides may be negative."""
    below = sum((size - 1) * -stride for size, stride in zip(shape, strides, strict=True) if stride < 0)
    return Strided(base, offset + below, shape, strides, dtype)


def run_step(kind, params, arrays, strides, dst_shape, dst_strides, isa, threads=1):
    """The result of one step whose operands lie one after the other in the input slot, NaN around and between them;
    bool operands are constants. Whatever lies around the result must stay as it was."""
    offset, src = GUARD, []
    for array, stride in zip(arrays, strides, strict=True):
        if array.dtype == bool:
            src.append(Strided(CONSTANT, 0, array.shape, dense(array.shape), "bool", array))
        else:
            src.append(laid_out(SLOT_IN, offset, array.shape, stride))
            offset = end(src[-1]) + GUARD
    dst = laid_out(SLOT_OUT, GUARD, dst_shape, dst_strides)
    program = CpuProgram(
        choose((isa, "ref"), "any core"), (-1,) * threads, "test", (0, 4 * offset, 4 * (end(dst) + GUARD))
    )
    program.add(Step(kind, "node", tuple(src), dst, params))
    slot = np.full(offset, np.nan, np.float32)
    for array, operand in zip(arrays, src, strict=True):
        if operand.base == SLOT_IN:
            window(slot, operand)[:] = array
    out = program.run(slot)
    result = window(out, dst).copy()
    window(out, dst)[:] = np.nan
    assert np.isnan(out).all(), "wrote outside its view"
    return result


def available(isa):
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")


def floats(random, shape):
    return random.standard_normal(shape).astype(np.float32)


def check_matmul(isa, a, b, a_strides, b_strides, dst_order=None, gap=0, alpha=1.0, threads=3):
    exact = alpha * (a.astype(np.float64) @ b)
    given = (a, b), (a_strides, b_strides), exact.shape, dense(exact.shape, dst_order, gap)
    result = run_step("matmul", {"alpha": alpha}, *given, isa)
    allowed = (a.shape[-1] + 5) * U * abs(alpha) * (np.abs(a).astype(np.float64) @ np.abs(b))
    assert (np.abs(result - exact) <= allowed).all(), (a.shape, b.shape, a_strides, b_strides, dst_order)
    again = run_step("matmul", {"alpha": alpha}, *given, isa, threads)
    assert np.array_equal(result, again), f"{threads} threads give another result than one"


# Around every register tile, block of rows, columns and k, and every form that spares the packing
SIZES = [
    *product((1, 2, 5, 13), (1, 3, 16, 321), (1, 7, 33)),
    *((m, k, n) for m in (1, 3) for k in (255, 256, 257, 2049) for n in (1, 2, 40, 515)),
    (97, 20, 129),
    (481, 5, 31),
    (100, 640, 3),
    (64, 9, 16),
    (11, 1, 63),
]


@pytest.mark.parametrize("isa", FLOAT_ISAS)
@pytest.mark.parametrize("m, k, n", SIZES)
def test_product_of_any_size(isa, m, k, n):
    """Rows together, columns together, and neither, of each operand."""
    available(isa)
    random = np.random.default_rng(m * k + n)
    a, b = floats(random, (m, k)), floats(random, (k, n))
    for order, gap in product(((0, 1), (1, 0)), (0, 3)):
        check_matmul(isa, a, b, dense((m, k), order, gap), dense((k, n), order[::-1], gap), order, gap, 0.75)
    sparse = [tuple(2 * stride for stride in dense(shape)) for shape in ((m, k), (k, n))]
    check_matmul(isa, a, b, *sparse, (0, 1))


@pytest.mark.parametrize("isa", FLOAT_ISAS)
@pytest.mark.parametrize("seed", range(12))
def test_batches_of_any_strides(isa, seed):
    """Axes in any order in memory, batch axes that broadcast by a size of 1 or a stride of 0, reversed axes."""
    available(isa)
    random = np.random.default_rng(seed)
    for _ in range(8):
        rank = random.integers(2, 6)
        batch = tuple(random.integers(1, 4, rank - 2))
        m, k, n = (int(random.choice([1, 2, 4, 8, 17, 40, 70])) for _ in range(3))
        operands = []
        for shape in ((m, k), (k, n)):
            kept = tuple(1 if random.random() < 0.3 else size for size in batch)
            shape = (*kept, *shape)
            strides = list(dense(shape, tuple(random.permutation(rank)), int(random.integers(0, 3))))
            full = list(shape)
            for axis in range(rank - 2):
                if shape[axis] == 1 and random.random() < 0.5:
                    full[axis], strides[axis] = batch[axis], 0
            reverse = random.random(rank) < 0.2
            strides = tuple(-stride if back else stride for stride, back in zip(strides, reverse, strict=True))
            operands.append((np.broadcast_to(floats(random, shape), full), strides))
        (a, a_strides), (b, b_strides) = operands
        order = tuple(random.permutation(rank))
        dst = [max(sizes) for sizes in zip(a.shape[:-2], b.shape[:-2], strict=True)]
        assert prod(dst) >= 1
        check_matmul(isa, a, b, a_strides, b_strides, order, int(random.integers(0, 3)), float(random.normal()))


@pytest.mark.parametrize("isa", FLOAT_ISAS)
def test_heads_of_attention_are_views(isa):
    """(T, 3, H, D) in memory, heads (1, H, T, D), results (1, T, H, D)."""
    available(isa)
    random = np.random.default_rng(1)
    t, h, d = 50, 3, 16
    q, k = floats(random, (1, h, t, d)), floats(random, (1, h, d, t))
    row = 3 * h * d
    check_matmul(isa, q, k, (t * row, d, row, 1), (t * row, d, 1, row), alpha=d**-0.5)
    check_matmul(isa, floats(random, (1, h, t, t)), q, dense((1, h, t, t)), (t * row, d, row, 1), (0, 2, 1, 3))


def reference(q, k, v, mask, scale, causal):
    """Result and allowed error in float64: of scores, (D + 7) u in their sums of magnitudes; of e^x, that and 4 u; of
    the sum over keys and of the division, relative to the weighted sum of |v|."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * (q @ k.swapaxes(-1, -2))
    error = (q.shape[-1] + 7) * U * abs(scale) * (np.abs(q) @ np.abs(k).swapaxes(-1, -2))
    if mask is not None:
        added = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        scores = scores + added
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    error = error + 2 * U * np.abs(np.where(np.isfinite(scores), scores, 0))
    error = np.where(np.isfinite(scores), error, 0)
    most = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - most)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    spread = np.where(np.isfinite(scores), np.abs(scores - most), 0).max(axis=-1, keepdims=True)
    relative = 2 * error.max(axis=-1, keepdims=True) + (2 * scores.shape[-1] + 2 * spread + 32) * U
    return weights @ v, relative * 1.01 * (weights @ np.abs(v)) + 2.0**-120 * np.abs(v).sum(axis=-2, keepdims=True)


def check_attention(isa, q, k, v, strides, mask=None, causal=False, scale=None, dst_order=None, gap=0):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    arrays = (q, k, v) if mask is None else (q, k, v, mask)
    exact, allowed = reference(q, k, v, mask, scale, causal)
    given = arrays, strides, exact.shape, dense(exact.shape, dst_order, gap)
    params = {"scale": scale, "causal": causal}
    result = run_step("attention", params, *given, isa)
    assert (np.abs(result - exact) <= allowed).all(), (q.shape, k.shape, v.shape, strides, causal)
    for threads in (2, 3):
        again = run_step("attention", params, *given, isa, threads)
        assert np.array_equal(result, again), f"{threads} threads give another result than one"


LENGTHS = [  # queries, keys, width of q and k, width of v
    *((t, t, d, d) for t in (1, 3, 12, 13, 65, 130) for d in (1, 8, 33)),
    (1, 200, 16, 16),
    (70, 5, 4, 9),
    (5, 600, 8, 40),
    (40, 33, 515, 2),
]


@pytest.mark.parametrize("isa", FLOAT_ISAS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_any_length(isa, causal):
    available(isa)
    for tq, tk, d, e in LENGTHS:
        random = np.random.default_rng(tq * tk + d)
        q, k, v = floats(random, (2, tq, d)), floats(random, (2, tk, d)), floats(random, (2, tk, e))
        check_attention(isa, q, k, v, [dense(x.shape) for x in (q, k, v)], causal=causal)


@pytest.mark.parametrize("isa", FLOAT_ISAS)
@pytest.mark.parametrize("seed", range(10))
def test_attention_on_views_with_masks(isa, seed):
    """Any order of axes, masks of both types that broadcast in any axis, large scores, keys shared between heads."""
    available(isa)
    random = np.random.default_rng(seed)
    for _ in range(5):
        b, h = (int(size) for size in random.integers(1, 4, 2))
        tq, tk, d, e = (int(random.choice([1, 2, 9, 31, 64, 97])) for _ in range(4))
        arrays, strides = [], []
        for rows, columns in ((tq, d), (tk, d), (tk, e)):
            order = tuple(random.permutation(4))
            arrays.append(floats(random, (b, h, rows, columns)))
            strides.append(dense(arrays[-1].shape, order, int(random.integers(0, 3))))
        if seed % 3 == 0:
            for i in (1, 2):
                arrays[i] = np.broadcast_to(arrays[i][:, :1], arrays[i].shape)
                strides[i] = (strides[i][0], 0, *strides[i][2:])
        mask = None
        if seed % 2:
            shape = tuple(1 if random.random() < 0.4 else size for size in (b, h, tq, tk))
            mask = random.random(shape) < 0.7 if random.random() < 0.5 else 3 * floats(random, shape)
            if mask.dtype == bool:
                mask[..., 0] = True  # a row that sees nothing has no result
            strides.append(dense(shape))
        scale = float(random.choice([d**-0.5, 4.0, -1.0]))
        order = tuple(random.permutation(4))
        check_attention(
            isa, *arrays, strides, mask, bool(random.random() < 0.3), scale, order, int(random.integers(0, 3))
        )


def test_heads_of_a_transformer_become_one_step():
    """Slices, reshapes and transposes between a layer's q, k and v in one tensor and its heads are views."""
    net, (t, h, d) = Net((1, 50, 3 * 3 * 16)), (50, 3, 16)
    x = net.op("transpose", net.op("reshape", "x0", shape=(1, t, 3, h, d)), perm=(2, 0, 3, 1, 4))
    slices = (net.op("slice", x, axis=0, start=i, stop=i + 1, step=1) for i in range(3))
    q, k, v = (net.op("reshape", each, shape=(1, h, t, d)) for each in slices)
    scores = net.op("matmul", q, net.op("transpose", k, perm=(0, 1, 3, 2)), alpha=d**-0.5)
    y = net.op("transpose", net.op("matmul", net.op("softmax", scores, axis=3), v), perm=(0, 2, 1, 3))
    graph = net.graph(net.op("reshape", y, shape=(1, t, h * d)))
    lowered = lower(rewrite(graph))
    assert [step.kind for step in lowered.steps] == ["attention"]
    sizes = (lowered.arena_bytes, lowered.slot_in_bytes, lowered.slot_out_bytes)
    program = CpuProgram(choose(supported_isas(), "any core"), (-1,), "test", sizes)
    program.add(lowered.steps[0])
    inputs = inputs_of(graph)
    (exact,) = run_graph(graph, inputs).values()
    got = program.run(inputs["x0"])[: exact.size].reshape(exact.shape)
    arrays = inputs["x0"].reshape(1, t, 3, h, d).transpose(2, 0, 3, 1, 4)
    allowed = reference(*arrays, None, d**-0.5, False)[1].transpose(0, 2, 1, 3).reshape(exact.shape)
    assert (np.abs(got - exact) <= allowed).all()


def step_of(changes=None, /, kind="matmul"):
    shapes = {"matmul": ((4, 6), (6, 5)), "attention": ((4, 6), (5, 6), (5, 5))}[kind]
    src, offset = [], 0
    for shape in shapes:
        src.append(Strided(SLOT_IN, offset, shape, dense(shape)))
        offset += prod(shape)
    params = {"matmul": {"alpha": 1.0}, "attention": {"scale": 1.0, "causal": False}}[kind]
    return replace(Step(kind, "node", tuple(src), Strided(SLOT_OUT, 0, (4, 5), (5, 1)), params), **(changes or {}))


def changed(kind, index, **changes):
    src = list(step_of(kind=kind).src)
    src[index] = replace(src[index], **changes)
    return {"kind": kind, "src": tuple(src)}


INTEGERS = Strided(CONSTANT, 0, (4, 5), (5, 1), "int32", np.ones((4, 5), np.int32))


@pytest.mark.parametrize(
    "changes, message",
    [
        (changed("matmul", 0, shape=(4, 5)), "second operand of 5 rows"),
        (changed("matmul", 1, shape=(6, 4)), "a result of"),
        (changed("matmul", 0, dtype="float16"), "operands of float32"),
        (changed("matmul", 1, strides=(5, 100)), "bytes in the input slot"),
        (changed("matmul", 1, shape=(6,), strides=(1,)), "one rank"),
        (changed("matmul", 0, strides=(-6, 1)), "bytes in the input slot"),
        ({"dst": Strided(SLOT_OUT, 0, (4, 5), (5, 1), "int32")}, "operands of float32|no gemm kernel"),
        ({"dst": Strided(SLOT_OUT, 0, (4, 5), (0, 1))}, "do not overlap"),
        ({"dst": Strided(SLOT_OUT, 0, (4, 5), (4, 1))}, "do not overlap"),
        ({"dst": Strided(SLOT_OUT, 0, (1, 4, 5), (20, 5, 1))}, "one rank"),
        ({"src": step_of().src[:1]}, "2 operands"),
        (changed("attention", 1, shape=(4, 6)), "of one length"),
        (changed("attention", 1, shape=(5, 5)), "of one width"),
        (changed("attention", 2, shape=(5, 3)), "a result of"),
        (changed("attention", 2, dtype="int32"), "operands of float32"),
        ({"kind": "attention", "src": step_of().src}, "3 or 4 operands"),
        (
            {
                "kind": "attention",
                "src": (*step_of(kind="attention").src, INTEGERS),
            },
            "mask of float32 or bool",
        ),
        (
            {"kind": "attention", "src": (*step_of(kind="attention").src, Strided(SLOT_IN, 0, (4, 3), (3, 1)))},
            "mask that broadcasts",
        ),
    ],
)
def test_a_step_that_does_not_fit_is_refused(changes, message):
    step = step_of(changes, kind=changes.get("kind", "matmul"))
    program = CpuProgram(choose(("ref",), "any core"), (-1,), "test", (0, 4 * 79, 4 * 20))
    with pytest.raises((ArgumentError, DeviceError), match=f"node.*({message})"):
        program.add(step)
