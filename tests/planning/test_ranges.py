"""Units that have ranges of groups compiled ahead: which ranges follow, what plans are told, the profile's file."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from plans_reference import chain
from profiles import profile_of

from pipeall import ArgumentError, Plan, Profile, search
from pipeall.pipeline.measuring.range_times import times_of_ranges
from pipeall.pipeline.planning.predict import check_runs, predict
from pipeall.pipeline.planning.profile import UnitTimes
from pipeall.pipeline.planning.ranges import Ranges

GROUPS = 6


def ahead(files, ms=(1.0,) * GROUPS):
    return UnitTimes(ms, (0.0,) * GROUPS, ranges=Ranges.of(files, "slices"))


@pytest.fixture
def profile():
    return profile_of(chain(GROUPS), {"big": [2.0] * GROUPS, "npu": ahead([(1, 3), (3, 4), (0, 2)])})


@pytest.mark.parametrize("seed", range(20))
def test_files_one_after_the_other_are_a_range(seed):
    """Against every choice of files."""
    every = [*combinations(range(GROUPS + 1), 2)]
    files = [every[i] for i in np.random.default_rng(seed).choice(len(every), 6, replace=False)]
    chains = {
        (some[0][0], some[-1][1])
        for count in range(1, 7)
        for some in combinations(sorted(files), count)
        if all(one[1] == other[0] for one, other in zip(some, some[1:], strict=False))
    }
    found = Ranges.of(files, "")
    assert set(found.groups) == chains
    assert set(Ranges.of(found.pieces, "").groups) == chains and set(found.pieces) <= set(files)


def test_every_plan_that_is_found_has_such_stages(profile):
    found = search(chain(GROUPS), profile, top=10_000)
    stages = [(stage, ends) for row in found.ranked for lane in row.plan.lanes for stage, ends in stages_of(lane)]
    own = {ends for unit, ends in stages if unit == "npu"}
    assert {(1, 4), (0, 2)} <= own <= set(profile.units["npu"].ranges.groups)
    assert str(found.best) != "big"


def stages_of(lane):
    ends = [0, *(stage.last for stage in lane[:-1]), GROUPS]
    return [(stage.unit, (ends[i], ends[i + 1])) for i, stage in enumerate(lane)]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("B-N-B:1,5", "plan big-npu-big:1,5: npu has no slice of groups 2 to 5 in slices, which has 1-2, 2-3, 2-4, "
         "4-4; pipeall slice chain6.onnx --plan big-npu-big:1,5 --units npu -o slices writes it"),
        ("N-B:2~3", "npu has its groups compiled ahead: expected cuts beside it that do not float"),
        ("N", "npu has no slice of groups 1 to 6 in slices"),
    ],
)  # fmt: skip
def test_others_are_refused(plan, message, profile):
    assert predict(profile, Plan.parse(plan)).period_ms == float("inf")
    with pytest.raises(ArgumentError) as error:
        check_runs(profile, Plan.parse(plan))
    assert message in str(error.value)


def test_a_profile_keeps_them(profile, tmp_path):
    profile.save(tmp_path / "profile.json")
    assert Profile.load(tmp_path / "profile.json").units["npu"].ranges == profile.units["npu"].ranges


@pytest.mark.parametrize("text", ["0-1", "2-1", "1-7", "1", "a-b"])
def test_a_file_with_wrong_ranges_is_refused(text, profile):
    content = profile.to_dict()
    content["units"]["npu"]["slices"]["ranges"] = [text]
    with pytest.raises(ArgumentError, match="ranges: expected numbers of groups from 1 to 6"):
        Profile.from_dict(content, "f")


def test_groups_share_what_ranges_take():
    """Those of a range by their work; the sums of ranges that overlap come out as they were, where that can be."""
    graph, true = chain(GROUPS), np.array([3.0, 1.0, 2.0, 5.0, 1.0, 4.0])
    ranges = Ranges.of([(0, 2), (1, 4), (2, 5)], "slices")

    def timed(one):
        return UnitTimes((float(true[slice(*one)].sum()),), (0.5,))

    found = times_of_ranges(graph, "npu", ranges, timed)
    for first, last in ((0, 2), (1, 4), (2, 5)):
        assert sum(found.ms[first:last]) == pytest.approx(true[first:last].sum(), rel=1e-3)
    assert list(found.refused) == [6] and "groups 6 to 6 in slices" in found.refused[6] and found.ms[5] == float("inf")
    assert not found.all_groups and not replace(found, ranges=None).all_groups
