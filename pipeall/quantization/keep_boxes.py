"""The few layers of floats without which a detector's boxes would differ, found by halving runs of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from ..graph.ir import Node
from ..graph.ops import macs
from .calibration_run import CalibrationRun, Reference
from .config import QuantConfig
from .quantizable import layers_with_activations

ENOUGH = 0.02  # share of the boxes that may come or go
SHARE = 0.1  # of the multiply-accumulates that may be of floats
PART = 0.25  # of what is left of them, that several layers may take at once
RUNS = 8  # that the search begins with
TRIES = 32  # networks that are compared


@dataclass(frozen=True)
class _Run:
    """Neighbouring layers; the configuration of which they were made floats, and what boxes and answers lost then.

    gain  of floats in them, or at most that
    """

    layers: Sequence[Node]
    gain: float = inf
    config: QuantConfig | None = None
    lost: tuple[float, float] = (inf, inf)

    def parts(self, count: int) -> list[_Run]:
        bounds = [len(self.layers) * i // count for i in range(count + 1)]
        return [_Run(self.layers[a:b], self.gain) for a, b in pairwise(bounds) if a < b]


def keep_boxes(config: QuantConfig, reference: Reference, run: CalibrationRun) -> QuantConfig:
    """The configuration itself, where it keeps the boxes; else one with floats in the layers that lose most of them.

    The run of layers that gains most is halved, or becomes one of floats where it is short. So a few dozen networks are
    compared, of hundreds of layers.
    """
    layers = config.resolve().quantizable.layers
    groups = layers_with_activations(config.graph)
    sizes = {node.name: macs(node, config.graph) for node in layers}
    left = sum(sizes.values()) - (1 - SHARE) * sum(macs(node, config.graph) for node in config.graph.nodes)

    def with_floats(these: Sequence[Node]) -> QuantConfig:
        nodes = frozenset().union(*(groups[node.name] for node in these))
        return replace(config, float_nodes=config.float_nodes | nodes)

    drop, loss = run.boxes(config, reference)
    waiting, tries = _Run(layers).parts(RUNS), 0
    while drop > ENOUGH and waiting:
        best = max(waiting, key=lambda each: each.gain)
        waiting.remove(best)
        size = sum(sizes[node.name] for node in best.layers)
        if best.config is not config:
            if tries == TRIES:
                break
            run.progress("layers", tries, TRIES)
            tries += 1
            lost = run.boxes(with_floats(best.layers), reference)
            waiting.append(_Run(best.layers, loss - lost[1], config, lost))
        elif best.gain <= 0:
            break
        elif len(best.layers) > 1 and size > PART * left:
            waiting += best.parts(2)
        elif size <= left:
            config, (drop, loss), left = with_floats(best.layers), best.lost, left - size
    run.progress("layers", TRIES, TRIES)
    return config
