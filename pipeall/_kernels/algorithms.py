"""Which algorithm computes a convolution: GEMM, or Winograd F(m x m, r x r) by a model of the work each does.

gemm             indirect GEMM: any convolution
winograd2|4|6    F(2x2), F(4x4), F(6x6) for 3x3, F(2x2), F(4x4) for 5x5 kernels of stride and dilation 1
winograd*-lazy   the same with the taps transformed in every frame, not kept: (n / r)^2 times fewer weights to read
"""

from __future__ import annotations

from math import ceil

TILES = {3: (2, 4, 6), 5: (2, 4)}  # kernel size -> m
# Multiply-adds that take as long as the rest of the work, from timings of whole layers on Zen 3 (AVX2):
INPUT = {4: 120, 6: 300, 8: 800}  # transforming one channel of a tile of n x n points
OUTPUT = {4: 90, 6: 240, 8: 600}
PER_WEIGHT_BYTE = 2.7  # reading weights from memory


def is_depthwise(step) -> bool:
    """Whether a conv step has one filter per channel: it has a kernel of its own."""
    return 1 < step.params["groups"] == step.src[0].c == step.dst.c


def candidates(step) -> tuple[str, ...]:
    """The algorithms that can compute a step; the first is the plainest. Nothing to choose: empty."""
    if step.kind != "conv" or is_depthwise(step):
        return ()
    kh, kw = step.params["kernel"]
    steps = (*step.params["strides"], *step.params["dilations"])
    if kh != kw or kh not in TILES or steps != (1, 1, 1, 1):
        return ("gemm",)
    names = [f"winograd{m}" for m in TILES[kh]]
    return ("gemm", *names, *(f"{name}-lazy" for name in names))


def modelled(step, mr: int, nr: int) -> str:
    """The algorithm of least modelled work, transforms kept, for GEMM tiles of MR x NR; depends on nothing else."""
    return min((name for name in candidates(step) if not name.endswith("-lazy")), key=lambda n: work(step, n, mr, nr))


def work(step, algorithm: str, mr: int, nr: int) -> float:
    """What a step costs, in multiply-adds."""
    groups, kernel = step.params["groups"], step.params["kernel"][0]
    taps = kernel * step.params["kernel"][1]
    c_in, c_out = step.src[0].c, step.dst.c
    filters = c_in // groups * groups * padded(c_out // groups, nr)
    if algorithm == "gemm":
        return filters * taps * (padded(step.dst.h * step.dst.w, mr) + 4 * PER_WEIGHT_BYTE)
    m = int(algorithm.removeprefix("winograd"))
    n = m + kernel - 1
    tiles = ceil(step.dst.h / m) * ceil(step.dst.w / m)
    products = filters * n * n * (padded(tiles, mr) + 4 * PER_WEIGHT_BYTE)
    return products + tiles * (c_in * INPUT[n] + c_out * OUTPUT[n])


def padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
