"""The most that LiteRT does with integers: of a convolution that computes much, and of a product that reads much."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from pipeall._kernels.peak import Peak
from pipeall.graph.ir import Graph, Node, Quantization, Tensor
from pipeall.graph.ops import attributes

from .tflite_file import TfliteFile

CHANNELS, SIDE, FEATURES = 256, 28, 4096
TIMES = 9


def measured(interpreter: Callable[[bytes], Any]) -> Peak:
    """Medians of some runs each; ``interpreter``: of a model's bytes. All figures are of int8."""
    conv = (1, CHANNELS, SIDE, SIDE), (1, CHANNELS, SIDE, SIDE), (CHANNELS, CHANNELS, 3, 3)
    much = _seconds(interpreter, "conv", *conv, pads=(1,) * 4)
    read = _seconds(interpreter, "fc", (1, FEATURES), (1, FEATURES), (FEATURES, FEATURES), axis=1)
    operations = 2 * CHANNELS * CHANNELS * 9 * SIDE * SIDE / much
    return Peak(operations, FEATURES * FEATURES / read, operations)


def _seconds(
    interpreter: Callable[[bytes], Any], op: str, shape: tuple[int, ...], out: tuple[int, ...], weight: tuple[int, ...],
    **attrs: Any,
) -> float:  # fmt: skip
    levels = Quantization((0.1,), (0,))
    x, y = Tensor("x", shape, "int8", levels), Tensor("y", out, "int8", levels)
    constants = {"w": np.ones(weight, np.int8), "b": np.zeros(weight[0], np.float32)}
    node = Node("y", op, ("x", "w", "b"), "y", attributes(op, **attrs))
    whole = Quantization((0.1,) * weight[0], (0,) * weight[0], 0)
    graph = Graph("peak", (node,), {"x": x, "y": y}, constants, (x,), (y,), qparams={"w": whole})
    made = interpreter(TfliteFile(graph).content())
    times = []
    for _ in range(TIMES):
        begin = perf_counter()
        made.invoke()
        times.append(perf_counter() - begin)
    return median(times)
