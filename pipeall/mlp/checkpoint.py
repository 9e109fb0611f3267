"""A network in training on disk: whole weights, so that it goes on, on any number of ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import read_npz
from ..errors import ArgumentError
from ..files import write_whole
from .network import Perceptron

FORMAT = "pipeall.mlp/1"


def about(net: Perceptron) -> dict[str, Any]:
    """What a checkpoint and its network must agree on. With other ranks a ghost network is another function."""
    facts = {"sizes": net.sizes, "activations": net.activations, "loss": net.loss_name, "dtype": net.engine.dtype.name}
    if net.mode == "ghost":
        workers = net.comm.size - int(net.master)
        facts |= {"mode": "ghost", "ghost_width": net.ghost_width, "workers": workers}
    return facts


def save(path: str | Path, net: Perceptron, epoch: int) -> None:
    """Writes the network after ``epoch`` epochs; called by every rank. Raises on all if rank 0 cannot."""
    layers, failure = net.gather(), None
    if layers is not None:
        meta = json.dumps({"format": FORMAT, **about(net), "epoch": epoch})
        arrays = {f"{name}{i}": array for i, pair in enumerate(layers) for name, array in zip("wb", pair, strict=True)}
        try:
            write_whole(path, lambda file: np.savez(file, meta=np.array(meta), **arrays))
        except ArgumentError as error:
            failure = error
    net.comm.agree(failure)


def load(path: str | Path, net: Perceptron) -> int:
    """Takes this rank's part of a checkpoint and gives its epoch. Raises ArgumentError naming file and entry."""
    arrays = read_npz(Path(path))
    try:
        meta = json.loads(str(arrays["meta"]))
        found, epoch = meta["format"], int(meta["epoch"])
    except (KeyError, TypeError, ValueError):
        raise ArgumentError(f"{path}: expected a checkpoint of format {FORMAT!r}") from None
    if found != FORMAT:
        raise ArgumentError(f"{path}: expected format {FORMAT!r}, got {found!r}")
    expected = about(net)
    for key in dict.fromkeys((*expected, *(set(meta) - {"format", "epoch"}))):
        if meta.get(key) != expected.get(key):
            raise ArgumentError(f"{path}: {key}: the network has {expected.get(key)}, the checkpoint {meta.get(key)}")
    layers = []
    for i, (a, b) in enumerate(zip(net.sizes, net.sizes[1:], strict=False)):
        weight, bias = arrays.get(f"w{i}"), arrays.get(f"b{i}")
        if weight is None or bias is None or weight.shape != (b, a) or bias.shape != (b,) or weight.dtype.kind != "f":
            raise ArgumentError(f"{path}: expected weights {(b, a)} and biases {(b,)} of layer {i}")
        layers.append((weight, bias))
    net.set_weights(layers)
    return epoch
