"""Launches for steps on strided operands: tensors of any rank and type, where broadcast axes have stride 0.

Each kind has a function that records its launches, and may have one that says why a step has no kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import ceil, floor, inf, prod
from typing import Any, Protocol

import numpy as np

from ...steps import CONSTANT, Step, Strided
from . import devices as opencl
from .axes import RANK_MAX, filled, grid, joined, spread
from .methods import INDICES, block

FLOATS = ("float32", "float16")
REDUCTIONS = {  # how -> what merges its terms and what that leaves as it is (reduce.cl)
    "sum": ("added", "0"),
    "mean": ("added", "0"),
    "l1": ("added", "0"),
    "l2": ("added", "0"),
    "sumsquare": ("added", "0"),
    "logsum": ("added", "0"),
    "logsumexp": ("added", "0"),
    "prod": ("multiplied", "1"),
    "max": ("larger", "LOWEST"),
    "min": ("smaller", "HIGHEST"),
}
WHOLE_REDUCTIONS = frozenset(("sum", "prod", "max", "min", "l1", "sumsquare"))  # those that integers have
LANES = 64  # work items of a GPU that share a long row
LONG_ROW = 128  # elements
TILE = {True: dict(VECTOR=8, ROWS=6), False: dict(VECTOR=4, ROWS=8)}  # of a product: on a CPU that stands in, on a GPU
CPU_ROWS = 4  # rows of reduce.cl in a group on a CPU: each is long, and there are few


class Recorder(Protocol):
    """What records launches (``launches.Recorder``)."""

    stand_in: bool
    half: int

    def memory(self, operand: Strided) -> Any: ...
    def stored(self, operand: Strided) -> str: ...
    def table(self, array: np.ndarray, dtype: Any) -> Any: ...
    def launch(
        self, step: Step, file: str, name: str, items: tuple[int, ...], *args: Any, **defines: int | str
    ) -> None: ...


@cache
def formulas() -> dict[str, str]:
    """Pointwise op -> its formula in pointwise.cl, which says for which numbers it is: REAL_, WHOLE_ or EVERY_."""
    text = opencl.source("pointwise.cl")
    return {match[2]: match[0] for match in re.finditer(r"(?<=#define )(REAL|WHOLE|EVERY)_(\w+)", text)}


def formula(step: Step) -> str:
    """The formula of a pointwise step."""
    op = step.params["op"]
    return "EVERY_truth" if op == "cast" and step.dst.dtype == "bool" else formulas()[op]


def whole(operands: Iterable[Strided]) -> int:
    """1 where kernels compute in integers."""
    return int(not any(operand.dtype in FLOATS for operand in operands))


# ---- pointwise ----


def _bounds(lo: float, hi: float, integers: int) -> tuple[Any, Any]:
    """The limits of a clamp as the kernel takes them."""
    if not integers:
        return float(lo), float(hi)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return tuple(
        np.int64(least if value < least else most if value >= most else rounded(value))
        for value, rounded in ((lo, ceil), (hi, floor))
    )


def pointwise(recorder: Recorder, step: Step) -> None:
    p, out = step.params, step.dst
    shape, strides = joined(out.shape, *(spread(x, out.shape) for x in step.src), out.strides)
    number = whole(step.src[1:] if p["op"] == "where" else step.src)
    args: list[Any] = []
    types = {"Y": recorder.stored(out)}
    for name, x, steps in zip("ABC", step.src, strides, strict=False):
        args += [recorder.memory(x), x.offset, filled(steps)]
        types[name] = recorder.stored(x)
    args += [None, 0, filled(())] * (3 - len(step.src))
    args += [recorder.memory(out), out.offset, filled(strides[-1]), shape]
    parameters = p.get("p0", 0.0), p.get("p1", 0.0)
    bounds = (*_bounds(*parameters, number), *_bounds(p.get("lo", -inf), p.get("hi", inf), number))
    items, rank = grid(shape)
    known = types | dict(FORMULA=formula(step), OPERANDS=len(step.src), WHOLE=number, RANK=rank)
    if number and out.dtype not in FLOATS:
        known["NARROW"] = types["Y"]
    recorder.launch(step, "strided.cl", "pointwise", items, *args, *bounds, **known)


def _pointwise_refusal(step: Step) -> str | None:
    op = step.params["op"]
    if op not in formulas():
        return f"has no {op}"
    number = whole(step.src[1:] if op == "where" else step.src)
    if formula(step).startswith(("WHOLE_", "REAL_")[number]):
        return f"has no {op} of {', '.join(x.dtype for x in step.src)}"
    return None


# ---- along axes ----


class _Rows:
    """A tensor as rows along some of its axes: the arguments of reduce.cl.

    others: operands whose strides are wanted, too
    """

    def __init__(self, axes: Sequence[int], x: Strided, *others: Strided):
        kept = [axis for axis in range(len(x.shape)) if axis not in axes]
        shape = tuple(x.shape[axis] for axis in kept)
        strides = [tuple(operand.strides[axis] for axis in kept) for operand in (x, *others)]
        self.count = prod(shape)
        self.shape, self.strides = joined(shape, *strides)
        along, steps = joined(
            [x.shape[axis] for axis in axes], *([t.strides[axis] for axis in axes] for t in (x, *others))
        )
        (self.inner, *over), self._inner, self._over = along, [s[0] for s in steps], [s[1:] for s in steps]
        self.outer, self.over = prod(over), tuple(over)

    @property
    def length(self) -> int:
        return self.outer * self.inner

    def args(self, recorder: Recorder, x: Strided) -> tuple[Any, ...]:
        """ROWS_OF_X."""
        over = (self.outer, self.over, filled(self._over[0]), self.inner, self._inner[0])
        return (recorder.memory(x), x.offset, filled(self.strides[0]), self.shape, self.count, *over)

    def along(self, operand: int) -> tuple[tuple[int, ...], int]:
        """(strides over the outer axes, stride of the inner one) of an operand."""
        return filled(self._over[operand]), self._inner[operand]

    def launch(self, recorder: Recorder, step: Step, name: str, *args: Any, lanes: bool = True, **known: Any) -> None:
        """A kernel of reduce.cl over the rows; ``lanes``: it may share a long row."""
        shares = lanes and self.length >= LONG_ROW and not recorder.stand_in
        known |= dict(LANES=LANES if shares else 1, LOCAL_ROWS=CPU_ROWS if recorder.stand_in else 64)
        items = (self.count * (LANES if shares else 1),)
        recorder.launch(step, "reduce.cl", name, items, *args, **known)


def _squeezed(step: Step, axes: Sequence[int]) -> Strided:
    """The result of a reduction with all axes of its input, those that are reduced having stride 0."""
    x, out = step.src[0], step.dst
    strides = iter(out.strides)
    keeps = len(out.shape) == len(x.shape)
    found = [0 if axis in axes and not keeps else next(strides) for axis in range(len(x.shape))]
    return Strided(out.base, out.offset, x.shape, tuple(0 if i in axes else s for i, s in enumerate(found)), out.dtype)


def reduce(recorder: Recorder, step: Step) -> None:
    (x,), how, axes = step.src, step.params["how"], step.params["axes"]
    out = _squeezed(step, axes)
    rows, (merge, start) = _Rows(axes, x, out), REDUCTIONS[how]
    args = (*rows.args(recorder, x), recorder.memory(out), out.offset, filled(rows.strides[1]))
    known = dict(HOW=f"how_{how}", MERGE=merge, START=start, SHIFTED=int(how == "logsumexp"), WHOLE=whole((x,)))
    rows.launch(recorder, step, "reduce", *args, X=recorder.stored(x), Y=recorder.stored(out), **known)


def _reduce_refusal(step: Step) -> str | None:
    how, x = step.params["how"], step.src[0]
    if how not in REDUCTIONS or (whole((x,)) and how not in WHOLE_REDUCTIONS):
        return f"has no reduction {how} of {x.dtype}"
    return None


def arg(recorder: Recorder, step: Step) -> None:
    (x,), p = step.src, step.params
    out = _squeezed(step, (p["axis"],))
    rows = _Rows((p["axis"],), x, out)
    args = (*rows.args(recorder, x), recorder.memory(out), out.offset, filled(rows.strides[1]), int(p["last"]))
    types = dict(X=recorder.stored(x), WHOLE=whole((x,)))
    direction = ">" if p["how"] == "max" else "<"
    rows.launch(recorder, step, "arg", *args, lanes=False, DIRECTION=direction, **types)


def cumsum(recorder: Recorder, step: Step) -> None:
    x, p, out = step.src[0], step.params, step.dst
    rows = _Rows((p["axis"],), x, out)
    args = (*rows.args(recorder, x), recorder.memory(out), out.offset, filled(rows.strides[1]), rows.along(1)[1])
    flags = (int(p["exclusive"]), int(p["reverse"]))
    types = dict(X=recorder.stored(x), Y=recorder.stored(out), WHOLE=whole((x,)))
    rows.launch(recorder, step, "cumsum", *args, *flags, lanes=False, **types)


def softmax(recorder: Recorder, step: Step) -> None:
    softmax_along(recorder, step, step.src[0], step.dst, step.params["axis"], int(step.kind == "logsoftmax"))


def softmax_along(recorder: Recorder, step: Step, x: Strided, out: Strided, axis: int, logarithm: int = 0) -> None:
    rows = _Rows((axis,), x, out)
    args = (*rows.args(recorder, x), recorder.memory(out), out.offset, filled(rows.strides[1]), rows.along(1)[1])
    types = dict(X=recorder.stored(x), Y=recorder.stored(out))
    rows.launch(recorder, step, "softmax", *args, LOGARITHM=logarithm, **types)


def layernorm(recorder: Recorder, step: Step) -> None:
    (x,), p = step.src, step.params
    layernorm_along(recorder, step, x, step.dst, p["axes"], float(p["epsilon"]), p["center"])


def layernorm_along(
    recorder: Recorder, step: Step, x: Strided, out: Strided, axes: Sequence[int], epsilon: float, center: bool
) -> None:
    rows = _Rows(axes, x, out)
    args = (*rows.args(recorder, x), recorder.memory(out), out.offset, filled(rows.strides[1]), *rows.along(1))
    types = dict(X=recorder.stored(x), Y=recorder.stored(out))
    rows.launch(recorder, step, "layernorm", *args, epsilon, int(center), **types)


# ---- products ----


def matmul(recorder: Recorder, step: Step) -> None:
    _multiply(recorder, step, step.src[0], step.src[1], step.dst, float(step.params["alpha"]))


def _multiply(
    recorder: Recorder,
    step: Step,
    a: Strided,
    b: Strided,
    out: Strided,
    alpha: float,
    added: Strided | None = None,
    causal: bool = False,
) -> None:
    """matmul.cl; ``added`` broadcasts to out."""
    batch = out.shape[:-2]
    over = [spread(Strided(0, 0, t.shape[:-2], t.strides[:-2]), batch) for t in (a, b, out)]
    r_strides = spread(added, out.shape) if added else (0,) * len(out.shape)
    sizes, strides = joined(batch, *over, r_strides[:-2])
    (a_row, a_k), (b_k, b_column), (out_row, out_column) = (t.strides[-2:] for t in (a, b, out))
    rows, columns, depth = *out.shape[-2:], a.shape[-1]
    args = [recorder.memory(a), a.offset, filled(strides[0]), a_row, a_k]
    args += [recorder.memory(b), b.offset, filled(strides[1]), b_k, b_column]
    memory = (recorder.memory(added), added.offset) if added else (None, 0)
    args += [*memory, filled(strides[3]), *r_strides[-2:]]
    args += [recorder.memory(out), out.offset, filled(strides[2]), out_row, out_column]
    tile = TILE[recorder.stand_in] | (dict(ROWS=1) if rows == 1 else {})
    local = (1, 2) if recorder.stand_in else (8, 4)
    known = tile | dict(LOCAL_COLUMNS=local[0], LOCAL_BLOCKS=local[1])
    known |= dict(B_DENSE=int(b_column == 1), OUT_DENSE=int(out_column == 1), HALF_ARITHMETIC=recorder.half)
    known |= dict(X=recorder.stored(a), W=recorder.stored(b), Y=recorder.stored(out), BLOCK=block(depth))
    known["R"] = recorder.stored(added) if added else "float"
    items = (ceil(columns / tile["VECTOR"]), ceil(rows / tile["ROWS"]), prod(batch))
    recorder.launch(step, "matmul.cl", "matmul", items, *args, sizes, rows, columns, depth, alpha, int(causal), **known)


def _turned(x: Strided) -> Strided:
    """The last two axes swapped."""
    shape, strides = ((*row[:-2], row[-1], row[-2]) for row in (x.shape, x.strides))
    return Strided(x.base, x.offset, shape, strides, x.dtype, x.array)


def scores(step: Step) -> Strided:
    """The products of queries and keys of an attention step, in the recorder's scratch."""
    q, k = step.src[:2]
    shape = (*step.dst.shape[:-2], q.shape[-2], k.shape[-2])
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Strided(SCRATCH, 0, shape, strides)


