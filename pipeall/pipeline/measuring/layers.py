"""The bound of each layer of a network on a unit: its time, and the times of its arithmetic and its bytes alone.

A layer is a step, timed in the whole network, so that its weights come from memory and its input from where the
layer before left it. What is in a cache is read faster than from memory: the time of the bytes can exceed the layer's.
On an OpenCL device the times are those of its events, and what lies between the kernels of a step is moved too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from math import prod

import numpy as np

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.lower.lower import lower
from ...graph.ops.registry import OPS, work
from ...graph.partition import subgraph
from ...steps import Step, Strided, View, is_depthwise, item_bytes
from ..boards.board import Board
from ..devices.device import Algorithm, Component
from ..lease import WRONG, leased
from ..pipeline import Pipeline
from ..planning.plan import Plan
from .trial import for_seconds, random_frame

WARM_UP = 3  # frames that do not count
LEAST = 4  # frames that do
EXPLAINED = 0.5  # of the time by arithmetic or memory; else the layer is bound by overhead
INTEGER_OUTPUT = 12  # bytes of a convolution of integers for each output: bias, sum of its weights, scale


@dataclass(frozen=True, slots=True)
class LayerWork:
    """A step: the shapes are (h, w, channels), a ``kernel`` of None has no window.

    algorithm  of a convolution; the kind of any other step
    macs       multiply-adds of the direct convolution, 0 for what is none
    products   multiply-adds that the algorithm makes of them
    dtype      element type of what it reads: which peak it is judged by
    bytes      of the weights as they are kept, the inputs and the output, and what lies between a step's kernels
    """

    kind: str
    node: str
    input: tuple[int, int, int]
    output: tuple[int, int, int]
    kernel: tuple[int, int] | None
    strides: tuple[int, int] | None
    groups: int
    algorithm: str
    macs: int
    products: int
    bytes: int
    dtype: str

    @staticmethod
    def of(step: Step, algorithm: Algorithm | None) -> LayerWork:
        """The layer of a step; ``algorithm`` as the program has it."""
        conv, params = step.kind == "conv", step.params
        first = (step.src or (step.dst,))[0]
        macs = step.weight.size * step.dst.h * step.dst.w if conv else _products(step)
        products = algorithm.products(step) if algorithm else macs
        return LayerWork(
            step.kind,
            step.node,
            *(_shape(operand) for operand in (first, step.dst)),
            params.get("kernel"),
            params.get("strides"),
            params.get("groups", 1),
            str(algorithm or ("depthwise" if conv and is_depthwise(step) else step.kind)),
            macs,
            products,
            _bytes(step, algorithm),
            first.dtype if products == macs else "float32",  # transforms are of floats
        )


def _shape(operand: View | Strided) -> tuple[int, ...]:
    return operand.shape if isinstance(operand, Strided) else (operand.h, operand.w, operand.c)


def _products(step: Step) -> int:
    """Multiply-adds of a step on strided operands."""
    if step.kind not in OPS or not isinstance(step.dst, Strided):
        return 0
    return work(step.kind, step.dst.shape, [operand.shape for operand in step.src])


def _bytes(step: Step, algorithm: Algorithm | None) -> int:
    if step.kind == "copy":  # whose views have gaps
        return 2 * item_bytes(step.dst.dtype) * prod(step.params["dims"])
    return _constant_bytes(step, algorithm) + sum(view.nbytes for view in (*step.src, step.dst))


def _constant_bytes(step: Step, algorithm: Algorithm | None) -> int:
    if step.kind == "conv" and step.src[0].dtype == "int8":  # of a depthwise one they are kept in 16 bits
        return step.weight.size * (2 if is_depthwise(step) else 1) + step.dst.c * INTEGER_OUTPUT
    constants = [step.bias] if algorithm else [step.weight, step.bias]
    nbytes = item_bytes(step.dst.dtype) * sum(array.size for array in constants if array is not None)
    return nbytes + (algorithm.inner_bytes(step) if algorithm else 0)


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """The layers of a network on a unit, and what this can do at most.

    worker            what computes on the unit: a thread, a compute unit; ``threads`` of them
    threads           how many of them
    peak_flops        each second, by all of them at once; a multiply-add is two
    peak_bytes        read from memory each second, by all of them at once
    peak_integer_ops  of layers on int8, as peak_flops is of the others; None on a unit that computes in real numbers
    ms                median of each layer
    """

    network: str
    unit: str
    worker: str
    threads: int
    peak_flops: float
    peak_bytes: float
    peak_integer_ops: float | None
    layers: tuple[LayerWork, ...]
    ms: tuple[float, ...]

    def rows(self) -> list[dict]:
        """A row for each layer: its fields, its figures, and which bound explains how much of its time."""
        return [
            {name: getattr(layer, name) for name in LayerWork.__slots__}
            | self._figures([layer], ms)
            | self._bound(layer, ms)
            for layer, ms in zip(self.layers, self.ms, strict=True)
        ]

    def totals(self) -> list[dict]:
        """A row for each algorithm and element type, the longest first, then one for all of them."""
        names = list(dict.fromkeys((layer.algorithm, layer.dtype) for layer in self.layers))
        rows = [self._total(*name, lambda layer, name=name: (layer.algorithm, layer.dtype) == name) for name in names]
        return [*sorted(rows, key=lambda row: -row["ms"]), self._total("all", None, lambda layer: True)]

    def _total(self, name: str, dtype: str | None, chosen: Callable[[LayerWork], bool]) -> dict:
        picked = [(layer, ms) for layer, ms in zip(self.layers, self.ms, strict=True) if chosen(layer)]
        layers, ms = [layer for layer, _ in picked], sum(ms for _, ms in picked)
        row = {"algorithm": name, "dtype": dtype, "layers": len(layers), "time_share": _ratio(ms, sum(self.ms))}
        least_ms = sum(max(self._least_ms(layer).values()) for layer in layers)
        return row | self._figures(layers, ms) | {"explained": _ratio(least_ms, ms)}

    def _figures(self, layers: Sequence[LayerWork], ms: float) -> dict:
        """Multiply-adds of the direct convolutions, so that Winograd may pass the peak."""
        flops = _ratio(2e3 * sum(layer.macs for layer in layers), ms)
        peak_ms = sum(self._peak_ms(layer, layer.macs) for layer in layers)
        return {"ms": ms, "gflops": flops / 1e9, "peak_share": _ratio(peak_ms, ms)}

    def _peak_ms(self, layer: LayerWork, products: int) -> float:
        """What so many multiply-adds of a layer's element type take at the peak."""
        if not products:
            return 0.0
        return 2e3 * products / (self.peak_integer_ops if layer.dtype == "int8" else self.peak_flops)

    def _bound(self, layer: LayerWork, ms: float) -> dict:
        least_ms = self._least_ms(layer)
        name = max(least_ms, key=lambda name: least_ms[name])
        explained = _ratio(least_ms[name], ms)
        return {"bound": name if explained >= EXPLAINED else "overhead", "explained": explained}

    def _least_ms(self, layer: LayerWork) -> dict[str, float]:
        """By what each bound alone would take."""
        return {
            "arithmetic": self._peak_ms(layer, layer.products),
            "memory": 1e3 * layer.bytes / self.peak_bytes,
        }


