"""The table of pointwise ops. Their ONNX forms, shapes, types, references, lowering, cases and costs derive from it.

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

FLOATS = ("float32",)
SIGNED = ("int8", "int32", "int64")
INTEGERS = ("int8", "uint8", "int32", "int64")
NUMBERS = FLOATS + INTEGERS
BOOLS = ("bool",)


@dataclass(frozen=True)
class Unary:
    """y = f(x), element by element.

    compute     (x, *parameters) -> y in NumPy; all are of x's own type
    onnx        the ONNX operator that means the same, its attributes being the parameters; None where there is none
    parameters  attribute -> ONNX's default, two at most: a step carries them as p0 and p1
    samples     values of the parameters in tests
    domain      where y is a number; tests draw x from there
    takes       element types of x
    gives       element type of y; None for that of x
    saved       what PyTorch keeps for the backward pass
    rectifier   tools that count ReLUs count it as one
    jumps       whether y may jump where x hardly changes; one that gives bools does anyway
    opset       ONNX's first that has the operator, for files that are written; 13 stands for all before
    """

    compute: Callable[..., np.ndarray]
    onnx: str | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[tuple[float, ...], ...] = ((),)
    domain: tuple[float, float] = (-inf, inf)
    takes: tuple[str, ...] = FLOATS
    gives: str | None = None
    saved: Literal["input", "output"] = "input"
    rectifier: bool = False
    jumps: bool = False
    opset: int = 13

    @property
    def floats(self) -> bool:
        """Whether it makes float32 of float32."""
        return "float32" in self.takes and self.gives is None


@dataclass(frozen=True)
class Binary:
    """f(a, b), element by element; both are broadcast. Where it is arithmetic, clamp(f(a, b), lo, hi).

    compute  (a, b) -> f(a, b) in NumPy
    onnx     the ONNX operator that means the same; None where attributes of it decide
    swapped  the kernels' name for f(b, a); None where that is f(a, b), or where there is no clamp
    domain   of a: where f(a, b) is a number for every b other than 0
    takes    element types of a and b, which are of one
    gives    element type of the result, which is not clamped then; None for that of a and b
    clamped  attributes are lo, hi and swapped; else there are none
    jumps    as of Unary
    """

    compute: Callable[[np.ndarray, np.ndarray], np.ndarray]
    onnx: str | None
    swapped: str | None = None
    domain: tuple[float, float] = (-inf, inf)
    takes: tuple[str, ...] = NUMBERS
    gives: str | None = None
    clamped: bool = True
    jumps: bool = False

    @property
    def floats(self) -> bool:
        """Whether it makes float32 of float32."""
        return "float32" in self.takes and self.gives is None


# ---- functions that NumPy has not, or not for all types ----


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without its overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _shrink(x: np.ndarray, lambd: float, bias: float) -> np.ndarray:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)).astype(x.dtype)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def _isinf(x: np.ndarray, negative: float, positive: float) -> np.ndarray:
    return (np.isneginf(x) & bool(negative)) | (np.isposinf(x) & bool(positive))


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers are rounded towards 0, and 0 where b is."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(b == 0, 0, np.floor_divide(a - np.fmod(a, b), np.where(b == 0, 1, b))).astype(a.dtype)


def _remainder(function: Callable[..., np.ndarray]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def compute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return function(a, b)  # 0 where integers are divided by 0

    return compute


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of integers modulo 2^bits; to a negative power 1 / a^-b rounded towards 0, and 0 for a = 0."""
    if a.dtype.kind == "f":
        return np.power(a, b)
    below = np.where(a == 1, 1, np.where(a + 1 == 0, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, below, np.power(a, np.maximum(b, 0))).astype(a.dtype)


# ---- the tables ----

UNARY: dict[str, Unary] = {
    "clip": Unary(  # ONNX has Relu, and Clip whose bounds became operands
        np.clip,
        parameters={"lo": -inf, "hi": inf},
        samples=((0.0, inf), (0.0, 6.0), (-1.0, 1.0), (-inf, 0.5)),
        takes=NUMBERS,
    ),
    "leakyrelu": Unary(
        lambda x, alpha: np.where(x < 0, x * alpha, x),
        "LeakyRelu",
        {"alpha": 0.01},
        samples=((0.1,), (1.5,)),
        saved="output",
        rectifier=True,
    ),
    "sigmoid": Unary(_sigmoid, "Sigmoid", saved="output"),
    "hardsigmoid": Unary(
        lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1),
        "HardSigmoid",
        {"alpha": 0.2, "beta": 0.5},
        samples=((0.2, 0.5), (1 / 6, 0.4)),
    ),
    "hardswish": Unary(lambda x: x * np.clip(x / 6 + x.dtype.type(0.5), 0, 1), "HardSwish", opset=14),
    "tanh": Unary(np.tanh, "Tanh", saved="output"),
    "erf": Unary(_erf, "Erf"),
    "elu": Unary(_elu, "Elu", {"alpha": 1.0}, samples=((1.0,), (0.3,)), saved="output", rectifier=True),
    "sqrt": Unary(np.sqrt, "Sqrt", domain=(0, inf), saved="output"),
    "exp": Unary(np.exp, "Exp", saved="output"),
    "log": Unary(np.log, "Log", domain=(1e-6, inf)),
    "abs": Unary(np.abs, "Abs", takes=NUMBERS),
    "reciprocal": Unary(lambda x: 1 / x, "Reciprocal", saved="output"),
    "neg": Unary(np.negative, "Neg", takes=FLOATS + SIGNED),
    "sign": Unary(np.sign, "Sign", takes=NUMBERS, jumps=True),
    "floor": Unary(np.floor, "Floor", jumps=True),
    "ceil": Unary(np.ceil, "Ceil", jumps=True),
    "round": Unary(np.rint, "Round", jumps=True),  # half to even
    "fakequant": Unary(  # quantized to 256 levels from ``low`` on, 0 being one of them, and back
        lambda x, scale, low: np.clip(np.rint(x / scale), low, low + 255) * scale,
        parameters={"scale": 1.0, "low": -128.0},
        samples=((0.25, -128.0), (0.0625, 0.0)),
        jumps=True,
    ),
    "sin": Unary(np.sin, "Sin"),
    "cos": Unary(np.cos, "Cos"),
    "tan": Unary(np.tan, "Tan", saved="output"),
    "asin": Unary(np.arcsin, "Asin", domain=(-1, 1)),
    "acos": Unary(np.arccos, "Acos", domain=(-1, 1)),
    "atan": Unary(np.arctan, "Atan"),
    "sinh": Unary(np.sinh, "Sinh"),
    "cosh": Unary(np.cosh, "Cosh"),
    "asinh": Unary(np.arcsinh, "Asinh"),
    "acosh": Unary(np.arccosh, "Acosh", domain=(1, inf)),
    "atanh": Unary(np.arctanh, "Atanh", domain=(-0.99, 0.99)),
    "softplus": Unary(_softplus, "Softplus"),
    "softsign": Unary(lambda x: x / (1 + np.abs(x)), "Softsign"),
    "mish": Unary(lambda x: x * np.tanh(_softplus(x)), "Mish", opset=18),
    "selu": Unary(
        lambda x, alpha, gamma: gamma * _elu(x, alpha),
        "Selu",
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
        samples=((1.6732632, 1.050701), (0.5, 2.0)),
        saved="output",
        rectifier=True,
    ),
    "celu": Unary(
        lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0),
        "Celu",
        {"alpha": 1.0},
        samples=((1.0,), (0.3,)),
        saved="output",
        rectifier=True,
    ),
    "thresholdedrelu": Unary(
        lambda x, alpha: np.where(x > alpha, x, 0).astype(x.dtype),
        "ThresholdedRelu",
        {"alpha": 1.0},
        samples=((1.0,), (-0.5,)),
        rectifier=True,
        jumps=True,
    ),
    "shrink": Unary(_shrink, "Shrink", {"lambd": 0.5, "bias": 0.0}, samples=((0.5, 0.0), (1.5, 0.25)), jumps=True),
    "gelu": Unary(lambda x: 0.5 * x * (1 + _erf(x * 0.5**0.5)), "Gelu", opset=20),
    "gelu_tanh": Unary(_gelu_tanh),  # ONNX's Gelu with another attribute
    "swish": Unary(lambda x, alpha: x * _sigmoid(alpha * x), None, {"alpha": 1.0}, samples=((1.0,), (1.702,))),
    "not": Unary(np.logical_not, "Not", takes=BOOLS),
    "isnan": Unary(np.isnan, "IsNaN", gives="bool"),
    "isinf": Unary(  # ONNX's IsInf, whose attributes are called otherwise
        _isinf,
        parameters={"negative": 1.0, "positive": 1.0},
        samples=((1.0, 1.0), (0.0, 1.0), (1.0, 0.0)),
        gives="bool",
    ),
    "bitnot": Unary(np.invert, "BitwiseNot", takes=INTEGERS, opset=18),
}


