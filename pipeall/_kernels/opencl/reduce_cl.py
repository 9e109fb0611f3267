"""Launches of reduce.cl: whatever runs along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...steps import Step, Strided
from .axes import filled, joined
from .recorder import Kind, Recorder, float32_only, floats_only, pixels, whole

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
CPU_ROWS = 4  # rows of reduce.cl in a group on a CPU: each is long, and there are few


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
    steps = [0 if axis in axes and not keeps else next(strides) for axis in range(len(x.shape))]
    return Strided(out.base, out.offset, x.shape, tuple(0 if i in axes else s for i, s in enumerate(steps)), out.dtype)


def reduce(recorder: Recorder, step: Step) -> None:
    (x,), how, axes = step.src, step.params["how"], step.params["axes"]
    out = _squeezed(step, axes)
    rows, (merge, start) = _Rows(axes, x, out), REDUCTIONS[how]
    args = (*rows.args(recorder, x), recorder.memory(out), out.offset, filled(rows.strides[1]))
    known = dict(HOW=f"how_{how}", MERGE=merge, START=start, SHIFTED=int(how == "logsumexp"), WHOLE=whole((x,)))
    rows.launch(recorder, step, "reduce", *args, X=recorder.stored(x), Y=recorder.stored(out), **known)


def _refusal(step: Step) -> str | None:
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


def softmax_of_pixels(recorder: Recorder, step: Step) -> None:
    softmax_along(recorder, step, pixels(step.src[0]), pixels(step.dst), axis=1)


def layernorm_of_pixels(recorder: Recorder, step: Step) -> None:
    x, out, epsilon = pixels(step.src[0]), pixels(step.dst), float(step.params["epsilon"])
    layernorm_along(recorder, step, x, out, axes=(1,), epsilon=epsilon, center=True)


KINDS = {
    "reduce": Kind(reduce, (_refusal,)),
    "arg": Kind(arg),
    "cumsum": Kind(cumsum),
    **dict.fromkeys(("softmax_nd", "logsoftmax"), Kind(softmax, (floats_only,))),
    "layernorm_nd": Kind(layernorm, (floats_only,)),
    "softmax": Kind(softmax_of_pixels, (float32_only,)),
    "layernorm": Kind(layernorm_of_pixels, (float32_only,)),
}
