"""Plans with branches that are done with a frame soonest, against every such plan, added up here."""

from itertools import combinations, product

import numpy as np
import pytest
from graphs import zoo_net
from plans_reference import INF, chain, random_profile

from pipeall import Board
from pipeall.pipeline import runtime
from pipeall.pipeline.planning.fork_paths import MOST_STAGES, with_branches
from pipeall.pipeline.planning.latency import in_turn, soonest
from pipeall.pipeline.planning.plan import Goal
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import HOST, Profile
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.units import Unit, unit_sets

UNITS = tuple(map(Unit, ("big", "gpu", "little")))
GROUPS = 8


def seeded(seed: int) -> tuple[Profile, list[frozenset[int]]]:
    """A profile, and which groups need which: each one or two before it, of the latest four."""
    profile = random_profile(
        chain(GROUPS), UNITS, seed, infinite=(0.0, 0.1)[seed % 2], ties=seed % 3 == 0, loaded=seed % 5 != 0
    )
    random = np.random.default_rng(seed)
    needs = [
        frozenset(random.integers(max(0, group - 4), group, random.integers(1, 3)).tolist()) if group else frozenset()
        for group in range(GROUPS)
    ]
    return profile, needs


class Brute:
    """Goes through all plans: after each stage any unit with the next groups, or any branches and a stage behind."""

    def __init__(self, profile: Profile, needs: list[frozenset[int]]):
        self.profile, self.needs = profile, needs
        self.ms = [profile.units[unit].ms for unit in UNITS]
        names = (*UNITS, HOST)
        self.links = {pair: profile.handover(names[pair[0]], names[pair[1]]) for pair in product(range(4), repeat=2)}
        self.slow = {
            (one, other): profile.slowdown(UNITS[one], UNITS[other], same_pipeline=True)
            for one, other in product(range(3), repeat=2)
        }
        self.sized = {}
        self.branching = {first: list(self.divisions(first)) for first in range(1, GROUPS)}

    def divisions(self, first):
        """(ends, units, slowest) of all branches that begin at a border."""
        for last in range(first + 2, GROUPS):
            for count in range(1, last - first):
                for inner in combinations(range(first + 1, last), count):
                    ends = (first, *inner, last)
                    ranges = [range(*pair) for pair in zip(ends, ends[1:], strict=False)]
                    if any(self.needs[group] & set(range(first, part.start)) for part in ranges[1:] for group in part):
                        continue
                    for units in product(range(3), repeat=len(ranges)):
                        if all(one != other for one, other in zip(units, units[1:], strict=False)):
                            yield ends, units

    def link(self, sender, receiver, size):
        if sender == receiver:
            return 0.0, 0.0
        key = sender, receiver, size
        if key not in self.sized:
            send, receive = self.profile.handover(UNITS[sender], UNITS[receiver], (size,))
            self.sized[key] = float(send[0]), float(receive[0])
        return self.sized[key]

    def fork(self, ends, units, before, behind):
        crossing = self.profile.crossing_bytes
        sizes = [crossing[end] - crossing[start] for start, end in zip(ends, ends[1:], strict=False)]
        sizes[-1] = min(
            sizes[-1] + crossing[ends[0]], crossing[ends[-1]]
        )  # as if it were the last to read what comes in
        sizes = [max(size, 0) for size in sizes]
        sizes[0] = max(crossing[ends[-1]] - sum(sizes[1:]), 0)
        total, busy = 0.0, [0.0] * 3
        for unit, start, end, size in zip(units, ends, ends[1:], sizes, strict=False):
            for group in range(start, end):
                ms = self.ms[unit][group]
                for other in set(units) - {unit}:
                    ms *= self.slow[unit, other][group]
                busy[unit] += ms
            sent, fetched = self.link(before, unit, crossing[ends[0]])
            given, received = self.link(unit, behind, size)
            busy[unit] += fetched + given
            total += sent + received
        return total + max(busy)

    def least(self):
        """Of all: branches or not. Beyond what is known to be as good, nothing is gone on with."""
        self.best = INF
        for unit in range(3):
            self.go_on(1, unit, self.links[3, unit][1][0] + self.ms[unit][0])
        return self.best

    def go_on(self, border, unit, done):
        if done >= self.best:
            return
        if border == GROUPS:
            self.best = min(self.best, done + self.links[unit, 3][0][GROUPS])
            return
        for behind in range(3):
            moved = 0.0
            if behind != unit:
                send, receive = self.links[unit, behind]
                moved = send[border] + receive[border]
            self.go_on(border + 1, behind, done + moved + self.ms[behind][border])
            for ends, units in self.branching[border]:
                fork = self.fork(ends, units, unit, behind)
                self.go_on(ends[-1] + 1, behind, done + fork + self.ms[behind][ends[-1]])


def compare(seeds):
    sets, forked = unit_sets(UNITS, GROUPS), 0
    for seed in seeds:
        profile, needs = seeded(seed)
        least = Brute(profile, needs).least()
        found = soonest(profile, sets, Goal("latency"), [], needs)
        assert (found[0].prediction.alone_ms if found else INF) == pytest.approx(least, rel=1e-9), seed
        forked += bool(found) and any(stage.beside for stage in found[0].plan.lanes[0])
    return forked


def test_a_frame_is_done_soonest_of_all_plans_with_branches():
    assert compare(range(12)) > 3


@pytest.mark.full
@pytest.mark.parametrize("hundreds", range(10))
def test_a_frame_is_done_soonest_of_all_plans_with_branches_of_1000_profiles(hundreds):
    assert compare(range(100 * hundreds, 100 * hundreds + 100)) > 30


def test_a_lane_may_have_as_many_stages_as_are_searched_and_one_for_pictures():
    assert runtime.MAX_STAGES == MOST_STAGES + 1


def test_without_branches_there_is_nothing_to_add():
    profile, _ = seeded(0)
    assert not list(with_branches(profile, UNITS, [frozenset({group - 1} & {*range(8)}) for group in range(8)]))


def test_branches_of_a_network_are_found_and_predicted():
    """GoogLeNet on a board whose GPU is the equal of its big cores; as the plan's own prediction has it."""
    graph = zoo_net("googlenet").in_branches()
    profile = Board.load("a311d", "armcl").model.profile(graph)
    found = search(graph, profile, "latency")
    plan = found.best
    assert any(stage.beside for stage in plan.lanes[0])
    plan.check_network(graph)
    chains = min(predict(profile, one).alone_ms for one in in_turn(profile, tuple(profile.units)))
    assert found.ranked[0].prediction.alone_ms < 0.95 * chains
