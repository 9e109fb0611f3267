"""Cases of what works on rows and along axes: products, attention, softmax, norms, reductions, recurrent layers."""

from __future__ import annotations

from ..ops import attributes
from ..ops.reduction_ops import COUNTED, FLOAT_ONLY, HOW
from .case import Case, Shape

LENGTHS = (1, 2, 7, 8, 15, 16, 17, 33, 100, 1001)  # of a row, around the widths of vectors


def _matmul(a: Shape, b: Shape, *, alpha: float = 1.0, constant: bool = False, note: str = "") -> Case:
    return Case("matmul", dict(alpha=alpha), (a,) if constant else (a, b), (b,) if constant else (), note=note)


MATMUL = (
    *(_matmul((1, n, 17), (1, 17, 9)) for n in LENGTHS[:9]),
    *(_matmul((2, 5, n), (2, n, 16)) for n in LENGTHS),
    *(_matmul((3, 6, 8), (3, 8, n)) for n in LENGTHS[:9]),
    _matmul((33, 31), (31, 34)),
    _matmul((1, 4, 50, 32), (1, 4, 32, 50), alpha=32**-0.5, note="scores"),
    _matmul((1, 4, 50, 50), (1, 4, 50, 32), note="values"),
    _matmul((2, 1, 5, 6), (1, 3, 6, 7), note="broadcast both ways"),
    _matmul((1, 1, 5, 6), (2, 3, 6, 7), note="broadcast"),
    _matmul((2, 3, 5, 6), (1, 1, 6, 7), constant=True, note="constant"),
    _matmul((2, 3, 5, 6), (2, 3, 6, 7), alpha=-0.5, constant=True, note="constant"),
    _matmul((1, 300, 70), (1, 70, 90), note="blocks"),
    _matmul((1, 1, 400), (1, 400, 65), note="row"),
    _matmul((1, 65, 400), (1, 400, 1), note="column"),
)


def _attention(q: Shape, keys: int, depth: int, *, mask: Shape | None = None, causal=False, note="") -> Case:
    shapes = (q, (*q[:-2], keys, q[-1]), (*q[:-2], keys, depth))
    attrs = dict(scale=q[-1] ** -0.5, causal=causal)
    return Case("attention", attrs, shapes + ((mask,) if mask else ()), note=note)


ATTENTION = (
    *(_attention((1, 3, n, 32), n, 32) for n in (1, 5, 16, 49, 50, 64)),
    *(_attention((2, 2, 7, size), 9, size) for size in (1, 8, 15, 33, 64)),
    _attention((1, 2, 300, 16), 300, 16, note="several blocks"),
    _attention((1, 2, 5, 16), 301, 24, note="long keys, wide values"),
    _attention((1, 2, 33, 8), 33, 8, causal=True),
    _attention((1, 2, 270, 8), 270, 8, causal=True, note="several blocks"),
    _attention((2, 3, 6, 8), 10, 8, mask=(2, 3, 6, 10), note="mask"),
    _attention((2, 3, 6, 8), 10, 8, mask=(1, 1, 6, 10), note="mask for all heads"),
    _attention((2, 3, 6, 8), 10, 8, mask=(2, 1, 1, 10), note="mask of keys"),
    _attention((1, 2, 9, 8), 9, 8, mask=(1, 2, 9, 9), causal=True, note="mask"),
    _attention((6, 17), 11, 9, note="rank 2"),
)


def _along(op: str) -> tuple[Case, ...]:
    """The axes that both forms of softmax are tested on."""
    return (
        *(Case(op, dict(axis=1), ((5, n),)) for n in LENGTHS),
        *(Case(op, dict(axis=2), ((1, 9, n),)) for n in LENGTHS),
        Case(op, dict(axis=0), ((17,),)),
        Case(op, dict(axis=0), ((7, 9),)),
        Case(op, dict(axis=1), ((2, 13, 9),)),
        Case(op, dict(axis=3), ((2, 3, 50, 49),)),
        Case(op, dict(axis=2), ((2, 3, 7, 5),)),
        Case(op, dict(axis=1), ((2, 17, 3, 5),)),
        Case(op, dict(axis=2), ((2, 3, 4, 5, 3),)),
    )


SOFTMAX = _along("softmax")
LOGSOFTMAX = _along("logsoftmax")


def _layernorm(shape: Shape, *axes: int, center: bool = True, epsilon: float = 1e-5) -> Case:
    return Case("layernorm", dict(epsilon=epsilon, axes=axes, center=center), (shape,))


LAYERNORM = (
    *(_layernorm((1, 5, n), 2, center=center) for n in LENGTHS for center in (True, False)),
    *(_layernorm((2, c, 3, 5), 1) for c in (3, 17)),
    *(_layernorm((2, 3, 5, 7), *axes, center=center)
      for axes in ((2, 3), (1, 2, 3), (3,), (2,), (0, 2, 3), (0, 1, 2, 3)) for center in (True, False)),
    _layernorm((9,), 0),
    _layernorm((2, 4, 3, 5, 6), 2, 3, 4, epsilon=1e-3),
    _layernorm((1, 2, 40, 41), 2, 3),
)  # fmt: skip


