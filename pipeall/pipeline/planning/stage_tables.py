"""All stages that a set of units could have, as arrays: exhaustive search and dynamic programming read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .predict import waited_for
from .profile import HOST, Profile
from .stage_costs import StageCosts
from .units import Unit

ROUNDING = 1e-9  # relative: sums of the same times in another order differ by less

Handovers = Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]


class Costs(NamedTuple):
    """What some configurations cost, in ms, and in mJ beyond what the idle board draws; as ``Prediction``."""

    period_ms: np.ndarray
    latency_ms: np.ndarray
    busy_mj: np.ndarray
    alone_ms: np.ndarray


def handovers(profile: Profile, units: Iterable[str]) -> Handovers:
    """(sender, receiver) -> what sending and receiving cost at every border. Senders and receivers include the host."""
    ends = (*units, HOST)
    return {(sender, receiver): profile.handover(sender, receiver) for sender in ends for receiver in ends}


class StageTables:
    """All stages that a ``unit_set``, units that run at once, could have; equal ones share their tables.

    ``beside``: units of other lanes, which run too. ``least``: any two may be in one lane or in two, as for StageCosts.

    units      the different units, in the order of their first place; as an index, their number stands for the host
    counts     how often each of these units is in the set
    stage_ms   [unit, next unit or host, unit or host before, first, last]: time of a stage with groups [first, last)
               and its hand-overs; infinity where the unit cannot run one of the groups, or may not have these, or the
               stage has none
    fixed      [unit]: whether it has its ranges compiled ahead, so that no cut beside it floats
    alone_ms   the same while no other unit computes, of a frame that comes alone
    held_ms    like stage_ms, of all frames that are computed together: what it adds to the latency of each
    busy_mj    [unit, first, last]: energy of its groups beyond what the idle board draws; zeros where unknown
    """

    def __init__(
        self,
        profile: Profile,
        unit_set: Sequence[str],
        links: Handovers,
        beside: Sequence[str] = (),
        *,
        least: bool = False,
    ):
        lanes = [0] * len(unit_set) + [1] * len(beside)
        costs = StageCosts(profile, [*unit_set, *beside], lanes, least=least)
        self.units = tuple(dict.fromkeys(unit_set))
        self.counts = tuple(unit_set.count(unit) for unit in self.units)
        self.host = len(self.units)
        self.groups = len(profile.groups)
        self.energy_known = costs.energy_known
        places = [unit_set.index(unit) for unit in self.units]
        send = np.array([[links[unit, after][0] for after in (*self.units, HOST)] for unit in self.units])
        receive = np.array([[links[before, unit][1] for before in (*self.units, HOST)] for unit in self.units])
        ranges = [profile.units[unit].ranges for unit in self.units]
        self.fixed = [one is not None for one in ranges]
        every = np.ones((self.groups + 1,) * 2, bool)
        may_be = np.array([every if one is None else one.table(self.groups) for one in ranges])
        computing = np.where(may_be, _sums(np.array([costs.loaded_ms[place] for place in places])), np.inf)
        handing = receive[:, None, :, :, None] + send[:, :, None, None, :]
        self.stage_ms = computing[:, None, None] + handing
        alone = _sums(np.array([profile.together_ms(unit, 1) for unit in self.units]))
        self.alone_ms = np.where(may_be, alone, np.inf)[:, None, None] + handing
        self.batches = np.array([Unit.parse(unit).batch for unit in self.units])
        self.held_ms = self.stage_ms * self.batches[:, None, None, None, None]
        if self.energy_known:
            self.busy_mj = _sums(np.array([costs.loaded_mj[place] for place in places]))
        else:
            self.busy_mj = np.zeros_like(computing)

    def evaluate(self, order: Sequence[int], cuts: np.ndarray) -> Costs:
        """The costs of the units in ``order`` (indices), for every row of ``cuts`` (cumulative group counts)."""
        start = np.zeros((len(cuts), 1), int)
        borders = np.concatenate([start, cuts, start + self.groups], axis=1).T
        befores, afters = (self.host, *order), (*order[1:], self.host)
        period, latency, busy, alone = np.zeros((4, len(cuts)))
        for stage, unit in enumerate(order):
            first, last = borders[stage], borders[stage + 1]
            place = unit, afters[stage], befores[stage]
            ms = self.stage_ms[place][first, last]
            np.maximum(period, ms, out=period)
            latency += self.held_ms[place][first, last]
            alone += self.alone_ms[place][first, last]
            busy += self.busy_mj[unit][first, last]
        if waits := waited_for([self.batches[unit] for unit in order]):
            latency += waits * period
        return Costs(period, latency, busy, alone)


def _sums(values: np.ndarray) -> np.ndarray:
    """[unit, first, last]: sums over groups [first, last); infinity over an infinite value, or over no group."""
    infeasible = ~np.isfinite(values)
    sums = _differences(np.where(infeasible, 0.0, values))
    bad = _differences(infeasible)
    empty = np.tri(values.shape[1] + 1, dtype=bool)
    return np.where((bad > 0) | empty, np.inf, sums)


def _differences(values: np.ndarray) -> np.ndarray:
    """[unit, first, last]: sums over [first, last) as differences of prefix sums."""
    prefix = np.pad(values.cumsum(axis=1), ((0, 0), (1, 0)))
    return prefix[:, None, :] - prefix[:, :, None]
