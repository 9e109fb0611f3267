"""What integers cost and gain in each layer, and the fewest layers of floats that keep a network within a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.engine import Engine
from ..pipeline.lease import WRONG, leased
from ..pipeline.measuring.layers import step_times
from ..progress import Progress
from .calibrate import Arrays, with_logits
from .calibration_run import CalibrationRun, Reference
from .compare import Comparison
from .config import QuantConfig
from .quantizable import integer_nodes, layers_with_activations

SECONDS = 1.0  # for the layers of each network, and for frames of both


def sensitivities(config: QuantConfig, reference: Reference, run: CalibrationRun) -> dict[str, float]:
    """By layer, the error of the answers where only that layer and its activations compute with integers."""
    groups = layers_with_activations(config.graph)
    layers = {node.name: groups[node.name] for node in config.resolve().quantizable.layers}
    config = replace(config, graph=with_logits(config.graph))
    every = frozenset(integer_nodes(config.graph))
    errors = {}
    for done, (name, nodes) in enumerate(layers.items()):
        run.progress("layers", done, len(layers))
        errors[name] = run.emulated_error(replace(config, float_nodes=every - nodes), reference)
    run.progress("layers", len(layers), len(layers))
    return errors


def within_budget(
    config: QuantConfig, errors: dict[str, float], max_drop: float, compared: Callable[[QuantConfig], Comparison]
) -> QuantConfig:
    """The configuration with the fewest layers of floats, the costliest first, that loses at most ``max_drop``.

    It is found by bisection: more layers of floats are assumed to lose less. Raises ArgumentError where the network
    loses more with floats in all layers.
    """
    order = sorted(errors, key=errors.__getitem__, reverse=True)
    groups = layers_with_activations(config.graph)

    def with_floats(count: int) -> QuantConfig:
        nodes = frozenset().union(*(groups[name] for name in order[:count]))
        return replace(config, float_nodes=config.float_nodes | nodes)

    low, high = 0, len(order)
    if (least := compared(with_floats(high)).drop) > max_drop:
        raise ArgumentError(
            f"max_drop: expected {least:.4g} at least, which this network loses with floats in all layers, "
            f"got {max_drop:g}"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if compared(with_floats(middle)).drop <= max_drop else (middle, high)
    return with_floats(high)


@dataclass(frozen=True)
class LayerTimes:
    """ms by layer, and by node for nodes of no layer, in a network of floats and in the quantized one."""

    floats: dict[str, float]
    quantized: dict[str, float]


def frame_times(graph: Graph, quantized: Graph, frame: Arrays) -> tuple[float, float]:
    """Median ms of a frame in both networks, which take turns, on the first CPU, all its cores."""
    board, unit = _first_cpu()
    with (
        leased(board, [unit], f"{graph.name} beside its integers", effect=WRONG),
        Engine(graph, unit, board=board) as floats,
        Engine(quantized, unit, board=board) as integers,
    ):
        ms: tuple[list[float], list[float]] = [], []
        end = perf_counter() + SECONDS
        while len(ms[0]) < 3 or perf_counter() < end:
            for engine, times in zip((floats, integers), ms, strict=True):
                begin = perf_counter()
                engine(frame if len(graph.inputs) > 1 else frame[graph.inputs[0].name])
                times.append(1e3 * (perf_counter() - begin))
    return median(ms[0][1:]), median(ms[1][1:])


def _first_cpu() -> tuple[Board, str]:
    board = Board.detect(gpu=False)
    return board, next(component.name for component in board.components.values() if component.device.cores)


def layer_times(graph: Graph, quantized: Graph, progress: Progress) -> LayerTimes:
    """Medians on the first CPU, all its cores. A layer's time includes its activation's and its residual's, which are
    part of the layer's step in one network and may be steps of their own in the other."""
    board, unit = _first_cpu()
    groups = layers_with_activations(graph)
    layer = {node: name for name, nodes in groups.items() for node in (*nodes, f"{name}/add")}
    times = []
    for done, network in enumerate((graph, quantized)):
        progress("times", done, 2)
        ms: dict[str, float] = {}
        for step, _, step_ms in step_times(network, board, unit, seconds=SECONDS):
            name = layer.get(step.node, step.node)
            ms[name] = ms.get(name, 0.0) + step_ms
        times.append(ms)
    progress("times", 2, 2)
    return LayerTimes(*times)
