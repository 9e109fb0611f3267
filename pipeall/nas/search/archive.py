"""The candidates that a search has evaluated. Each is trained once, in any process.

A history has an entry for every evaluation, in the order of completion, and for every generation. A search is a
function of its seed and of the scores: one that was interrupted runs again, and trains nothing that its history has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from heapq import nsmallest
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from ...errors import ArgumentError, PipeallError
from ...journal import Journal
from ..spaces.genome import TRAINING_GENES, Candidate, Space, identity
from ..training.score import Evaluate, Score
from . import pareto

Key = bytes  # digest of an architecture and its training genes
Job = tuple[Candidate, Candidate | None]  # a candidate and the one whose weights it inherits

LIVES = 10  # workers that an evaluation may lose before it is taken to be what ends them
DEATHS = {"KilledWorker"}  # errors that say that workers died; of ``distributed``, which need not be here


class BudgetSpent(PipeallError):
    """The budget ended: as many candidates as it allows have been evaluated."""


@dataclass(frozen=True)
class Member:
    """A candidate with its score."""

    candidate: Candidate
    score: Score

    @property
    def order(self) -> tuple[Any, ...]:
        """A sort key, the best first: least fitness, then fewest weights, then the lowest bits."""
        return (self.score.fitness, self.score.weights, self.candidate.bits, self.candidate.hyper)


class Archive:
    """Scores candidates. Those with the same architecture and training genes are trained alike, so only once.

    evaluate   see ``Evaluate``
    executor   a concurrent.futures.Executor: of processes, of mpi4py.futures or Dask's; None: this process. The number
               of its workers changes no result; what a worker of Dask's evaluated when it died another one does again
    history    an open ``History`` or None
    budget     evaluations at most
    wave       so many candidates are evaluated at a time, with all earlier scores; None: all candidates of a call at
               once, without scores
    others     how many of the best candidates beside its parent an evaluation gets
    limits     whether a candidate is worth evaluating, known beforehand: searches replace those that are not. None: all
               are
    on_evaluated  called with each candidate with its score as soon as it is there
    work       what an evaluation takes, in any unit. The one of the least work of a call is evaluated first
    """

    def __init__(
        self,
        space: Space,
        evaluate: Evaluate,
        seed: int = 0,
        executor: Executor | None = None,
        history: History | None = None,
        budget: int | None = None,
        wave: int | None = None,
        others: int = 0,
        limits: Callable[[Candidate], bool] | None = None,
        on_evaluated: Callable[[Candidate, Score], None] = lambda candidate, score: None,
        work: Callable[[Candidate], float] = lambda candidate: 1.0,
    ):
        self.space, self.evaluate, self.seed, self.budget = space, evaluate, seed, budget
        self.executor, self.history, self.wave, self.others = executor, history, wave, others
        self._on_evaluated, self.work = on_evaluated, work
        self.asked: list[float] = []  # work of what was asked for
        self.done = self.recorded = 0.0  # work that was done here, and that is in the history from before
        self._limits, self._within = limits, {}  # whether a key is within the limits
        self.members: list[Member] = []  # what was evaluated, in the order it was asked for
        self._scored: dict[Key, Member] = {}
        self._keys: dict[tuple[tuple[int, ...], ...], Key] = {}  # by bits and training genes

    @property
    def best(self) -> Member:
        """The best member of all. Raises ArgumentError where nothing was evaluated yet."""
        if not self.members:
            raise ArgumentError("search: expected at least one evaluation")
        return min(self.members, key=lambda member: member.order)

    @property
    def front(self) -> list[Member]:
        """Members that no other excels in error, seconds a frame and bytes at once; without refused ones."""
        usable = [member for member in self.members if member.score.fitness < inf]
        ranks = pareto.fronts(pareto.objectives([member.score for member in usable]))
        return [member for member, rank in zip(usable, ranks, strict=True) if rank == 0]

    def left(self, candidates: float) -> float:
        """Work until so many candidates are evaluated, if those to come are like those that were asked for."""
        return max(0.0, fmean(self.asked) * candidates - self.done - self.recorded)

    def knows(self, candidate: Candidate) -> bool:
        """Whether the candidate, or one that is trained alike, was evaluated."""
        return self._key(candidate) in self._scored

    def allows(self, candidate: Candidate) -> bool:
        """Whether the candidate is within the limits."""
        if self._limits is None:
            return True
        key = self._key(candidate)
        if key not in self._within:
            self._within[key] = self._limits(candidate)
        return self._within[key]

    def score(self, candidates: Sequence[Candidate], parents: Sequence[Candidate | None] = ()) -> list[Member]:
        """The candidates with their scores. Raises BudgetSpent after evaluating what the budget allowed."""
        keys = [self._key(candidate) for candidate in candidates]
        new: dict[Key, Job] = {}
        for key, candidate, parent in zip(keys, candidates, parents or [None] * len(candidates), strict=True):
            if key not in self._scored and key not in new:
                new[key] = candidate, self._trained(parent)
        allowed = len(new) if self.budget is None else max(0, self.budget - len(self.members))
        affordable = dict(list(new.items())[:allowed])
        for start in range(0, allowed, self.wave or max(1, allowed)):
            some = dict(list(affordable.items())[start:][: self.wave])
            scores = self._evaluate(some)
            for key, (candidate, _) in some.items():
                self._scored[key] = Member(candidate, scores[key])
                self.members.append(self._scored[key])
        if len(new) > allowed:
            raise BudgetSpent(f"search: {self.budget} candidates have been evaluated")
        return [Member(candidate, self._scored[key].score) for key, candidate in zip(keys, candidates, strict=True)]

    def _key(self, candidate: Candidate) -> Key:
        genes = candidate.hyper[:TRAINING_GENES]
        key = self._keys.get((candidate.bits, genes))
        if key is None:
            text = identity(self.space.decode(candidate.bits), genes)
            key = self._keys[candidate.bits, genes] = hashlib.sha256(text.encode()).digest()
        return key

    def _trained(self, parent: Candidate | None) -> Candidate | None:
        """The candidate that was trained for the parent: itself, or one that is trained alike."""
        return parent and self._scored[self._key(parent)].candidate

    def _evaluate(self, new: Mapping[Key, Job]) -> dict[Key, Score]:
        recorded = self.history.scores if self.history else {}
        scores = {key: recorded[candidate] for key, (candidate, _) in new.items() if candidate in recorded}
        work = {key: self.work(candidate) for key, (candidate, _) in new.items()}
        self.asked += work.values()
        self.recorded += sum(work[key] for key in scores)
        rest = {key: job for key, job in new.items() if key not in scores}
        first = min(rest, key=work.get, default=None)
        for key, score in self._run({key: rest[key] for key in sorted(rest, key=lambda key: key != first)}):
            scores[key] = score
            self.done += work[key]
            if self.history:
                self.history.add_evaluation(*new[key], score)
            self._on_evaluated(new[key][0], score)
        return scores

    def _run(self, jobs: Mapping[Key, Job]) -> Iterator[tuple[Key, Score]]:
        """Keys and scores, each as soon as it is complete."""
        context = {key: self._context(parent) for key, (_, parent) in jobs.items()}
        if self.executor is None:
            for key, (candidate, parent) in jobs.items():
                yield key, self.evaluate(candidate, self._seed(key), parent, **context[key])
            return

        def submitted(key: Key) -> Future:
            candidate, parent = jobs[key]
            return self.executor.submit(self.evaluate, candidate, self._seed(key), parent, **context[key])

        futures, lives = {submitted(key): key for key in jobs}, dict.fromkeys(jobs, LIVES)
        try:
            while futures:
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    key = futures.pop(future)
                    error = future.exception()
                    if error is None:
                        yield key, future.result()
                    elif type(error).__name__ not in DEATHS:
                        raise error
                    elif lives[key] == 1:
                        raise PipeallError(f"search: {LIVES} times workers died while they trained {jobs[key][0].code}")
                    else:
                        lives[key] -= 1
                        futures[submitted(key)] = key
        finally:
            for future in futures:
                future.cancel()

    def _context(self, parent: Candidate | None) -> dict[str, Any]:
        """What an evaluation gets beside candidate, seed and parent."""
        context: dict[str, Any] = {}
        if self.wave is not None:
            context["earlier"] = [member.score for member in self.members]
        if self.others and parent:
            usable = (member for member in self.members if isfinite(member.score.fitness))
            others = (member for member in usable if member.candidate != parent)
            best = nsmallest(self.others, others, key=lambda member: member.order)
            context["others"] = [member.candidate for member in best]
        return context

    def _seed(self, key: Key) -> int:
        return int.from_bytes(hashlib.sha256(key + str(self.seed).encode()).digest()[:4], "little")


class History:
    """The journal of a search. A search that goes on reads its scores and generations.

    search  the settings that its result depends on, ready for JSON
    Raises ArgumentError naming the file where it cannot be read or written, is damaged, or belongs to another search.
    """

    def __init__(self, path: str | Path, search: Mapping[str, Any]):
        self._journal = Journal(path, "nas-history", search)
        self._journal.check()
        self.scores: dict[Candidate, Score] = {}
        self.generations: dict[int, dict[str, Any]] = {}
        for index, entry in enumerate(self._journal.entries):
            try:
                if "generation" in entry:
                    record = dict(entry)
                    self.generations[int(record.pop("generation"))] = record
                else:
                    self.scores[Candidate.from_code(entry["candidate"])] = Score.from_record(entry["score"])
            except (ValueError, KeyError, TypeError) as error:
                raise self._journal.damaged(index, f"an evaluation or a generation; {error}") from None

    def add_evaluation(self, candidate: Candidate, parent: Candidate | None, score: Score) -> None:
        self.scores[candidate] = score
        self._add({"candidate": candidate.code, "parent": parent and parent.code, "score": score.record()})

    def add_generation(self, number: int, record: Mapping[str, Any]) -> None:
        """Records a generation, unless it is there from before an interruption."""
        if number not in self.generations:
            self.generations[number] = dict(record)
            self._add({"generation": number, **record})

    def _add(self, entry: Mapping[str, Any]) -> None:
        self._journal.add(entry)
        self._journal.check()