def _compared(compute: Callable[..., np.ndarray], onnx: str, *more: str) -> Binary:
    return Binary(compute, onnx, takes=(*NUMBERS, *more), gives="bool", clamped=False)


def _bits(compute: Callable[..., np.ndarray], onnx: str | None, takes: tuple[str, ...] = INTEGERS) -> Binary:
    return Binary(compute, onnx, takes=takes, clamped=False)


BINARY: dict[str, Binary] = {
    "add": Binary(np.add, "Add"),
    "sub": Binary(np.subtract, "Sub", swapped="rsub"),
    "mul": Binary(np.multiply, "Mul"),
    "div": Binary(_divide, "Div", swapped="rdiv"),
    "pow": Binary(_power, "Pow", swapped="rpow", domain=(0.05, inf)),
    "max": Binary(np.maximum, "Max"),
    "min": Binary(np.minimum, "Min"),
    "mod": Binary(_remainder(np.mod), "Mod", swapped="rmod", jumps=True),  # the sign of the divisor
    "fmod": Binary(_remainder(np.fmod), None, swapped="rfmod", jumps=True),  # the sign of the dividend
    "prelu": Binary(lambda a, b: np.where(a < 0, a * b, a), "PRelu", swapped="rprelu", takes=FLOATS),
    "equal": _compared(np.equal, "Equal", *BOOLS),
    "greater": _compared(np.greater, "Greater"),
    "less": _compared(np.less, "Less"),
    "greaterequal": _compared(np.greater_equal, "GreaterOrEqual"),
    "lessequal": _compared(np.less_equal, "LessOrEqual"),
    "and": _bits(np.logical_and, "And", BOOLS),
    "or": _bits(np.logical_or, "Or", BOOLS),
    "xor": _bits(np.logical_xor, "Xor", BOOLS),
    "bitand": _bits(np.bitwise_and, "BitwiseAnd"),
    "bitor": _bits(np.bitwise_or, "BitwiseOr"),
    "bitxor": _bits(np.bitwise_xor, "BitwiseXor"),
    "shiftleft": _bits(np.left_shift, None),  # BitShift has a direction; bits that leave are lost
    "shiftright": _bits(np.right_shift, None),
}

BY_OPERATOR = {entry.onnx: op for op, entry in (UNARY | BINARY).items() if entry.onnx}  # ONNX operator -> op