SCRATCH = CONSTANT - 1  # base of what an attention's kernels hand to each other: float32


def attention(recorder: Recorder, step: Step) -> None:
    """Products of queries and keys, softmax along the keys, products with the values."""
    (q, k, v, *masks), p, between = step.src, step.params, scores(step)
    mask = masks[0] if masks else None
    _multiply(recorder, step, q, _turned(k), between, float(p["scale"]), mask, p["causal"])
    softmax_along(recorder, step, between, between, len(between.shape) - 1)
    _multiply(recorder, step, between, v, step.dst, 1.0)


def _attention_refusal(step: Step) -> str | None:
    count = prod(scores(step).shape)
    return f"has no room for {count} products of queries and keys" if count >= INDICES else None


# ---- indices and tables ----


def resize(recorder: Recorder, step: Step) -> None:
    (x,), out, taps = step.src, step.dst, step.params["taps"]
    moves = _moves(taps)
    x_strides = tuple(0 if axis in taps else stride for axis, stride in enumerate(x.strides))
    order = sorted(range(len(out.shape)), key=lambda axis: (abs(out.strides[axis]), -out.shape[axis]))
    order = [axis for axis in order if out.shape[axis] != 1 or axis in taps] or [0]
    shape, steps, to = (tuple(row[axis] for axis in order) for row in (out.shape, x_strides, out.strides))
    items, rank = grid(shape)
    args = [recorder.memory(x), x.offset, filled(steps), recorder.memory(out), out.offset, filled(to), shape]
    known = dict(X=recorder.stored(x), Y=recorder.stored(out), WHOLE=whole((x,)), RANK=rank, NEAREST=int(moves))
    for number, (axis, (indices, weights)) in enumerate(taps.items()):
        args += [recorder.table(indices, np.int32), recorder.table(weights, np.float32), weights.shape[1]]
        args += [x.strides[axis]]
        known[f"AXIS{number}"] = f"s{order.index(axis)}"
    args += [None, None, 0, 0] * (3 - len(taps))
    recorder.launch(step, "resize.cl", "resize", items, *args, AXES=len(taps), **known)


