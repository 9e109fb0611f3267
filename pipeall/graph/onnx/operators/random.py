"""Operators that draw random numbers: they are drawn once, when a model is read, and are constants of the network.

So a network gives the same result for the same frame every time, and in every place. A node with a seed draws what
others with that seed do, one without by the name of what it makes.
"""

from __future__ import annotations

from math import prod
from zlib import crc32

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from ..read.element_types import TYPES

ONCE = "drawn once, when the model is read"


def _generator(g: Builder, n: OnnxNode) -> np.random.Generator:
    if "seed" in n.attrs:
        return np.random.default_rng(np.float32(n.get("seed", float)).view(np.uint32).item())
    return np.random.default_rng(crc32(f"{g.scope}{n.outputs[0]}".encode("utf-8", "replace")))


def _shape(g: Builder, n: OnnxNode) -> tuple[int, ...]:
    """Of what is drawn: an attribute, or that of the input."""
    shape = g.shape_of(g.value(n, 0)) if n.op.endswith("Like") else tuple(n.get("shape", list))
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        n.fail(f"expected sizes of at least 0, got {shape}")
    g.afford(n, prod(shape))
    return shape


def _drawn(g: Builder, n: OnnxNode, numbers: np.ndarray) -> None:
    kind = n.get("dtype", int, 1)
    if np.dtype(TYPES.get(kind, bool)).kind != "f":
        n.fail(f"only floats can be drawn, got element type {kind}")
    g.bind(n, numbers.astype(np.float32))


@operator("RandomNormal", "dtype mean scale seed shape", ONCE)
@operator("RandomNormalLike", "dtype mean scale seed", ONCE)
def _normal(g: Builder, n: OnnxNode) -> None:
    numbers = _generator(g, n).standard_normal(_shape(g, n), np.float32)
    _drawn(g, n, n.get("mean", float, 0.0) + n.get("scale", float, 1.0) * numbers)


@operator("RandomUniform", "dtype high low seed shape", ONCE)
@operator("RandomUniformLike", "dtype high low seed", ONCE)
def _uniform(g: Builder, n: OnnxNode) -> None:
    low, high = n.get("low", float, 0.0), n.get("high", float, 1.0)
    _drawn(g, n, low + (high - low) * _generator(g, n).random(_shape(g, n), np.float32))


@operator("Bernoulli", "dtype seed", f"numbers {ONCE}")
def _bernoulli(g: Builder, n: OnnxNode) -> None:
    """1 with the probability that an element is."""
    shape = g.shape_of(g.value(n, 0))
    g.afford(n, prod(shape))
    drawn = g.named(n, _generator(g, n).random(shape, np.float32), "drawn")
    below = g.apply(n, "Less", [drawn, n.inputs[0]], "below")
    g.apply(n, "Cast", [below], to=n.get("dtype", int, 1))


@operator("Multinomial", "dtype sample_size seed", f"numbers {ONCE}")
def _multinomial(g: Builder, n: OnnxNode) -> None:
    """Indices of classes, whose logarithmic probabilities a row has: the largest sum with Gumbel's numbers."""
    shape, count = g.shape_of(g.value(n, 0)), n.get("sample_size", int, 1)
    if len(shape) != 2 or count < 1:
        n.fail(f"expected rows of classes and at least one sample, got {shape} and {count}")
    g.afford(n, prod(shape) * count)
    drawn = _generator(g, n).gumbel(size=(shape[0], count, shape[1])).astype(np.float32)
    rows = g.apply(n, "Unsqueeze", [n.inputs[0], g.named(n, np.array([1]), "axis")], "rows")
    total = g.apply(n, "Add", [rows, g.named(n, drawn, "drawn")], "sum")
    best = g.apply(n, "ArgMax", [total], "best", axis=2, keepdims=0)
    g.apply(n, "Cast", [best], to=n.get("dtype", int, 6))
