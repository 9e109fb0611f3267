"""Steps executed in NumPy, straight from ``steps.py``: no kernels, no scheduling, no cleverness."""

from collections.abc import Iterator

import numpy as np

from pipeall.graph.ops import OPS
from pipeall.graph.pointwise import BINARY, UNARY
from pipeall.steps import ARENA, CONSTANT, LOCAL, SLOT_IN, SLOT_OUT, Lowered, Step, Strided, View

BINARY_OPS = {op: entry.compute for op, entry in BINARY.items()} | {
    entry.swapped: lambda a, b, f=entry.compute: f(b, a) for entry in BINARY.values() if entry.swapped
}
POINTWISE = ("unary", "binary", "pointwise")


def run_steps(lowered: Lowered, slot_in: np.ndarray) -> np.ndarray:
    """The elements of SLOT_OUT; computes in the float type of ``slot_in``.

    Memory that no step has written is NaN, and so is what is computed from it. Asserts that no step leaves its bases
    or writes what it reads, but for pointwise ones, which may write each element where they read it.
    """
    memory = Memory(lowered)
    values = np.full(memory.size, np.nan, slot_in.dtype)
    memory.base(values, SLOT_IN)[:] = slot_in
    strips, end = {some.first: some for some in lowered.strips}, 0
    for number, step in enumerate(lowered.steps):
        if number in strips:
            end = strips[number].last + 1
            run_bands(memory, values, strips[number].bands)
        elif number >= end:
            run_step(memory, values, step)
    return memory.base(values, SLOT_OUT).copy()


def run_step(memory: "Memory", values: np.ndarray, step: Step) -> tuple[set[int], set[int]]:
    """Runs a step on all memory; the elements that it read and wrote outside of LOCAL."""
    sources, target = memory.touched(np.arange(memory.size), step, constants=False)
    others = [s for s in sources if step.kind not in POINTWISE or not np.array_equal(s, target)]
    assert not any(np.isin(s, target).any() for s in others), f"{step.kind} of {step.node} writes what it reads"
    first = memory.size - memory.sizes[LOCAL]
    found = {int(n) for s in sources for n in s.flat if n < first}, {int(n) for n in target.flat if n < first}
    sources, target = memory.touched(values, step)
    target[...] = compute(step, sources)
    return found


def run_bands(memory: "Memory", values: np.ndarray, bands: tuple) -> None:
    """Each band with memory of its own, as a thread has it. Asserts that none touches what another one writes."""
    touched = []
    for parts in bands:
        memory.base(values, LOCAL)[:] = np.nan
        found = [run_step(memory, values, step) for _, step in parts]
        touched.append([set().union(*elements) for elements in zip(*found, strict=True)])
    for band, (read, written) in enumerate(touched):
        others = set().union(*(other for index, (_, other) in enumerate(touched) if index != band))
        assert not (read | written) & others, f"band {band} touches what another one writes"