def _moves(taps: Any) -> bool:
    """Every element is one of the input."""
    return all(weights.shape[1] == 1 and (weights == 1).all() for _, weights in taps.values())


def _resize_refusal(step: Step) -> str | None:
    taps = step.params["taps"]
    if not 1 <= len(taps) <= 3:
        return f"resizes 1 to 3 axes, got {len(taps)}"
    if whole(step.src) and not _moves(taps):
        return f"has no interpolation of {step.src[0].dtype}"
    for axis, (indices, _) in taps.items():
        if indices.min() < 0 or indices.max() >= step.src[0].shape[axis]:
            return f"expected indices below {step.src[0].shape[axis]} along axis {axis}, got others"
    return None


def gather(recorder: Recorder, step: Step) -> None:
    (x, index), out, axis = step.src, step.dst, step.params["axis"]
    if step.kind == "gather":
        inner = len(x.shape) - axis - 1
        x_strides = (*x.strides[:axis], *(0,) * len(index.shape), *x.strides[axis + 1 :])
        index_strides = (*(0,) * axis, *index.strides, *(0,) * inner)
    else:
        x_strides = tuple(0 if i == axis else stride for i, stride in enumerate(x.strides))
        index_strides = index.strides
    shape, strides = joined(out.shape, x_strides, index_strides, out.strides)
    items, rank = grid(shape)
    args = [recorder.memory(x), x.offset, filled(strides[0]), x.strides[axis], x.shape[axis]]
    args += [recorder.memory(index), index.offset, filled(strides[1])]
    args += [recorder.memory(out), out.offset, filled(strides[2]), shape]
    types = dict(X=recorder.stored(x), I=recorder.stored(index), Y=recorder.stored(out), WHOLE=whole((x,)))
    recorder.launch(step, "index.cl", "gather", items, *args, RANK=rank, **types)


