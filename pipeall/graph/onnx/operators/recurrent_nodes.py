"""LSTM, GRU and RNN in canonical ops (``convert`` says how)."""

from __future__ import annotations

from math import inf

import numpy as np

from ...ops import attributes
from ..read.build import Builder, OnnxNode, operator

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
PARAMETERS = {  # activation -> alpha and beta where the node gives none; those not here have none
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01,),
    "thresholdedrelu": (1.0,),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0,),
}
COMMON = "activation_alpha activation_beta activations clip direction hidden_size layout output_sequence"


@operator("RNN", COMMON, "whole sequences")
@operator("GRU", f"{COMMON} linear_before_reset", "whole sequences")
@operator("LSTM", f"{COMMON} input_forget", "whole sequences")
def _recurrent(g: Builder, n: OnnxNode) -> None:
    """One node for all outputs: the last state is one of all states, the last cells lie behind them."""
    batch_first = bool(n.get("layout", int, 0))
    x = g.operand(n, 0)
    if len(g.shape(x)) != 3:
        n.fail(f"expected sequences (steps, batch, inputs), got {g.shape(x)}")
    if batch_first:
        x = g.emit(n, "transpose", [x], part="steps", perm=(1, 0, 2))
    steps, batch, _ = g.shape(x)
    if g.has(n, 4) and g.ints(n, 4) != (steps,) * batch:
        n.fail(f"only whole sequences of {steps} steps are supported, got sequence_lens {g.ints(n, 4)}")
    attrs = _attributes(g, n)
    operands = [x, *_weights(g, n, attrs["hidden"], batch, batch_first)]

    def output(i: int, op: str, operands: list[str], **attrs) -> str:
        """The node's output i, of (T, D, N, H) or (D, N, H); as that until it is turned."""
        made = g.emit(n, op, operands, part="yhc"[i] * batch_first, output=i, **attrs)
        if batch_first:
            g.emit(n, "transpose", [made], output=i, perm=(1, 0, 2) if i else (2, 0, 1, 3))
        return made

    op, (y, h, c) = n.op.lower(), (i in n.made for i in range(3))
    if y + h + c == 1:
        output(n.made[0], op, operands, **attrs, result="yhc"[n.made[0]])
        return
    if c:
        states = g.emit(n, op, operands, part="states", output=n.made[0], **attrs, result="yc")
        cells = g.emit(n, "slice", [states], part="cells", output=2, axis=0, start=steps, stop=steps + 1)
        output(2, "reshape", [cells], shape=g.shape(states)[1:])
        if y:
            output(0, "slice", [states], axis=0, start=0, stop=steps)
    else:
        states = output(0, op, operands, **attrs, result="y")
    if h:
        _last(g, n, states, steps, attrs["direction"], batch_first)


def _last(g: Builder, n: OnnxNode, y: str, steps: int, direction: str, batch_first: bool) -> None:
    """The state after the last step, of a backward direction the first one of y."""
    _, directions, batch, hidden = g.shape(y)
    ends = []
    for d in range(directions):
        first = 0 if d or direction == "reverse" else steps - 1
        end = g.emit(n, "slice", [y], part=f"end{d}", output=1, axis=0, start=first, stop=first + 1)
        if directions > 1:
            end = g.emit(n, "slice", [end], part=f"direction{d}", output=1, axis=1, start=d, stop=d + 1)
        ends.append(end)
    state = g.emit(n, "concat", ends, part="ends", output=1, axis=1) if len(ends) > 1 else ends[0]
    part = "state" if batch_first else ""
    state = g.emit(n, "reshape", [state], part=part, output=1, shape=(directions, batch, hidden))
    if batch_first:
        g.emit(n, "transpose", [state], output=1, perm=(1, 0, 2))


def _weights(g: Builder, n: OnnxNode, hidden: int, batch: int, batch_first: bool) -> list[str]:
    """W, R, B, the first states and peepholes; zeros for those that the node leaves out."""
    w, r = g.operand(n, 1), g.operand(n, 2)
    if len(g.shape(w)) != 3:
        n.fail(f"expected weights (directions, gates, inputs), got {g.shape(w)}")
    directions, gates = g.shape(w)[0], GATES[n.op]

    def given(i: int, name: str, shape: tuple[int, ...]) -> str:
        if g.has(n, i):
            return g.operand(n, i)
        g.afford(n, int(np.prod(shape)))
        return g.keep(np.zeros(shape, np.float32), f"{n.outputs[0] or n.name}/{name}")

    def state(i: int, name: str) -> str:
        value = given(i, name, (directions, batch, hidden))
        if g.has(n, i) and batch_first:
            return g.emit(n, "transpose", [value], part=name, output=n.made[0], perm=(1, 0, 2))
        return value

    operands = [w, r, given(3, "B", (directions, 2 * gates * hidden)), state(5, "h0")]
    if n.op == "LSTM":
        operands += [state(6, "c0"), given(7, "P", (directions, 3 * hidden))]
    return operands


def _attributes(g: Builder, n: OnnxNode) -> dict:
    op = n.op.lower()
    default = attributes(op)
    direction = n.get("direction", str, "forward")
    usual = default["activations"] * (2 if direction == "bidirectional" else 1)
    names = n.get("activations", list, list(usual))
    names = tuple((name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)).lower() for name in names)
    given = [iter(n.get(f"activation_{which}", list, [])) for which in ("alpha", "beta")]
    parameters: list[list[float]] = [[], []]
    for name in names:
        known = PARAMETERS.get(name, ())
        for which in (0, 1):  # given in the order of the activations that have one
            value = next(given[which], known[which]) if which < len(known) else 0.0
            parameters[which].append(float(value))
    shape = g.shape_of(g.value(n, 2))
    hidden = n.get("hidden_size", int, shape[-1] if shape else 0)
    if not 1 <= hidden <= max(shape, default=0):
        n.fail(f"expected a hidden_size that R of {shape} has, got {hidden}")
    attrs = dict(hidden=hidden, direction=direction, activations=names)
    attrs |= dict(alphas=tuple(parameters[0]), betas=tuple(parameters[1]), clip=n.get("clip", float, inf))
    if n.op == "GRU":
        attrs["linear_before_reset"] = bool(n.get("linear_before_reset", int, 0))
    if n.op == "LSTM":
        attrs["input_forget"] = bool(n.get("input_forget", int, 0))
    return attrs
