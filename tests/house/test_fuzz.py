"""The inputs of fuzz/: the seeds, and whatever a fuzzer has ever found, once each; and random changes of the seeds.

``python tests/long/fuzz/run.py TARGET`` is the long version, guided by coverage.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FUZZ = Path(__file__).parents[1] / "long/fuzz"
sys.path.insert(0, str(FUZZ))

import run as fuzzing  # noqa: E402
import seeds  # noqa: E402
from targets import TARGETS, limit  # noqa: E402

SEEDS = {target: seeds.of(target) for target in TARGETS}


@pytest.fixture(scope="module", autouse=True)
def limits():
    with pytest.MonkeyPatch.context() as patch:
        limit(patch.setattr)
        yield


def findings(target):
    return sorted((FUZZ / "findings" / target).glob("*"))


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_findings(target):
    for content in SEEDS[target]:
        TARGETS[target](content)
    for path in findings(target):
        TARGETS[target](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_seeds(target, data):
    content = bytearray(data.draw(st.sampled_from(SEEDS[target])))
    for at, what in data.draw(st.lists(st.tuples(st.integers(0, 2**16), st.binary(max_size=6)), max_size=6)):
        at %= len(content) + 1
        content[at : at + len(what)] = what
    TARGETS[target](bytes(content))


@pytest.mark.full
def test_native_steps_over_random_sizes(tmp_path):
    """The libFuzzer program, on its seeds and findings and a few changes of them."""
    if shutil.which("clang") is None:
        pytest.skip("no clang: apt-get install clang")
    binary = fuzzing.native_fuzzer(tmp_path, "-O0")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, content in enumerate(seeds.of("windows")):
        (corpus / str(number)).write_bytes(content)
    for path in findings("windows"):
        shutil.copy(path, corpus)
    # libFuzzer limits the peak memory of its process, which begins with that of the parent: a shell is a small one.
    command = ["sh", "-c", '"$@"; exit $?', "sh", binary, "-runs=20", "-max_len=64", "-seed=1", corpus]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-5000:]
