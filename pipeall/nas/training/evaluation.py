"""Training and scoring a candidate: what the archive of a search hands to its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from math import inf, isfinite
from pathlib import Path

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.read import load as load_onnx
from ...graph.ops import macs
from .. import datasets as datasets
from ..datasets import DataSet, Targets
from ..placement import Placed, Target, place
from ..spaces.genome import LEVELS, TRAINING_GENES, Architecture, Candidate, Hyper, Space, identity
from ..spaces.mobile_space import MobileSpace
from . import weighted_network as networks
from .augment import TrainingRecipe
from .fitness import Fitness, accuracy, constant, error, slow
from .halving import Halving
from .pretrained import with_pretrained
from .prune import prune_vectors
from .score import Score
from .supernet import Supernet, taken
from .training_loop import calibrated, predict, train
from .weighted_network import WeightedNetwork, create, to_graph

ERROR_SHARE = 0.75  # of the error of a constant guess: a network below it has learned something, and is pruned
ELEMENT = 150  # multiply-adds that take as long as an element of a layer's output (measured, 32 x 32 pixels, one core)
TOGETHER = {"dense": 1, "conv": 4}  # neurons that are pruned at once
TRAINED, PRUNED, SHARED = "trained", "pruned", "shared"  # kinds of files in the folder
# Defaults of what belongs to the training of one network
ALONE = {"halving": None, "pruning": None, "pretrained": None, "inherit": 1}


@dataclass(frozen=True)
class Pruning:
    """Vector-wise pruning of ``fraction`` of the weights once the error is below ``threshold``, then at most ``cycles``
    passes over the samples. threshold None: ``ERROR_SHARE`` of the error of a constant guess."""

    fraction: float
    threshold: float | None = None
    cycles: int = 50


@dataclass(frozen=True)
class Training:
    """Evaluates candidates (``score.Evaluate``): a function of candidate, seed and parent.

    data, samples, targets  see ``data.load`` and ``DataSet.first``; a process loads them once
    folder   where trained networks lie, for children to inherit from and for the winner; workers share it
    levels   what the hyperparameter genes stand for; ``recipe``: what all candidates are trained with
    pretrained  an ONNX classifier whose first weights a network has that inherits none (``pretrained.with_pretrained``)
    halving  trainings that are behind early on are ended
    inherit  trained networks whose weights a child tries, its parent's first; it is trained on from those that judge
             best (paper 003, figure 4). 0: its weights are new
    supernet  networks of a mobile space are not trained from new weights: each begins with its part of shared ones
    target   a network that does not fit the board's memory is refused before it is trained

    Raises ArgumentError for a supernet of another space, or beside what belongs to training (``ALONE``), and for fewer
    than no networks to inherit from.
    """

    space: Space
    data: str
    folder: str
    samples: int | None = None
    targets: Targets | None = None
    levels: Hyper = LEVELS
    recipe: TrainingRecipe = TrainingRecipe()
    fitness: Fitness = field(default_factory=Fitness)
    pruning: Pruning | None = None
    target: Target | None = None
    halving: Halving | None = None
    pretrained: str | None = None
    inherit: int = 1
    supernet: Supernet | None = None

    def __post_init__(self) -> None:
        if self.inherit < 0:
            raise ArgumentError(f"inherit: expected 0 or more, got {self.inherit}")
        if self.supernet is None:
            return
        if not isinstance(self.space, MobileSpace):
            raise ArgumentError(f"supernet: expected a mobile space, got {type(self.space).__name__}")
        if beside := [name for name, default in ALONE.items() if getattr(self, name) != default]:
            raise ArgumentError(f"supernet: expected no {beside[0]}; its networks are not trained one by one")

    def __call__(
        self,
        candidate: Candidate,
        seed: int,
        parent: Candidate | None = None,
        earlier: Sequence[Score] = (),
        others: Sequence[Candidate] = (),
    ) -> Score:
        data, hyper = self.load(), candidate.hyperparameters(self.levels)
        if self.supernet:
            return self._score_of_shared(candidate, hyper)
        network = self._begun(candidate, seed, [] if parent is None else [parent, *others][: self.inherit])
        if self.pretrained and parent is None:
            network = with_pretrained(network, _classifier(self.pretrained), data.train.x)
        if not self.fits(network.architecture):
            networks.save(self._path(candidate, TRAINED), network)
            return self._score(network, inf, inf, 0.0)
        ladder = _Ladder(self, hyper.cycles, earlier)
        final, losses = train(network, data.train, hyper, seed, self.recipe, ladder)
        final = calibrated(final, data.train.x)
        networks.save(self._path(candidate, TRAINED), final)
        (final_error, right), share = self._figures(final), 0.0
        whole = len(losses) == hyper.cycles or losses[-1] < self.recipe.until
        if self.pruning and whole and final_error <= self._threshold():
            final, share = self._pruned(final, hyper, seed)
            networks.save(self._path(candidate, PRUNED), final)
            final_error, right = self._figures(final)
        most = _parameters(self)
        fitness = self.fitness(final_error, final.parameters, most, share, hyper)
        score = self._score(final, fitness if final.architecture.blocks else inf, final_error, share)
        return replace(score, cycles=hyper.cycles, passes=len(losses), rungs=tuple(ladder.errors), accuracy=right)

    def _begun(self, candidate: Candidate, seed: int, parents: Sequence[Candidate]) -> WeightedNetwork:
        """The network before its training: with the weights of that parent with which it judges best."""
        data, architecture = self.load(), self.space.decode(candidate.bits)
        sets = [networks.load(self._path(parent, TRAINED), data) for parent in parents] or [None]
        tried = [create(architecture, data, seed, trained) for trained in sets]
        if len(tried) == 1:
            return tried[0]
        return min(tried, key=lambda network: self._figures(calibrated(network, data.train.x))[0])

    def _score_of_shared(self, candidate: Candidate, hyper: Hyper) -> Score:
        """With shared weights."""
        final = taken(self.space.decode(candidate.bits), self.shared())
        fits = self.fits(final.architecture)
        if fits:
            final = self.supernet.tuned(final, self.load().train, self.recipe)
        networks.save(self._path(candidate, TRAINED), final)
        if not fits:
            return self._score(final, inf, inf, 0.0)
        final_error, right = self._figures(final)
        fitness = self.fitness(final_error, final.parameters, _parameters(self), 0.0, hyper)
        return replace(self._score(final, fitness, final_error, 0.0), accuracy=right)

    def shared(self) -> WeightedNetwork:
        """The weights of the supernet: trained when they are first asked for, and kept in the folder."""
        return _shared(self)

    def work(self, candidate: Candidate) -> float:
        """What a candidate's training takes, as multiply-adds of forward passes; of which time is a multiple."""
        passes = 1 if self.supernet else candidate.hyperparameters(self.levels).cycles
        return passes * len(self.load().train) * _work(self, self.space.decode(candidate.bits))

    def load(self) -> DataSet:
        return _load(self.data, self.samples, self.targets)

    def whole(self) -> DataSet:
        """All samples, however many the search sees."""
        return replace(self, samples=None).load()

    def result(self, candidate: Candidate) -> WeightedNetwork:
        """The network of an evaluated candidate, pruned if it was pruned. Raises ArgumentError without its file."""
        pruned = self._path(candidate, PRUNED)
        return networks.load(pruned if pruned.exists() else self._path(candidate, TRAINED), self.load())

    def _pruned(self, network: WeightedNetwork, hyper: Hyper, seed: int) -> tuple[WeightedNetwork, float]:
        """The network pruned and trained again, and the fraction of the weights that is gone."""
        small = prune_vectors(network, self.pruning.fraction, TOGETHER[network.architecture.kind])
        share = 1 - small.parameters / network.parameters
        again = hyper._replace(cycles=min(hyper.cycles, self.pruning.cycles))
        return train(small, self.load().train, again, seed, self.recipe)[0], share

    def _figures(self, network: WeightedNetwork) -> tuple[float, float | None]:
        """Error and accuracy on the samples that judge; no accuracy where an output is not finite."""
        data = self.load()
        output = predict(network, data.validation.x)
        mean = error(data, output, data.validation.y)
        return mean, accuracy(data, output, data.validation.y) if isfinite(mean) else None

    def _threshold(self) -> float:
        data, own = self.load(), self.pruning.threshold
        guess = error(data, constant(data, data.validation), data.validation.y)
        return ERROR_SHARE * guess if own is None else own

    def allows(self, candidate: Candidate) -> bool:
        """Whether the candidate's network keeps the target's limits, if there are any."""
        if self.target is None or not self.target.limits:
            return True
        return self.fits(self.space.decode(candidate.bits))

    def fits(self, architecture: Architecture) -> bool:
        """Whether a network keeps the target's limits."""
        return self.target is None or _placed(self, architecture).fits(self.target)

    def _score(self, network: WeightedNetwork, fitness: float, error: float, share: float) -> Score:
        plain = Score(fitness, error, network.parameters, _parameters(self), share)
        if self.target is None:
            return plain
        placed = _placed(self, network.architecture)
        fps, latency = placed.choice.prediction.fps, placed.choice.prediction.latency_ms
        if self.target.fps is not None and isfinite(fitness):
            fitness += slow(fps, self.target.fps, self.target.weight)
        return replace(plain, fitness=fitness, fps=fps, latency_ms=latency, memory_bytes=placed.memory_bytes)

    def _path(self, candidate: Candidate, kind: str) -> Path:
        """The file of a candidate; candidates that are trained alike (``archive.Archive``) share it."""
        alike = identity(self.space.decode(candidate.bits), candidate.hyper[:TRAINING_GENES])
        return Path(self.folder) / f"{sha256(alike.encode()).hexdigest()[:16]}-{kind}.npz"


