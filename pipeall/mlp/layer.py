"""One layer of one rank: its weights, its arrays for a number of samples, and what it exchanges; a class per kind.

Arrays are (neurons, samples), C-contiguous, so that a rank's neurons, and the ghosts beside them, are consecutive
rows that travel as they lie:

    x   the inputs that this rank sees; own_x are those of its own neurons in the layer before, which writes them there
    z   sums; own_z those of its own neurons
    dz  gradients of the sums; own_dz those of its own neurons
    dx  gradients of the inputs; own_dx those of its own neurons in the layer before
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any

import numpy as np

from .comm import Collective, Comm, Request
from .engines import DenseEngine
from .layout import Share
from .rules import Change

CHUNKS = 8  # parts of a weight update; in between, a collective is helped on
FILLED = 2**20  # weights made at a time
GAMMA, MIX1, MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def take_share(whole: np.ndarray, held: np.ndarray, share: Share) -> None:
    """Copies a rank's share of the whole layer's weights to where the rank holds it."""
    at = 0
    for begin, end in share.columns:
        held[:, at : at + end - begin] = whole[slice(*share.rows), begin:end]
        at += end - begin


def put_share(held: np.ndarray, whole: np.ndarray, share: Share) -> None:
    """Copies what a rank holds to its place in the whole layer's weights."""
    at = 0
    for begin, end in share.columns:
        whole[slice(*share.rows), begin:end] = held[:, at : at + end - begin]
        at += end - begin


class _BiasGradient:
    """The gradient of biases, added to an array as ``Dense`` adds that of weights."""

    def __init__(self, gradient: np.ndarray):
        self.gradient = gradient

    def accumulate(self, target: np.ndarray, alpha: float, begin: int, end: int) -> None:
        target[begin:end] += alpha * self.gradient[begin:end]


def _descend(change: Change, array: np.ndarray, product: Any, kept: Sequence[np.ndarray], begin: int, end: int) -> None:
    """Rows of an array changed as sgd does: V = momentum V + gradient, then W -= rate V. No gradient is stored."""
    rule, rows = change.rule, slice(begin, end)
    if kept:
        (velocity,) = kept
        velocity[rows] *= rule.momentum
        if rule.decay:
            velocity[rows] += rule.decay * array[rows]
        product.accumulate(velocity, change.scale, begin, end)
        array[rows] -= change.rate * velocity[rows]
    else:
        if rule.decay:
            array[rows] *= 1 - change.rate * rule.decay
        product.accumulate(array, -change.rate * change.scale, begin, end)


