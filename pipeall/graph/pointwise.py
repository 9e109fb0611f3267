"""The table of pointwise ops. Their ONNX forms, shapes, references, lowering, cases and costs derive from it.

A new op of one operand is an entry of ``UNARY``, a line of ``_kernels/cpu/pointwise.inc`` and a line of
``_kernels/opencl/pointwise.cl``. One of two operands is the same with ``BINARY``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Unary:
    """y = f(x), element by element.

    compute     (x, *parameters) -> y in NumPy; all are of x's own float type
    onnx        the ONNX operator that means the same, its attributes being the parameters; None where there is none
    parameters  attribute -> ONNX's default, two at most: a step carries them as p0 and p1
    samples     values of the parameters in tests
    saved       what PyTorch keeps for the backward pass
    rectifier   tools that count ReLUs count it as one
    opset       ONNX's first that has the operator, for files that are written; 13 stands for all before
    """

    compute: Callable[..., np.ndarray]
    onnx: str | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[tuple[float, ...], ...] = ((),)
    saved: Literal["input", "output"] = "input"
    rectifier: bool = False
    opset: int = 13


@dataclass(frozen=True)
class Binary:
    """clamp(f(a, b), lo, hi), element by element; b is broadcast.

    compute  (a, b) -> f(a, b) in NumPy
    onnx     the ONNX operator that means the same
    swapped  the kernels' name for f(b, a); None where that is f(a, b)
    """

    compute: Callable[[np.ndarray, np.ndarray], np.ndarray]
    onnx: str
    swapped: str | None = None


UNARY: dict[str, Unary] = {
    "clip": Unary(  # ONNX has Relu, and Clip whose bounds became operands
        np.clip,
        parameters={"lo": -inf, "hi": inf},
        samples=((0.0, inf), (0.0, 6.0), (-1.0, 1.0), (-inf, 0.5)),
    ),
    "leakyrelu": Unary(
        lambda x, alpha: np.where(x < 0, x * alpha, x),
        "LeakyRelu",
        {"alpha": 0.01},
        samples=((0.1,), (1.5,)),
        saved="output",
        rectifier=True,
    ),
    "sigmoid": Unary(  # equals 1 / (1 + exp(-x)), without its overflow
        lambda x: 0.5 * (1 + np.tanh(0.5 * x)), "Sigmoid", saved="output"
    ),
    "hardsigmoid": Unary(
        lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1),
        "HardSigmoid",
        {"alpha": 0.2, "beta": 0.5},
        samples=((0.2, 0.5), (1 / 6, 0.4)),
    ),
    "hardswish": Unary(lambda x: x * np.clip(x / 6 + x.dtype.type(0.5), 0, 1), "HardSwish", opset=14),
    "tanh": Unary(np.tanh, "Tanh", saved="output"),
    "erf": Unary(lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x), "Erf"),
    "elu": Unary(
        lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
        "Elu",
        {"alpha": 1.0},
        samples=((1.0,), (0.3,)),
        saved="output",
        rectifier=True,
    ),
}

BINARY: dict[str, Binary] = {
    "add": Binary(np.add, "Add"),
    "sub": Binary(np.subtract, "Sub", swapped="rsub"),
    "mul": Binary(np.multiply, "Mul"),
}

BY_OPERATOR = {entry.onnx: op for op, entry in (UNARY | BINARY).items() if entry.onnx}  # ONNX operator -> op
