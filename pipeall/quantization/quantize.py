"""Post-training static quantization: a network of floats becomes one of 8-bit integers, calibrated on samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from ..arguments import a, checked, function, gone_through, number, one_of, optional, path, several, switch, text
from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph
from ..graph.onnx.read.given import network
from ..graph.onnx.read.source import ModelSource
from ..graph.onnx.write.write import save_onnx
from ..graph.passes.int8 import to_int8
from ..journal import Journal
from ..picture import Picture
from ..progress import Progress, silent
from ..tasks import Task
from .calibrate import Arrays, more_pictures, samples_of, with_logits
from .calibration_run import CalibrationRun, Reference, open_journal
from .compare import agreement_of
from .config import QuantConfig
from .equalize import Loss, equalized, half_way, of_convolutions, scale_activations
from .gptq import ROUNDINGS
from .keep_boxes import keep_boxes
from .qparams import METHODS, QuantParams
from .quantizable import layers_with_activations, never_clipped, quantizable, split_residuals
from .quantize_report import Report, report_of
from .sensitivity import frame_times, layer_times, sensitivities, within_budget

TRIED = 32  # samples by which methods are compared
SENSED = 8  # samples by which the costs of layers are compared
SOME, FEW = 2, 8  # every second sample, every eighth
RUNS = 64  # of neighbouring tensors, at most, that try other methods
CORRECTED = 64  # samples by which biases are corrected, and weights are rounded by GPTQ
MARGIN = 0.5  # of a detector's ranges: about what the greatest of twice as many samples adds
BEYOND = 4.0  # standard deviations above the mean of the samples' greatest values: what a detector's channels may reach
ALIKE = 0.02  # scales that differ by less, of the larger, are not tried
ALL_METHODS = ("auto", *METHODS)


@dataclass(frozen=True)
class Quantized:
    """A quantized network.

    Attributes
    ----------
    graph : Graph
        Computes with integers where there are kernels for them.
    written : Graph
        The same in ops on floats and ``fakequant``, as the file has it.
    report : Report
        What was chosen, and what it costs.
    """

    graph: Graph
    written: Graph
    report: Report
    _journal: Journal | None = field(default=None, repr=False)

    def save(self, path: str | Path) -> None:
        """Writes a QDQ ONNX file, then removes the journal.

        Raises
        ------
        ArgumentError
            For an op that cannot be written, and for a file that cannot be written.
        """
        save_onnx(self.written, path)
        if self._journal is not None:
            self._journal.remove()


@checked(
    model=network,
    samples=gone_through,
    input=optional(a(Picture, "a pipeall.Picture")),
    method=one_of(*ALL_METHODS),
    max_drop=optional(number(0, 1)),
    rounding=one_of(*ROUNDINGS),
    keep=several(text, "a list of names of layers"),
    layers=switch,
    journal=optional(path),
    progress=optional(function),
    task=optional(a(Task, "what pipeall.tasks.task gives")),
)
def quantize(
    model: Graph | ModelSource,
    samples: Iterable[np.ndarray | Mapping[str, np.ndarray]],
    *,
    input: Picture | None = None,
    task: Task | None = None,
    method: str = "auto",
    max_drop: float | None = None,
    rounding: str = "auto",
    keep: Collection[str] = (),
    layers: bool = False,
    journal: str | Path | None = None,
    progress: Progress | None = None,
) -> Quantized:
    """Makes a network of 8-bit integers from one of floats.

    Weights have one scale for each output, activations one for the tensor. Biases are corrected by the mean error of
    their layer.

    Parameters
    ----------
    model
        The network, or the file that it is read from, as for ``load``.
    samples
        What the network will see, a hundred or more: arrays as it reads them, dicts of arrays by input, or with
        ``input`` uint8 pictures, as for ``Pipeline``. All of them are held in memory as the network reads them.
    input
        How the network wants pictures, such as ``Model.picture``.
    task
        What the outputs mean, as ``pipeall.tasks.task`` gives it. None: as recognized.
    method
        Of calibration: minmax, percentile (99.99), entropy or mse. auto: the method with the least error of the
        outputs, on channels as they are or equalized, and then for each tensor the one that lowers it. Of a detector
        minmax, a little wider.
    max_drop
        The most that may be lost, a share: of a classifier's samples whose class changes, of a detector's clear boxes
        that only one network has, of a segmenter's pixels whose class changes; for other networks the relative error of
        the outputs. As few layers as possible stay floats.
    rounding
        Of weights: nearest, or gptq: by the effect on a layer's outputs. auto: gptq for a detector, else nearest.
    keep
        Names of layers that compute with floats, and their activations with them.
    layers
        Whether the report says what each layer costs, and its time on this machine in both networks.
    journal
        A file that keeps what was measured until the network is saved. If the call is interrupted, the next one goes on
        where it stopped, with the same result. A full disk ends no call: a warning says that nothing more is kept.
    progress
        Called with what is done, how much of it, and of how much.

    Returns
    -------
    Quantized

    Raises
    ------
    ArgumentError
        Without samples, for samples that do not fit or are not finite, for a budget that cannot be kept or judged by
        these samples, for a journal that is damaged or belongs to another call, and for arguments out of range.
    ModelError
        For a network that is quantized already or has no layer to quantize.
    """
    graph = model
    _check(graph, keep)
    arrays = samples_of(graph, samples, input)
    options = {"method": method, "rounding": rounding, "keep": sorted(keep), "max_drop": max_drop, "layers": layers}
    options["task"] = None if task is None else [task.decoder.name, task.threshold]
    kept = None if journal is None else open_journal(journal, graph, arrays, options)
    agreement = agreement_of(graph, task)
    judged_by_boxes = agreement is not None and agreement.differ is not None
    more = more_pictures(graph, arrays, TRIED) if judged_by_boxes else arrays
    run = CalibrationRun(more, progress or silent, kept)
    plain = split_residuals(graph)
    groups = layers_with_activations(plain)
    float_nodes = frozenset().union(*(groups[name] for name in keep))
    answering = with_logits(plain)
    reference = partial(Reference, answering, agreement=agreement, progress=run.progress)
    config = _chosen(answering, run, reference, method, rounding, float_nodes, judged_by_boxes)
    if judged_by_boxes and max_drop is None:
        config = keep_boxes(config, reference(_some(run.samples, TRIED)), run)
    config = replace(config, graph=replace(config.graph, outputs=plain.outputs, lengths=plain.lengths))
    compared = partial(run.comparison, graph=plain, samples=arrays, agreement=agreement)
    comparison = compared(config)
    if max_drop is not None and agreement is not None and comparison.agreement is None:
        raise ArgumentError(f"samples: expected some with clear {agreement.what} to judge max_drop by, got none")
    over = max_drop is not None and comparison.drop > max_drop
    errors = sensitivities(config, reference(_some(arrays, SENSED)), run) if layers or over else {}
    if over:
        config = within_budget(config, errors, max_drop, compared)
        comparison = compared(config)
    written = replace(config.resolve().build(), name=graph.name)
    quantized = to_int8(written)
    by_layer = layer_times(graph, quantized, run.progress) if layers else None
    frame_ms = frame_times(graph, quantized, arrays[0])
    what = None if comparison.agreement is None else agreement.what
    report = report_of(graph, config, comparison, what, errors, frame_ms, by_layer, len(arrays))
    return Quantized(quantized, written, report, kept)


def _check(graph: Graph, keep: Collection[str]) -> None:
    if any(node.op == "fakequant" for node in graph.nodes) or graph.qparams:
        raise ModelError(f"{graph.name}: expected a network of floats, got one that is quantized")
    if unknown := [name for name in keep if name not in layers_with_activations(graph)]:
        raise ArgumentError(f"keep: expected layers that can be quantized, got {', '.join(map(repr, unknown)):.200}")
    if not quantizable(graph).tensors:
        raise ModelError(f"{graph.name}: expected layers to quantize, such as convolutions, got none")


def observed(graph: Graph, run: CalibrationRun) -> QuantConfig:
    """A configuration of a network as it is."""
    return QuantConfig(graph, run.histograms(graph, quantizable(graph).tensors), equalized=False)


def observed_equalized(plain: QuantConfig, run: CalibrationRun, beyond: float = 0.0) -> QuantConfig | None:
    """A configuration of a network with equalized channels; None where there are none to equalize. Channels may reach
    ``beyond`` what was seen (``channel_maxima``)."""
    channels = of_convolutions(plain.graph)
    if not channels.made:
        return None
    factors, reach = half_way(plain, channels, run, beyond)
    made = observed(equalized(plain.graph, channels, factors), run)
    return replace(made, equalized=True, reach=reach if beyond else {})


def _chosen(
    graph: Graph,
    run: CalibrationRun,
    reference: Callable[[list[Arrays]], Reference],
    method: str,
    rounding: str,
    float_nodes: frozenset[str],
    boxes: bool,
) -> QuantConfig:
    """The configuration that loses least of the answers; biases are corrected. ``reference``: of some samples."""
    plain = observed(graph, run)
    telling = reference(_telling(run.samples, plain, TRIED))
    margin = beyond = 0.0
    if boxes and method == "auto":
        method, margin, beyond = "minmax", MARGIN, BEYOND
    methods = METHODS if method == "auto" else (method,)
    starts = [config for config in (plain, observed_equalized(plain, run, beyond)) if config]
    starts = [replace(config, margin=margin, float_nodes=float_nodes) for config in starts]
    choices = [replace(start, method=name) for start in starts for name in methods]
    losses = [run.loss(choice, telling, corrected=True) for choice in choices]
    least = min(losses)
    best = _refined(choices[losses.index(least)], least, method == "auto", telling, run)
    few = _some(run.samples, CORRECTED)
    if rounding == "gptq" or (rounding == "auto" and boxes):
        best = replace(best, gptq_weights=run.gptq_weights(best.resolve(), few))
    corrected = replace(best, corrections=run.bias_corrections(best.resolve(), few))
    return min(corrected, best, key=partial(run.loss, reference=telling))


def _refined(
    best: QuantConfig, least: float, each_tensor: bool, reference: Reference, run: CalibrationRun
) -> QuantConfig:
    """The configuration after the steps that lower its loss, with biases corrected anew."""
    corrections = run.bias_corrections(best.resolve(), reference.samples)
    loss = partial(run.loss, reference=reference, every=SOME)
    quick_loss = partial(run.loss, reference=reference, every=FEW)
    for step in (scale_activations, choose_methods) if each_tensor else (scale_activations,):
        start = replace(best, corrections=corrections)
        better = step(start, loss=loss, quick_loss=quick_loss, run=run)
        if better is start:
            continue
        better = replace(better, corrections=best.corrections)
        if (better_loss := run.loss(better, reference, corrected=True)) < least:
            best, least = better, better_loss
    return best


def choose_methods(start: QuantConfig, loss: Loss, quick_loss: Loss, run: CalibrationRun) -> QuantConfig:
    """The configuration with other methods for some tensors, in the order of the network, where one lowers the loss.

    In a network of many tensors a few neighbours try a method together. ``quick_loss`` is the loss on a few samples: a
    method that does not lower it is not tried on more.
    """
    of = start.resolve().quantizable
    whole = never_clipped(start.graph, of)
    free = [(root, names) for root, names in of.sources.items() if root not in whole]
    best, least, quick_least = start, loss(start), quick_loss(start)
    together = -(-len(free) // RUNS)
    for first in range(0, len(free), max(together, 1)):
        run.progress("tensors", first, len(free))
        near = free[first : first + together]
        tried = [_qparams(best, near)]
        for method in METHODS:
            choice = replace(best, own_methods={**best.own_methods, **{names: method for _, names in near}})
            qparams = _qparams(choice, near)
            if any(all(map(_alike, qparams, other)) for other in tried):
                continue
            tried.append(qparams)
            quick = quick_loss(choice)
            if quick < quick_least and (choice_loss := loss(choice)) < least:
                best, least, quick_least = choice, choice_loss, quick
    run.progress("tensors", len(free), len(free))
    return best


def _qparams(config: QuantConfig, tensors: Sequence[tuple[str, tuple[str, ...]]]) -> list[QuantParams]:
    qparams = config.resolve().qparams
    return [qparams[root] for root, _ in tensors]


def _alike(one: QuantParams, other: QuantParams) -> bool:
    return one.low == other.low and abs(one.scale - other.scale) < ALIKE * max(one.scale, other.scale)


def _some(samples: Sequence[Arrays], most: int) -> list[Arrays]:
    """Samples from all over the list."""
    return [samples[i] for i in _spread(len(samples), most)]


def _spread(count: int, most: int) -> list[int]:
    return np.unique(np.linspace(0, count - 1, most).round().astype(int)).tolist()


def _telling(samples: Sequence[Arrays], config: QuantConfig, most: int) -> list[Arrays]:
    """Half of them from all over the list, half those with the greatest values, which clipping would hurt; all, where
    there are no more."""
    peaks = np.array([histogram.peaks for histogram in config.histograms.values()])
    order = np.argsort(-(peaks / np.maximum(peaks.max(1, keepdims=True), np.finfo(float).tiny)).mean(0)).tolist()
    return [samples[i] for i in [*dict.fromkeys((*_spread(len(samples), most // 2), *order))][:most]]
