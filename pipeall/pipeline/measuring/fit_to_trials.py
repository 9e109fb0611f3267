"""A profile brought to what plans of it took when they ran: the board of it then keeps the pace of the real one.

A profile is measured unit by unit and pair by pair. What three busy units do to each other is no product of pairs, and
the runtime takes its own share of every frame. So times alone are scaled to a run alone, and the factors of contention
to a run with all units busy: of lanes and of stages, each by one number for a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..planning.plan import Plan
from ..planning.predict import spans
from ..planning.profile import Factors, Profile
from ..planning.stage_costs import StageCosts
from .trial import Trial

LEAST, MOST = 0.2, 20.0  # a factor beyond these is no contention: the run was disturbed, and is not followed


def fit_to_trials(profile: Profile, trials: Sequence[Trial]) -> Profile:
    """The profile that predicts the trials' plans as they ran, those of one unit first.

    A unit's stage is to take what it took from one frame to its next, where no other stage of its lane took longer, and
    else what it was busy. Of several plans in which a unit stands among the same kind of neighbours the last counts.
    """
    for trial in sorted(trials, key=lambda trial: len(trial.plan.units)):
        for (unit, lane), factor in _factors(profile, trial).items():
            if not LEAST <= factor <= MOST:
                continue
            if len(trial.plan.units) == 1:
                profile = _unit_scaled(profile, unit, factor)
            else:
                profile = _contention_scaled(profile, trial.plan, unit, lane, factor)
    return profile


def stage_ms(trial: Trial) -> list[float]:
    """What each stage takes for a frame: what it was busy, or all of its time where it is the slowest of its lane."""
    ms, rest = [], iter(trial.stages)
    for lane in trial.plan.lanes:
        own = [next(rest) for _ in lane]
        slowest = max(own, key=lambda stage: stage.busy_ms)
        one = len(trial.plan.lanes) == 1
        whole = trial.period_ms if one else slowest.busy_ms + slowest.wait_in_ms + slowest.wait_out_ms
        ms += [whole if stage is slowest else stage.busy_ms for stage in own]
    return ms


def _factors(profile: Profile, trial: Trial) -> dict[tuple[str, int], float]:
    """(unit, lane) -> how many times as long its groups took as the profile says; of plans of fixed cuts."""
    costs = StageCosts.of(profile, trial.plan)
    measured = iter(stage_ms(trial))
    factors = {}
    for index, (lane, stages) in enumerate(zip(trial.plan.lanes, spans(profile, trial.plan), strict=True)):
        for stage, span in zip(lane, stages, strict=True):
            handover = sum(span.handover_ms(costs, 0.0, 0.0))
            computing = span.ms(costs, 0.0, 0.0) - handover
            factors[stage.unit, index] = (next(measured) - handover) / computing if computing > 0 else 1.0
    return factors


def _unit_scaled(profile: Profile, unit: str, factor: float) -> Profile:
    times = profile.units[unit]
    ms, spread = (tuple(factor * value for value in row) for row in (times.ms, times.half_iqr_ms))
    return replace(profile, units={**profile.units, unit: replace(times, ms=ms, half_iqr_ms=spread)})


def _contention_scaled(profile: Profile, plan: Plan, unit: str, lane: int, factor: float) -> Profile:
    """Each of the others has the same share of the factor."""
    places = [(stage.unit, index) for index, stages in enumerate(plan.lanes) for stage in stages]
    others = [place for place in places if place != (unit, lane)]
    share = factor ** (1 / len(others))
    for other, other_lane in others:
        same_pipeline = other_lane == lane
        row = tuple((profile.slowdown(unit, other, same_pipeline=same_pipeline) * share).tolist())
        key = "same_pipeline" if same_pipeline else "contention"
        profile = replace(profile, **{key: _with(getattr(profile, key), unit, other, row)})
    return profile


def _with(table: Factors, unit: str, other: str, row: tuple[float, ...]) -> Factors:
    return {**table, unit: {**table.get(unit, {}), other: row}}
