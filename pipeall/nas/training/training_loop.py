"""Training on PyTorch, the one file that imports it: stochastic gradient descent with momentum.

A result is a function of network, samples, hyperparameters and seed: torch runs on one thread here and in
deterministic mode, weights and the order of the samples come from NumPy's generators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import cos, pi
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from ...errors import missing_extra
from ..datasets import Samples
from ..spaces.genome import SOURCE, Convolution, Hyper
from . import detection
from .augment import TrainingRecipe
from .weighted_network import HEAD, NORM_EPSILON, WeightedNetwork

if TYPE_CHECKING:
    import torch

CPUINFO = Path("/proc/cpuinfo")

Tensors: TypeAlias = "dict[int, list[torch.Tensor]]"  # the arrays of a network's layers

# of the share of a training that is done, the network and its weights: networks that take parts of these
Shares: TypeAlias = "Callable[[float, WeightedNetwork, Tensors], list[tuple[WeightedNetwork, Tensors]]]"

PLAIN = TrainingRecipe()
TRAINED = 3  # arrays of a layer, the first ones; the others are the mean and variance of batch normalization
NORM_MOMENTUM = 0.1  # share of a batch in the running mean and variance
CALIBRATED = 512  # samples that batch normalization is set anew on
EVALUATED = 128  # samples that ``predict`` computes at a time; what all blocks give is kept meanwhile
NEWTON_STEPS = 100  # of the quasi-Newton method that fits a linear model
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # features of CPUs that compute in it, as /proc/cpuinfo names them


def train(
    network: WeightedNetwork,
    fit: Samples,
    hyper: Hyper,
    seed: int,
    recipe: TrainingRecipe = PLAIN,
    ends: Callable[[int, WeightedNetwork], bool] | None = None,
    shares: Shares | None = None,
) -> tuple[WeightedNetwork, list[float]]:
    """The network after ``hyper.cycles`` passes over the samples, and the mean loss of each pass.

    The loss is cross-entropy, half the squared error of a number, or that of boxes (``detection.loss``). The rate falls
    from ``hyper.learning_rate`` to 0 along a half cosine, unless the recipe says that it stays. A loss below
    ``recipe.until`` ends the training, and so does one that is not finite; the network is then returned unchanged.
    Batch normalization needs two samples: one that would be alone in the last step of a pass is left out of the pass.

    ends  called after each pass but the last with the number of passes and the network; training ends where it says so
    shares  the networks of a step, which have their weights in ``network``'s; the loss is the mean of theirs

    Runs on torch's GPU where it has one. Raises MissingExtraError without torch.
    """
    with _torch() as (torch, device):
        weights = _tensors(torch, device, network)
        trained = [tensor.requires_grad_() for layer in weights.values() for tensor in layer[:TRAINED]]
        speed = [torch.zeros_like(tensor) for tensor in trained]
        random, losses = np.random.default_rng(seed), []
        steps = -(-(len(fit) - any(len(layer) > TRAINED for layer in weights.values())) // recipe.batch)
        for cycle in range(hyper.cycles):
            order, total = random.permutation(len(fit)), torch.zeros((), device=device)
            for step in range(steps):
                done = (cycle * steps + step) / (hyper.cycles * steps)
                rate = hyper.learning_rate * (1.0 if recipe.steady else (1 + cos(pi * done)) / 2)
                batch = _batch(torch, device, fit, order[step * recipe.batch :][: recipe.batch], recipe, random)
                parts = shares(done, network, weights) if shares else [(network, weights)]
                loss = sum(_batch_loss(torch, *part, batch, recipe) for part in parts) / len(parts)
                gradients = torch.autograd.grad(loss, trained, allow_unused=True)
                with torch.no_grad():
                    total += loss * len(batch.x)
                    torch._foreach_mul_(speed, hyper.momentum)
                    torch._foreach_add_(
                        speed,
                        [_direction(g, t, recipe.decay) for g, t in zip(gradients, trained, strict=True)],
                    )
                    torch._foreach_add_(trained, speed, alpha=-rate)
            losses.append(float(total) / len(fit))
            if not np.isfinite(losses[-1]):
                return network, losses
            if losses[-1] < recipe.until:
                break
            if ends and cycle + 1 < hyper.cycles and ends(cycle + 1, _arrays(network, weights)):
                break
        return _arrays(network, weights), losses


def predict(network: WeightedNetwork, x: np.ndarray) -> np.ndarray:
    """Probabilities (samples, classes) of a classifier, predicted numbers (samples, 1), or ``detection.decoded``."""
    with _torch() as (torch, device), torch.no_grad():
        weights, outputs = _tensors(torch, device, network), []
        for start in range(0, len(x), EVALUATED):
            some = _laid_out(torch, x[start : start + EVALUATED], device)
            output = _forward(torch, network, weights, some)
            if network.classifies:
                output = output.softmax(dim=1)
            values = output.cpu().numpy()
            outputs.append(detection.decoded(values, network.shape[1:]) if network.targets == "boxes" else values)
        return np.concatenate(outputs)


def calibrated(network: WeightedNetwork, x: np.ndarray) -> WeightedNetwork:
    """The network with the mean and variance that batch normalization has on the first ``CALIBRATED`` of ``x``: means
    over batches of about ``EVALUATED``. Itself where nothing is normalized.

    Weights move on while a training takes its running mean and variance, most of all early on.
    """
    if all(len(layer) <= TRAINED for layer in network.weights.values()):
        return network
    x = x[:CALIBRATED]
    with _torch() as (torch, device), torch.no_grad():
        weights = _tensors(torch, device, network)
        for number, batch in enumerate(np.array_split(x, max(1, len(x) // EVALUATED)), 1):
            _forward(torch, network, weights, _laid_out(torch, batch, device), 1 / number)
        return _arrays(network, weights)


def gradients(network: WeightedNetwork, x: np.ndarray, y: np.ndarray | None = None) -> dict[int, np.ndarray]:
    """Index of a block, or HEAD -> the gradient of its weights: of the loss of a training step, or without targets of
    the sum of the outputs, with batch normalization as in predictions."""
    with _torch() as (torch, device):
        weights = _tensors(torch, device, network)
        matrices = [layer[0].requires_grad_() for layer in weights.values()]
        output = _forward(torch, network, weights, _laid_out(torch, x, device), None if y is None else NORM_MOMENTUM)
        targets = None if y is None else torch.tensor(y, device=device)
        value = output.sum() if targets is None else _loss_of(torch, network, output, targets)
        gradients = torch.autograd.grad(value, matrices, allow_unused=True, materialize_grads=True)
        return {index: gradient.cpu().numpy() for index, gradient in zip(weights, gradients, strict=True)}


def outputs_of_blocks(network: WeightedNetwork, x: np.ndarray, training: bool = True) -> list[np.ndarray]:
    """What each block gives; in a step of training batches are normalized by themselves."""
    with _torch() as (torch, device), torch.no_grad():
        values: dict[int, torch.Tensor] = {}
        momentum = NORM_MOMENTUM if training else None
        _forward(torch, network, _tensors(torch, device, network), _laid_out(torch, x, device), momentum, values)
        return [values[block.index].cpu().numpy() for block in network.architecture.blocks]


def linear(fit: Samples, others: Sequence[np.ndarray], outputs: int, penalty: float) -> list[np.ndarray]:
    """What logistic regression on ``fit`` gives for each of ``others``, as ``predict``; linear regression for numbers.

    Minimizes the mean cross-entropy, or half the mean squared error, plus ``penalty / 2`` times the sum of the squared
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
            values = [torch.tensor(other.reshape(len(other), -1)).double() @ weight.T + bias for other in others]
            return [(value.softmax(dim=1) if classifies else value).numpy() for value in values]


