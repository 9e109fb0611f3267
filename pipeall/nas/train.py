"""Training on PyTorch, the one file that imports it: stochastic gradient descent with momentum.

A result is a function of network, samples, hyperparameters and seed: torch runs on one thread here and in
deterministic mode, weights and the order of the samples come from NumPy's generators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import cos, pi
from typing import TYPE_CHECKING

import numpy as np

from ..errors import missing_extra
from .data import Samples
from .genome import SOURCE, Hyper
from .network import HEAD, WeightedNetwork

if TYPE_CHECKING:
    import torch

BATCH = 32
EVALUATED = 512  # samples that ``predict`` computes at a time
NEWTON_STEPS = 100  # of the quasi-Newton method that fits a linear model


def train(
    network: WeightedNetwork, fit: Samples, hyper: Hyper, seed: int, batch: int = BATCH
) -> tuple[WeightedNetwork, list[float]]:
    """The network after ``hyper.cycles`` passes over the samples, and the mean loss of each pass.

    The loss is cross-entropy, or half the squared error of a number. The rate falls from ``hyper.learning_rate`` to 0
    along a half cosine. A loss that is not finite ends the training; the network is then returned unchanged.
    Runs on torch's GPU where it has one. Raises MissingExtraError without torch.
    """
    with _torch() as (torch, device):
        x, y = (_laid_out(torch, array, device) for array in fit)
        weights = {
            index: tuple(_laid_out(torch, array, device).clone().requires_grad_() for array in layer)
            for index, layer in network.weights.items()
        }
        trained = [tensor for layer in weights.values() for tensor in layer]
        speed = [torch.zeros_like(tensor) for tensor in trained]
        random, losses = np.random.default_rng(seed), []
        steps = -(-len(fit) // batch)
        for cycle in range(hyper.cycles):
            order = torch.from_numpy(random.permutation(len(fit))).to(device)
            total = torch.zeros((), device=device)
            for step in range(steps):
                rate = hyper.learning_rate * (1 + cos(pi * (cycle * steps + step) / (hyper.cycles * steps))) / 2
                chosen = order[step * batch : (step + 1) * batch]
                loss = _loss(torch, network.classifies, _forward(torch, network, weights, x[chosen]), y[chosen])
                gradients = torch.autograd.grad(loss, trained, allow_unused=True)
                with torch.no_grad():
                    total += loss * len(chosen)
                    torch._foreach_mul_(speed, hyper.momentum)
                    torch._foreach_add_(
                        speed,
                        [g if g is not None else torch.zeros_like(t) for g, t in zip(gradients, trained, strict=True)],
                    )
                    torch._foreach_add_(trained, speed, alpha=-rate)
            losses.append(float(total) / len(fit))
            if not np.isfinite(losses[-1]):
                return network, losses
        done = {
            index: tuple(t.detach().cpu().contiguous().numpy().copy() for t in layer)
            for index, layer in weights.items()
        }
        return replace(network, weights=done), losses


def predict(network: WeightedNetwork, x: np.ndarray) -> np.ndarray:
    """Probabilities (samples, classes) of a classifier, predicted numbers (samples, 1) of another network."""
    with _torch() as (torch, device), torch.no_grad():
        weights = {
            index: tuple(_laid_out(torch, array, device) for array in layer) for index, layer in network.weights.items()
        }
        found = []
        for start in range(0, len(x), EVALUATED):
            some = _laid_out(torch, x[start : start + EVALUATED], device)
            output = _forward(torch, network, weights, some)
            if network.classifies:
                output = output.softmax(dim=1)
            found.append(output.cpu().numpy())
        return np.concatenate(found)


def linear(fit: Samples, others: Sequence[np.ndarray], outputs: int, penalty: float) -> list[np.ndarray]:
    """What logistic regression on ``fit`` gives for each of ``others``, as ``predict``; linear regression for numbers.

    Minimises the mean cross-entropy, or half the mean squared error, plus ``penalty / 2`` times the sum of the squared
    weights, by L-BFGS in double precision. Raises MissingExtraError without torch.
    """
    classifies = fit.y.dtype.kind == "i"
    with _torch() as (torch, _):
        x, y = torch.tensor(fit.x.reshape(len(fit), -1)).double(), torch.tensor(fit.y)
        weight, bias = torch.zeros(outputs, x.shape[1]).double(), torch.zeros(outputs).double()
        parts = [weight.requires_grad_(), bias.requires_grad_()]
        search = torch.optim.LBFGS(parts, max_iter=NEWTON_STEPS, history_size=20, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            search.zero_grad()
            value = _loss(torch, classifies, x @ weight.T + bias, y) + penalty / 2 * (weight**2).sum()
            value.backward()
            return value

        search.step(loss)
        with torch.no_grad():
            found = [torch.tensor(other.reshape(len(other), -1)).double() @ weight.T + bias for other in others]
            return [(value.softmax(dim=1) if classifies else value).numpy() for value in found]


def _laid_out(torch, array: np.ndarray, device: torch.device) -> torch.Tensor:
    """The array on the device. Pictures and filters have channels last: torch's CPU trains nearly twice as fast so."""
    tensor = torch.tensor(array, device=device)
    return tensor.contiguous(memory_format=torch.channels_last) if array.ndim == 4 else tensor


def _forward(torch, network: WeightedNetwork, weights: dict[int, tuple], x: torch.Tensor) -> torch.Tensor:
    """Logits of a classifier, numbers of another network."""
    functional = torch.nn.functional
    dense = network.architecture.kind == "dense"
    values = {SOURCE: x.flatten(1) if dense else x}
    for block in network.architecture.blocks:
        inputs = [values[index] for index in block.inputs]
        value = torch.cat(inputs, dim=1) if len(inputs) > 1 else inputs[0]
        weight, bias = weights[block.index]
        if dense:
            value = functional.linear(value, weight, bias).relu()
        else:
            value = functional.conv2d(value, weight, bias, padding=block.kernel // 2).relu()
            value = functional.max_pool2d(value, 2) if block.pool else value
        values[block.index] = value
    weight, bias = weights[HEAD]
    if not network.architecture.blocks:
        return bias.expand(len(x), -1)
    last = values[network.architecture.blocks[-1].index]
    return functional.linear(last if dense else last.mean(dim=(2, 3)), weight, bias)


def _loss(torch, classifies: bool, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if classifies:
        return torch.nn.functional.cross_entropy(output, y)
    return ((output[:, 0] - y) ** 2).mean() / 2


@contextmanager
def _torch() -> Iterator[tuple]:
    """torch, on one thread and deterministic, and the device to use. Afterwards torch's settings are as before."""
    try:
        import torch
    except ImportError:
        raise missing_extra("torch", "nas", "training a network") from None
    threads, deterministic = torch.get_num_threads(), torch.backends.cudnn.deterministic
    torch.set_num_threads(1)
    torch.backends.cudnn.deterministic = True
    try:
        yield torch, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    finally:
        torch.set_num_threads(threads)
        torch.backends.cudnn.deterministic = deterministic
