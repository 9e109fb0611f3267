"""Weights that pruning left, trained by torch: the pruned network learns what the dense one computes.

No labels: the loss is the relative square error of the answers and of the pruned layers' outputs. What is zero stays
zero. Adam's steps are a share of the mean weight of their tensor, and become shorter to the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import cos, pi
from time import monotonic

import numpy as np

from ..errors import ModelError
from ..graph.ir import Graph, Node
from ..progress import Progress, silent
from ..quantization.calibrate import Arrays, outputs_of, with_logits
from ..quantization.quantizable import logits
from .moments import ahead_of
from .torch_graph import computed, constants_of, torch

BATCH, VALUES = 32, 4_000_000  # samples of a batch at most; what networks read of them at most
RATE = 0.005  # of a tensor's root mean square, a step at the beginning
NEAR = 1e-3  # relative error of torch's answers beside the engine's, at most


def fine_tuned(
    dense: Graph, pruned: Graph, nodes: Sequence[Node], samples: Iterator[Arrays], minutes: float, progress: Progress
) -> Graph:
    """The pruned network after so many minutes. ``nodes``: the pruned layers.

    Raises ModelError for a network that torch does not compute as the engine does.
    """
    answers = list(logits(dense))
    watched = list(dict.fromkeys((*answers, *(node.output for node in nodes))))
    teacher, student = (ahead_of(with_logits(graph), watched) for graph in (dense, pruned))
    fixed, weights = constants_of(teacher), constants_of(student)
    trained = {
        name: weights[name].requires_grad_()
        for node in student.nodes
        if node.op in ("conv", "fc")
        for name in node.inputs[1:3]
        if name in weights
    }
    masks = {name: tensor.detach() != 0 for name, tensor in trained.items() if tensor.ndim > 1}
    means = [float(tensor.detach().square().mean().sqrt()) or 1.0 for tensor in trained.values()]
    adam = torch.optim.Adam([{"params": [tensor]} for tensor in trained.values()])
    size = max(1, min(BATCH, VALUES // sum(tensor.elements for tensor in dense.inputs)))
    begin, seconds, first = monotonic(), 60 * minutes, True
    while (spent := monotonic() - begin) < seconds:
        progress("fine-tuning, seconds", int(spent), int(seconds))
        batch = list(islice(samples, size))
        inputs = {name: torch.from_numpy(np.concatenate([sample[name] for sample in batch])) for name in batch[0]}
        with torch.no_grad():
            wanted = computed(teacher, fixed, inputs)
        if first:
            _check(teacher, batch, wanted, answers)
            first = False
        for group, mean in zip(adam.param_groups, means, strict=True):
            group["lr"] = RATE * mean * 0.5 * (1 + cos(pi * spent / seconds))
        adam.zero_grad()
        made = computed(student, weights, inputs)
        sum(_error(made[name], wanted[name]) * (len(watched) if name in answers else 1) for name in watched).backward()
        adam.step()
        with torch.no_grad():
            for name, mask in masks.items():
                trained[name] *= mask
    progress("fine-tuning, seconds", int(seconds), int(seconds))
    return replace(pruned, constants={**pruned.constants, **{k: v.detach().numpy() for k, v in trained.items()}})


def _error(made: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return (made - wanted).square().mean() / wanted.square().mean().clamp_min(1e-12)


def _check(graph: Graph, batch: list[Arrays], wanted: dict[str, torch.Tensor], answers: Sequence[str]) -> None:
    for place, outputs in enumerate(outputs_of(graph, batch, "", silent)):
        for name in answers:
            made, expected = wanted[name][place].numpy(), outputs[name][0]
            off = float(np.abs(made - expected).max() / max(np.abs(expected).max(), 1e-12))
            if off > NEAR:
                raise ModelError(f"{graph.name}: {name}: torch differs by {off:.2g}: it cannot be fine-tuned")
