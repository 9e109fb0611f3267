"""Launches of matmul.cl: products of matrices, and attention."""

from __future__ import annotations

from math import ceil, prod

from ...steps import Step, Strided
from .axes import filled, joined, spread
from .methods import INDICES, block
from .recorder import SCRATCH, Kind, Recorder, floats_only
from .reduce_cl import softmax_along

TILE = {True: dict(VECTOR=8, ROWS=6), False: dict(VECTOR=4, ROWS=8)}  # of a product: on a CPU that stands in, on a GPU


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


def _transposed(x: Strided) -> Strided:
    """The last two axes swapped."""
    shape, strides = ((*row[:-2], row[-1], row[-2]) for row in (x.shape, x.strides))
    return Strided(x.base, x.offset, shape, strides, x.dtype, x.array)


def scores(step: Step) -> Strided:
    """The products of queries and keys of an attention step, in SCRATCH."""
    q, k = step.src[:2]
    shape = (*step.dst.shape[:-2], q.shape[-2], k.shape[-2])
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Strided(SCRATCH, 0, shape, strides)


def attention(recorder: Recorder, step: Step) -> None:
    """Products of queries and keys, softmax along the keys, products with the values."""
    (q, k, v, *masks), p, between = step.src, step.params, scores(step)
    mask = masks[0] if masks else None
    _multiply(recorder, step, q, _transposed(k), between, float(p["scale"]), mask, p["causal"])
    softmax_along(recorder, step, between, between, len(between.shape) - 1)
    _multiply(recorder, step, between, v, step.dst, 1.0)


def _refusal(step: Step) -> str | None:
    count = prod(scores(step).shape)
    return f"has no room for {count} products of queries and keys" if count >= INDICES else None


KINDS = {"matmul": Kind(matmul, (floats_only,)), "attention": Kind(attention, (floats_only, _refusal))}