class _Ladder:
    """Judges a training at the rungs of successive halving; calling it says whether the training ends there."""

    def __init__(self, training: Training, cycles: int, earlier: Sequence[Score]):
        self.training, halving = training, training.halving
        self.errors: list[float] = []
        self.bounds: dict[int, float] = {}  # by passes
        if halving:
            self.bounds = dict(zip(halving.passes(cycles), halving.bounds(cycles, earlier), strict=True))

    def __call__(self, passes: int, network: WeightedNetwork) -> bool:
        if passes not in self.bounds:
            return False
        self.errors.append(self.training._figures(calibrated(network, self.training.load().train.x))[0])
        return self.errors[-1] > self.bounds[passes]


@cache
def _load(name: str, samples: int | None, targets: Targets | None) -> DataSet:
    return datasets.load(name, targets) if samples is None else _load(name, None, targets).first(samples)


@cache
def _classifier(path: str) -> Graph:
    return load_onnx(path)


@cache
def _shared(training: Training) -> WeightedNetwork:
    trained = replace(training.supernet, tune=0)
    about = repr((training.space, training.data, training.samples, training.targets, training.recipe, trained))
    path = Path(training.folder) / f"{sha256(about.encode()).hexdigest()[:16]}-{SHARED}.npz"
    if not path.exists():
        networks.save(path, trained.trained(training.space, training.load(), training.recipe))
    return networks.load(path, training.load())


@cache
def _placed(training: Training, architecture: Architecture) -> Placed:
    """The plan on the target's board; it does not depend on the values of weights."""
    data = training.load()
    return place(to_graph(create(architecture, data, 0), data), training.target)


@cache
def _work(training: Training, architecture: Architecture) -> int:
    """Of a sample."""
    data = training.load()
    graph = to_graph(create(architecture, data, 0), data)
    return sum(macs(node, graph) + ELEMENT * graph.tensors[node.output].elements for node in graph.nodes)


@cache
def _parameters(training: Training) -> int:
    """The trained numbers of the network of all ones: the largest of the space."""
    architecture = training.space.decode((1,) * training.space.loci)
    return create(architecture, training.load(), 0).parameters