def _floats_only(step: Step) -> str | None:
    others = sorted({operand.dtype for operand in (*step.src, step.dst)} - {*FLOATS})
    return f"has no {step.kind} kernel for {', '.join(others)}" if others else None


STRIDED_KINDS: dict[str, Callable[[Recorder, Step], None]] = {
    "pointwise": pointwise,
    "softmax_nd": softmax,
    "logsoftmax": softmax,
    "layernorm_nd": layernorm,
    "reduce": reduce,
    "arg": arg,
    "cumsum": cumsum,
    "matmul": matmul,
    "attention": attention,
    "resize": resize,
    "gather": gather,
    "gather_elements": gather,
}
_REFUSALS: dict[str, tuple[Callable[[Step], str | None], ...]] = {
    "pointwise": (_pointwise_refusal,),
    "unary": (_pointwise_refusal,),
    "binary": (_pointwise_refusal,),
    "softmax_nd": (_floats_only,),
    "logsoftmax": (_floats_only,),
    "layernorm_nd": (_floats_only,),
    "reduce": (_reduce_refusal,),
    "matmul": (_floats_only,),
    "attention": (_floats_only, _attention_refusal),
    "resize": (_resize_refusal,),
}


def refusal(step: Step) -> str | None:
    """Why a step of a kind that has kernels has none for its types, op or shape; None where it has one."""
    ranks = (len(operand.shape) for operand in (*step.src, step.dst) if isinstance(operand, Strided))
    if (rank := max(ranks, default=0)) > RANK_MAX:
        return f"takes at most {RANK_MAX} axes, got {rank}"
    return next((reason for check in _REFUSALS.get(step.kind, ()) if (reason := check(step))), None)
