"""Lanes that differ little from one: a cut moved or floating, a stage more or less at an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from .bound import LEAST_MS
from .plan import Plan, StagePlan
from .unit_set import settled
from .units import Unit

WIDTHS = (1, 2, 4, 8)  # groups that an end of a cut moves by, or a new stage has

Lane = tuple[StagePlan, ...]


def neighbours(lane: Lane, groups: int, units: Sequence[Unit], stages: int) -> Iterator[Lane]:
    """Lanes of a network of so many groups, on these units, of so many stages at most."""
    own = [stage.unit for stage in lane]
    cuts = [(stage.last, stage.last + stage.floating) for stage in lane[:-1]]
    lowest, highest = [0, *(late for _, late in cuts)], [*(early for early, _ in cuts[1:]), groups]
    for index, (early, late) in enumerate(cuts):
        for width in WIDTHS:
            pairs = [(early - width, late), (early, late + width), (early - width, late - width)]
            pairs += [(early + width, late + width), (early + width, late), (early, late - width)]
            for one, other in pairs:
                if lowest[index] < one <= other < highest[index]:
                    yield _lane(own, [*cuts[:index], (one, other), *cuts[index + 1 :]])
    if cuts:
        yield _lane(own[1:], cuts[1:])
        yield _lane(own[:-1], cuts[:-1])
    for unit, width in product(dict.fromkeys(units), WIDTHS):
        if len(own) < stages and (unit.cores is None or unit not in own):
            if unit != own[0] and width < min([groups, *(early for early, _ in cuts[:1])]):
                yield _lane([unit, *own], [(width, width), *cuts])
            if unit != own[-1] and groups - width > max([0, *(late for _, late in cuts[-1:])]):
                yield _lane([*own, unit], [*cuts, (groups - width, groups - width)])


def with_shares_of(plan: Plan, ways: np.ndarray) -> Plan:
    """The plan, whose lanes are alike, with the shares of its floating cuts.

    ways: how many frames take each way through these cuts, early and late, the last cut's changing first.
    """
    lane = plan.lanes[0]
    floats = [index for index, stage in enumerate(lane) if stage.floating]
    goes_late = np.array(list(product((0.0, 1.0), repeat=len(floats)))).T
    shares = goes_late @ ways / max(float(ways.sum()), LEAST_MS)
    percent = {index: round(100 * float(share)) for index, share in zip(floats, shares, strict=True)}
    given = (
        StagePlan(stage.unit, stage.first, stage.last, stage.floating, percent.get(index))
        for index, stage in enumerate(lane)
    )
    return Plan((settled(tuple(given)),) * len(plan.lanes))


def _lane(units: Sequence[Unit], cuts: Sequence[tuple[int, int]]) -> Lane:
    return Plan.pipeline(units, cuts).lanes[0]
