"""Activations and losses on arrays of (neurons, samples); equation numbers are those of paper 002."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError
from .comm import Comm


class Activation(NamedTuple):
    """``apply(z, out)``; ``back(y, dy, out)``: out = dy times the derivative, computed from the value y = apply(z)."""

    apply: Callable[[np.ndarray, np.ndarray], object]
    back: Callable[[np.ndarray, np.ndarray, np.ndarray], object]


def _sigmoid(z: np.ndarray, out: np.ndarray) -> None:
    """Equation 1. Where e^-z overflows, the sigmoid is 0 to the last bit; ``Perceptron`` mutes the warning."""
    np.negative(z, out=out)
    np.exp(out, out=out)
    out += 1
    np.reciprocal(out, out=out)


def _sigmoid_back(y: np.ndarray, dy: np.ndarray, out: np.ndarray) -> None:
    np.multiply(dy, y, out=out)
    out -= out * y


def _tanh_back(y: np.ndarray, dy: np.ndarray, out: np.ndarray) -> None:
    np.subtract(dy, dy * y * y, out=out)


ACTIVATIONS = {
    "sigmoid": Activation(_sigmoid, _sigmoid_back),
    "tanh": Activation(lambda z, out: np.tanh(z, out=out), _tanh_back),
    "relu": Activation(lambda z, out: np.maximum(z, 0, out=out), lambda y, dy, out: np.multiply(dy, y > 0, out=out)),
}
OUTPUTS = ACTIVATIONS | {"linear": Activation(lambda z, out: np.copyto(out, z), lambda y, dy, out: np.copyto(out, dy))}
SOFTMAX = "softmax"  # for the output alone: it needs all neurons
LOSSES = ("squared", "cross-entropy")


class Head:
    """The output layer's activation, its loss and the gradient of both, each rank on its own neurons.

    squared        1/2 sum (y - t)^2 (equation 4), mean over the samples
    cross-entropy  -sum t log y behind a softmax; behind a sigmoid -sum (t log y + (1 - t) log (1 - y)); mean over them

    For each sample a softmax needs a maximum and a sum over all ranks, and one sum more with the squared loss. Nothing
    else is sent. ``whole``: the output's sums are gathered first, then every rank computes everything in one order.
    """

    def __init__(self, activation: str, loss: str, comm: Comm, bounds: tuple[int, ...], whole: bool):
        if loss not in LOSSES:
            raise ArgumentError(f"loss: expected one of {', '.join(LOSSES)}; got {loss!r}")
        if loss == "cross-entropy" and activation not in (SOFTMAX, "sigmoid"):
            raise ArgumentError(f"loss: cross-entropy needs an output of softmax or sigmoid, got {activation}")
        self.activation, self.loss_name, self.comm, self.bounds = activation, loss, comm, bounds
        self.whole = whole and comm.size > 1
        self.begin, self.end = bounds[comm.rank], bounds[comm.rank + 1]

    def outputs(self, z: np.ndarray) -> np.ndarray:
        """y of this rank's neurons, or of all where ``whole``; ``z``: this rank's."""
        if self.whole:
            gathered = np.empty((self.bounds[-1], z.shape[1]), z.dtype)
            gathered[self.begin : self.end] = z
            self.comm.allgather(gathered, self.bounds).wait()
            z = gathered
        y = np.empty_like(z)
        if self.activation != SOFTMAX:
            OUTPUTS[self.activation].apply(z, y)
            return y
        np.subtract(z, self._over(z.max(axis=0, initial=-np.inf), np.maximum), out=y)
        np.exp(y, out=y)
        y /= self._over(y.sum(axis=0), np.add)
        return y

    def target(self, t: np.ndarray) -> np.ndarray:
        """The part of the whole target (outputs, samples) that ``outputs`` is compared with."""
        return t if self.whole else t[self.begin : self.end]

    def loss(self, y: np.ndarray, t: np.ndarray) -> float:
        """This rank's share of the mean loss. The shares of all ranks add up to the loss."""
        if self.whole and self.comm.rank > 0:
            return 0.0
        if self.loss_name == "squared":
            error = y - t
            return float(np.vdot(error, error)) / (2 * y.shape[1])
        tiny = np.finfo(y.dtype).tiny
        total = np.vdot(t, np.log(np.maximum(y, tiny)))
        if self.activation != SOFTMAX:
            total += np.vdot(1 - t, np.log(np.maximum(1 - y, tiny)))
        return -float(total) / y.shape[1]

    def gradient(self, y: np.ndarray, t: np.ndarray, out: np.ndarray) -> None:
        """dz of this rank's neurons (equation 5 through the activation), of the mean over the samples."""
        dz = y - t
        if y.shape[1] > 1:
            dz /= y.shape[1]
        if self.loss_name == "squared" and self.activation == SOFTMAX:
            dz = y * (dz - self._over((y * dz).sum(axis=0), np.add))
        elif self.loss_name == "squared":
            dy, dz = dz, np.empty_like(dz)
            OUTPUTS[self.activation].back(y, dy, dz)
        out[...] = dz[self.begin : self.end] if self.whole else dz

    def _over(self, values: np.ndarray, op: np.ufunc) -> np.ndarray:
        """``values`` of all ranks combined by ``op``; as they are where this rank has every neuron."""
        return values if self.whole or self.comm.size == 1 else self.comm.allreduce(values, op)
