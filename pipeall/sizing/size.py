"""``pipeall.cost``: what a network costs, from a file, a graph or a torch module."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from ..arguments import checked, number, one_of, whole
from ..errors import ArgumentError
from ..graph.ir import Graph
from . import onnx_shapes
from .count import Cost, network_cost
from .exports import with_batch, with_doubts
from .residence import MAX_BATCH, SHARE, largest_batch, needs_of
from .size_network import Network, of_graph
from .training import OPTIMIZERS, Memory, memory_function, saved_bytes, space


class TorchModule(Protocol):
    """The part of a ``torch.nn.Module`` that is used here, so that types need no torch."""

    training: bool

    def parameters(self, recurse: bool = ...) -> Iterator[Any]: ...


class TorchTensor(Protocol):
    """The part of a ``torch.Tensor`` that is used here."""

    shape: Sequence[int]
    dtype: Any


@dataclass(frozen=True)
class Size:
    """What a network costs. Bytes are of float32, and of one sample where there is no batch.

    Attributes
    ----------
    network : Network
        Its layers and shapes.
    """

    network: Network

    @cached_property
    def total(self) -> Cost:
        """All layers together: parameters, multiply-accumulates, other operations, bytes of weights and activations."""
        return network_cost(self.network)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on these figures, such as BatchNorm that the file lacks."""
        return self.network.notes

    @property
    def saved_bytes(self) -> int:
        """Bytes of each sample that autograd keeps for the backward pass."""
        return saved_bytes(self.network)[0]

    @checked(batch=whole(1, MAX_BATCH), optimizer=one_of(*OPTIMIZERS))
    def memory(self, batch: int, optimizer: str = "momentum") -> Memory:
        """Bytes of a training step.

        Parameters
        ----------
        batch
            Samples of the step.
        optimizer
            sgd, momentum or adam.

        Raises
        ------
        ArgumentError
            For arguments out of range.
        """
        return memory_function(self.network, optimizer)(batch)

    @checked(memory=number(0), optimizer=one_of(*OPTIMIZERS), share=number(0, 1, above=True))
    def largest_batch(self, memory: float, optimizer: str = "momentum", share: float = SHARE) -> int:
        """The largest batch that trains within a memory; 0 where not even one sample fits.

        Parameters
        ----------
        memory
            Bytes.
        optimizer
            sgd, momentum or adam.
        share
            The part of the memory that may be used.

        Raises
        ------
        ArgumentError
            For arguments out of range.
        """
        at, lecture = memory_function(self.network, optimizer), space(self.network)
        needs = needs_of(lambda size: at(size).total, lecture.model, lecture.data, on_gpu=False)
        return largest_batch(needs, {"cpu": memory}, share).batch


def cost(
    network: str | os.PathLike[str] | Graph | TorchModule,
    input_shape: Sequence[int] | TorchTensor | Mapping[str, Sequence[int] | TorchTensor] | None = None,
) -> Size:
    """What a network costs, before anything runs. Paper 004 defines the terms.

    A module is traced without numbers, in training mode, and is right to the byte in what autograd keeps. A file for
    inference may lack BatchNorm: see ``Size.notes``. A file of standard operators need not run here. A quantized file
    is loaded and sized as its graph.

    Parameters
    ----------
    network
        An ONNX file, a ``Graph`` or a ``torch.nn.Module``.
    input_shape
        Shape of the only input, batch first, or a dict of shapes by input. A module needs it, a graph has its own. For
        an input of a module that is not float32, such as a text's, a tensor of zeros stands for shape and type.

    Returns
    -------
    Size

    Raises
    ------
    ArgumentError
        For another type of network, and for shapes that do not fit.
    ModelError
        For a file that cannot be read.
    """
    if isinstance(network, Graph):
        if input_shape is not None:
            raise ArgumentError("input_shape: a Graph has shapes of its own, expected None")
        return Size(with_doubts(of_graph(network)))
    if isinstance(network, str | os.PathLike):
        return Size(with_doubts(onnx_shapes.read(os.fspath(network), input_shape)))
    torch = sys.modules.get("torch")  # a module exists only where it was imported
    if torch is None or not isinstance(network, torch.nn.Module):
        raise ArgumentError(f"network: expected a path, a Graph or a torch.nn.Module, got {type(network).__name__}")
    if input_shape is None:
        raise ArgumentError("input_shape: a torch module needs it, such as (1, 3, 224, 224)")
    from .module import of_module

    return Size(with_batch(of_module(network, input_shape)))
