"""Native steps on strided operands: any layout gives the same elements, whatever does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

import numpy as np
from strided_steps import elements, layout

from pipeall import PipeallError
from pipeall.errors import ModelError
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.steps import CONSTANT, SLOT_IN, SLOT_OUT, TYPES, Step, Strided

ELEMENTS = 1 << 12  # of an operand
ODD = (-1, 0, 1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
TOLERANCE = 1e-3  # of the largest result: sums of at most ELEMENTS products in another order


@cache
def steps() -> tuple[Step, ...]:
    """The small steps on strided operands of the case table, by kind one after the other."""
    kinds: dict[str, list[Step]] = {}
    for cases in CASES.values():
        for case in cases:
            if case.op == "picture":  # what it reads is an address, which the border makes
                continue
            if sum(map(prod, (*case.shapes, *case.constants))) > ELEMENTS:
                continue
            try:
                lowered = lower(case_graph(case)[0])
            except ModelError:
                continue
            for step in lowered.steps:
                operands = (*step.src, step.dst)
                if all(isinstance(at, Strided) and prod(at.shape) <= ELEMENTS for at in operands):
                    kinds.setdefault(step.kind, []).append(step)
    return tuple(step for found in kinds.values() for step in found[:: -(-len(found) // 40)])


def native_step(table: Any, content: bytes) -> None:
    """First two bytes: the step; then threads, how it is damaged if at all; the rest seeds layouts and elements."""
    first, second, threads, how, *rest = (*content, *bytes(5))
    step, rng = steps()[(first * 256 + second) % len(steps())], np.random.default_rng(rest)
    arrays = [_drawn(rng, at) for at in step.src]
    dense, memory, out_bytes = _laid(step, arrays, None)
    whole = _run(table, dense, memory, out_bytes, 1)
    moved, memory, out_bytes = _laid(step, arrays, rng)
    threads = 1 + threads % 3
    damages = tuple(DAMAGE)
    if how % 2:
        damaged = DAMAGE[damages[how // 2 % len(damages)]](moved, rng)
        try:
            _run(table, damaged, memory, out_bytes, threads, check=False)
        except PipeallError as error:
            assert "\n" not in str(error)
        return
    got = _run(table, moved, memory, out_bytes, threads)
    assert got.shape == whole.shape
    if got.dtype.kind == "f":
        finite = np.isfinite(whole)
        assert np.array_equal(got[~finite], whole[~finite], equal_nan=True), step.kind
        limit = TOLERANCE * max(1.0, float(np.abs(whole[finite]).max(initial=0)))
        assert (np.abs(got[finite].astype(np.float64) - whole[finite]) <= limit).all(), step.kind
    else:
        np.testing.assert_array_equal(got, whole)


def _drawn(rng: np.random.Generator, at: Strided) -> np.ndarray:
    """Elements for an operand, the same along axes that are broadcast. Whole numbers are small: many are indices."""
    if at.array is not None:
        return at.array
    shape = tuple(1 if stride == 0 else size for size, stride in zip(at.shape, at.strides, strict=True))
    kind = np.dtype(at.dtype).kind
    if kind == "f":
        return rng.standard_normal(shape).astype(at.dtype)
    return rng.integers(0, 2 if kind == "b" else 5, shape).astype(at.dtype)


def _laid(step: Step, arrays: list[np.ndarray], rng: np.random.Generator | None) -> tuple[Step, np.ndarray, int]:
    """The step on operands that lie one after the other, densely or at random; the input slot; bytes of the other."""
    placed: list[Strided] = []
    end = 0
    for at, array in zip(step.src, arrays, strict=True):
        if at.array is None:
            made, end = layout(rng, array.shape, SLOT_IN, end, at.dtype, dense=rng is None)
            strides = tuple(stride if n > 1 else 0 for n, stride in zip(array.shape, made.strides, strict=True))
            at = replace(made, shape=at.shape, strides=strides)
        placed.append(at)
    dst, out_end = layout(rng, step.dst.shape, SLOT_OUT, 0, step.dst.dtype, dense=rng is None)
    slot = np.full(max(end, 8), 255, np.uint8)
    for at, array in zip(placed, arrays, strict=True):
        if at.base == SLOT_IN:
            elements(slot, replace(at, shape=array.shape))[...] = array
    return replace(step, src=tuple(placed), dst=dst), slot, out_end


def _run(table: Any, step: Step, slot: np.ndarray, out_bytes: int, threads: int, check: bool = True) -> np.ndarray:
    """The step's result; with ``check`` nothing else may be written."""
    from pipeall._kernels.cpu.kernels import CpuProgram

    program = CpuProgram(table, (-1,) * threads, "fuzz", (0, slot.size, out_bytes))
    program.add(step)
    out = program.run(slot)
    if not check:
        return out
    result = elements(out, step.dst).copy()
    elements(out, replace(step.dst, dtype=f"int{8 * result.itemsize}"))[...] = -1
    assert (out == 255).all(), f"{step.kind} wrote outside of its output"
    return result


# ---- what no caller may do ----


def _operand(step: Step, rng: np.random.Generator, change: Callable[[Strided], Strided]) -> Step:
    """The step with one operand changed: the last is what it writes."""
    which = int(rng.integers(len(step.src) + 1))
    if which == len(step.src):
        return replace(step, dst=change(step.dst))
    return replace(step, src=(*step.src[:which], change(step.src[which]), *step.src[which + 1 :]))


def _odd(rng: np.random.Generator) -> int:
    return ODD[rng.integers(len(ODD))]


def _entry(values: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    """One of the numbers is an odd one, or one more."""
    if not values:
        return values
    at = int(rng.integers(len(values)))
    return (*values[:at], values[at] + 1 if rng.integers(2) else _odd(rng), *values[at + 1 :])


def _parameter(step: Step, rng: np.random.Generator) -> Step:
    """A whole number among the attributes is another."""
    whole = [name for name, value in step.params.items() if type(value) is int or _is_ints(value)]
    if not whole:
        return step
    name = whole[rng.integers(len(whole))]
    value = step.params[name]
    return replace(step, params={**step.params, name: _odd(rng) if type(value) is int else _entry(value, rng)})


def _is_ints(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(type(entry) is int for entry in value)


def _rank(at: Strided, rng: np.random.Generator) -> Strided:
    if rng.integers(2) and at.shape:
        return replace(at, shape=at.shape[:-1], strides=at.strides[:-1])
    return replace(at, shape=(*at.shape, 1), strides=(*at.strides, 0))


DAMAGE: dict[str, Callable[[Step, np.random.Generator], Step]] = {
    "offset": lambda step, rng: _operand(step, rng, lambda at: replace(at, offset=_odd(rng))),
    "shape": lambda step, rng: _operand(step, rng, lambda at: replace(at, shape=_entry(at.shape, rng))),
    "stride": lambda step, rng: _operand(step, rng, lambda at: replace(at, strides=_entry(at.strides, rng))),
    "rank": lambda step, rng: _operand(step, rng, lambda at: _rank(at, rng)),
    "type": lambda step, rng: _operand(step, rng, lambda at: replace(at, dtype=str(rng.choice(list(TYPES))))),
    "base": lambda step, rng: _operand(step, rng, lambda at: replace(at, base=int(rng.choice([CONSTANT, 0, 1, 2, 9])))),
    "count": lambda step, rng: replace(step, src=step.src[:-1] if rng.integers(2) else (*step.src, *step.src[:1])),
    "parameter": _parameter,
}
