"""A search that was interrupted anywhere resumes and ends with the same result; other files are refused."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from nas_landscapes import BitSpace, HashEvaluate

from pipeall import ArgumentError
from pipeall.nas.search.archive import Archive, History
from pipeall.nas.search.evolve import Settings, search
from pipeall.nas.spaces.genome import Candidate
from pipeall.nas.spaces.tree_space import TreeSpace
from pipeall.nas.training.score import Score

OPTIONS = Settings(population=5, generations=4)
ABOUT = {"seed": 3, "space": "tree"}


class Interrupted(Exception):
    pass


class Interrupting:
    """Fails after some evaluations; counts them."""

    def __init__(self, after=10**9):
        self.after, self.count = after, 0

    def __call__(self, candidate, seed, parent=None):
        if self.count == self.after:
            raise Interrupted
        self.count += 1
        return HashEvaluate()(candidate, seed, parent)


def run(path, evaluate, executor=None):
    archive = Archive(TreeSpace(), evaluate, 3, executor, History(path, ABOUT), budget=40)
    generations = [generation.record() for generation in search(archive, OPTIONS, instances=3)]
    return generations, archive.members


def lines(path):
    return sorted(path.read_text().splitlines())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(result, history, path) of a search that nothing interrupted."""
    path = tmp_path_factory.mktemp("whole") / "history.jsonl"
    result = run(path, Interrupting())
    return result, lines(path), path


def test_history_of_a_search(whole):
    (generations, members), _, path = whole
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert entries[0] == {"format": "pipeall.nas-history/1", **ABOUT}
    evaluated = [entry for entry in entries if "candidate" in entry]
    assert [entry["candidate"] for entry in evaluated] == [member.candidate.code for member in members]
    assert len(evaluated) == 40 and all(entry["parent"] is None for entry in evaluated[:5])
    parents = {entry["parent"] for entry in evaluated[5:]} - {None}  # later rounds start with random networks
    assert parents and parents <= {entry["candidate"] for entry in evaluated}
    written = [entry for entry in entries if "generation" in entry]
    assert [entry.pop("generation") for entry in written] == list(range(len(generations))) and written == generations


@pytest.mark.parametrize("workers", [0, 3])
def test_interrupted_after_any_evaluation(tmp_path, whole, workers):
    for after in range(0, 40, 13 if workers else 3):
        path = tmp_path / f"{after}.jsonl"
        with pytest.raises(Interrupted):
            if workers:
                with ThreadPoolExecutor(workers) as executor:
                    run(path, Interrupting(after), executor)
            else:
                run(path, Interrupting(after))
        again = Interrupting()
        assert run(path, again) == whole[0] and lines(path) == whole[1]
        assert again.count == 40 - after  # nothing was trained twice


def test_interrupted_at_any_byte(tmp_path, whole, some):
    """Power fails while a line is written."""
    content = whole[2].read_bytes()
    path = tmp_path / "cut.jsonl"
    for size in some([*range(0, 100, 9), *range(100, len(content), 997)]):
        path.write_bytes(content[:size])
        assert run(path, Interrupting()) == whole[0] and lines(path) == whole[1]


def test_a_finished_search_trains_nothing(tmp_path, whole):
    path = tmp_path / "done.jsonl"
    path.write_bytes(whole[2].read_bytes())
    assert run(path, Interrupting(0)) == whole[0] and path.read_bytes() == whole[2].read_bytes()


def test_another_search_is_refused(tmp_path, whole):
    with pytest.raises(ArgumentError, match="belongs to another seed: 3 there, 4 here"):
        History(whole[2], {**ABOUT, "seed": 4})
    with pytest.raises(ArgumentError, match="belongs to another board: None there, 'a311d-armcl' here"):
        History(whole[2], {**ABOUT, "board": "a311d-armcl"})
    assert lines(whole[2]) == whole[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"format": "pipeall.plan/1"}\n', "expected format 'pipeall.nas-history/1'"),
        (b"[]\n", "expected format 'pipeall.nas-history/1'"),
        (b"\xff\xfe\n", "expected format"),
        (b"{HEAD}\n[1]\n", "line 2: expected an entry"),
        (b'{HEAD}\n{"candidate": "01", "score": {"fitness": 1, "error": 1}}\n', "line 2: .*digits:digits"),
        (b'{HEAD}\n{"candidate": "01:11111", "score": {"fitness": 1}}\n', "line 2: expected an evaluation"),
        (b'{HEAD}\n{"candidate": "01:11111", "score": {"fitness": NaN, "error": 1}}\n', "line 2: .*expected numbers"),
        (b"{HEAD}\n" + b"[" * 100_000 + b"\n", "line 2: expected an entry"),
    ],
)
def test_untrusted_histories(tmp_path, content, message):
    path = tmp_path / "bad.jsonl"
    head = json.dumps({"format": "pipeall.nas-history/1", **ABOUT}).encode()
    path.write_bytes(content.replace(b"{HEAD}", head))
    before = path.read_bytes()
    with pytest.raises(ArgumentError, match=f"bad.jsonl: .*{message}"):
        History(path, ABOUT)
    assert path.read_bytes() == before


def test_a_history_that_cannot_be_opened(tmp_path):
    with pytest.raises(ArgumentError, match="cannot be written: No such file"):
        History(tmp_path / "absent" / "history.jsonl", ABOUT)


def test_infinite_scores_are_kept(tmp_path):
    score = Score(float("inf"), 0.5, 3, 4, fps=12.5, latency_ms=80.0, memory_bytes=10)

    def run_once(evaluate):
        archive = Archive(TreeSpace(2), evaluate, history=History(tmp_path / "h.jsonl", ABOUT), budget=1)
        list(search(archive, OPTIONS))
        return archive.members

    first = run_once(lambda candidate, seed, parent=None: score)
    assert run_once(Interrupting(0)) == first and first[0].score == score


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(1)], ids=["here", "a worker"])
def test_the_cheapest_of_a_call_comes_first(executor, tmp_path):
    """A search sees no difference. Work is left as of the mean, and not that which the history has."""
    order = []

    def evaluate(candidate, seed, parent=None):
        order.append(candidate.bits)
        return HashEvaluate()(candidate, seed)

    def archive(evaluate):
        history = History(tmp_path / "history.jsonl", {})
        return Archive(BitSpace(3), evaluate, 0, executor, history, work=lambda candidate: 1.0 + sum(candidate.bits))

    first, candidates = archive(evaluate), [Candidate(bits) for bits in ((1, 1, 1), (0, 1, 0), (1, 0, 0))]
    scored = first.score(candidates)
    assert [member.candidate for member in scored] == candidates and scored == first.members
    assert order == [(0, 1, 0), (1, 1, 1), (1, 0, 0)]
    assert (first.done, first.left(6), first.left(2)) == (8, 8, 0)
    again = archive(None)
    assert again.score(candidates) == scored and (again.done, again.left(6)) == (0, 8)
