"""Single steps on strided operands, laid out at random: axes in any order, gaps, backward axes, constants.

What no step writes is checked afterwards; what lies between the elements of a float operand is NaN.
"""

from dataclasses import replace
from math import prod

import numpy as np
from kernel_runs import float_isas, reference_table
from numpy.lib.stride_tricks import as_strided
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu.table import choose
from pipeall.graph.ops import OPS, infer_shape, infer_type
from pipeall.steps import CONSTANT, SLOT_IN, SLOT_OUT, Step, Strided, item_bytes

INF = float("inf")
GUARD = 5  # elements before and behind an operand


def tables():
    """The reference kernels, and those of each instruction set that this CPU has: name -> table."""
    found = {"ref": reference_table()}
    for isa in float_isas():
        found[isa] = choose(("ref", isa), "any core")
    return found


def layout(rng, shape, base, begin_bytes, dtype, dense=False, broadcast=()):
    """A Strided of a shape from ``begin_bytes`` on, and where its memory ends; axes in ``broadcast`` have stride 0."""
    item = item_bytes(dtype)
    order = list(range(len(shape))) if dense else rng.permutation(len(shape))
    strides, reach = [0] * len(shape), 1
    for axis in reversed(order):
        if axis not in broadcast:
            strides[axis] = reach
            reach *= shape[axis] + (0 if dense else int(rng.integers(0, 3)))
    offset = -(-begin_bytes // item) + GUARD
    for axis, size in enumerate(shape):
        if not dense and base != SLOT_OUT and rng.random() < 0.2:  # backwards
            offset += (size - 1) * strides[axis]
            strides[axis] = -strides[axis]
    end = -(-begin_bytes // item) + reach + 2 * GUARD
    return Strided(base, offset, tuple(shape), tuple(strides), dtype), -(-end * item // 8) * 8


def elements(memory, operand):
    """The elements of an operand in the bytes of its base, to be read and written."""
    item = item_bytes(operand.dtype)
    typed = memory[: memory.size // item * item].view(operand.dtype)
    return as_strided(typed[operand.offset :], operand.shape, [stride * item for stride in operand.strides])


def run_strided(kind, arrays, params, out_shape, out_type, table, *, cores=(-1,), seed=0, constants=()):
    """The result of one step on arrays, those at ``constants`` given as constants; seed None lays all out densely.

    Axes of size 1 are broadcast to the output's for the kind pointwise.
    """
    rng, operands, end = np.random.default_rng(seed or 0), [], 0
    for i, array in enumerate(arrays):
        dtype, shape = array.dtype.name, tuple(out_shape) if kind == "pointwise" else array.shape
        over = [d for d, (size, whole) in enumerate(zip(array.shape, shape, strict=True)) if size != whole]
        if i in constants:
            kept = np.ascontiguousarray(array)
            strides = tuple(0 if d in over else prod(array.shape[d + 1 :]) for d in range(array.ndim))
            operands.append(Strided(CONSTANT, 0, shape, strides, dtype, kept))
        else:
            operand, end = layout(rng, shape, SLOT_IN, end, dtype, seed is None, over)
            operands.append(operand)
    target, out_end = layout(rng, out_shape, SLOT_OUT, 0, out_type, dense=seed is None)
    slot = np.full(max(end, 8), 255, np.uint8)
    for array, operand in zip(arrays, operands, strict=True):
        if operand.base == SLOT_IN:
            elements(slot, operand)[...] = array
    program = CpuProgram(table, cores, "test", (0, slot.size, out_end))
    program.add(Step(kind, "node", tuple(operands), target, params))
    out = program.run(slot)
    result = elements(out, target).copy()
    elements(out, replace(target, dtype=f"int{8 * item_bytes(out_type)}"))[...] = -1
    assert (out == 255).all(), "wrote outside of its output"
    return result


def run_op(op, arrays, attrs, table, **options):
    """The same for an op of the table, whose output's shape and type it infers."""
    shape = infer_shape(op, attrs, [array.shape for array in arrays], "node")
    dtype = infer_type(op, attrs, [array.dtype.name for array in arrays], "node")
    return run_strided(op, arrays, attrs, shape, dtype, table, **options)


def expected(op, arrays, attrs):
    """What the op's reference computes, floats in float64."""
    return OPS[op].compute(attrs, *(a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays))


def everywhere(kind, params, arrays, shape, dtype, *, seed=0, plain=False, constants=()):
    """The result on every instruction set, two and three threads being checked for the same bits; plain: laid out
    densely."""
    seed = None if plain else seed
    for isa, table in tables().items():
        results = [
            run_strided(kind, arrays, params, shape, dtype, table, cores=(-1,) * n, seed=seed, constants=constants)
            for n in (1, 2, 3)
        ]
        assert len({result.tobytes() for result in results}) == 1, f"{isa}: other results on other numbers of threads"
        yield isa, results[0]


def random_floats(rng, shape, domain=(-INF, INF)):
    x = (3 * rng.standard_normal(shape)).astype(np.float32)
    lo, hi = domain
    if lo > -INF:
        x = lo + (np.abs(x - lo) if hi == INF else (hi - lo) * (x % 1))
    return x.astype(np.float32)


def random_of(rng, shape, dtype):
    """Elements over the whole range of a type, its ends and small ones more often."""
    if dtype.startswith("float"):
        return random_floats(rng, shape).astype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max, 0, 1, 2, 3, 7] + [-1, -2] * (info.min < 0), dtype)
    whole = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.5, rng.choice(ends, shape), whole).astype(dtype)
