"""How gradients change weights: SGD with momentum, Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019); and
how the rate goes down over the epochs.

The formulas are those of ``torch.optim``, decay of biases included. All are elementwise, so that a rank needs nothing
of the others; only clipping needs the norm of the whole gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, isfinite, pi, sqrt
from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError

RULES = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "step")
BLOCK = 2**16  # elements that Adam changes at a time: its temporary arrays stay in a cache


@dataclass(frozen=True)
class Rule:
    """How a gradient changes the weights.

    name             "sgd", "adam" or "adamw"
    momentum         of sgd, in [0, 1)
    beta1, beta2     of adam and adamw: how much the means of gradients and of their squares keep, in [0, 1)
    epsilon          added to the root of the latter, above 0
    decay            sgd, adam: times the weights, added to the gradient; adamw: the share of the weights, times the
                     rate, that each step takes off; at least 0
    clip             longest norm of the whole gradient, weights and biases of all layers together; None: any
    Raises ArgumentError.
    """

    name: str = "sgd"
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise ArgumentError(f"rule: expected one of {', '.join(RULES)}; got {self.name!r}")
        for key in ("momentum", "beta1", "beta2"):
            if not 0 <= getattr(self, key) < 1:
                raise ArgumentError(f"{key}: expected a number in [0, 1), got {getattr(self, key)}")
        if self.momentum and self.name != "sgd":
            raise ArgumentError(f"momentum: expected none with {self.name}, which has beta1; got {self.momentum}")
        if not 0 < self.epsilon < float("inf"):
            raise ArgumentError(f"epsilon: expected a number above 0, got {self.epsilon}")
        if not 0 <= self.decay < float("inf"):
            raise ArgumentError(f"decay: expected a number of at least 0, got {self.decay}")
        if self.clip is not None and not 0 < self.clip < float("inf"):
            raise ArgumentError(f"clip: expected a number above 0, got {self.clip}")

    @property
    def kept(self) -> tuple[str, ...]:
        """What is kept of each weight between steps."""
        if self.name == "sgd":
            return ("velocity",) if self.momentum else ()
        return "mean", "square"

    @property
    def plain(self) -> bool:
        """The gradient times the rate is all that is taken off."""
        return self.name == "sgd" and not (self.momentum or self.decay or self.clip)


class Change(NamedTuple):
    """One step: its ``rule`` and ``rate``, what scales its gradients, and its number from 1."""

    rule: Rule
    rate: float
    scale: float
    number: int

    def adam(self, weight: np.ndarray, gradient: np.ndarray, kept: Sequence[np.ndarray]) -> None:
        """Changes ``weight`` and ``kept`` by a gradient of their shape, which is spoilt, as adam or adamw do."""
        rows = max(1, BLOCK // max(1, gradient[:1].size))
        for begin in range(0, len(weight), rows):
            w, g, mean, square = (array[begin : begin + rows] for array in (weight, gradient, *kept))
            self._adam_block(w, g, mean, square)

    def _adam_block(self, w: np.ndarray, g: np.ndarray, mean: np.ndarray, square: np.ndarray) -> None:
        rule = self.rule
        if rule.decay and rule.name == "adam":
            g += rule.decay * w
        elif rule.decay:
            w *= 1 - self.rate * rule.decay
        mean += (1 - rule.beta1) * (g - mean)
        square *= rule.beta2
        g *= g
        g *= 1 - rule.beta2
        square += g
        root = np.sqrt(square, out=g)
        root /= sqrt(1 - rule.beta2**self.number)
        root += rule.epsilon
        np.divide(mean, root, out=root)
        root *= self.rate / (1 - rule.beta1**self.number)
        w -= root


def clipped(norm: float, clip: float) -> float:
    """What to multiply a gradient of this norm with, as ``torch.nn.utils.clip_grad_norm_`` does."""
    return min(1.0, clip / (norm + 1e-6)) if isfinite(norm) else norm


@dataclass(frozen=True)
class Schedule:
    """The rate of an epoch, as a share of the first one's.

    name    "constant"; "cosine": half a wave, which would be 0 behind the last epoch; "step"
    every   epochs after which "step" multiplies by ``factor``
    Raises ArgumentError.
    """

    name: str = "constant"
    every: int = 10
    factor: float = 0.1

    def __post_init__(self) -> None:
        if self.name not in SCHEDULES:
            raise ArgumentError(f"schedule: expected one of {', '.join(SCHEDULES)}; got {self.name!r}")
        if self.every < 1:
            raise ArgumentError(f"every: expected at least 1 epoch, got {self.every}")
        if not 0 < self.factor <= 1:
            raise ArgumentError(f"factor: expected a number in (0, 1], got {self.factor}")

    def share(self, epoch: int, epochs: int) -> float:
        """Of epoch ``epoch``, from 0, of ``epochs``."""
        if self.name == "cosine":
            return (1 + cos(pi * epoch / epochs)) / 2
        return self.factor ** (epoch // self.every) if self.name == "step" else 1.0