def _reduce(how: str, shape: Shape, *axes: int, keepdims: bool = True, dtype: str = "float32") -> Case:
    note = "" if dtype == "float32" else dtype
    return Case("reduce", dict(how=how, axes=axes, keepdims=keepdims), (shape,), types=(dtype,), note=note)


IMAGE = (2, 17, 5, 7)
REDUCE = (
    *(_reduce(how, (3, n), 1) for how in HOW for n in LENGTHS if how != "prod" or n < 1000),  # 1000 factors overflow
    *(_reduce(how, IMAGE, *axes) for how in HOW for axes in ((1,), (2, 3), (0,), (1, 3), (0, 1, 2, 3))),
    *(_reduce(how, IMAGE, 1, 2, keepdims=False) for how in HOW),
    *(_reduce(how, IMAGE, 1, 3, dtype=dtype) for how in HOW if how not in FLOAT_ONLY for dtype in COUNTED[1:]),
    _reduce("sum", IMAGE, 0, 1, 2, 3, keepdims=False),
    _reduce("max", (33,), 0),
    _reduce("mean", (1, 5000), 1),
    _reduce("sum", (2, 3, 4, 5, 6), 1, 3),
)


def _arg(how: str, shape: Shape, axis: int, *, keepdims=True, last=False, dtype: str = "float32") -> Case:
    """Integers are of few values, so that the largest comes more than once."""
    attrs = dict(how=how, axis=axis, keepdims=keepdims, last=last)
    return Case("arg", attrs, (shape,), types=(dtype,), note="" if dtype == "float32" else dtype, draws=(-3, 4))


ARG = (
    *(_arg(how, (3, n), 1) for how in ("max", "min") for n in LENGTHS),
    *(_arg(how, IMAGE, axis, keepdims=axis % 2 == 0) for how in ("max", "min") for axis in range(4)),
    *(_arg(how, IMAGE, 2, last=last, dtype=dtype)
      for how in ("max", "min") for last in (False, True) for dtype in COUNTED[1:]),
    *(_arg(how, IMAGE, 3, last=True) for how in ("max", "min")),
    _arg("max", (9,), 0, keepdims=False),
)  # fmt: skip


def _cumsum(shape: Shape, axis: int, *, exclusive=False, reverse=False, dtype: str = "float32") -> Case:
    attrs = dict(axis=axis, exclusive=exclusive, reverse=reverse)
    return Case("cumsum", attrs, (shape,), types=(dtype,), note="" if dtype == "float32" else dtype)


CUMSUM = (
    *(_cumsum((2, 5, 7), axis, exclusive=exclusive, reverse=reverse)
      for axis in range(3) for exclusive in (False, True) for reverse in (False, True)),
    *(_cumsum((3, 17), 1, exclusive=True, dtype=dtype) for dtype in COUNTED[1:]),
    _cumsum((1, 1), 1, exclusive=True),
    _cumsum((1000,), 0),
)  # fmt: skip

NEW = (MATMUL, ATTENTION, LOGSOFTMAX, REDUCE, ARG, CUMSUM)

# ---- recurrent layers ----

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def _layer(op: str, steps: int, batch: int, inputs: int, hidden: int, **attrs):
    """Weights are constant, states and peepholes are activations."""
    count = 2 if attrs.get("direction") == "bidirectional" else 1
    default = attributes(op, hidden=hidden)
    usual = {name: default[name] * count for name in ("activations", "alphas", "betas")}
    rows, state = GATES[op] * hidden, (count, batch, hidden)
    states = (state, state, (count, 3 * hidden)) if op == "lstm" else (state,)
    weights = ((count, rows, inputs), (count, rows, hidden), (count, 2 * rows))
    return Case(op, default | usual | attrs, ((steps, batch, inputs), *states), weights)


def _layers(op: str, *results: str) -> tuple[Case, ...]:
    return (
        *(_layer(op, 5, 1, 9, hidden) for hidden in (1, 7, 8, 16, 33)),
        *(_layer(op, 4, 3, 6, 5, direction=way, result=r) for way in ("reverse", "bidirectional") for r in results),
        _layer(op, 4, 2, 6, 5, result="h", clip=0.5),
        _layer(op, 1, 1, 8, 8),
    )


LSTM = (
    *_layers("lstm", "y", "h", "c", "yc"),
    _layer("lstm", 4, 2, 6, 5, input_forget=True),
    _layer("lstm", 4, 2, 6, 5, activations=("hardsigmoid", "softsign", "elu"), alphas=(0.2, 0, 0.7), betas=(0.5, 0, 0)),
)
GRU = (
    *_layers("gru", "y", "h"),
    _layer("gru", 4, 2, 6, 5, linear_before_reset=True),
    _layer("gru", 4, 2, 6, 16, direction="bidirectional", linear_before_reset=True),
)
RNN = (
    *_layers("rnn", "y", "h"),
    *(
        _layer("rnn", 4, 2, 6, 5, activations=(name,), alphas=(alpha,), betas=(beta,))
        for name, alpha, beta in (
            ("relu", 0.0, 0.0),
            ("affine", 0.5, 0.1),
            ("leakyrelu", 0.1, 0.0),
            ("thresholdedrelu", 0.2, 0.0),
            ("scaledtanh", 1.5, 0.5),
            ("softplus", 0.0, 0.0),
        )
    ),
)

RECURRENT = (LSTM, GRU, RNN)
