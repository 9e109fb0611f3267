"""Single steps on strided operands laid out at random: any order of axes, gaps, broadcasts; gaps are checked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from kernel_runs import supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu.table import choose
from pipeall.steps import CONSTANT, SLOT_IN, SLOT_OUT, Step, Strided, item_bytes

INF = float("inf")
ISAS = tuple(isa for isa in ("avx512", "avx2", "neon", "ref") if isa in supported_isas())


def placed(rng, shape, dtype, base, begin, *, broadcast=(), plain=False) -> tuple[Strided, int]:
    """A tensor from byte ``begin`` on, and the byte behind it; axes in ``broadcast`` have stride 0; plain: C order."""
    order = range(len(shape)) if plain else rng.permutation(len(shape))
    strides, reach = [0] * len(shape), 1
    for axis in reversed(order):
        if axis not in broadcast:
            strides[axis] = reach
            reach *= shape[axis]
            reach += 0 if plain else int(rng.integers(0, 3))
    items = item_bytes(dtype)
    offset = -(-begin // items) + (0 if plain else int(rng.integers(0, 5)))
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return Strided(base, offset, tuple(shape), tuple(strides), dtype), items * (offset + last + 1)


def window(memory: np.ndarray, at: Strided) -> np.ndarray:
    """The elements of an operand in the bytes of its base."""
    items = item_bytes(at.dtype)
    start = memory[at.offset * items :]
    whole = start[: start.size // items * items].view(at.dtype)
    return np.lib.stride_tricks.as_strided(whole, at.shape, [stride * items for stride in at.strides])


def run(
    kind, params, sources: Sequence[np.ndarray], shape, dtype, *, seed=0, isa=None, threads=1, plain=False, constants=()
):
    """The result of a step on ``sources`` (axes of size 1 are broadcast where dst's are larger, for kind pointwise)."""
    rng, end, src = np.random.default_rng(seed), 0, []
    for i, source in enumerate(sources):
        over = shape if kind == "pointwise" else source.shape
        axes = [d for d, (n, m) in enumerate(zip(source.shape, over, strict=True)) if n != m]
        if i in constants:
            strides = [stride // source.itemsize for stride in np.ascontiguousarray(source).strides]
            strides = [0 if d in axes else stride for d, stride in enumerate(strides)]
            src.append(
                Strided(CONSTANT, 0, tuple(over), tuple(strides), str(source.dtype), np.ascontiguousarray(source))
            )
        else:
            at, end = placed(rng, over, str(source.dtype), SLOT_IN, end, broadcast=axes, plain=plain)
            src.append(at)
    dst, out_end = placed(rng, shape, dtype, SLOT_OUT, 0, plain=plain)
    slot = np.full(end + 64, 255, np.uint8)  # NaN between floats
    for source, at in zip(sources, src, strict=True):
        if at.base == SLOT_IN:
            window(slot, at)[...] = source
    program = CpuProgram(choose((isa or ISAS[0],), "any core"), (-1,) * threads, "test", (0, slot.size, out_end + 64))
    program.add(Step(kind, "s", tuple(src), dst, params))
    out = program.run(slot)
    result = window(out, dst).copy()
    items = item_bytes(dtype)
    window(out, replace(dst, dtype=f"uint{8 * items}"))[...] = 2 ** (8 * items) - 1
    assert (out == 255).all(), "wrote outside its view"
    return result


def everywhere(*args, **kwargs) -> Iterator[tuple[str, np.ndarray]]:
    """The result on every instruction set, after checking that two and three threads give the same bits."""
    for isa in ISAS:
        result = run(*args, isa=isa, **kwargs)
        for threads in (2, 3):
            again = run(*args, isa=isa, threads=threads, **kwargs)
            assert result.tobytes() == again.tobytes(), f"{isa}: {threads} threads give another result"
        yield isa, result


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
