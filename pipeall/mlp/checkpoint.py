"""A training on disk: whole weights and what its rule keeps of them, seed and step, so that it goes on as if it had not
been interrupted, on any number of ranks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import read_npz
from ..errors import ArgumentError
from ..files import shown, write_whole
from .network import BEST, Perceptron

FORMAT = "pipeall.mlp/2"
OLD = "pipeall.mlp/1"  # had weights alone


@dataclass(frozen=True)
class Progress:
    """How far a training came: epochs done; the least validation loss, and the epoch that had it."""

    epoch: int = 0
    best: float | None = None
    best_epoch: int = 0


OF_PROGRESS = {"format", "steps", "kept", *(field.name for field in fields(Progress))}
MAX_COUNT = 2**53


def about(net: Perceptron) -> dict[str, Any]:
    """What a checkpoint and its network must agree on. With other ranks a ghost network is another function."""
    facts = {"sizes": net.sizes, "activations": net.activations, "loss": net.loss_name, "dtype": net.engine.dtype.name}
    facts |= {"seed": net.seed, "rule": net.rule.name}
    if net.mode == "ghost":
        workers = net.comm.size - int(net.master)
        facts |= {"mode": "ghost", "ghost_width": net.ghost_width, "workers": workers}
    return facts


def save(path: str | Path, net: Perceptron, progress: Progress) -> None:
    """Writes network and progress; called by every rank. Raises on all if rank 0 cannot."""
    groups = {"": net.gather(), **{f"{name}.": net.gather(name) for name in net.kept}}
    failure = None
    if net.comm.rank == 0:
        meta = json.dumps({"format": FORMAT, **about(net), **asdict(progress), "steps": net.steps, "kept": net.kept})
        arrays = {
            f"{prefix}{letter}{i}": array
            for prefix, layers in groups.items()
            for i, pair in enumerate(layers or ())
            for letter, array in zip("wb", pair, strict=True)
        }
        try:
            write_whole(path, lambda file: np.savez(file, meta=np.array(meta), **arrays))
        except ArgumentError as error:
            failure = error
    net.comm.agree(failure)


def load(path: str | Path, net: Perceptron) -> Progress:
    """Takes this rank's part of a checkpoint and gives its progress. Raises ArgumentError naming file and entry."""
    arrays = read_npz(Path(path))
    try:
        meta = json.loads(str(arrays["meta"]))
        file_format = meta["format"]
        if file_format == OLD:
            raise ArgumentError(f"{path}: format {OLD!r} has neither seed nor step nor momentum; train anew")
        epoch, steps, best, best_epoch = (meta[key] for key in ("epoch", "steps", "best", "best_epoch"))
        kept = [str(name) for name in meta["kept"]]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{path}: expected a checkpoint of format {FORMAT!r}") from None
    if file_format != FORMAT:
        raise ArgumentError(f"{path}: expected format {FORMAT!r}, got {shown(file_format)}")
    expected = about(net)
    for key in dict.fromkeys((*expected, *(set(meta) - OF_PROGRESS))):
        if meta.get(key) != expected.get(key):
            raise ArgumentError(f"{path}: {key}: the network has {expected.get(key)}, the checkpoint {meta.get(key)}")
    if not all(type(count) is int and 0 <= count < MAX_COUNT for count in (epoch, steps, best_epoch)):
        raise ArgumentError(f"{path}: epoch, steps, best_epoch: expected numbers of at least 0")
    if best is not None and not (isinstance(best, float) and isfinite(best)):
        raise ArgumentError(f"{path}: best: expected a finite number, got {shown(best)}")
    wanted = {*net.rule.kept, BEST} & set(kept)
    missing = set(net.rule.kept) - wanted if net.rule.name != "sgd" else set()
    if missing or (best is not None and BEST not in wanted):
        raise ArgumentError(f"{path}: kept: expected {', '.join(sorted(missing or {BEST}))}")
    net.set_weights(_layers(path, arrays, net, ""))
    for name in sorted(wanted):
        net.set_kept(name, _layers(path, arrays, net, f"{name}."))
    net.steps = steps
    return Progress(epoch, best, best_epoch)


def _layers(
    path: str | Path, arrays: dict[str, np.ndarray], net: Perceptron, prefix: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    layers = []
    for i, (a, b) in enumerate(zip(net.sizes, net.sizes[1:], strict=False)):
        weight, bias = (arrays.get(f"{prefix}{letter}{i}") for letter in "wb")
        if weight is None or bias is None or weight.shape != (b, a) or bias.shape != (b,) or weight.dtype.kind != "f":
            raise ArgumentError(f"{path}: expected {prefix}weights {(b, a)} and biases {(b,)} of layer {i}")
        layers.append((weight, bias))
    return layers