class Memory:
    """The bases of a program, one after the other in one array."""

    def __init__(self, lowered: Lowered):
        self.steps = lowered.steps
        self.sizes = {
            ARENA: lowered.arena_bytes // 4,
            SLOT_IN: lowered.slot_in_bytes // 4,
            SLOT_OUT: lowered.slot_out_bytes // 4,
            LOCAL: max((strips.local_bytes for strips in lowered.strips), default=0) // 4,
        }
        self.size = sum(self.sizes.values())

    def base(self, values: np.ndarray, base: int) -> np.ndarray:
        start = sum(size for other, size in self.sizes.items() if other < base)
        return values[start : start + self.sizes[base]]

    def touched(self, values: np.ndarray, step: Step, constants: bool = True) -> tuple[list[np.ndarray], np.ndarray]:
        """What a step reads and writes, in place: (h, w, c) pixels, the dimensions of a copy, or strided elements."""
        strides = {"src": (), "dst": ()}
        if step.kind == "copy":
            strides = {side: (step.params["dims"], step.params[f"{side}_strides"]) for side in strides}
        met = [view for view in step.src if constants or view.base != CONSTANT]
        sources = [self._at(values, view, *strides["src"]) for view in met]
        return sources, self._at(values, step.dst, *strides["dst"])

    def live(self) -> list[int]:
        """Elements of the arena in use during each step: it writes them, or they hold what it or a later one reads."""
        numbers, used, counts = np.arange(self.size), np.zeros(self.size, bool), []
        for step in reversed(self.steps):
            sources, target = self.touched(numbers, step, constants=False)
            used[target] = True
            for source in sources:
                used[source] = True
            counts.append(int(self.base(used, ARENA).sum()))
            used[target] = False
        return counts[::-1]

    def _at(self, values: np.ndarray, view: View, dims=None, strides=None) -> np.ndarray:
        if isinstance(view, Strided):
            return self._strided(values, view)
        if dims is None:
            dims, strides = (view.h, view.w, view.c), (view.w * view.stride, view.stride, 1)
        assert view.stride >= view.c and len(dims) <= 6, view
        base, end = self.base(values, view.base), view.offset + (view.h * view.w - 1) * view.stride + view.c
        reach = view.offset + 1 + sum((n - 1) * stride for n, stride in zip(dims, strides, strict=True))
        assert 0 <= view.offset and reach == end <= base.size, (view, dims, strides, base.size)
        byte_strides = [stride * values.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(base[view.offset :], dims, byte_strides)

    def _strided(self, values: np.ndarray, at: Strided) -> np.ndarray:
        base = self.base(values, at.base) if at.array is None else at.array.astype(values.dtype)
        reach = [(n - 1) * stride for n, stride in zip(at.shape, at.strides, strict=True)]
        assert at.offset + sum(min(r, 0) for r in reach) >= 0, at
        assert at.offset + sum(max(r, 0) for r in reach) < base.size, (at, base.size)
        byte_strides = [stride * values.itemsize for stride in at.strides]
        return np.lib.stride_tricks.as_strided(base[at.offset :], at.shape, byte_strides)


def compute(step: Step, src: list[np.ndarray]) -> np.ndarray | float:
    """What a step writes: (h, w, c) pixels, or the dimensions of a copy."""
    p = step.params
    if step.kind == "fill":
        return p["value"]
    x = src[0]
    match step.kind:
        case "copy":
            return x
        case "conv":
            return _conv(step, x, src[1] if len(src) > 1 else 0)
        case "maxpool":
            return np.max(list(_taps(step, x, -np.inf)), axis=0)
        case "avgpool":
            inside = np.ones_like(x[..., :1])
            if not p["count_include_pad"]:
                return sum(_taps(step, x, 0)) / sum(_taps(step, inside, 0))
            top, left, bottom, right = p["pads"]
            inside = np.pad(inside, ((top, bottom), (left, right), (0, 0)), constant_values=1)
            return sum(_taps(step, x, 0)) / sum(_taps(step, inside, 0, pads=(0, 0)))
        case "lrn":
            low, high = (p["size"] - 1) // 2, p["size"] // 2
            squares = [np.sum(x[..., max(0, c - low) : c + high + 1] ** 2, axis=-1) for c in range(x.shape[-1])]
            return x * (p["bias"] + p["alpha"] / p["size"] * np.stack(squares, axis=-1)) ** -p["beta"]
        case "softmax":
            powers = np.exp(x - x.max(axis=-1, keepdims=True))
            return powers / powers.sum(axis=-1, keepdims=True)
        case "layernorm":
            return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + p["epsilon"])
        case "binary":
            b = src[1] if len(src) > 1 else step.weight.astype(x.dtype)
            assert all(n in (1, m) for m, n in zip(x.shape, b.shape, strict=True)), step.node
            return np.clip(BINARY_OPS[p["op"]](x, b), p["lo"], p["hi"])
        case "unary":
            entry = UNARY[p["op"]]
            return entry.compute(x, *(p["p0"], p["p1"])[: len(entry.parameters)])
        case "pointwise":
            return _pointwise(p, src)
        case "resize":
            for axis, (index, weights) in p["taps"].items():
                taken = np.take(x, index, axis)
                x = (taken * weights.reshape(*weights.shape, *(1,) * (taken.ndim - axis - 2))).sum(axis + 1)
            return x
    return OPS[step.kind.removesuffix("_nd")].compute(p, *src)


def _pointwise(p: dict, src: list[np.ndarray]) -> np.ndarray:
    if p["op"] == "cast":
        return src[0]
    if p["op"] == "where":
        return np.where(src[0] != 0, *src[1:])
    if p["op"] in UNARY:
        return UNARY[p["op"]].compute(src[0], *(p["p0"], p["p1"])[: len(UNARY[p["op"]].parameters)])
    return np.clip(BINARY_OPS[p["op"]](*src), p["lo"], p["hi"])


def _conv(step: Step, x: np.ndarray, residual: np.ndarray | float) -> np.ndarray:
    """x (h, w, Cin) by weight (groups * n, k, kh, kw): for each tap, (pixels, k) by (k, n) in every group."""
    p, groups = step.params, step.params["groups"]
    assert step.weight.shape[2:] == p["kernel"], step.node
    weight = step.weight.astype(x.dtype).reshape(groups, -1, *step.weight.shape[1:])
    out = 0
    for tap, met in enumerate(_taps(step, x, 0)):
        i, j = divmod(tap, p["kernel"][1])
        rows = met.reshape(-1, groups, x.shape[2] // groups).transpose(1, 0, 2)
        out = out + rows @ weight[..., i, j].transpose(0, 2, 1)
    out = out.transpose(1, 0, 2).reshape(step.dst.h, step.dst.w, step.dst.c)
    return np.clip(out + step.bias.astype(x.dtype) + residual, p["lo"], p["hi"])


def _taps(step: Step, x: np.ndarray, fill: float, pads: tuple[int, int] | None = None) -> Iterator[np.ndarray]:
    """For each kernel position, row by row, the (dst.h, dst.w, c) pixels of x it meets; ``fill`` lies outside of x."""
    (kh, kw), (sh, sw) = step.params["kernel"], step.params["strides"]
    dh, dw = step.params.get("dilations", (1, 1))
    top, left = step.params["pads"][:2] if pads is None else pads
    below = max(0, (step.dst.h - 1) * sh + (kh - 1) * dh + 1 - top - x.shape[0])
    right = max(0, (step.dst.w - 1) * sw + (kw - 1) * dw + 1 - left - x.shape[1])
    padded = np.pad(x, ((top, below), (left, right), (0, 0)), constant_values=fill)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dh, i * dh + (step.dst.h - 1) * sh + 1, sh)
            columns = slice(j * dw, j * dw + (step.dst.w - 1) * sw + 1, sw)
            yield padded[rows, columns]
