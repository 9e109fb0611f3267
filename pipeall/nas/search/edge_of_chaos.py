"""Starting at the edge of chaos (paper 003, III A): hyperparameters by Langton's lambda.

Of T hyperparameter states q are quiescent, those in which training moves least or diverges; lambda = (T - q) / T goes
from frozen (0) to chaotic (1). A search draws its first hyperparameters from the T - q active states of the lambda at
which a population without selection is most complex, as a fit says (``peak``). The paper's own values are constants
here: 243 is the smallest T below 1,000 that gives both, with q = 52 and 29, and table I has five hyperparameters, of
three levels each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import ArgumentError
from ..spaces.genome import HYPER_GENES, HYPER_LEVELS, STATES, Candidate, hyper_of
from .operators import breed

LAMBDA_TEXT, LAMBDA_IMAGE = 0.786, 0.881


def langton(total: int, quiescent: int) -> float:
    """lambda of ``total`` states of which some are quiescent (eq. 2)."""
    if not 0 <= quiescent <= total or not total:
        raise ArgumentError(f"lambda: expected 0 to {total} quiescent states, got {quiescent}")
    return (total - quiescent) / total


def quiescent_count(lam: float, total: int = STATES) -> int:
    """The q whose lambda is nearest to ``lam``: 52 and 29 of 243 for the paper's two."""
    if not 0 < lam <= 1:
        raise ArgumentError(f"lambda: expected above 0 and up to 1, got {lam}")
    return min(total - 1, round((1 - lam) * total))


def active_states(activity: Sequence[float], quiescent: int) -> np.ndarray:
    """Numbers, ascending, of the states that remain without the ``quiescent`` least active ones.

    activity  for each state, how much training moves there, such as the change of the loss; where it diverges (not
              finite) the state counts as least active
    """
    values = np.asarray(activity, float)
    rank = np.argsort(np.where(np.isfinite(values), values, -np.inf), kind="stable")
    return np.sort(rank[quiescent:])


def initial_hyper(
    activity: Sequence[float], lam: float, count: int, random: np.random.Generator
) -> list[tuple[int, ...]]:
    """Hyperparameter levels of ``count`` candidates, drawn from the states that are active at ``lam``."""
    states = active_states(activity, quiescent_count(lam, len(activity)))
    return [hyper_of(int(state)) for state in random.choice(states, count)]


def complexity(
    activity: Sequence[float],
    quiescent: int,
    random: np.random.Generator,
    population: int = 10,
    generations: int = 10,
    repeats: int = 20,
) -> float:
    """Mutual information, in bits, between a gene of a parent and of its child (Langton 1990), the mean over the genes.

    Populations drawn from the active states breed without selection. A gene of a candidate in a quiescent state has
    one symbol of its own, in place of its level.
    """
    active = active_states(activity, quiescent)
    is_active = np.zeros(len(activity), bool)
    is_active[active] = True
    counts = np.zeros((HYPER_GENES, HYPER_LEVELS + 1, HYPER_LEVELS + 1))
    weights = HYPER_LEVELS ** np.arange(HYPER_GENES)[::-1]
    genes = np.arange(HYPER_GENES)

    def symbols(hyper: np.ndarray) -> np.ndarray | int:
        return hyper if is_active[hyper @ weights] else HYPER_LEVELS

    for _ in range(repeats):
        members = [Candidate((0,), hyper_of(int(state))) for state in random.choice(active, population)]
        for _ in range(generations):
            pairs = random.integers(0, population, (population, 2))
            children = [breed(members[i], members[j], random) for i, j in pairs]
            before = np.array([members[i].hyper for i, _ in pairs])
            after = np.array([child.hyper for child in children])
            for parent, child in zip(before, after, strict=True):
                counts[genes, symbols(parent), symbols(child)] += 1
            members = children
    return float(np.mean([mutual_information(table) for table in counts]))


def mutual_information(counts: np.ndarray) -> float:
    """The mutual information, in bits, of row and column in a table of counts."""
    joint = counts / counts.sum()
    apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    some = joint > 0
    return float(np.sum(joint[some] * np.log2(joint[some] / apart[some])))


class Sweep(NamedTuple):
    """Values of lambda, the complexity at each, the fitted lambda of the greatest complexity and its standard error."""

    lam: tuple[float, ...]
    complexity: tuple[float, ...]
    critical: float
    error: float


def sweep(activity: Sequence[float], random: np.random.Generator, points: int = 27, **population: int) -> Sweep:
    """Complexity at ``points`` values of lambda, evenly from 1 / T to 1; ``population``: see ``complexity``."""
    total = len(activity)
    counts = np.unique(np.linspace(0, total - 1, points).round().astype(int))
    values = [complexity(activity, int(q), random, **population) for q in counts]
    lams = [langton(total, int(q)) for q in counts]
    return Sweep(tuple(lams), tuple(values), *peak(lams, values))


def peak(lam: Sequence[float], complexity: Sequence[float]) -> tuple[float, float]:
    """Where complexity is greatest, by a least-squares fit of a + b log(lambda) + c lambda; and the standard error.

    The curve is a plateau: its greatest point is one of the noise. It rises as the logarithm of the number of active
    states and falls as these differ more. The error is that of the residuals, so it has what the form does not fit.
    (1, inf) where the fit has no greatest value within (0, 1]. Expects more than three points.
    """
    x, y = np.asarray(lam, float), np.asarray(complexity, float)
    form = np.stack([np.ones_like(x), np.log(x), x], 1)
    (_, rise, fall), *_ = np.linalg.lstsq(form, y, rcond=None)
    if not (rise > 0 > fall and -rise / fall <= 1):
        return 1.0, np.inf
    left = y - form @ np.linalg.lstsq(form, y, rcond=None)[0]
    covariance = np.linalg.inv(form.T @ form) * (left @ left) / (len(x) - form.shape[1])
    slope = np.array([0, -1 / fall, rise / fall**2])  # of -rise / fall, by the three numbers
    return float(-rise / fall), float(np.sqrt(slope @ covariance @ slope))
