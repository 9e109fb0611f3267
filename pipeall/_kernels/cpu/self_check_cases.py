"""Small steps that together run every kernel of a table, its main loop and its tails.

Operands are whole numbers wherever the results of a kernel are sums of products: then these are exact in any order, and
every bit has to agree. Elsewhere ``within`` is of the size of a result and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from ...picture import Picture, described, example
from .algorithms import BF16_GEMM, DIRECT, GEMM, GEMV_HALVES, HALF_GEMM, SPARSE, STRASSEN, Algorithm
from .self_check_steps import Steps

Key = tuple[str, str]  # op and element type of kernels.inc
ROUNDED = 2.0**-18  # functions and divisions in float32: tens of roundings
TRANSFORMED = 2.0**-8  # Winograd's sums in float32: tiles of 8 x 8 points lose 9 bits, on sums of up to some hundreds
TRANSFORMED_HALVES = 0.25  # the same of 6 x 6 points in half precision, and its SiLU


@dataclass(frozen=True)
class Case:
    """``build`` adds steps that run the kernels ``keys``; results differ by at most ``within`` (1 + |result|)."""

    name: str
    keys: tuple[Key, ...]
    within: float
    build: Callable[[Steps], None]

    def steps(self) -> Steps:
        made = Steps()
        self.build(made)
        return made


CASES: list[Case] = []


def case(*keys: str, type_: str = "f32", within: float = 0.0):
    """Registers a function as the ``build`` of a case; a key with another type is "op type"."""

    def register(build: Callable[[Steps], None]) -> Callable[[Steps], None]:
        parts = [key.split() for key in keys]
        named = tuple((op, rest[0] if rest else type_) for op, *rest in parts)
        CASES.append(Case(build.__name__, named, within, build))
        return build

    return register


def conv(
    steps,
    x,
    out,
    kernel,
    *,
    stride=1,
    groups=1,
    algorithm=None,
    residual=False,
    dtype="float32",
    most=4,
    weight=None,
    **more,
):
    """A convolution of (h, w, c) ``x`` that is padded to keep its size at stride 1, with a bias and bounds."""
    h, w, c = x.shape
    pads = (kernel // 2, kernel // 2, (kernel - 1) // 2, (kernel - 1) // 2)
    size = ((h - 1) // stride + 1, (w - 1) // stride + 1, out)
    params = dict(kernel=(kernel, kernel), strides=(stride, stride), pads=pads, dilations=(1, 1), groups=groups)
    params |= dict(lo=-60.0, hi=50.0) | more
    src = [steps.pixels(x)]
    if residual:
        src.append(steps.pixels(steps.whole(*size, dtype=dtype)))
    weight = steps.whole(out, c // groups, kernel, kernel, most=most) if weight is None else weight
    steps.of_pixels("conv", tuple(src), size, params, algorithm=algorithm, weight=weight, bias=steps.whole(out))


# ---- convolutions of floats ----


def products(steps, algorithm):
    conv(steps, steps.whole(1, 29, 17), 71, 1, algorithm=algorithm, residual=True)
    conv(steps, steps.whole(4, 5, 75, most=1), 41, 3, algorithm=algorithm, most=1)  # of several blocks of a sum


@case("gemm")
def gemm(steps):
    products(steps, GEMM)


@case("gemm f32_bf16w")
def gemm_of_bfloats(steps):
    products(steps, BF16_GEMM)


@case("gemv", "gemv f32_f16w", "gemv f32_f16w_f16acc")
def gemv(steps):
    for algorithm in (GEMM, HALF_GEMM, GEMV_HALVES):
        conv(steps, steps.whole(1, 1, 333, most=2), 139, 1, algorithm=algorithm, most=2, residual=True)


@case("depthwise")
def depthwise(steps):
    conv(steps, steps.whole(7, 15, 37), 37, 3, groups=37, residual=True)
    conv(steps, steps.whole(9, 11, 37), 37, 5, groups=37, stride=2)
    conv(steps, steps.whole(5, 9, 15), 20, 3, groups=5, algorithm=DIRECT)


@case("silu", within=ROUNDED)
def silu(steps):
    conv(steps, steps.whole(3, 7, 37, most=2), 37, 3, groups=37, silu=True)


WINOGRADS = ("winograd_input", "winograd_output", "winograd_products", "winograd_columns")


@case("winograd_weight", "gemm", *WINOGRADS, within=TRANSFORMED)
def winograd(steps):
    for kernel, m in ((3, 2), (3, 4), (3, 5), (3, 6), (5, 2), (5, 4), (4, 3), (4, 5), (2, 5)):
        for channels in (12, 19):  # by rows of points where these are few and in fours
            conv(steps, steps.whole(5, 7, channels, most=2), 21, kernel, algorithm=Algorithm("winograd", m), most=2)


@case("strassen_split", "strassen_join", "gemm")
def strassen(steps):
    conv(steps, steps.whole(1, 31, 38, most=2), 128, 1, algorithm=STRASSEN, most=2, residual=True)


@case("gemm_sparse")
def sparse(steps):
    weight = steps.whole(43, 31, 1, 1, most=2)
    weight[:16, ::2] = 0
    conv(steps, steps.whole(1, 29, 31), 43, 1, algorithm=SPARSE, residual=True, weight=weight)


# ---- the rest of floats ----


@case("pool")
def pool(steps):
    for channels in (2, 37):
        x, window = steps.pixels(steps.whole(9, 13, channels)), dict(kernel=(3, 3), pads=(0, 0, 0, 0))
        steps.of_pixels("maxpool", x, (4, 6, channels), window | dict(strides=(2, 2), dilations=(1, 1)))
        window = dict(kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0), count_include_pad=False)
        steps.of_pixels("avgpool", x, (8, 12, channels), window)


@case("lrn", "softmax", "layernorm", within=ROUNDED)
def of_pixels(steps):
    x = steps.pixels(steps.whole(2, 3, 83))
    steps.of_pixels("lrn", x, (2, 3, 83), dict(size=5, alpha=0.5, beta=0.75, bias=1.0))
    steps.of_pixels("softmax", x, (2, 3, 83), {})
    steps.of_pixels("layernorm", x, (2, 3, 83), dict(epsilon=0.01))


@case("softmax_columns", "normalize", "reduce", "reduce_columns", "layernorm", "softmax", "binary", within=ROUNDED)
def along_axes(steps):
    x = steps.tensor(steps.whole(3, 11, 83))
    for axis in (1, 2):
        steps.of_tensors("softmax_nd", (x,), x.shape, dict(axis=axis))
        steps.of_tensors("layernorm_nd", (x,), x.shape, dict(axes=(axis,), center=True, epsilon=0.01))


@case("softmax_exp", "gemm", within=ROUNDED)
def attention(steps):
    q, k, v = (steps.tensor(steps.whole(2, n, 24, most=1)) for n in (13, 37, 37))
    steps.of_tensors("attention", (q, k, v), (2, 13, 24), dict(scale=0.25, causal=False))


@case("unary", within=ROUNDED)
def unary(steps):
    from .kernels import UNARY_F32

    x = steps.pixels(np.linspace(-3, 3, 101, dtype=np.float32).reshape(1, 1, -1))
    for op in UNARY_F32:
        steps.of_pixels("unary", x, (1, 1, 101), dict(op=op, p0=0.5, p1=1.5))


@case("binary", within=ROUNDED)
def binary(steps):
    from .kernels import BINARY_F32

    a, b = (steps.pixels(steps.whole(1, 3, 37)) for _ in range(2))
    for op in BINARY_F32:
        steps.of_pixels("binary", (a, b), (1, 3, 37), dict(op=op, lo=-20.0, hi=15.0))
    steps.of_pixels("binary", a, (1, 3, 37), dict(op="sub", lo=-inf, hi=inf), weight=steps.whole(1, 1, 37))


@case("reduce", "reduce_columns", "unary", within=ROUNDED)
def reduce(steps):
    from .kernels import REDUCTIONS

    x = steps.tensor(np.where(steps.whole(9, 77) > 0, 2, -1).astype(np.float32))  # products are powers of 2
    for how in REDUCTIONS:
        for axis in (0, 1):
            params = dict(how=how, axes=(axis,), keepdims=False)
            steps.of_tensors("reduce", (x,), ((77,), (9,))[axis], params)


@case("argmax_rows", "argmax_columns", "reduce")
def argmax(steps):
    x = steps.tensor(steps.whole(9, 77))
    for how, last in (("max", False), ("min", True)):
        for axis in (0, 1):
            params = dict(how=how, axis=axis, keepdims=False, last=last)
            steps.of_tensors("arg", (x,), ((77,), (9,))[axis], params, "int64")


@case("gemm", "ger", "gemv_t")
def matmul(steps):
    for rows, columns in ((13, 37), (1, 77), (77, 1)):
        a, b = steps.tensor(steps.whole(rows, 45)), steps.tensor(steps.whole(45, columns))
        steps.of_tensors("matmul", (a, b), (rows, columns), dict(alpha=1.0))
    a, b = steps.tensor(steps.whole(1, 333)), steps.constant(steps.whole(13, 333))
    columns = replace(b, shape=(333, 13), strides=(1, 333))
    steps.of_tensors("matmul", (a, columns), (1, 13), dict(alpha=1.0))


@case("lstm", "gru", "gemv", within=ROUNDED)
def recurrent(steps):
    for kind, gates, option, functions in (
        ("lstm", 4, "input_forget", ("sigmoid", "tanh", "tanh")),
        ("gru", 3, "linear_before_reset", ("sigmoid", "tanh")),
    ):
        zeros = (0.0,) * len(functions)
        params = dict(hidden=37, direction="forward", activations=functions, alphas=zeros, betas=zeros, clip=inf)
        shapes = (1, gates * 37, 5), (1, gates * 37, 37), (1, 2 * gates * 37), (1, 1, 37), (1, 1, 37), (1, 111)
        weights = [steps.constant(steps.whole(*shape) / 64) for shape in shapes[:3]]
        states = [steps.constant(np.zeros(shape, np.float32)) for shape in shapes[3 : 6 if kind == "lstm" else 4]]
        operands = (steps.tensor(steps.whole(3, 1, 5)), *weights, *states)
        steps.of_tensors(kind, operands, (3, 1, 1, 37), params | {"result": "y", option: kind == "gru"})


@case("resample", "upsample", within=ROUNDED)
def resize(steps):
    for shape, out in (
        ((1, 3, 7, 33), (1, 3, 14, 66)),
        ((1, 7, 9, 37), (1, 14, 18, 37)),
        ((2, 20, 33), (2, 9, 70)),
        ((1, 1, 30, 40), (1, 1, 15, 20)),
    ):
        taps = {axis: _linear(shape[axis], out[axis]) for axis in range(len(shape)) if shape[axis] != out[axis]}
        steps.of_tensors("resize", (steps.tensor(steps.whole(*shape)),), out, dict(taps=taps))


def _linear(size, out):
    """Two taps and their weights, of each output along an axis."""
    place = (np.arange(out) + 0.5) * size / out - 0.5
    low = np.floor(place).astype(np.int32)
    index = np.clip(np.stack([low, low + 1], 1), 0, size - 1).astype(np.int32)
    return index, np.stack([1 - (place - low), place - low], 1).astype(np.float32)


@case("picture_rows", "picture_pixels", within=ROUNDED)
def picture(steps):
    for frames, size in (("RGB", (24, 38)), ("GRAY", (40, 50)), ("NV12", (24, 38))):
        seen, rows = Picture(frames=frames, fit="letterbox"), example(frames, size)
        words = described(rows, size, seen.placed(size, (19, 37)))
        params = dict(picture=seen, factors=(1.0, 0.5, 2.0), offsets=(1.0, 2.0, 3.0), example=(rows, words))
        steps.of_tensors("picture", (steps.constant(words),), (19, 37, 3), params, "float32")


@case("transpose")
def transpose(steps):
    for dims, from_, to in (
        ((3, 150), (150, 1), (1, 3)),
        ((150, 4), (4, 1), (1, 150)),
        ((45, 37), (37, 1), (1, 45)),
        ((31, 9, 3), (3, 93, 1), (27, 3, 1)),
    ):
        x = steps.whole(1, 1, int(np.prod(dims)), most=1000)
        params = dict(dims=dims, src_strides=from_, dst_strides=to)
        steps.of_pixels("copy", steps.pixels(x), x.shape, params)


@case("peak", "stream", "peak s8")
def measures(steps):
    steps.probe("peak", "f32", "float32")
    steps.probe("stream", "f32", "float32")
    steps.probe("peak", "s8", "int8")


# ---- halves ----


@case("gemm", type_="f16")
def gemm_halves(steps):
    conv(steps, steps.whole(1, 29, 17, dtype="float16"), 71, 1, algorithm=GEMM, residual=True, dtype="float16", most=2)
    conv(steps, steps.whole(4, 5, 19, most=1, dtype="float16"), 41, 3, algorithm=GEMM, most=1)


@case("depthwise", type_="f16")
def depthwise_halves(steps):
    conv(steps, steps.whole(7, 15, 37, dtype="float16"), 37, 3, groups=37, residual=True, dtype="float16", most=2)
    conv(steps, steps.whole(9, 11, 37, most=2, dtype="float16"), 37, 5, groups=37, stride=2, most=2)
    conv(steps, steps.whole(5, 9, 15, dtype="float16"), 20, 3, groups=5, algorithm=DIRECT, most=2)


@case("silu", "depthwise", "gemm", *WINOGRADS, type_="f16", within=TRANSFORMED_HALVES)
def rounded_halves(steps):
    conv(steps, steps.whole(3, 7, 37, most=1, dtype="float16"), 37, 3, groups=37, silu=True, most=1)
    for kernel, m, channels in ((3, 2, 5), (3, 4, 5), (3, 4, 12), (5, 2, 12), (4, 3, 5), (2, 5, 8)):
        x = steps.whole(7, 9, channels, most=1, dtype="float16")
        conv(steps, x, 37, kernel, algorithm=Algorithm("winograd", m), most=1)


@case("strassen_split", "strassen_join", "gemm", type_="f16", within=TRANSFORMED_HALVES)
def strassen_halves(steps):
    x = steps.whole(1, 31, 38, most=1, dtype="float16")
    conv(steps, x, 128, 1, algorithm=STRASSEN, most=1, residual=True, dtype="float16")


@case("pool", type_="f16")
def pool_halves(steps):
    for channels in (2, 37):
        x, window = steps.pixels(steps.whole(9, 13, channels, dtype="float16")), dict(kernel=(3, 3), pads=(0, 0, 0, 0))
        steps.of_pixels("maxpool", x, (4, 6, channels), window | dict(strides=(2, 2), dilations=(1, 1)))
        window = dict(kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0), count_include_pad=False)
        steps.of_pixels("avgpool", x, (8, 12, channels), window)


# ---- 8-bit integers ----

LEVELS = ((0.5, -7), (16.0, 20))  # scale and zero point of what is read and of what is written


def levels(steps, *shape, most=127):
    return steps.whole(*shape, most=most, dtype="int8")


def conv_levels(steps, x, out, kernel, **more):
    h, w, c = x.shape
    groups, scales = more.pop("groups", 1), tuple((1 + np.arange(out) % 3 / 4).tolist())
    params = dict(kernel=(kernel, kernel), strides=(1, 1), pads=(kernel // 2,) * 4, dilations=(1, 1), groups=groups)
    params |= dict(qparams=LEVELS, scales=scales, lo=-inf, hi=inf) | more
    weight = levels(steps, out, c // groups, kernel, kernel, most=9)
    src = (steps.pixels(x), steps.pixels(levels(steps, h, w, out))) if "add" in more else steps.pixels(x)
    algorithm = None if groups > 1 else GEMM
    steps.of_pixels("conv", src, (h, w, out), params, algorithm=algorithm, weight=weight, bias=steps.whole(out))


@case("gemm", "unsign", type_="s8")
def gemm_levels(steps):
    conv_levels(steps, levels(steps, 1, 29, 17), 71, 1)
    conv_levels(steps, levels(steps, 4, 5, 67), 41, 3)


@case("gemm", "unsign", "lut", "add", "depthwise", "depthwise_rows", type_="s8")
def behind_a_convolution(steps):
    table = levels(steps, 256)
    added = dict(qparams=(LEVELS[0], LEVELS[0], LEVELS[0]), lo=-inf, hi=inf)
    conv_levels(steps, levels(steps, 1, 29, 17), 71, 1, table=table, add=added)
    conv_levels(steps, levels(steps, 4, 5, 67), 67, 3, groups=67, table=table, add=added)


@case("depthwise", "depthwise_rows", type_="s8")
def depthwise_levels(steps):
    conv_levels(steps, levels(steps, 7, 15, 83), 83, 3, groups=83)


@case("quantize", "dequantize", "lut", "add", "mul", type_="s8")
def elements(steps):
    reals, whole = steps.tensor(steps.whole(3, 83, most=300)), steps.tensor(levels(steps, 3, 83))
    other = steps.tensor(levels(steps, 3, 83))
    steps.of_tensors("quantize", (reals,), (3, 83), dict(scale=1.5, zero=3), "int8")
    steps.of_tensors("dequantize", (whole,), (3, 83), dict(scale=1.5, zero=3), "float32")
    steps.of_tensors("table", (whole,), (3, 83), dict(table=levels(steps, 256)))
    for op, scale in (("add", 1.0), ("mul", 40.0)):
        qparams = ((0.5, -7), (0.75, 3), (scale, 5))
        steps.of_tensors("integers", (whole, other), (3, 83), dict(op=op, qparams=qparams, lo=-inf, hi=inf))


@case("pool", type_="s8")
def pool_levels(steps):
    x, window = steps.pixels(levels(steps, 9, 13, 83)), dict(kernel=(3, 3), strides=(2, 2), pads=(0, 0, 0, 0))
    steps.of_pixels("maxpool", x, (4, 6, 83), window | dict(dilations=(1, 1)))
    steps.of_pixels("avgpool", x, (4, 6, 83), window | dict(count_include_pad=False, qparams=((0.5, -7), (2.0, 20))))