def device() -> str:
    """What trains here: CPU or GPU."""
    with _torch() as (_, device):
        return "CPU" if device.type == "cpu" else "GPU"


def has_bfloat16() -> bool:
    """Whether training in bfloat16 is fast here: on torch's GPU, or by instructions of the CPU."""
    with _torch() as (torch, device):
        if device.type == "cuda":
            return torch.cuda.is_bf16_supported(including_emulation=False)
        return bool(BFLOAT16 & set(CPUINFO.read_text().split()))


class _Batch(NamedTuple):
    """Samples of a step. mixed: the targets of those that they are mixed with; share: of themselves in the mixture."""

    x: torch.Tensor
    y: torch.Tensor
    mixed: torch.Tensor | None = None
    share: float = 1.0


def _batch(
    torch, device: torch.device, fit: Samples, chosen: np.ndarray, recipe: TrainingRecipe, random: np.random.Generator
) -> _Batch:
    x, y = fit.x[chosen], fit.y[chosen]
    if recipe.of_pictures:
        x = recipe.changed(x, random)
    mixing = recipe.mixing(len(x), random)
    x, y = _laid_out(torch, x, device), torch.tensor(y, device=device)
    if mixing is None:
        return _Batch(x, y)
    share, other = mixing
    return _Batch(share * x + (1 - share) * x[other], y, y[other], share)


