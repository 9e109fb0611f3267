"""A search for a network: from a data set, a space and a board to a trained network and its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import ArgumentError
from ..graph.ir import Graph
from .datasets import Samples
from .placement import Placed, place
from .search import edge_of_chaos, evolve
from .search.archive import Archive, History, Member
from .search.evolve import Generation, Settings
from .spaces.genome import HYPER_GENES, STATES, TRAINING_GENES, Candidate, hyper_of
from .spaces.staged_space import StagedSpace
from .training.augment import TrainingRecipe
from .training.evaluation import Training
from .training.fitness import accuracy
from .training.proxies import PROXIES, proxy
from .training.score import Score
from .training.training_loop import calibrated, predict, train
from .training.weighted_network import WeightedNetwork, create, to_graph

FINISH_SEED = 0
PROBED = 64  # samples of the fixed batch that hyperparameters are probed on


@dataclass(frozen=True)
class Search:
    """What to search for, and how. The result is a function of these settings.

    Attributes
    ----------
    training : Training
        Trains and scores candidates.
    settings : Settings
        Of evolution.
    start : str
        "edge": first hyperparameters from the states active at ``lam``; "random": from all states.
    lam : float, "sweep" or None
        Langton's lambda. None: the paper's, one for pictures and one for other data; "sweep": the one of the greatest
        complexity.
    proxy : str or None
        The search begins with the best networks by this proxy (``proxies``) among ``SCREENED`` times as many.
    presets : bool
        The search begins with the known networks of its space (``StagedSpace.presets``).
    instances : int
        Variants of a level in layer-wise competition.
    threshold : float
        A fitness below it ends the search.
    budget : int or None
        Candidates that are trained at most.
    """

    training: Training
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    start: Literal["edge", "random"] = "edge"
    lam: float | Literal["sweep"] | None = None
    proxy: str | None = None
    presets: bool = False
    instances: int = 10
    threshold: float = 0.0
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.proxy is not None and self.proxy not in PROXIES:
            raise ArgumentError(f"proxy: expected {', '.join(PROXIES)}, got {self.proxy!r}")
        if self.presets and not isinstance(self.training.space, StagedSpace):
            raise ArgumentError(f"presets: expected a space of stages, got {self.training.space}")
        if self.start not in ("edge", "random") or self.instances < 1:
            raise ArgumentError(f"search: expected start edge or random and instances, got {self.start!r}")
        if self.budget is not None and self.budget < self.settings.population:
            raise ArgumentError(
                f"budget: expected at least a population, {self.settings.population}, got {self.budget}"
            )
        if self.lam not in (None, "sweep"):
            edge_of_chaos.quiescent_count(self.lam)

    def about(self) -> dict[str, Any]:
        """What the result depends on, ready for JSON: the header of its history."""
        about = asdict(self)
        about["training"].pop("folder")
        about["training"]["space"] = repr(self.training.space)
        return about

    def open(
        self,
        history: str | Path | None = None,
        executor: Executor | None = None,
        on_evaluated: Callable[[Candidate, Score], None] = lambda candidate, score: None,
    ) -> Archive:
        """The archive of this search. Candidates that the file ``history`` has are not trained again.

        on_evaluated: called with each candidate that was trained and its score
        """
        Path(self.training.folder).mkdir(parents=True, exist_ok=True)
        if self.training.supernet:
            self.training.shared()  # here, so that not every worker trains it
        wave = self.training.halving and self.training.halving.factor
        file = None if history is None else History(history, self.about())
        others = max(0, self.training.inherit - 1)
        space, allows = self.training.space, self.training.allows
        fixed = (space, self.training, self.seed, executor, file)
        return Archive(*fixed, self.budget, wave, others, allows, on_evaluated, self.training.work)

    @property
    def candidates(self) -> int:
        """How many are trained at most, or about so many where there is no budget."""
        settings = self.settings
        evolved = settings.population + settings.generations * (settings.population - settings.elite)
        return self.budget or evolved + settings.guided

    def generations(self, archive: Archive) -> Iterator[Generation]:
        """The generations of the search as it runs: algorithm 1 of the paper. The winner is ``archive.best``."""
        worth = None if self.proxy is None else self.worth
        known = self.training.space.presets if self.presets else ()
        yield from evolve.search(archive, self.settings, self.hyper(), self.instances, self.threshold, worth, known)

    def worth(self, candidate: Candidate) -> float:
        """What the proxy says of a network before its training; more is better, -inf for one beyond the limits."""
        network = create(self.training.space.decode(candidate.bits), self.training.load(), self.seed)
        if not network.architecture.blocks or not self.training.fits(network.architecture):
            return -inf
        return proxy(self.proxy, network, self.training.load().train)

    def hyper(self) -> list[tuple[int, ...]]:
        """Levels of the first candidates' hyperparameters; none: any states. With a supernet: the middle ones."""
        if self.training.supernet:
            return [(1,) * HYPER_GENES] * self.settings.population
        if self.start == "random":
            return []
        activity, random = activities(self.training, self.seed), np.random.default_rng([self.seed, 1])
        lam = self.lam
        if lam is None:
            lam = edge_of_chaos.LAMBDA_IMAGE if self.training.load().pictures else edge_of_chaos.LAMBDA_TEXT
        elif lam == "sweep":
            lam = edge_of_chaos.sweep(activity, random).critical
        return edge_of_chaos.initial_hyper(activity, lam, self.settings.population, random)


