"""Cases of the recurrent layers."""

from __future__ import annotations

from ..ops import attributes
from .case import Case

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


def _layers(op: str, results: str) -> tuple[Case, ...]:
    return (
        *(_layer(op, 5, 1, 9, hidden) for hidden in (1, 7, 8, 16, 33)),
        *(_layer(op, 4, 3, 6, 5, direction=way, result=r) for way in ("reverse", "bidirectional") for r in results),
        _layer(op, 4, 2, 6, 5, result="h", clip=0.5),
        _layer(op, 1, 1, 8, 8),
    )


LSTM = (
    *_layers("lstm", "yhc"),
    _layer("lstm", 4, 2, 6, 5, input_forget=True),
    _layer("lstm", 4, 2, 6, 5, activations=("hardsigmoid", "softsign", "elu"), alphas=(0.2, 0, 0.7), betas=(0.5, 0, 0)),
)
GRU = (
    *_layers("gru", "yh"),
    _layer("gru", 4, 2, 6, 5, linear_before_reset=True),
    _layer("gru", 4, 2, 6, 16, direction="bidirectional", linear_before_reset=True),
)
RNN = (
    *_layers("rnn", "yh"),
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
