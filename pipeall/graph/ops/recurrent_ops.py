"""Recurrent layers over sequences (T, N, I): LSTM, GRU and the plain one, each step a product with the state before.

Weights have ONNX's order of gates: input, output, forget, cell; update, reset, hidden. There is one set per direction:
W (D, G H, I), R (D, G H, H), B (D, 2 G H), states (D, N, H) and peepholes (D, 3 H). ``result`` names what a node
yields: y, the states of all steps (T, D, N, H); h or c, the last states or cells (D, N, H); yc, both all states and the
last cells, (T + 1, D, N, H).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf

import numpy as np

from .spec import GIVEN, Attrs, OpSpec, Shape, Trait, flags, integer, numbers, one_of, require

Results = tuple[str, ...]
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}

# name -> f(x, alpha, beta)
ACTIVATIONS: dict[str, Callable[..., np.ndarray]] = {
    "sigmoid": lambda x, alpha, beta: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, alpha, beta: np.tanh(x),
    "relu": lambda x, alpha, beta: np.maximum(x, 0),
    "affine": lambda x, alpha, beta: alpha * x + beta,
    "leakyrelu": lambda x, alpha, beta: np.where(x < 0, alpha * x, x),
    "thresholdedrelu": lambda x, alpha, beta: np.where(x > alpha, x, 0),
    "scaledtanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "hardsigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "elu": lambda x, alpha, beta: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
    "softsign": lambda x, alpha, beta: x / (1 + np.abs(x)),
    "softplus": lambda x, alpha, beta: np.logaddexp(x, 0),
}

# ---- output shapes ----


def _shape(
    attrs: Attrs, x: Shape, w: Shape, r: Shape, b: Shape, *states: Shape, gates: int, functions: int, results: Results
) -> Shape:
    hidden, count = integer(attrs, "hidden", 1, 2**24), DIRECTIONS[one_of(attrs, "direction", DIRECTIONS)]
    for name in ("activations", "alphas", "betas"):
        fits = isinstance(attrs[name], tuple) and len(attrs[name]) == count * functions
        require(fits, f"{name} must be {count * functions} values, got {attrs[name]!r}")
    unknown = [name for name in attrs["activations"] if name not in ACTIVATIONS]
    require(not unknown, f"activations must be of {', '.join(ACTIVATIONS)}, got {unknown}")
    for name in ("alphas", "betas"):
        for value in attrs[name]:
            numbers({name: value}, name)
    numbers(attrs, "clip")
    require(attrs["clip"] > 0, f"clip must be positive, got {attrs['clip']}")
    flags(attrs, *(name for name in ("linear_before_reset", "input_forget") if name in attrs))
    one_of(attrs, "result", results)
    require(len(x) == 3, f"input must be (T, N, I), got {x}")
    state, rows = (count, x[1], hidden), gates * hidden
    expected = {
        "W": (w, (count, rows, x[2])),
        "R": (r, (count, rows, hidden)),
        "B": (b, (count, 2 * rows)),
        "h0": (states[0], state),
    }
    if gates == 4:
        expected |= {"c0": (states[1], state), "P": (states[2], (count, 3 * hidden))}
    for name, (shape, needed) in expected.items():
        require(shape == needed, f"{name} must be {needed}, got {shape}")
    steps = {"y": (x[0],), "yc": (x[0] + 1,)}
    return (*steps.get(attrs["result"], ()), *state)


# ---- references ----


def _functions(attrs: Attrs, d: int) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The activations of a direction, each after the clip; that of LSTM's cell has none, as in onnxruntime."""
    count = len(attrs["activations"]) // DIRECTIONS[attrs["direction"]]

    def function(i: int) -> Callable[[np.ndarray], np.ndarray]:
        name, alpha, beta = (attrs[key][d * count + i] for key in ("activations", "alphas", "betas"))
        bound = attrs["clip"] if i < 2 else inf
        return lambda x: ACTIVATIONS[name](np.clip(x, -bound, bound), alpha, beta)

    return [function(i) for i in range(count)]


def _lstm_steps(attrs: Attrs, d: int, x: np.ndarray, w, r, b, h, c, p) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The state and the cell after every step."""
    f, g, last = _functions(attrs, d)
    p_i, p_o, p_f = np.split(p, 3)
    for step in x:
        i, o, forget, cell = np.split(step @ w.T + h @ r.T + np.add(*np.split(b, 2)), 4, -1)
        i = f(i + p_i * c)
        forget = 1 - i if attrs["input_forget"] else f(forget + p_f * c)
        c = forget * c + i * g(cell)
        h = f(o + p_o * c) * last(c)
        yield h, c


def _gru_steps(attrs: Attrs, d: int, x: np.ndarray, w, r, b, h) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    f, g = _functions(attrs, d)
    w_z, w_r, w_h = np.split(w, 3)
    r_z, r_r, r_h = np.split(r, 3)
    b_z, b_r, b_h, s_z, s_r, s_h = np.split(b, 6)
    for step in x:
        update = f(step @ w_z.T + h @ r_z.T + b_z + s_z)
        reset = f(step @ w_r.T + h @ r_r.T + b_r + s_r)
        past = reset * (h @ r_h.T + s_h) if attrs["linear_before_reset"] else (reset * h) @ r_h.T + s_h
        h = (1 - update) * g(step @ w_h.T + past + b_h) + update * h
        yield h, h


def _rnn_steps(attrs: Attrs, d: int, x: np.ndarray, w, r, b, h) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    (f,) = _functions(attrs, d)
    for step in x:
        h = f(step @ w.T + h @ r.T + np.add(*np.split(b, 2)))
        yield h, h


def _compute(attrs: Attrs, x: np.ndarray, *weights: np.ndarray, steps: Callable) -> np.ndarray:
    out = []
    for d in range(DIRECTIONS[attrs["direction"]]):
        backwards = d == 1 or attrs["direction"] == "reverse"
        states = list(steps(attrs, d, x[::-1] if backwards else x, *(array[d] for array in weights)))
        last = dict(zip("hc", states[-1], strict=True))
        if attrs["result"] in last:
            out.append(last[attrs["result"]])
        else:
            all_states = [h for h, _ in (states[::-1] if backwards else states)]
            out.append(np.stack([*all_states, last["c"]] if attrs["result"] == "yc" else all_states))
    return np.stack(out, axis=out[0].ndim - 2)


def _macs(out: Shape, x: Shape, w: Shape, r: Shape, *_: Shape) -> int:
    return x[0] * x[1] * w[0] * w[1] * (w[2] + r[2])


def _entry(inputs: int, gates: int, activations: tuple[str, ...], results: Results, steps: Callable, **extra) -> OpSpec:
    """``activations``: the usual ones of one direction."""
    zeros = (0.0,) * len(activations)
    attrs = {"hidden": GIVEN, "direction": "forward", "activations": activations, "alphas": zeros, "betas": zeros}
    shape = partial(_shape, gates=gates, functions=len(activations), results=results)
    attrs |= {"clip": inf, "result": "y"} | extra
    return OpSpec((inputs, inputs), attrs, shape, partial(_compute, steps=steps), _macs, traits=Trait.SUMS)


OPS: dict[str, OpSpec] = {
    "lstm": _entry(7, 4, ("sigmoid", "tanh", "tanh"), ("y", "h", "c", "yc"), _lstm_steps, input_forget=False),
    "gru": _entry(5, 3, ("sigmoid", "tanh"), ("y", "h"), _gru_steps, linear_before_reset=False),
    "rnn": _entry(5, 1, ("tanh",), ("y", "h"), _rnn_steps),
}