def activities(training: Training, seed: int) -> list[float]:
    """By how much training on one fixed batch changes the loss, in each of the 243 states of the hyperparameters.

    NaN where training diverges. States that train alike are probed once; the network is a random one of the space.
    """
    data, random = training.load(), np.random.default_rng([seed, 2])
    network = create(training.space.decode(training.space.random(random)), data, seed)
    batch = Samples(data.train.x[:PROBED], data.train.y[:PROBED])
    changes: dict[tuple[int, ...], float] = {}  # by training genes
    activity = []
    for state in range(STATES):
        levels = hyper_of(state)[:TRAINING_GENES]
        if levels not in changes:
            hyper = Candidate((0,), hyper_of(state)).hyperparameters(training.levels)
            losses = train(network, batch, hyper._replace(cycles=hyper.cycles + 1), seed, TrainingRecipe(PROBED))[1]
            changes[levels] = abs(losses[-1] - losses[0])
        activity.append(changes[levels])
    return activity


def run(
    search: Search,
    history: str | Path | None = None,
    executor: Executor | None = None,
    on_evaluated: Callable[[Candidate, Score], None] = lambda candidate, score: None,
) -> Archive:
    """The whole search: its archive, with the winner in ``best``.

    Parameters
    ----------
    search
        What to search for, and how.
    history
        The journal, which this process alone writes. A search that it has a part of goes on from there.
    executor
        Any executor of ``concurrent.futures``: of processes, ``mpi4py.futures.MPIPoolExecutor``, or Dask's
        ``Client.get_executor()``. It changes no result. A candidate whose worker died is evaluated by another one.
        None: this process evaluates.
    on_evaluated
        Called with each candidate that was trained and its score.
    """
    archive = search.open(history, executor, on_evaluated)
    for _ in search.generations(archive):
        pass
    return archive


@dataclass(frozen=True)
class Winner:
    """The best network of a search.

    judged  accuracy on the samples that judge, all of them where it was trained on all; ``tested``: on the test samples
    placed  its best plan, where a board was given
    """

    member: Member
    network: WeightedNetwork
    graph: Graph
    judged: float
    tested: float
    placed: Placed | None


def winner(training: Training, member: Member, finish: int = 0) -> Winner:
    """The network of an evaluated candidate with its accuracy (for numbers R^2).

    finish  so many more passes of training, over all samples to train on, however many its search used
    """
    network = training.result(member.candidate)
    data = training.whole() if finish else training.load()
    if finish:
        hyper = member.candidate.hyperparameters(training.levels)._replace(cycles=finish)
        network = calibrated(train(network, data.train, hyper, FINISH_SEED, training.recipe)[0], data.train.x)
    both = data.validation, data.test
    judged, tested = (accuracy(data, predict(network, samples.x), samples.y) for samples in both)
    graph = to_graph(network, data)
    return Winner(member, network, graph, judged, tested, training.target and place(graph, training.target))
