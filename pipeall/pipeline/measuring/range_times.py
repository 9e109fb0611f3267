"""Times of a unit that has ranges of groups compiled ahead: each is timed as it is, and groups share what they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

import numpy as np

from ...graph.ir import Graph
from ...graph.ops import macs
from ..planning.profile import UnitTimes
from ..planning.ranges import Range, Ranges

ROUNDS = 200  # of fitting: some tens are usual


def times_of_ranges(graph: Graph, unit: str, ranges: Ranges, timed: Callable[[Range], UnitTimes]) -> UnitTimes:
    """The times of groups whose sums come nearest to those of the ranges.

    timed: what a range takes, as of one group. Within a range nobody knows what a group takes: by its
    multiply-accumulates.
    """
    known = {one: timed(one) for one in ranges.pieces}
    work = np.array([1.0 + sum(macs(node, graph) for node in group.nodes) for group in graph.groups])
    ms, spread = (
        _shared(work, {one: getattr(times, key)[0] for one, times in known.items()}) for key in ("ms", "half_iqr_ms")
    )
    inside = {group for first, last in known for group in range(first, last)}
    refused = {
        group + 1: ranges.refusal(unit, (group, group, group + 1, group + 1), f"...-{unit}-...:...", graph.name)
        for group in range(len(work))
        if group not in inside
    }
    return UnitTimes(
        tuple(inf if group + 1 in refused else float(one) for group, one in enumerate(ms)),
        tuple(0.0 if group + 1 in refused else float(one) for group, one in enumerate(spread)),
        refused=refused,
        ranges=ranges,
    )


def _shared(work: Sequence[float], sums: Mapping[Range, float]) -> np.ndarray:
    """Values of groups in the ratio of their work, whose sums over ranges are these, or as near as may be."""
    found = np.array(work, float)
    for _ in range(ROUNDS):
        times, count = np.zeros(len(found)), np.zeros(len(found))
        for (first, last), wanted in sums.items():
            times[first:last] += wanted / max(found[first:last].sum(), 1e-300)
            count[first:last] += 1
        found = found * np.divide(times, count, out=np.ones(len(found)), where=count > 0)
    return found
