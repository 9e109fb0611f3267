"""Pipelines whose cuts float: searched next to where the borders would be if groups could be divided.

A cut between two groups leaves one stage waiting for the other. One that floats gives the groups next to it to either
stage, frame by frame, so that both are busy all the time: on average a group is divided. How many groups should float
depends on how much times vary from frame to frame, so plans are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, permutations, product
from math import floor, inf

import numpy as np

from ...errors import ArgumentError
from .plan import Cuts, Plan
from .plan_table import PredictedPlan
from .predict import StageCosts, predict
from .profile import Profile
from .simulate import simulate

BISECTIONS = 40
ORDERS = 3  # the best of so many orders of units are simulated
FRAMES = 300


def floating(
    profile: Profile, sets: Sequence[Sequence[str]], than: Plan, *, max_latency_ms: float = inf, top: int = 10
) -> list[PredictedPlan]:
    """Plans whose cuts float and that are faster than ``than``, by simulated FPS, best first.

    sets: units that run at once.
    """
    found: dict[Sequence[str], PredictedPlan] = {}  # the best of each order
    for order in dict.fromkeys(chain.from_iterable(map(permutations, sets))):
        if narrow := list(_around(profile, order, max_latency_ms, narrow=True)):
            found[order] = min(narrow, key=_by_period)
    best = sorted(found, key=lambda order: _by_period(found[order]))[:ORDERS]
    simulated = {found[order] for order in best}
    for order in best:
        simulated.update(_around(profile, order, max_latency_ms, narrow=False))
    rates = {one: simulate(profile, one.plan, FRAMES).fps for one in simulated}
    least = simulate(profile, than, FRAMES).fps
    faster = (one for one in rates if rates[one] > least)
    return sorted(faster, key=lambda one: (-rates[one], str(one.plan)))[:top]


def _by_period(one: PredictedPlan) -> tuple[float, str]:
    return one.prediction.period_ms, str(one.plan)


def _around(profile: Profile, order: Sequence[str], max_latency_ms: float, *, narrow: bool) -> Iterator[PredictedPlan]:
    """Plans of these units in this order, at least one cut floating, with cuts next to the ideal borders.

    narrow: one group floats, or the cut is just before or behind it. Otherwise one to three groups float.
    """
    borders = _borders(profile, order)
    if narrow:
        options: list[list[int | tuple[int, int]]] = [[(at, at + 1), at, at + 1] for at in map(floor, borders)]
        cuts: Iterator[Cuts] = product(*options)
    else:
        extra = product((0, 1), repeat=2)  # groups more, before and behind
        cuts = ([(floor(at) - less, floor(at) + 1 + more) for at in borders] for less, more in extra)
    for chosen in cuts:
        if not any(isinstance(cut, tuple) for cut in chosen):
            continue
        try:
            plan = Plan.pipeline(order, chosen)
            prediction = predict(profile, plan)
        except ArgumentError:  # cuts that overlap, or leave the network
            continue
        if prediction.period_ms < inf and prediction.latency_ms <= max_latency_ms:
            yield PredictedPlan(plan, prediction)


def _borders(profile: Profile, order: Sequence[str]) -> list[float]:
    """Where each stage but the last would end if groups could be divided, in groups; hand-over is not counted.

    Empty where a unit cannot run a group.
    """
    costs = StageCosts(profile, order)
    groups = len(profile.groups)
    ends = [np.array([0.0, *accumulate(ms.tolist())]) for ms in costs.loaded_ms]
    if not all(np.isfinite(end[-1]) for end in ends):
        return []

    def reached(period_ms: float) -> list[float]:
        at, found = 0.0, []
        for end in ends:
            at = float(np.interp(np.interp(at, range(groups + 1), end) + period_ms, end, range(groups + 1)))
            found.append(at)
        return found

    shortest, longest = 0.0, min(float(end[-1]) for end in ends)
    for _ in range(BISECTIONS):
        middle = (shortest + longest) / 2
        shortest, longest = (shortest, middle) if reached(middle)[-1] >= groups else (middle, longest)
    return reached(longest)[:-1]
