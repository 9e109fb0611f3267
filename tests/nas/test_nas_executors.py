"""Searches whose candidates are evaluated by an executor: workers of Dask that die, and what cannot be reached."""

import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from commands import document, invoke
from nas_landscapes import BitSpace, HashEvaluate
from nas_workers import evaluated, evaluators

from pipeall import PipeallError
from pipeall.nas import Search, executors, run
from pipeall.nas.search.archive import LIVES, Archive
from pipeall.nas.spaces.genome import Candidate
from pipeall.nas.spaces.tree_space import TreeSpace
from pipeall.nas.training.evaluation import Training

distributed = pytest.importorskip("distributed", reason="needs pipeall[dask]")

CANDIDATES = [Candidate((i >> 1 & 1, i & 1)) for i in range(4)]


class KilledWorker(Exception):
    """As ``distributed`` names it."""


class Deadly(ThreadPoolExecutor):
    """Its worker dies that many times in front of every candidate."""

    def __init__(self, deaths):
        super().__init__(1)
        self.left = dict.fromkeys(CANDIDATES, deaths)

    def submit(self, evaluate, candidate, *others, **more):
        if self.left[candidate]:
            self.left[candidate] -= 1
            (future := Future()).set_exception(KilledWorker())
            return future
        return super().submit(evaluate, candidate, *others, **more)


def test_what_a_dead_worker_had_is_evaluated_by_another_one():
    expected = Archive(BitSpace(2), HashEvaluate()).score(CANDIDATES)
    with Deadly(LIVES - 1) as executor:
        assert Archive(BitSpace(2), HashEvaluate(), executor=executor).score(CANDIDATES) == expected


def test_what_ends_all_workers_ends_the_search():
    with Deadly(LIVES) as executor, pytest.raises(PipeallError, match=f"{LIVES} times workers died .* 00:11111"):
        Archive(BitSpace(2), HashEvaluate(), executor=executor).score(CANDIDATES[:1])


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


def test_a_search_loses_nothing_where_workers_die(tmp_path, cluster):
    """Two workers of Dask, one of which is killed in the middle: members, scores and journal are those of one process,
    and only what the dead worker had is evaluated again."""
    alone = tmp_path / "alone"
    for folder in (alone, tmp_path / "dask"):
        folder.mkdir()
    expected, killed = evaluated(alone), []
    with distributed.Client(cluster) as client:
        first, _ = client.run(os.getpid).values()

        def kill():
            """Once it has begun its third evaluation."""
            while sum(processes.count(first) for processes in evaluators(tmp_path / "dask").values()) < 3:
                time.sleep(0.01)
            killed.append(first)
            os.kill(first, signal.SIGKILL)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        found = evaluated(tmp_path / "dask", client.get_executor(), seconds=0.2)
        thread.join(10)
    assert killed and found == expected
    processes = evaluators(tmp_path / "dask")
    assert processes.keys() == evaluators(alone).keys()
    assert all(set(before[:-1]) <= set(killed) for before in processes.values())
    assert sum(map(len, processes.values())) <= len(expected) + 8  # what one generation gives to a worker


@pytest.mark.full
def test_the_command_searches_by_dask(tmp_path, cluster):
    """The history is that of one process, of networks that the workers trained."""
    pytest.importorskip("torch", reason="needs pipeall[nas]")
    arguments = "--data digits --space conv --nodes 1,1 --samples 40 --cycles 1,1,1 --budget 2 --population 2"
    found, alone = (
        document("nas", *arguments.split(), "--start", "random", "-o", tmp_path / name, *more)
        for name, more in (("dask", ["--dask", cluster.scheduler_address]), ("alone", []))
    )
    assert found["winner"] == alone["winner"]
    assert (tmp_path / "dask/history.jsonl").read_text().count('"candidate"') == 2


def test_a_whole_search_by_any_executor(tmp_path):
    pytest.importorskip("torch", reason="needs pipeall[nas]")
    found = []
    for name in ("alone", "threads"):
        training = Training(TreeSpace(2, 4), "digits", str(tmp_path / name), samples=30)
        search = Search(training, start="random", budget=10)
        with ThreadPoolExecutor(1) as pool:
            archive = run(search, tmp_path / f"{name}.jsonl", pool if name == "threads" else None)
        found.append([member.candidate for member in archive.members])
    assert found[0] == found[1] and len(found[0]) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--dask tcp://127.0.0.1:{port}", "--dask: no scheduler answers at tcp://127.0.0.1:"),
        ("--dask nonsense://x", "--dask: expected an address such as tcp://192.168.0.2:8786, got 'nonsense://x'"),
        ("--dask tcp://127.0.0.1:{port} --workers 2", "--dask: expected no --workers beside it"),
    ],
)
def test_schedulers_that_are_none(tmp_path, monkeypatch, arguments, message):
    pytest.importorskip("torch", reason="needs pipeall[nas]")
    monkeypatch.setattr(executors, "ANSWER_S", 0.5)
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        words = arguments.format(port=taken.getsockname()[1]).split()
        result = invoke("nas", "--data", "digits", *words, "-o", str(tmp_path))
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1, result.stderr


def test_without_dask_the_extra_is_named(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="needs pipeall[nas]")
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = invoke("nas", "--data", "digits", "--dask", "tcp://127.0.0.1:1", "-o", str(tmp_path))
    assert result.exit_code != 0 and "pip install 'pipeall[dask]'" in result.stderr and result.stderr.count("\n") == 1