def _ratio(part: float, whole: float) -> float:
    """0 where a clock too coarse saw no time at all."""
    return part / whole if whole else 0.0


def layer_times(graph: Graph, board: Board, unit: str, *, seconds: float = 1.0) -> LayerTimes:
    """Runs the whole network on a unit such as "big", "bigx2" or "gpu" for so long; before and after, the unit's peak.

    Raises ArgumentError for a unit of a modelled board, DeviceError for one that is absent.
    """
    part = _component(board, unit)
    before = part.device.peak()
    timed = step_times(graph, board, unit, seconds=seconds)
    after = part.device.peak()
    both = zip(astuple(before), astuple(after), strict=True)  # other work only makes it less
    most = (None if None in figures else max(figures) for figures in both)
    return LayerTimes(
        graph.name,
        unit,
        part.device.worker,
        part.device.width,
        *most,
        tuple(_layer(step, algorithm, part) for step, algorithm, _ in timed),
        tuple(ms for _, _, ms in timed),
    )


def step_times(
    graph: Graph, board: Board, unit: str, *, seconds: float = 1.0
) -> list[tuple[Step, Algorithm | None, float]]:
    """Each step of the whole network, what it was computed by, and its median in ms; errors as ``layer_times``."""
    part, plan = _component(board, unit), Plan.single(unit)
    with (
        leased(board, [unit], f"{graph.name}'s layers", effect=WRONG),
        Pipeline(graph, plan, board, trace=True) as pipe,
    ):
        deque(pipe.map(for_seconds(pipe, random_frame(graph), seconds, WARM_UP + LEAST)), maxlen=0)
    (trace,) = pipe.trace
    ms = np.median(np.diff(trace.marks[WARM_UP:], axis=1), axis=0) / 1e6
    starts = np.unique(trace.step_of, return_index=True)[1]
    device, whole = part.device, subgraph(graph, 0, len(graph.groups))
    steps = lower(whole, int8=device.int8, fp16=device.fp16, silu=device.silu).steps
    algorithms = (trace.algorithms[at] for at in starts)
    return list(zip(steps, algorithms, np.add.reduceat(ms, starts).tolist(), strict=True))


def _component(board: Board, unit: str) -> Component:
    ((part,),) = board.units(Plan.single(unit))
    if board.model is not None:
        raise ArgumentError(f"unit {unit}: expected one of this machine, got {part.device.description}")
    return part


def _layer(step: Step, algorithm: Algorithm | None, unit: Component) -> LayerWork:
    """Half precision is stored in half as many bytes."""
    layer = LayerWork.of(step, algorithm)
    return replace(layer, bytes=layer.bytes // (2 if unit.device.stores_fp16 else 1))
