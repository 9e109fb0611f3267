"""How far a float32 kernel may be from the float64 reference, derived per op.

u = 2^-24 is the rounding of one operation. A sum of n products in any order, fused or not, is within
(n + 2) u sum|a b| of the exact one (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3).
"""

from dataclasses import replace
from math import inf, prod

import numpy as np

from pipeall.graph.ops import run_graph
from pipeall.graph.pointwise import BINARY, UNARY

U = 2.0**-24


def absolute(graph):
    """The graph of sum|a b|: constants without sign, no clamp. Clamping never enlarges an error."""
    nodes = []
    for node in graph.nodes:
        open_ended = {name: value for name, value in (("lo", -inf), ("hi", inf)) if name in node.attrs}
        nodes.append(replace(node, attrs={**node.attrs, **open_ended}))
    return replace(graph, nodes=tuple(nodes), constants={k: np.abs(v) for k, v in graph.constants.items()})


def bound(graph, inputs, expected):
    """Largest allowed |float32 result - expected| of a one-node graph, elementwise; ``expected`` is float64."""
    (node,) = graph.nodes
    attrs, size = node.attrs, np.abs(expected)
    magnitudes = {name: np.abs(value.astype(np.float64)) for name, value in inputs.items()}
    if node.op in ("conv", "deconv", "fc", "avgpool"):
        taps = prod(attrs["kernel"]) if node.op == "avgpool" else prod(graph.constants[node.inputs[1]].shape[1:])
        if node.op == "deconv":  # (Cin, Cout / groups, kh, kw)
            channels, _, *kernel = graph.constants[node.inputs[1]].shape
            taps = channels // attrs["groups"] * prod(kernel)
        (total,) = run_graph(absolute(graph), magnitudes).values()
        return (taps + 4) * U * total
    if node.op in BINARY:  # powf is within an ulp, the rest round once
        return (2 if node.op == "pow" else 1) * U * size
    if (
        node.op == "lrn"
    ):  # size + 2 for the sum of positive terms, times beta; a power of a few u by square roots or pow
        return (attrs["beta"] * (attrs["size"] + 4) + 16) * U * size
    if node.op == "softmax":  # x - max is rounded before exp, which is within 4 u; then a sum of n and a division
        x = next(iter(magnitudes.values()))
        return (x.shape[attrs["axis"]] + 2 * x.max() + 16) * U * size
    if node.op == "layernorm":  # the mean's error, in deviations, and half of the variance's relative one
        x, axes = next(iter(inputs.values())).astype(np.float64), attrs["axes"]
        n = prod(x.shape[axis] for axis in axes)
        spread = x.var(axis=axes, keepdims=True) if attrs["center"] else (x**2).mean(axis=axes, keepdims=True)
        deviation = np.sqrt(spread + attrs["epsilon"])
        mean_error = (n + 2) * U * np.abs(x).mean(axis=axes, keepdims=True) + U * np.abs(x)
        return mean_error / deviation * (1 + size) + (n + 8) * U * size
    if node.op in UNARY and node.op != "clip":
        x = next(iter(magnitudes.values()))  # a handful of operations on values up to |x| + 1 and to the result
        return 8 * U * (x + 1 + size)
    return np.zeros_like(size)  # maxpool and clip choose one of the inputs; the rest only moves values


def classifier_bound(graph, values):
    """Largest allowed relative error of a network's probabilities in float32; ``values``: all its tensors in float64.

    A sum over a fan-in K errs by about sqrt(K) u of the size of its result (random signs of the roundings), and the
    layers' errors add in squares: a logit errs by sqrt(sum K) u rms(logits), the worst of 1,000 by five such
    deviations. The closing softmax turns twice that into a relative error.
    """
    logits = values[graph.nodes[-1].inputs[0]]
    fan_in = sum(prod(graph.constants[node.inputs[1]].shape[1:]) for node in graph.nodes if node.is_main)
    return 2 * 5 * np.sqrt(fan_in) * U * np.sqrt(np.mean(logits**2))