class DenseLayer:
    """Kind "whole": the inputs are everywhere, nothing is exchanged."""

    def __init__(self, share: Share, activation: str, comm: Comm, engine: DenseEngine, drop: bool):
        """``drop``: gradients of ghosts are not returned (paper 002)."""
        self.share, self.activation, self.comm, self.engine, self.drop = share, activation, comm, engine, drop
        self.weight = engine.zeros(*share.shape)
        self.bias = engine.zeros(share.outputs[1] - share.outputs[0])
        self.kept: dict[str, list[np.ndarray]] = {}  # beside the weights: name -> arrays like those of ``parameters``
        self.gradient_of: dict[int, np.ndarray] = {}
        self.bound: dict[int, tuple] = {}

    def initialize(self, seed: int, index: int) -> None:
        share = self.share
        fill(self.weight, seed, index, share.rows, share.columns, bound_for(self.activation, share.n_in, share.n_out))

    def set_weights(self, weight: np.ndarray, bias: np.ndarray) -> None:
        """Sets this rank's part of the whole layer's weights (n_out, n_in) and biases."""
        self.take(weight, bias, self.parameters())

    def take(self, weight: np.ndarray, bias: np.ndarray, held: Sequence[np.ndarray]) -> None:
        """Copies this rank's part of what has the whole layer's shapes to arrays like those of ``parameters``."""
        take_share(weight, held[0], self.share)
        held[-1][...] = bias[slice(*self.share.outputs)]

    def parameters(self) -> list[np.ndarray]:
        """The weight matrices that this rank holds, the one that ``share`` describes first, and the biases."""
        return [self.weight, self.bias]

    def keep(self, name: str) -> list[np.ndarray]:
        """The arrays of that name that are kept beside the weights, zeros at first."""
        if name not in self.kept:
            self.kept[name] = [self.engine.zeros(*array.shape) for array in self.parameters()]
        return self.kept[name]

    def bind(self, samples: int) -> None:
        """Makes the arrays for so many samples the current ones."""
        if samples not in self.bound:
            self.bound[samples] = self._bind(samples)
        self.x, self.z, self.dz, self.dx, self.dense = self.bound[samples]
        above, own = self.share.above, self.share.inputs[1] - self.share.inputs[0]
        self.own_x, self.own_dx = self.x[above : above + own], self.dx[above : above + own]
        self.own_z, self.own_dz = self.z, self.dz

    @property
    def sums_start(self) -> np.ndarray | None:
        return self.bias

    def _bind(self, samples: int) -> tuple:
        rows, columns = self.weight.shape
        x, z, dz, dx = (np.zeros((n, samples), self.engine.dtype) for n in (columns, rows, rows, columns))
        return x, z, dz, dx, self.engine.dense(self.weight, self.sums_start, x, z, dz, dx)

    # ---- what the kinds differ in

    def forward(self) -> None:
        """Computes own_z from own_x."""
        self.dense.forward()

    def gather_dz(self) -> None:
        """Completes dz from own_dz, where the weights' gradients need more than own_dz."""

    def return_dx(self) -> Collective | None:
        """Starts what completes own_dx from dx; None where it is complete."""
        return None

    # ---- the way back

    def backward(self, change: Change | None, first: bool) -> None:
        """Computes own_dx from own_dz, unless the layer is the ``first``; changes the weights where it is given how."""
        self.gather_dz()
        exchange = None
        if change is not None and change.rule.plain and self.dz.shape[1] == 1:
            self.one_pass(change.rate, first)
            exchange = None if first else self.return_dx()
        else:
            if not first:
                self.input_gradient()
                exchange = self.return_dx()
            if change is not None:
                self.update(change, exchange)
        if exchange is not None:
            exchange.wait()

    def input_gradient(self) -> None:
        self.dense.input_gradient()

    def one_pass(self, rate: float, first: bool) -> None:
        """Gradients and update for one sample in one pass over the weights.

        What then travels is short: waiting for it costs less than reading the weights twice.
        """
        if first:
            self.dense.accumulate(self.weight, -rate, 0, len(self.weight))
        else:
            self.dense.backward(-rate)
        self.bias -= rate * self.own_dz[:, 0]

    def matrices(self) -> list[tuple[np.ndarray, Any]]:
        """The weight matrices, each with the object that multiplies by it."""
        return [(self.weight, self.dense)]

    def update(self, change: Change, exchange: Collective | None) -> None:
        """Changes weights and biases by their gradients, in chunks of rows; helps ``exchange`` on in between."""
        kept = [self.keep(name) for name in change.rule.kept]
        trained = [*self.matrices(), (self.bias, _BiasGradient(self.own_dz.sum(axis=1)))]
        for index, (array, product) in enumerate(trained):
            beside = [arrays[index] for arrays in kept]
            step = max(1, -(-len(array) // (CHUNKS if exchange else 1)))
            for begin in range(0, len(array), step):
                end = min(begin + step, len(array))
                if change.rule.name == "sgd":
                    _descend(change, array, product, beside, begin, end)
                else:
                    gradient = self.scratch(index, array)
                    gradient[begin:end] = 0
                    product.accumulate(gradient, change.scale, begin, end)
                    change.adam(array[begin:end], gradient[begin:end], [each[begin:end] for each in beside])
                if exchange:
                    exchange.test()

    def scratch(self, index: int, like: np.ndarray) -> np.ndarray:
        """A place for the gradient of the array ``index`` of ``parameters``."""
        if index not in self.gradient_of:
            self.gradient_of[index] = self.engine.zeros(*like.shape)
        return self.gradient_of[index]

    def squares(self) -> np.ndarray:
        """Squares of the gradients of the weights that this rank holds, and of its biases, summed; float64.

        One sum for each of its neurons where it holds their rows, else a sum for each row and each bias.
        """
        weight, bias = self.gradients()
        rows = np.square(weight, dtype=np.float64).sum(axis=1)
        biases = np.square(bias, dtype=np.float64)
        return rows + biases if self.share.rows == self.share.outputs else np.concatenate([rows, biases])

    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of the weights that this rank holds, and of its biases, at the last ``backward``."""
        gradient = self.engine.zeros(*self.weight.shape)
        self.dense.accumulate(gradient, 1.0, 0, len(gradient))
        return gradient, self.own_dz.sum(axis=1)


class ColumnLayer(DenseLayer):
    """Inputs are gathered. The gradient of all inputs is summed over the ranks; each keeps its own."""

    def forward(self) -> None:
        self.comm.allgather(self.x, self.share.bounds_in).wait()
        self.dense.forward()

    def return_dx(self) -> Collective:
        return self.comm.reduce_scatter(self.dx, self.share.bounds_in)


class RowLayer(DenseLayer):
    """A rank sums over its own inputs, for all neurons. These sums are added up over the ranks; each keeps its own."""

    sums_start = None  # the bias comes once, behind the sum over the ranks

    def bind(self, samples: int) -> None:
        super().bind(samples)
        begin, end = self.share.outputs
        self.own_z, self.own_dz = self.z[begin:end], self.dz[begin:end]

    def forward(self) -> None:
        self.dense.forward()
        self.comm.reduce_scatter(self.z, self.share.bounds_out).wait()
        self.own_z += self.bias[:, None]

    def gather_dz(self) -> None:
        self.comm.allgather(self.dz, self.share.bounds_out).wait()


class GhostLayer(DenseLayer):
    """The neighbours' neurons at the borders are inputs too. Their gradients return, or are dropped."""

    def forward(self) -> None:
        self.comm.collective(self._exchange()).wait()
        self.dense.forward()

    def _seen(self, array: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """(rank, rows of x or dx) of the ghosts above and below the own."""
        own = self.share.inputs[1] - self.share.inputs[0]
        begins = (0, self.share.above + own)
        pairs = zip(begins, self.share.seen, strict=False)
        return [(ghosts.source, array[begin : begin + len(ghosts)]) for begin, ghosts in pairs if len(ghosts)]

    def _shown(self, array: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """(rank, rows of own_x or own_dx) of the own neurons that are another rank's ghosts."""
        first = self.share.inputs[0]
        return [(g.target, array[g.begin - first : g.end - first]) for g in self.share.shown if len(g)]

    def _exchange(self) -> Iterator[Sequence[Request]]:
        receives = [self.comm.receive(source, rows) for source, rows in self._seen(self.x)]
        yield receives + [self.comm.send(target, rows) for target, rows in self._shown(self.own_x)]

    def return_dx(self) -> Collective | None:
        return None if self.drop else self.comm.collective(self._return())

    def _return(self) -> Iterator[Sequence[Request]]:
        shown = self._shown(self.own_dx)
        come = [np.empty_like(rows) for _, rows in shown]
        receives = [self.comm.receive(target, buffer) for (target, _), buffer in zip(shown, come, strict=True)]
        yield receives + [self.comm.send(source, rows) for source, rows in self._seen(self.dx)]
        for (_, rows), buffer in zip(shown, come, strict=True):
            rows += buffer


class MirrorLayer(DenseLayer):
    """Rows for the way forward, columns for the way back.

    Both are updated by the same products in the same order, so that no bit depends on the ranks. That takes twice the
    weights and needs no sum that crosses ranks.
    """

    def __init__(self, share: Share, activation: str, comm: Comm, engine: DenseEngine, drop: bool):
        super().__init__(share, activation, comm, engine, drop)
        self.mirror = engine.zeros(share.n_out, share.inputs[1] - share.inputs[0])

    def initialize(self, seed: int, index: int) -> None:
        super().initialize(seed, index)
        share = self.share
        bound = bound_for(self.activation, share.n_in, share.n_out)
        fill(self.mirror, seed, index, (0, share.n_out), (share.inputs,), bound)

    def take(self, weight: np.ndarray, bias: np.ndarray, held: Sequence[np.ndarray]) -> None:
        super().take(weight, bias, held)
        held[1][...] = weight[:, slice(*self.share.inputs)]

    def parameters(self) -> list[np.ndarray]:
        return [self.weight, self.mirror, self.bias]

    def _bind(self, samples: int) -> tuple:
        share, dtype = self.share, self.engine.dtype
        (first, last), (begin, end) = share.inputs, share.outputs
        x, all_dz = np.zeros((share.n_in, samples), dtype), np.zeros((share.n_out, samples), dtype)
        z, dx = np.zeros((end - begin, samples), dtype), np.zeros((share.n_in, samples), dtype)
        own_x, own_dx = x[first:last], dx[first:last]
        ahead = self.engine.dense(self.weight, self.bias, x, z, all_dz[begin:end], dx)
        back = self.engine.dense(self.mirror, None, own_x, np.zeros_like(all_dz), all_dz, own_dx)
        return x, z, all_dz, dx, (ahead, back)

    def bind(self, samples: int) -> None:
        super().bind(samples)
        self.dense, self.back = self.dense
        begin, end = self.share.outputs
        self.own_dz = self.dz[begin:end]

    def forward(self) -> None:
        self.comm.allgather(self.x, self.share.bounds_in).wait()
        self.dense.forward()

    def gather_dz(self) -> None:
        self.comm.allgather(self.dz, self.share.bounds_out).wait()

    def input_gradient(self) -> None:
        self.back.input_gradient()

    def one_pass(self, rate: float, first: bool) -> None:
        self.back.backward(-rate)
        self.dense.accumulate(self.weight, -rate, 0, len(self.weight))
        self.bias -= rate * self.own_dz[:, 0]

    def matrices(self) -> list[tuple[np.ndarray, Any]]:
        return [(self.weight, self.dense), (self.mirror, self.back)]


LAYERS = {"whole": DenseLayer, "column": ColumnLayer, "row": RowLayer, "ghost": GhostLayer, "mirror": MirrorLayer}


def mixed(counter: np.ndarray) -> np.ndarray:
    """64 random bits for each uint64 counter: a generator that needs no state, so a rank makes only its own weights.

    The counter is a weight's place in the whole network, mixed by the finalizer of SplitMix64 (Steele, Lea and Flood,
    2014), which passes BigCrush on counters.
    """
    z = (counter + np.uint64(1)) * GAMMA
    z = (z ^ (z >> np.uint64(30))) * MIX1
    z = (z ^ (z >> np.uint64(27))) * MIX2
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, layer: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A float64 in [-1, 1) for every pair of ``rows`` and ``columns``, whose numbers are below 2**32."""
    stream = mixed(mixed(np.array([seed % 2**64], np.uint64)) + np.uint64(layer))
    counter = (rows.astype(np.uint64)[:, None] << np.uint64(32)) | columns.astype(np.uint64)[None, :]
    bits = mixed(counter ^ stream)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def fill(
    weight: np.ndarray, seed: int, layer: int, rows: tuple[int, int], columns: Sequence[tuple[int, int]], bound: float
) -> None:
    """Sets ``weight`` to the rows and column ranges of the whole matrix, uniform in [-bound, bound)."""
    numbers = np.concatenate([np.arange(begin, end) for begin, end in columns])
    step = max(1, FILLED // max(1, len(numbers)))
    for row in range(*rows, step):
        some = np.arange(row, min(row + step, rows[1]))
        weight[some[0] - rows[0] : some[-1] + 1 - rows[0]] = bound * uniform(seed, layer, some, numbers)


def bound_for(activation: str, n_in: int, n_out: int) -> float:
    """The bound of the weights: He (2015) before a ReLU, else Glorot and Bengio (2010). Sizes are the whole layer's."""
    return sqrt(6 / n_in) if activation == "relu" else sqrt(6 / (n_in + n_out))
