"""A device under test: networks, frames with their right results, and pipelines in which it stands at every place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Tensor
from ..graph.ops import run_graph
from ..graph.passes.dequantize import dequantized
from ..pipeline.boards.board import Board
from ..pipeline.devices.device import Component
from ..pipeline.pipeline import Pipeline
from ..pipeline.planning.units import may_be_neighbours

DISTINCT = 16  # frames
WAIT_S = 60.0  # for a result
CHANNELS = (8, 12, 16, 5)  # of each layer of the small network


def small_graph(seed: int = 0) -> Graph:
    """Convolutions of 3x3 and 1x1 on 12 x 10 pixels: four groups, microseconds a frame."""
    random = np.random.default_rng(seed)
    image = Tensor("input", (1, 4, 12, 10))
    net = GraphBuilder(Graph("small", (), {image.name: image}, {}, (image,), (image,)))
    x, before = image.name, image.shape[1]
    for layer, channels in enumerate(CHANNELS):
        kernel, name = 3 - 2 * (layer % 2), f"conv{layer}"
        weight = random.standard_normal((channels, before, kernel, kernel)) / (kernel * before**0.5)
        constants = (
            net.constant(f"{name}/weight", weight),
            net.constant(f"{name}/bias", random.standard_normal(channels)),
        )
        x, before = net.add("conv", name, [x, *constants], pads=(kernel // 2,) * 4), channels
    return net.graph([x])


class Runs:
    """``component`` on its board with a network; ``other`` runs beside it, ``count`` frames are many.

    others  components that may stand beside it, at most two
    """

    def __init__(self, board: Board, component: Component, graph: Graph, other: Graph, tolerance: float, count: int):
        self.board, self.component, self.graph, self.other = board, component, graph, other
        self.tolerance, self.count = tolerance, count
        self.name, self.device = component.name, component.device
        beside = [name for name in board.components if name != self.name and may_be_neighbours(name, self.name)]
        self.others = [name for name in beside if not board.components[name].device.stand_in][:2]

    @cached_property
    def frames(self) -> list[dict[str, np.ndarray]]:
        return _frames(self.graph)

    @cached_property
    def expected(self) -> list[dict[str, np.ndarray]]:
        reals = dequantized(self.graph)
        return [run_graph(reals, frame) for frame in self.frames]

    @property
    def plans(self) -> list[str]:
        """The device alone, and at every place beside the others."""
        third, name = max(1, len(self.graph.groups) // 3), self.name
        plans = [name]
        for other in self.others[:1]:
            plans += [f"{name}-{other}:{third}", f"{other}-{name}:{third}"]
        if len(self.others) > 1:
            plans.append(f"{self.others[0]}-{name}-{self.others[1]}:{third},{2 * third}")
        return plans

    @property
    def together(self) -> str:
        """A plan with a neighbour where there is one."""
        return self.plans[1 if self.others else 0]

    def stage(self, plan: str) -> int:
        """The number of its stage in one of ``plans``."""
        return plan.split(":")[0].split("-").index(self.name)

    @contextmanager
    def pipeline(self, plan: str, **more: Any) -> Iterator[Pipeline]:
        with Pipeline(self.graph, plan, self.board, **more) as pipe:
            yield pipe

    def run(self, pipe: Pipeline, count: int, slow: bool = False, ahead: int | None = None) -> None:
        """So many frames, ``ahead`` of them under way, or as many as any lane takes; each result is compared. ``slow``:
        results are taken late."""
        ahead = ahead or len(pipe.plan.units) + 1
        for number in range(count + ahead):
            if number >= ahead:
                self.check(number - ahead, pipe.result(timeout=WAIT_S))
            if number < count:
                pipe.submit(self.frames[number % DISTINCT], timeout=WAIT_S)
            if slow and number % 4 == 3:
                time.sleep(0.005)

    def check(self, number: int, found: Any) -> None:
        """A frame's result is the right one."""
        expected = self.expected[number % DISTINCT]
        found = found if isinstance(found, dict) else {self.graph.outputs[0].name: found}
        for name, wanted in expected.items():
            self.compare(f"frame {number}, output {name}", found[name], wanted)

    def compare(self, what: str, found: np.ndarray, wanted: np.ndarray) -> None:
        assert found.shape == wanted.shape, f"{what}: expected shape {wanted.shape}, got {found.shape}"
        off = np.abs(found.astype(np.float64) - wanted).max(initial=0)
        most = self.tolerance * max(np.abs(wanted).max(initial=0), 1e-6)
        assert off <= most, f"{what}: expected values within {most:.3g}, got some that are {off:.3g} off"


def _frames(graph: Graph, seed: int = 1) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)

    def array(tensor: Tensor) -> np.ndarray:
        values = random.standard_normal(tensor.shape)
        return values.astype(tensor.dtype) if tensor.dtype.startswith("float") else (20 * values).astype(tensor.dtype)

    return [{tensor.name: array(tensor) for tensor in graph.inputs} for _ in range(DISTINCT)]
