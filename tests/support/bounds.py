"""How far a float32 kernel may be from the float64 reference, derived per op.

u = 2^-24 is the rounding of one operation. A sum of n products in any order, fused or not, is within
(n + 2) u sum|a b| of the exact one (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3).
"""

from dataclasses import replace
from math import inf, prod

import numpy as np

from pipeall.graph.ops import run_graph
from pipeall.graph.ops.sampling_ops import taps
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
    if node.op == "cast" and attrs["to"] == "float16":
        return 2.0**-11 * size
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
    if node.op in SUMS:
        operands = [(inputs | dict(graph.constants))[name].astype(np.float64) for name in node.inputs]
        return np.broadcast_to(SUMS[node.op](attrs, size, *operands), size.shape)
    if node.op in STRUCTURAL:
        return np.full_like(size, structural(node, inputs, graph.constants, size))
    return np.zeros_like(size)  # maxpool and clip choose one of the inputs; the rest only moves values


# ---- sums of products and along axes: (attributes, |expected|, *operands) -> bound ----


def _matmul(attrs, size, a, b):
    return (a.shape[-1] + 3) * U * abs(attrs["alpha"]) * (np.abs(a) @ np.abs(b))


def _attention(attrs, size, q, k, v, mask=None):
    """An error of d in the scores is one of 2 d in the weights, relatively; then softmax and the sum of the values."""
    mask = np.zeros(1) if mask is None else mask
    products = np.abs(q) @ np.abs(k).swapaxes(-1, -2) * abs(attrs["scale"])
    wrong = ((q.shape[-1] + 4) * products + np.abs(mask)).max() * U
    most = (products + np.abs(mask)).max()
    return (2 * wrong + (2 * k.shape[-2] + 2 * most + 24) * U) * np.abs(v).max(axis=-2, keepdims=True)


def _logsoftmax(attrs, size, x):
    return (x.shape[attrs["axis"]] + 2 * np.abs(x).max() + 16) * U * (1 + size)


def _reduce(attrs, size, x):
    how, axes, keep = attrs["how"], attrs["axes"], attrs["keepdims"]
    n = prod(x.shape[axis] for axis in axes)
    if how in ("max", "min"):
        return 0 * size
    if how in ("prod", "l2"):  # what float32 cannot hold may be infinite
        return np.where(size > np.finfo(np.float32).max, np.inf, (n + 8) * U * size)
    if how == "logsumexp":  # x - max is rounded, then exp
        return (n + 2 * np.abs(x).max() + 16) * U * (1 + size)
    terms = (x * x if how == "sumsquare" else np.abs(x)).sum(axis=axes, keepdims=keep)
    if how == "logsum":  # an error of the sum, relatively
        with np.errstate(invalid="ignore"):
            return (n + 2) * U * terms / np.abs(x.sum(axis=axes, keepdims=keep)) * 2 + 8 * U * (1 + size)
    return (n + 4) * U * terms / (n if how == "mean" else 1)


def _cumsum(attrs, size, x):
    return (x.shape[attrs["axis"]] + 2) * U * np.abs(x).sum(axis=attrs["axis"], keepdims=True)


def _resize(attrs, size, x):
    """Of each axis: the rounding of a weight, of its product, and of the sum of k; by the sum of their sizes."""
    most, roundings = np.abs(x).max(), 4
    for axis in range(x.ndim):
        _, weights = taps(attrs, axis, x.shape[axis])
        most, roundings = most * np.abs(weights).sum(axis=1).max(), roundings + weights.shape[1] + 3
    return roundings * U * most


def _picture(attrs, size, words):
    """Levels up to 255, summed along two axes with weights that are rounded; YUV is converted with 16 bits of fraction,
    so that a level may be rounded the other way."""
    taps = sum(2 * -(-side // out) + 2 for side, out in zip(attrs["example"], attrs["size"], strict=True))
    factors, offsets = (np.abs(np.array(attrs[name])) for name in ("factors", "offsets"))
    whole = attrs["picture"].frames in ("NV12", "I420", "YUYV")
    each = (taps + 6) * U * (255 * factors + offsets) + whole * factors
    return each[:, None, None] if attrs["layout"] == "NCHW" else each


SUMS = dict(
    picture=_picture,
    matmul=_matmul,
    attention=_attention,
    logsoftmax=_logsoftmax,
    reduce=_reduce,
    cumsum=_cumsum,
    resize=_resize,
)


# ---- ops that sample, scatter and remember ----

STRUCTURAL = "resize grid_sample roi_align scatter_elements scatter_nd col2im lstm gru rnn".split()


def structural(node, inputs, constants, size):
    """How far float32 may be anywhere: a sum of n products is within (n + 2) u of the sum of their sizes.

    A place in a tensor errs by some u times the size of its axis, a weight by the steepest slope of its kernel (2 per
    element) times that; a recurrent state by its products' error, not enlarged by functions of slopes of at most 1.5.
    """
    op, attrs, operands = node.op, node.attrs, [(inputs | dict(constants))[name] for name in node.inputs]
    sizes = [float(np.abs(value).max(initial=0)) for value in operands]
    top, axis = sizes[0], max(operands[0].shape)
    if op == "resize" and attrs["mode"] != "nearest":
        most = max(taps(attrs, i, n)[0].shape[1] for i, n in enumerate(operands[0].shape))
        return (2 * most + 16 * axis) * U * top
    if op == "grid_sample" and attrs["mode"] != "nearest":
        return (16 + 16 * axis * (1 + sizes[1])) * U * 4 * top
    if op == "roi_align":
        return (64 + 16 * axis * (1 + sizes[1] * attrs["spatial_scale"])) * U * 4 * top
    if op in ("scatter_elements", "scatter_nd") and attrs["reduction"] in ("add", "mul"):
        terms = max(operands[1].shape)
        return (terms + 2) * U * (size.max() + terms * sizes[2])
    if op == "col2im":
        return 16 * U * prod(attrs["block"]) * top
    if op in ("lstm", "gru", "rnn"):
        steps, terms = operands[0].shape[0], operands[0].shape[2] + attrs["hidden"]
        weights = max(np.abs(array).max() for array in constants.values())
        return steps * (terms + 16) * U * (1 + weights * max(sizes) * np.sqrt(terms)) * (1 + size.max())
    return 0.0


def classifier_bound(graph, values):
    """Largest allowed relative error of a network's probabilities in float32; ``values``: all its tensors in float64.

    A sum over a fan-in K errs by about sqrt(K) u of the size of its result (random signs of the roundings), and the
    layers' errors add in squares: a logit errs by sqrt(sum K) u rms(logits), the worst of 1,000 by five such
    deviations. The closing softmax turns twice that into a relative error.
    """
    logits = values[graph.nodes[-1].inputs[0]]
    fan_in = sum(prod(graph.constants[node.inputs[1]].shape[1:]) for node in graph.nodes if node.is_main)
    return 2 * 5 * np.sqrt(fan_in) * U * np.sqrt(np.mean(logits**2))
