"""Post-training static quantisation: a network of floats becomes one of 8-bit integers, by what it makes of photos."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from ..arguments import a, checked, function, gone_through, number, one_of, optional, path, several, switch, text
from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph
from ..graph.onnx.read.given import network
from ..graph.onnx.read.source import ModelSource
from ..graph.onnx.write.write import save_onnx
from ..graph.passes.int8 import integers
from ..picture import Picture
from ..tasks import Task
from .activations import behind_activations
from .budget import sensitivities, within
from .calibrate import Progress, at_ends, outputs_of
from .compare import Compared, compare
from .gain import frame_times, layer_times
from .judge import judge_of
from .levels import METHODS
from .notes import Notes, digest
from .photos import Arrays, frames_of
from .places import places, units
from .recipe import Recipe, recipe
from .report import Report, report_of
from .rounding import ROUNDINGS
from .sheet import split_residuals
from .tensors import tensor_by_tensor

TRIED = 32  # photos by which methods are compared
SENSED = 8  # photos by which the costs of layers are compared
SOME, FEW = 2, 8  # every second of them, every eighth
CORRECTED = 64  # photos by which biases are corrected, and rounding is learned
ALL_METHODS = ("auto", *METHODS)


@dataclass(frozen=True)
class Quantized:
    """A quantised network.

    graph    computes with integers where there are kernels for them
    written  the same in ops on real numbers and ``fakequant``, as the file has it
    report   what was chosen, and what it costs
    notes    on what was measured; done with once the network is saved
    """

    graph: Graph
    written: Graph
    report: Report
    notes: Notes = field(default_factory=Notes, repr=False)

    def save(self, path: str | Path) -> None:
        """Writes a QDQ ONNX file, then removes the notes. Raises ArgumentError for an op that cannot be written, or
        where it cannot be put."""
        save_onnx(self.written, path)
        self.notes.remove()


@checked(
    model=network,
    photos=gone_through,
    input=optional(a(Picture, "a pipeall.Picture")),
    method=one_of(*ALL_METHODS),
    max_drop=optional(number(0, 1)),
    rounding=one_of(*ROUNDINGS),
    keep=several(text, "a list of names of layers"),
    layers=switch,
    notes=optional(path),
    progress=optional(function),
    task=optional(a(Task, "what pipeall.tasks.task gives")),
)
def quantize(
    model: Graph | ModelSource,
    photos: Iterable[np.ndarray | Mapping[str, np.ndarray]],
    *,
    input: Picture | None = None,
    task: Task | None = None,
    method: str = "auto",
    max_drop: float | None = None,
    rounding: str = "nearest",
    keep: Collection[str] = (),
    layers: bool = False,
    notes: str | Path | None = None,
    progress: Progress | None = None,
) -> Quantized:
    """A network of 8-bit integers for one of floats.

    photos    what the network shall see, a hundred or more: arrays as it reads them, dicts of arrays by input, or with
              ``input`` uint8 pictures, as for ``Pipeline``. What it reads of them is held in memory
    method    how levels are chosen: minmax, percentile (99.99), entropy, mse, or auto: the one of these with the least
              error of the outputs, on channels as they are or equalised, then for each tensor the one that lowers it
    task      what the outputs mean, as ``pipeall.tasks.task`` gives it; None: as recognised
    max_drop  most that may be lost: of a classifier the share of photos whose class changes, of a detector the share of
              clear boxes that one network has and the other has not, of a segmenter the share of pixels whose class
              changes; of other networks the relative error of the outputs. As few layers stay floats as that needs
    rounding  of weights: nearest, or learned: by what it does to a layer's outputs on the photos (GPTQ's closed form)
    keep      names of layers that compute with floats, and their activations with them
    layers    whether the report says what each layer costs, and how long it takes on this machine in both networks;
              how long a frame takes in both it says always
    notes     a file where what was measured is kept until the network is saved: if the call is interrupted, the next
              goes on where it stopped, with the same result
    progress  called with what is done, how much of it and of how much

    Weights have one scale for each output, activations one for the tensor; biases are corrected by what layers err in
    the mean. Raises ArgumentError where there are no photos, photos that do not fit, values that are not finite, an
    unknown method, rounding or layer, a budget that cannot be kept or judged by these photos, or notes that are damaged
    or on something else;
    ModelError for a network that is quantised or has no layer to quantise.
    """
    graph = model
    _check(graph, keep)
    show = progress or _silent
    frames = frames_of(graph, photos, input)
    plain = split_residuals(graph)
    kept = frozenset().union(*(units(plain)[name] for name in keep))
    noted = Notes(notes, digest(graph, frames, (method, rounding, sorted(keep))) if notes is not None else "")
    chosen = _chosen(plain, frames, method, rounding, kept, show, noted)
    chosen = replace(chosen, graph=replace(chosen.graph, outputs=plain.outputs, lengths=plain.lengths))
    judge = judge_of(graph, task)

    def compared(tried: Recipe) -> Compared:
        def vector() -> Arrays:
            pair = outputs_of(plain, frames, "floats", show), outputs_of(tried.made(), frames, "integers", show)
            return {"": compare(plain, *pair, judge).vector}

        part = f"answers with {len(tried.kept)} nodes of floats"
        return Compared.of(plain, noted.vectors(part, {"": Compared.size(plain)}, vector)[""])

    found = compared(chosen)
    if max_drop is not None and judge is not None and found.agreement is None:
        raise ArgumentError(f"photos: expected some with clear {judge.what} to keep max_drop by, found none")
    over = max_drop is not None and found.drop > max_drop
    costs = sensitivities(chosen, plain, _some(frames, SENSED), show, noted) if layers or over else {}
    if over:
        chosen = within(chosen, costs, max_drop, compared)
        found = compared(chosen)
    written = replace(chosen.made(), name=graph.name)
    whole = integers(written)
    by_layer = layer_times(graph, whole, show) if layers else None
    took = frame_times(graph, whole, frames[0])
    judged = None if found.agreement is None else judge.what
    return Quantized(whole, written, report_of(graph, chosen, found, judged, costs, took, by_layer, len(frames)), noted)


def _check(graph: Graph, keep: Collection[str]) -> None:
    if any(node.op == "fakequant" for node in graph.nodes) or graph.levels:
        raise ModelError(f"{graph.name}: expected a network of floats, got one that is quantised")
    if unknown := [name for name in keep if name not in units(graph)]:
        raise ArgumentError(f"keep: expected layers that could be quantised, got {', '.join(map(repr, unknown)):.200}")
    if not places(graph).put:
        raise ModelError(f"{graph.name}: expected layers to quantise, such as convolutions, found none")


def _chosen(
    graph: Graph,
    frames: list[Arrays],
    method: str,
    rounding: str,
    kept: frozenset[str],
    progress: Progress,
    notes: Notes,
) -> Recipe:
    """The recipe with the least error of the answers; biases are corrected."""
    graph = at_ends(graph)
    found = recipe(graph, frames, False, progress, notes)
    trial = _Trial(graph, _telling(frames, found, TRIED), progress)
    choices = {
        f"{name}, equalised" if stretched.stretched else name: replace(stretched, method=name, kept=kept)
        for stretched in (found, recipe(graph, frames, True, progress, notes))
        if stretched
        for name in (METHODS if method == "auto" else (method,))
    }
    errors = {
        name: notes.number(f"error by {name}", lambda choice=choice: trial.error(trial.corrected(choice)))
        for name, choice in choices.items()
    }
    chosen = min(errors, key=errors.__getitem__)
    steps: dict[str, Callable[..., Recipe]] = {}
    steps["with stretched channels"] = partial(behind_activations, frames=frames)
    if method == "auto":
        steps["tensor by tensor"] = partial(tensor_by_tensor, glance=partial(trial.error_of_every, FEW))
    best = _improved(choices[chosen], errors[chosen], steps, trial, notes)
    if rounding == "learned":
        best = replace(best, learned=best.rounded(_some(frames, CORRECTED), progress, notes))
    shifts = notes.vectors("shifts", _outputs(best), lambda: best.errors(_some(frames, CORRECTED), progress))
    ends = {"error, corrected": replace(best, shifts=shifts), "error, not corrected": best}
    return ends[min(ends, key=lambda part: notes.number(part, lambda: trial.error(ends[part])))]


class _Trial:
    """How far a recipe's answers are from those of the floats, on photos that tell much."""

    def __init__(self, graph: Graph, frames: list[Arrays], progress: Progress):
        self.graph, self.frames, self.progress = graph, frames, progress

    @cached_property
    def _expected(self) -> list[Arrays]:
        return list(outputs_of(self.graph, self.frames, "reference", self.progress))

    def error(self, choice: Recipe) -> float:
        found = outputs_of(integers(choice.made()), self.frames, "integers", self.progress)
        return compare(self.graph, self._expected, found).error

    def error_of_every(self, nth: int, choice: Recipe) -> float:
        """On every ``nth`` photo."""
        found = outputs_of(integers(choice.made()), self.frames[::nth], "", _silent)
        return compare(self.graph, self._expected[::nth], found).error

    def corrected(self, choice: Recipe) -> Recipe:
        return replace(choice, shifts=choice.errors(self.frames, self.progress))