def _batch_loss(
    torch, network: WeightedNetwork, weights: Tensors, batch: _Batch, recipe: TrainingRecipe
) -> torch.Tensor:
    with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=recipe.bfloat16):
        output = _forward(torch, network, weights, batch.x, NORM_MOMENTUM).float()
    loss = _loss_of(torch, network, output, batch.y, recipe.smoothing)
    if batch.mixed is None:
        return loss
    mixed = _loss_of(torch, network, output, batch.mixed, recipe.smoothing)
    return batch.share * loss + (1 - batch.share) * mixed


def _direction(gradient: torch.Tensor | None, tensor: torch.Tensor, decay: float) -> torch.Tensor:
    """The gradient, 0 where there is none, with the decay of a matrix or of filters."""
    if gradient is None:
        return tensor.new_zeros(tensor.shape)
    return gradient + decay * tensor if decay and tensor.ndim > 1 else gradient


def _tensors(torch, device: torch.device, network: WeightedNetwork) -> Tensors:
    return {index: [_laid_out(torch, array, device) for array in layer] for index, layer in network.weights.items()}


def _arrays(network: WeightedNetwork, weights: Tensors) -> WeightedNetwork:
    arrays = {
        index: tuple(tensor.detach().cpu().contiguous().numpy().copy() for tensor in layer)
        for index, layer in weights.items()
    }
    return replace(network, weights=arrays)


def _laid_out(torch, array: np.ndarray, device: torch.device) -> torch.Tensor:
    """A copy on the device. Pictures and filters have channels last: torch's CPU trains nearly twice as fast so."""
    tensor = torch.tensor(array, device=device)
    return tensor.contiguous(memory_format=torch.channels_last) if array.ndim == 4 else tensor


def _forward(
    torch,
    network: WeightedNetwork,
    weights: Tensors,
    x: torch.Tensor,
    momentum: float | None = None,
    values: dict[int, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Logits of a classifier, numbers of another network, maps (samples, outputs, rows, columns) of a detector.

    momentum  batches are normalized by themselves, as in training, and have this share in the running mean and variance
    values  gets what each block gives
    """
    functional = torch.nn.functional
    dense = network.architecture.kind == "dense"
    values = {} if values is None else values
    values[SOURCE] = x.flatten(1) if dense else x
    for block in network.architecture.blocks:
        inputs = [values[index] for index in block.inputs]
        value = torch.cat(inputs, dim=1) if len(inputs) > 1 else inputs[0]
        layer = weights[block.index]
        if isinstance(block, Convolution):
            value = _convolved(functional, block, layer, value, values, momentum)
        elif dense:
            value = functional.linear(value, *layer).relu()
        else:
            value = functional.conv2d(value, *layer, padding=block.kernel // 2).relu()
            value = functional.max_pool2d(value, 2) if block.pool else value
        values[block.index] = value
    weight, bias = weights[HEAD]
    if not network.architecture.blocks:
        return bias.expand(len(x), -1)
    last = values[network.architecture.blocks[-1].index]
    if network.targets == "boxes":
        return functional.conv2d(last, weight[..., None, None], bias)
    return functional.linear(last if dense else last.mean(dim=(2, 3)), weight, bias)


def _convolved(
    functional,
    block: Convolution,
    layer: list[torch.Tensor],
    x: torch.Tensor,
    values: Mapping[int, torch.Tensor],
    momentum: float | None,
) -> torch.Tensor:
    weight, bias, *norm = layer
    if block.side:
        x = functional.interpolate(x, size=(block.side, block.side), mode="bilinear", align_corners=False)
    if block.averaged:
        x = x.mean(dim=(2, 3), keepdim=True)
    stride, (before, after) = block.stride, block.pads
    if before != after:
        x = functional.pad(x, (before, after, before, after))
        before = 0
    if block.kernel == 1 and stride > 1:  # of few channels oneDNN's own steps write past its memory (its issue 6035)
        x, stride = x[:, :, ::stride, ::stride], 1
    x = functional.conv2d(x, weight, None if norm else bias, stride, before, groups=block.parts)
    if norm:
        factor, mean, variance = norm
        training = momentum is not None
        x = functional.batch_norm(x, mean, variance, factor, bias, training, momentum or 0.0, NORM_EPSILON)
    if block.added is not None:
        x = x + values[block.added]
    if block.activation != "none":
        x = x.relu() if block.activation == "relu" else functional.hardsigmoid(x)
    return x if block.factor is None else x * values[block.factor]


def _loss_of(
    torch, network: WeightedNetwork, output: torch.Tensor, y: torch.Tensor, smoothing: float = 0.0
) -> torch.Tensor:
    if network.targets == "boxes":
        return detection.loss(torch, output, y, network.shape[1:])
    return _loss(torch, network.classifies, output, y, smoothing)


def _loss(torch, classifies: bool, output: torch.Tensor, y: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    if classifies:
        return torch.nn.functional.cross_entropy(output, y, label_smoothing=smoothing)
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
