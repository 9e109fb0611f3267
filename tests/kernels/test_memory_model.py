"""The protocols of ring.h, eventcount.h and team.c, model-checked (tests/spin), and compiled for a weakly ordered CPU.

The models say which orders of the memory they assume; the last test looks whether the compiler asks for them.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = REPOSITORY / "tests" / "spin"


def explore(model, folder, **defines):
    """What pan, the checker that spin makes of a model, prints after all states of it."""
    for tool in ("spin", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: apt-get install spin gcc")
    options = [f"-D{name}={value}" for name, value in defines.items()]
    subprocess.run(["spin", "-a", *options, MODELS / model], cwd=folder, check=True, capture_output=True)
    subprocess.run(["cc", "-O1", "-w", "-DSAFETY", "-o", "pan", "pan.c"], cwd=folder, check=True)
    ran = subprocess.run(["./pan", "-m1000000"], cwd=folder, check=True, capture_output=True, text=True, timeout=120)
    assert "max search depth too small" not in ran.stdout and "out of memory" not in ran.stdout
    return ran.stdout


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_no_slot_is_held_twice_and_every_frame_comes_next(slots, tmp_path):
    printed = explore("ring.pml", tmp_path, SLOTS=slots)
    assert "errors: 0" in printed, printed


@pytest.mark.parametrize("bug, found", [(1, "content"), (2, "holder"), (3, "holder")])
def test_the_model_of_the_ring_finds_what_it_should(bug, found, tmp_path):
    assert f"assertion violated ({found}" in explore("ring.pml", tmp_path, SLOTS=2, BUG=bug)


@pytest.mark.parametrize("slots", [1, 2])
def test_nobody_sleeps_for_ever(slots, tmp_path):
    printed = explore("lane.pml", tmp_path, SLOTS=slots)
    assert "errors: 0" in printed, printed


@pytest.mark.parametrize("bug", [1, 2, 3, 5])
def test_the_model_of_the_lane_finds_what_it_should(bug, tmp_path):
    assert "invalid end state" in explore("lane.pml", tmp_path, SLOTS=1, BUG=bug)


@pytest.mark.full
def test_a_unit_of_two_stages_never_waits_for_itself(tmp_path):
    """12 million states, half a minute."""
    printed = explore("lane.pml", tmp_path, STAGES=3, ENDS=0)
    assert "errors: 0" in printed, printed


@pytest.mark.parametrize("bug", [1, 4, 5])
def test_the_model_of_a_unit_of_two_stages_finds_what_it_should(bug, tmp_path):
    assert "invalid end state" in explore("lane.pml", tmp_path, STAGES=3, ENDS=0, BUG=bug)


@pytest.mark.parametrize(
    "defines", [dict(FRAMES=1), *(pytest.param(more, marks=pytest.mark.full) for more in ({}, dict(FAILS=1)))]
)
def test_branches_join_what_is_of_one_frame_and_nobody_sleeps_for_ever(defines, tmp_path):
    printed = explore("fork.pml", tmp_path, **defines)
    assert "errors: 0" in printed, printed


@pytest.mark.parametrize(
    "bug, found",
    [
        (1, "invalid end state"),
        (2, "assertion"),
        pytest.param(3, "assertion", marks=pytest.mark.full),
        (4, "invalid end state"),
        (5, "invalid end state"),
    ],
)
def test_the_model_of_branches_finds_what_it_should(bug, found, tmp_path):
    assert f"pan:1: {found}" in explore("fork.pml", tmp_path, FAILS=int(bug == 4), BUG=bug)


@pytest.mark.parametrize("workers, jobs", [(1, 4), (2, 1)])
def test_a_team_runs_every_piece_once_and_nobody_sleeps_for_ever(workers, jobs, tmp_path):
    """Two workers and two jobs have none either: 9 million states, 45 s."""
    printed = explore("team.pml", tmp_path, WORKERS=workers, JOBS=jobs)
    assert "errors: 0" in printed, printed


@pytest.mark.parametrize("bug, found", [(1, "assertion"), (2, "invalid end state"), (3, "assertion"), (4, "assertion")])
def test_the_model_of_the_team_finds_what_it_should(bug, found, tmp_path):
    assert f"pan:1: {found}" in explore("team.pml", tmp_path, WORKERS=1, BUG=bug)


PAIRS = """
#include "pipeline/ring.h"
pa_slot *free_at(pa_ring *r, uint32_t n) { return pa_ring_free_at(r, n); }
pa_slot *front_at(pa_ring *r, uint32_t n) { return pa_ring_front_at(r, n); }
void publish(pa_ring *r) { pa_ring_publish(r); }
void release(pa_ring *r) { pa_ring_release(r); }
"""


def test_both_pairs_of_the_ring_are_ordered_on_aarch64(tmp_path):
    """Litmus test MP, twice: data, then a store-release; a load-acquire, then data. Arm's model forbids outdated data
    where LDAR or LDAPR reads what STLR wrote, and allows it for the plain instructions of C11's relaxed order."""
    if shutil.which("clang") is None:
        pytest.skip("no clang: apt-get install clang")
    (tmp_path / "pairs.c").write_text(PAIRS)
    command = ["clang", "--target=aarch64-none-elf", "-std=c11", "-O2", "-ffreestanding", "-DNDEBUG", "-S", "-o", "-"]
    made = subprocess.run(
        [*command, f"-I{REPOSITORY / 'pipeall'}", tmp_path / "pairs.c"], check=True, capture_output=True, text=True
    )
    functions = dict(re.findall(r"^(\w+):.*?\n(.*?)^\s*ret$", made.stdout, re.DOTALL | re.MULTILINE))
    for name in ("publish", "release"):
        assert len(re.findall(r"\bstlr\b", functions[name])) == 1, functions[name]
    for name in ("free_at", "front_at"):
        whole = made.stdout.split(f"\n{name}:", 1)[1].split(".Lfunc_end", 1)[0]
        assert len(re.findall(r"\b(?:ldar|ldapr)\b", whole)) == 1, whole