def _improved(
    best: Recipe, least: float, steps: Mapping[str, Callable[..., Recipe]], trial: _Trial, notes: Notes
) -> Recipe:
    """The recipe after these steps, but for those that do not lower its error when biases are corrected anew."""
    shifts = notes.vectors("shifts of one method", _outputs(best), lambda: best.errors(trial.frames, trial.progress))
    for what, step in steps.items():
        start = replace(best, shifts=shifts)
        better = step(start, error=partial(trial.error_of_every, SOME), progress=trial.progress, notes=notes)
        if better is start:
            continue
        better = replace(better, shifts=best.shifts)
        off = notes.number(f"error {what}", lambda better=better: trial.error(trial.corrected(better)))
        best, least = (better, off) if off < least else (best, least)
    return best


def _outputs(choice: Recipe) -> dict[str, int]:
    """How many outputs each of its layers has, by name."""
    return {node.name: len(choice.graph.constants[node.inputs[1]]) for node in choice.places().layers}


def _some(frames: list[Arrays], most: int) -> list[Arrays]:
    """Frames from all over the list."""
    return [frames[i] for i in np.unique(np.linspace(0, len(frames) - 1, most).round().astype(int))]


def _telling(frames: list[Arrays], found: Recipe, most: int) -> list[Arrays]:
    """Half of them from all over the list, half those with the greatest values, which clipping would hurt."""
    peaks = np.array([seen.peaks for seen in found.seen.values()])
    order = np.argsort(-(peaks / np.maximum(peaks.max(1, keepdims=True), np.finfo(float).tiny)).mean(0))
    return _some(frames, most // 2) + [frames[i] for i in order[: most // 2]]


def _silent(what: str, done: int, total: int) -> None:
    pass
