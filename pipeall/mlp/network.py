"""A multilayer perceptron with the vocabulary of paper 002: input, hidden and output layers, forward, loss, backward.

One object per rank holds that rank's slice of every layer. The same calls in the same order on every rank train the
network; on one rank nothing is sent and the network is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from ..errors import ArgumentError
from .comm import Comm
from .engines import engine_of
from .functions import ACTIVATIONS, OUTPUTS, SOFTMAX, Head
from .layer import LAYERS, DenseLayer, put_share
from .layout import Share, shares
from .rules import Change, Rule, clipped

quiet = np.errstate(over="ignore", invalid="ignore")  # sigmoids far below 0; a loss that is no number raises elsewhere
MAX_NEURONS = 2**24  # of a layer
BEST = "best"  # kept beside the weights: those of the least validation loss
GHOST_GRADIENTS = ("drop", "exchange")


class Perceptron:
    """A multilayer perceptron that every rank has a part of (paper 002).

    Parameters
    ----------
    loss
        "squared" or "cross-entropy".
    seed
        Of the initial weights. They are a function of their place in the whole network, not of the ranks.
    dtype
        "float32" or "float64".
    engine
        "pipeall": its own kernels, float32; "numpy"; "none": shapes only, to count messages.
    threads
        Of a rank.
    rule
        How gradients change weights.
    """

    def __init__(
        self,
        loss: str = "squared",
        seed: int = 0,
        dtype: str = "float32",
        engine: str = "pipeall",
        threads: int = 1,
        rule: Rule | None = None,
    ):
        self.loss_name, self.seed, self.engine = loss, seed, engine_of(engine, dtype, threads)
        self.rule = rule or Rule()
        self.steps = 0  # done since the initial weights
        self.sizes: list[int] = []
        self.activations: list[str] = []  # behind each layer but the input
        self.layers: list[DenseLayer] = []
        self._complete = False  # has an output layer
        self._samples = 0

    # ---- building

    def add_layer(self, kind: str, neurons: int, activation: str = "sigmoid") -> None:
        """Adds a layer behind the last one.

        Parameters
        ----------
        kind
            "input", "hidden" or "output".
        activation
            sigmoid, tanh or relu; the output's also linear or softmax.

        Raises
        ------
        ArgumentError
            For a layer out of order, and for arguments out of range.
        """
        expected = ("hidden", "output") if self.sizes else ("input",)
        if self._complete:
            raise ArgumentError(f"add_layer: expected no layer behind the output, got {kind!r}")
        if kind not in expected:
            raise ArgumentError(f"add_layer: expected {' or '.join(expected)}, got {kind!r}")
        if not 1 <= neurons <= MAX_NEURONS:
            raise ArgumentError(f"add_layer: expected 1 to {MAX_NEURONS} neurons, got {neurons}")
        allowed = (*OUTPUTS, SOFTMAX) if kind == "output" else tuple(ACTIVATIONS)
        if activation not in allowed:
            raise ArgumentError(f"activation of {kind}: expected one of {', '.join(allowed)}; got {activation!r}")
        self.sizes.append(neurons)
        if kind != "input":
            self.activations.append(activation)
        self._complete = kind == "output"

    def add_layers(self, sizes: Sequence[int], activation: str = "sigmoid", output: str = "sigmoid") -> None:
        """Adds all layers, from the input to the output, of so many neurons each. Raises as ``add_layer``."""
        first, *hidden, last = sizes
        self.add_layer("input", first)
        for neurons in hidden:
            self.add_layer("hidden", neurons, activation)
        self.add_layer("output", last, output)

    def initialize(
        self,
        comm: Comm | None = None,
        mode: str = "full",
        ghost_width: int = 1,
        ghost_gradient: str = "drop",
        master: bool = False,
        bit_equal: bool = False,
    ) -> None:
        """Makes this rank's weights.

        Parameters
        ----------
        comm
            The ranks; None: one process.
        mode
            "full": exactly the serial network. "ghost": only neurons at the borders of the ranks travel, so the
            function depends on the ranks (paper 002).
        ghost_width
            Neurons at each border that travel.
        ghost_gradient
            "drop": the gradient of a ghost is dropped, as in the paper; "exchange": it returns to its rank.
        master
            Rank 0 holds no neurons, as in the paper.
        bit_equal
            In full mode every bit equals the serial network's, for twice the weights (``MirrorLayer``); float32.

        Raises
        ------
        ArgumentError
            For a network without an output layer, and for options that do not go together.
        """
        if not self._complete:
            raise ArgumentError("initialize: expected an input layer, any hidden ones and an output layer")
        if ghost_gradient not in GHOST_GRADIENTS:
            raise ArgumentError(f"ghost_gradient: expected drop or exchange, got {ghost_gradient!r}")
        if bit_equal and self.engine.name == "numpy":
            raise ArgumentError("bit_equal: expected engine pipeall, whose sums do not depend on the slice; got numpy")
        self.comm = comm or Comm()
        self.mode, self.ghost_width, self.ghost_gradient = mode, ghost_width, ghost_gradient
        self.master, self.bit_equal = master, bit_equal
        rank, ranks = self.comm.rank, self.comm.size
        held = shares(self.sizes, rank, ranks, mode, ghost_width, master, bit_equal)
        whole = bit_equal or master
        self.head = Head(self.activations[-1], self.loss_name, self.comm, held[-1].bounds_out, whole)
        drop = ghost_gradient == "drop"
        self.layers = []
        for index, (share, activation) in enumerate(zip(held, self.activations, strict=True)):
            layer = LAYERS[share.kind](share, activation, self.comm, self.engine, drop)
            if self.engine.name != "none":
                layer.initialize(self.seed, index)
            self.layers.append(layer)
        self._samples = 0

    # ---- one iteration

    @quiet
    def forward(self, x: np.ndarray) -> np.ndarray:
        """Computes the outputs of all layers (paper 002, equations 1 to 3).

        Parameters
        ----------
        x
            (samples, inputs), the same on all ranks.

        Returns
        -------
        numpy.ndarray
            (neurons, samples): outputs of this rank's neurons.

        Raises
        ------
        ArgumentError
            For another shape.
        """
        if x.ndim != 2 or x.shape[1] != self.sizes[0] or not len(x):
            raise ArgumentError(f"input: expected (samples, {self.sizes[0]}), got {x.shape}")
        if len(x) != self._samples:
            self._samples = len(x)
            for layer in self.layers:
                layer.bind(self._samples)
        self.layers[0].x[...] = x.T
        for layer, after in zip(self.layers, self.layers[1:], strict=False):
            layer.forward()
            ACTIVATIONS[layer.activation].apply(layer.own_z, after.own_x)
        self.layers[-1].forward()
        self.y = self.head.outputs(self.layers[-1].own_z)
        return self.y

    @quiet
    def loss(self, target: np.ndarray) -> float:
        """The mean loss of the last ``forward`` over the samples (paper 002, equation 4), the same on all ranks.

        Parameters
        ----------
        target
            (samples, outputs).

        Raises
        ------
        ArgumentError
            For another shape.
        """
        return float(self.comm.allreduce(np.array([self.head.loss(self.y, self._target(target))]))[0])

    @quiet
    def backward(self) -> None:
        """Gradients of the mean loss against the target that ``loss`` was given last (paper 002, equations 5 to 8)."""
        self._backward(None)

    @quiet
    def update(self, rate: float, momentum: float | None = None) -> None:
        """Changes the weights by the gradients of the last ``backward`` (paper 002, equation 9, or as the rule says).

        Parameters
        ----------
        rate
            Learning rate.
        momentum
            In place of the rule's.
        """
        change = self._change(rate, momentum)
        if change.rule.clip is not None:
            change = change._replace(scale=clipped(self.gradient_norm(), change.rule.clip))
        for layer in self.layers:
            layer.update(change, None)
        self.steps = change.number

    @quiet
    def step(self, x: np.ndarray, target: np.ndarray, rate: float, momentum: float | None = None) -> float:
        """A whole iteration. The exchange of a layer runs under the update of its weights; not where gradients are
        clipped, whose norm is known behind the last exchange.

        Parameters
        ----------
        x, target
            (samples, inputs) and (samples, outputs), the same on all ranks.
        rate
            Learning rate.
        momentum
            In place of the rule's.

        Returns
        -------
        float
            This rank's share of the mean loss before the iteration: the shares of the ranks add up to the loss.

        Raises
        ------
        ArgumentError
            For other shapes.
        """
        self.forward.__wrapped__(self, x)
        loss = self.head.loss(self.y, self._target(target))
        change = self._change(rate, momentum)
        if change.rule.clip is None:
            self._backward(change)
            self.steps = change.number
        else:
            self._backward(None)
            self.update.__wrapped__(self, rate, momentum)
        return loss

    def gradient_norm(self) -> float:
        """Of the gradients of the last ``backward``, weights and biases together, on every rank the same.

        In the bit-equal mode each neuron's part is gathered, so that they add up in one order on any ranks.
        """
        parts = [layer.squares() for layer in self.layers]
        if not self.bit_equal:
            return sqrt(self.comm.allreduce(np.array([sum(part.sum() for part in parts)]))[0])
        total = 0.0
        for layer, part in zip(self.layers, parts, strict=True):
            whole = np.empty(layer.share.n_out)
            whole[slice(*layer.share.outputs)] = part
            self.comm.allgather(whole, layer.share.bounds_out).wait()
            total += float(whole.sum())
        return sqrt(total)

    def _change(self, rate: float, momentum: float | None) -> Change:
        rule = self.rule if momentum is None else replace(self.rule, momentum=momentum)
        return Change(rule, rate, 1.0, self.steps + 1)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Outputs (samples, outputs) for ``x`` (samples, inputs), whole on every rank."""
        y = self.forward(x)
        if self.comm.size > 1 and not self.head.whole:
            gathered = np.empty((self.sizes[-1], len(x)), y.dtype)
            gathered[self.head.begin : self.head.end] = y
            self.comm.allgather(gathered, self.head.bounds).wait()
            y = gathered
        return y.T

    def _target(self, target: np.ndarray) -> np.ndarray:
        if target.shape != (self._samples, self.sizes[-1]):
            raise ArgumentError(f"target: expected {(self._samples, self.sizes[-1])}, got {target.shape}")
        self._t = self.head.target(target.T)
        return self._t

    def _backward(self, change: Change | None) -> None:
        layers = self.layers
        self.head.gradient(self.y, self._t, layers[-1].own_dz)
        for index in range(len(layers) - 1, -1, -1):
            layers[index].backward(change, index == 0)
            if index:
                before = layers[index - 1]
                back = ACTIVATIONS[before.activation].back
                back(layers[index].own_x, layers[index].own_dx, before.own_dz)

    # ---- the whole network

    def shares_of(self, rank: int) -> list[Share]:
        """What a rank holds of each layer."""
        return shares(self.sizes, rank, self.comm.size, self.mode, self.ghost_width, self.master, self.bit_equal)

    def gather(self, kept: str | None = None) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """(weights (n_out, n_in), biases) of each layer on rank 0, None elsewhere; 0 where ghost mode has none.

        ``kept``: what is kept of that name beside the weights, in their place.
        """
        held = [layer.parameters() if kept is None else layer.keep(kept) for layer in self.layers]
        held = [(arrays[0], arrays[-1]) for arrays in held]
        if self.comm.rank:
            for array in (array for pair in held for array in pair if array.size):
                self.comm.send(0, array).wait()
            return None
        ranks = [self.shares_of(rank) for rank in range(self.comm.size)]
        whole = []
        for index, pair in enumerate(held):
            weight = np.zeros((self.sizes[index + 1], self.sizes[index]), self.engine.dtype)
            bias = np.zeros(self.sizes[index + 1], self.engine.dtype)
            for rank, shares_of_rank in enumerate(ranks):
                share = shares_of_rank[index]
                own, own_bias = self._receive_share(rank, share) if rank else pair
                put_share(own, weight, share)
                bias[slice(*share.outputs)] = own_bias
            whole.append((weight, bias))
        return whole

    def _receive_share(self, rank: int, share: Share) -> tuple[np.ndarray, np.ndarray]:
        """The weights and biases that another rank holds of a layer, as it sends them."""
        weight = np.empty(share.shape, self.engine.dtype)
        bias = np.empty(share.outputs[1] - share.outputs[0], self.engine.dtype)
        for array in (weight, bias):
            if array.size:
                self.comm.receive(rank, array).wait()
        return weight, bias

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of what is kept beside the weights, the same on every rank."""
        return tuple(self.layers[0].kept)

    def set_weights(self, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Sets this rank's part of the weights and biases of the whole network; the rule starts anew."""
        for layer, (weight, bias) in zip(self.layers, layers, strict=True):
            layer.set_weights(weight, bias)
            layer.kept.clear()
        self.steps = 0

    def keep_best(self) -> None:
        """Keeps the weights as they are now, for ``take_best``."""
        for layer in self.layers:
            for kept, array in zip(layer.keep(BEST), layer.parameters(), strict=True):
                kept[...] = array

    def take_best(self) -> None:
        """Sets the weights to those of the last ``keep_best``."""
        for layer in self.layers:
            for kept, array in zip(layer.keep(BEST), layer.parameters(), strict=True):
                array[...] = kept

    def set_kept(self, name: str, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Sets this rank's part of what is kept of that name, as ``gather`` gives it."""
        for layer, (weight, bias) in zip(self.layers, layers, strict=True):
            layer.take(weight, bias, layer.keep(name))
