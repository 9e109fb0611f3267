"""Launches of index.cl."""

from __future__ import annotations

from ...steps import Step
from .axes import filled, grid, joined
from .recorder import Kind, Recorder, whole


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


KINDS = dict.fromkeys(("gather", "gather_elements"), Kind(gather))
