"""Pruning: blocks of a network's 1x1 convolutions become zeros, which the CPU's sparse GEMM leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import a, checked, function, gone_through, number, optional
from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph, Node
from ..graph.onnx.read.given import network
from ..graph.onnx.read.source import ModelSource
from ..graph.onnx.write.write import save_onnx, unwritable
from ..picture import Picture
from ..pipeline.boards.board import Board
from ..pipeline.lease import leased
from ..progress import Progress, silent
from ..quantization.calibrate import Arrays, outputs_of, samples_of, with_logits
from ..quantization.calibration_run import Reference
from ..quantization.compare import agreement_of
from ..quantization.sensitivity import frame_times
from ..tasks import Task
from .blocks import layers_of, matrix_of, removal, with_matrices
from .moments import moments_of
from .picture_parts import crops
from .refit import is_fitted, refitted
from .shares import zeros_of

ENOUGH = 128  # samples by which blocks are chosen; parts of pictures where there are fewer
KEPT, LARGE = 256, 4  # pictures that parts are taken of; pixels of their sides, by those of the network's input
SENSED = 16  # samples by which layers are compared
APART = 8  # one of so many given samples is kept from the choice of blocks, to judge layers by; of few none


@dataclass(frozen=True)
class PrunedLayer:
    """What a layer lost.

    Attributes
    ----------
    name, op : str
    weights : int
    zeros : float
        Share of them.
    """

    name: str
    op: str
    weights: int
    zeros: float


@dataclass(frozen=True)
class PruneReport:
    """What became of a network.

    Attributes
    ----------
    network : str
    layers : tuple of PrunedLayer
    zeros : float
        Share of the weights of these layers.
    error : float
        Of the outputs on the samples, relative: root mean square.
    agreement : float or None
        Share of classes, boxes or pixels that are the same on the samples; None for other networks.
    agreement_of : str or None
        classes, boxes or pixels.
    samples : int
    dense_ms, pruned_ms : float
        Of a frame on the first CPU, all its cores; medians.
    """

    network: str
    layers: tuple[PrunedLayer, ...]
    zeros: float
    error: float
    agreement: float | None
    agreement_of: str | None
    samples: int
    dense_ms: float
    pruned_ms: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Pruned:
    """A pruned network.

    Attributes
    ----------
    graph : Graph
    report : PruneReport
    """

    graph: Graph
    report: PruneReport

    def save(self, path: str | Path) -> None:
        """Writes an ONNX file. Raises ArgumentError where that cannot be written."""
        save_onnx(self.graph, path)


@checked(
    model=network,
    samples=gone_through,
    sparsity=number(0.01, 0.99),
    input=optional(a(Picture, "a pipeall.Picture")),
    task=optional(a(Task, "what pipeall.tasks.task gives")),
    fine_tune=optional(number(0, above=True)),
    progress=optional(function),
)
def prune(
    model: Graph | ModelSource,
    samples: Iterable[np.ndarray | Mapping[str, np.ndarray]],
    *,
    sparsity: float = 0.7,
    input: Picture | None = None,
    task: Task | None = None,
    fine_tune: float | None = None,
    progress: Progress | None = None,
) -> Pruned:
    """Makes blocks of zeros in the weights of 1x1 convolutions and of products of several rows.

    A block is one input channel of eight filters. The weights that are left, and those of layers between, are fitted
    layer by layer to what the dense network gives behind its activations for the samples.

    Parameters
    ----------
    model
        The network, or the file that it is read from, as for ``load``.
    samples
        What the network will see, a hundred or more: as for ``quantize``. Of fewer pictures parts are taken too.
    sparsity
        Share of these layers' weights that become zeros, and of their multiply-adds that are left out.
    input
        How the network wants pictures, such as ``Model.picture``.
    task
        What the outputs mean, as ``pipeall.tasks.task`` gives it. None: as recognized.
    fine_tune
        Minutes in which torch trains the weights that are left, to answer as the dense network does. Labels are not
        needed. None: no training.
    progress
        Called with what is done, how much of it, and of how much.

    Returns
    -------
    Pruned

    Raises
    ------
    ArgumentError
        Without samples, for samples that do not fit or are not finite, for a network that cannot be written.
    MissingExtraError
        For ``fine_tune`` without torch.
    ModelError
        For a quantized network, for one without such layers, and for one with ops that are not fine-tuned.
    """
    graph, report = model, progress or silent
    nodes = _layers(graph)
    if fine_tune is not None:
        from .fine_tune import fine_tuned  # before anything is measured in vain
    pictures: dict[int, np.ndarray] = {}
    seen = samples_of(graph, samples if input is None else _kept(samples, pictures, graph), input)
    apart = range(0, len(seen), APART) if len(seen) >= 2 * APART else range(0)
    chosen = [index for index in range(len(seen)) if index not in apart]
    many = [seen[index] for index in chosen]
    if pictures and len(many) < ENOUGH:
        whole = [pictures[index] for index in chosen if index in pictures]
        many += samples_of(graph, crops(whole, ENOUGH - len(many)), input)
    judges = [seen[index] for index in apart] or seen
    board = Board.detect()
    with leased(board, [board.default_component], f"{graph.name} beside what is pruned"):
        pruned = _pruned(graph, nodes, _spread(many, ENOUGH), _spread(judges, SENSED), sparsity, report)
        if fine_tune is not None:
            pruned = fine_tuned(
                graph, pruned, nodes, _samples(graph, [*pictures.values()], seen, input), fine_tune, report
            )
        return Pruned(pruned, _report(graph, pruned, nodes, seen, task))


def _kept(samples: Iterable[Any], pictures: dict[int, np.ndarray], graph: Graph) -> Iterator[Any]:
    """The samples; of the first ``KEPT`` arrays also ``pictures`` by number, every n-th pixel of large ones."""
    least = LARGE * max(graph.inputs[0].shape)
    for index, picture in enumerate(samples):
        yield picture
        if isinstance(picture, np.ndarray) and len(pictures) < KEPT:
            step = max(1, min(picture.shape[:2]) // least)
            pictures[index] = np.ascontiguousarray(picture[::step, ::step])


def _samples(
    graph: Graph, pictures: Sequence[np.ndarray], seen: Sequence[Arrays], input: Picture | None
) -> Iterator[Arrays]:
    """Without end: parts of pictures, or the samples again and again."""
    for turn in count(1):
        if pictures:
            yield from samples_of(graph, crops(pictures, ENOUGH, turn), input)
        else:
            yield from (seen[index] for index in np.random.default_rng(turn).permutation(len(seen)))


def _layers(graph: Graph) -> list[Node]:
    if any(node.op == "fakequant" for node in graph.nodes) or graph.quantized:
        raise ModelError(f"{graph.name}: expected a network of floats, got one that is quantized")
    if reason := unwritable(graph):
        raise ArgumentError(f"{graph.name}: {reason}")
    if nodes := layers_of(graph):
        return nodes
    raise ModelError(f"{graph.name}: expected 1x1 convolutions or products of several rows to prune, got none")


def _pruned(
    graph: Graph,
    nodes: Sequence[Node],
    samples: Sequence[Arrays],
    judges: Sequence[Arrays],
    sparsity: float,
    progress: Progress,
) -> Graph:
    """Blocks are chosen by ``samples``, the shares of layers by ``judges``."""
    progress("what layers read", 0, 1)
    moments = {name: each.damped for name, each in moments_of(graph, nodes, samples).items()}
    progress("what layers read", 1, 1)
    removals = {}
    for done, node in enumerate(nodes):
        progress("blocks of layers", done, len(nodes))
        removals[node.name] = removal(matrix_of(graph, node), moments[node.name])
    progress("blocks of layers", len(nodes), len(nodes))
    reference = Reference(with_logits(graph), judges)
    zeros = zeros_of(nodes, moments, removals, sparsity, reference, progress)
    fitted = [node for node in graph.nodes if node.name in zeros or is_fitted(graph, node, len(samples))]
    fitted = fitted[fitted.index(nodes[0]) :]
    pruned = graph
    for done, node in enumerate(fitted):
        progress("layers", done, len(fitted))
        pruned = with_matrices(pruned, {node.name: refitted(graph, pruned, node, samples, zeros.get(node.name, 0.0))})
    progress("layers", len(fitted), len(fitted))
    return pruned


def _spread(samples: Sequence[Arrays], most: int) -> list[Arrays]:
    """Samples from all over the list."""
    return [samples[i] for i in np.unique(np.linspace(0, len(samples) - 1, most).round().astype(int))]


def _report(
    graph: Graph, pruned: Graph, nodes: Sequence[Node], samples: list[Arrays], task: Task | None
) -> PruneReport:
    agreement = agreement_of(graph, task)
    reference = Reference(with_logits(graph), samples, agreement)
    comparison = reference.compared(outputs_of(with_logits(pruned), samples, "", silent))
    made = {node.name: node for node in pruned.nodes}
    rows = []
    for node in nodes:
        weight = pruned.constants[made[node.name].inputs[1]]
        rows.append(PrunedLayer(node.name, node.op, weight.size, 1 - int(np.count_nonzero(weight)) / weight.size))
    zeros = sum(row.zeros * row.weights for row in rows) / sum(row.weights for row in rows)
    what = None if comparison.agreement is None else agreement.what
    times = frame_times(graph, pruned, samples[0])
    return PruneReport(
        graph.name, tuple(rows), zeros, comparison.error, comparison.agreement, what, len(samples), *times
    )
