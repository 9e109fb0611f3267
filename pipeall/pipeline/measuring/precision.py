"""What a precision does to a network, found by running it: units in those that err little enough, and which layers half
precision is too little for, whose sums overflow, or cancel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from ...errors import ArgumentError, DeviceError
from ...graph.ir import Graph
from ...graph.ops import Trait, has
from ...graph.passes.fp16 import keep_float32
from ..boards.board import Board
from ..engine import Engine
from ..planning.units import Unit, components, traits_of

MAX_ERROR = 0.01

Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A network whose worst layers stay in float32 where a CPU computes the others in half precision.

    graph   the network; its metadata names ``layers``
    layers  those that stay, in the graph's order
    before  error of the network with all layers in half precision: over frames and outputs the largest difference from
            float32, as a share of the output's largest value; infinity where a result is no number or infinite
    after   the same with these layers in float32
    """

    graph: Graph
    layers: tuple[str, ...]
    before: float
    after: float

    def __repr__(self) -> str:
        names = f": {', '.join(self.layers)}" if self.layers else ""
        return (
            f"<Mixture of {self.graph.name}, {len(self.layers)} layers in float32{names}; "
            f"error {self.after:.2g}, {self.before:.2g} without them>"
        )


def mixed_precision(
    graph: Graph,
    frames: Sequence[np.ndarray | Mapping[str, np.ndarray]],
    unit: str = "big@fp16",
    board: Board | None = None,
    *,
    max_error: float = MAX_ERROR,
    done: Callable[[], None] = lambda: None,
) -> Mixture:
    """Few layers that stay in float32, so that the network errs by at most ``max_error`` on these frames.

    All layers begin in float32. Then as many as possible become halves: one half of the list at a time, else parts of
    that half, down to single layers. A layer stays where the error was above the bound without it.

    Parameters
    ----------
    graph
        A network in float32.
    frames
        As an Engine takes them; each is run once for every trial.
    unit
        A CPU component in fp16.
    board
        Default ``Board.detect()``.
    max_error
        The largest difference of an output from float32, as a share of the output's largest value.
    done
        Called after each trial.

    Returns
    -------
    Mixture
        The network and the layers that stay.

    Raises
    ------
    ArgumentError
        For no frames, another unit, and where float32 layers alone do not keep the bound: then the rest of the network,
        between its layers, is too much for half precision.
    """
    board = board or Board.detect(gpu=False)
    single = Unit.parse(unit).component
    if not (board.component(unit).device.fp16 or Unit.parse(unit).precision == "bf16"):
        raise ArgumentError(f"unit {unit!r}: expected a CPU component in fp16 or bf16, such as big@fp16")
    if not frames:
        raise ArgumentError("frames: expected at least one")
    reference = _run(graph, frames, single, board)
    layers = [node.name for node in graph.nodes if has(node.op, Trait.WEIGHTS)]

    def error(kept: Sequence[str]) -> float:
        worst = _error(_run(keep_float32(graph, kept), frames, unit, board), reference)
        done()
        return worst

    before = error([])
    if before <= max_error:
        return Mixture(keep_float32(graph, []), (), before, before)
    if (least := error(layers)) > max_error:
        raise ArgumentError(
            f"max_error {max_error:g}: expected at least {least:.2g}, the error with all layers in float32"
        )
    kept, after, parts = list(layers), least, [layers]
    while parts:
        part = parts.pop(0)
        without = [name for name in kept if name not in part]
        if part is not layers and (worst := error(without)) <= max_error:
            kept, after = without, worst
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
    return Mixture(keep_float32(graph, kept), tuple(kept), before, after)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Units in the precisions that a search may choose from.

    units    such as "big", "big@fp16" and "big@fp16x3"; fp32 has no suffix, unless the network is quantized
    errors   component in a precision -> error of the whole network, as ``Mixture`` has it; empty where nothing ran
    refused  component in a precision -> why it is left out
    """

    units: tuple[str, ...]
    errors: Mapping[str, float]
    refused: Mapping[str, str]


def allowed_precisions(
    graph: Graph,
    units: Sequence[str],
    precisions: Sequence[str],
    board: Board | None = None,
    *,
    frames: Sequence[np.ndarray | Mapping[str, np.ndarray]] = (),
    max_error: float | None = None,
) -> Allowed:
    """Units in each of these precisions, but for those that the board or the network lacks, or that err too much.

    Parameters
    ----------
    graph
        The network.
    units
        Without a precision, such as ["big", "littlex2", "gpu"].
    precisions
        Of "fp32", "fp16", "bf16", "int8" and "mixed".
    board
        Default ``Board.detect()``.
    frames
        As an Engine takes them, for ``max_error``.
    max_error
        Of the whole network on a component, from the same component in fp32; None: nothing runs.

    Returns
    -------
    Allowed
        Units for ``search``, their errors, and why others are left out.

    Raises
    ------
    ArgumentError
        For a bad argument, and where nothing is left.
    DeviceError
        For a component that is not there.
    """
    board = board or Board.detect()
    known = dict.fromkeys(("fp32", *(name for traits in components().values() for name in traits.precisions)))
    if unknown := [name for name in precisions if name not in known] or not precisions:
        raise ArgumentError(f"precisions: expected some of {', '.join(known)}, got {unknown if precisions else 'none'}")
    if max_error is not None and not (max_error >= 0 and frames):
        raise ArgumentError(f"max_error {max_error:g}: expected 0 or more, and at least one frame")
    parsed = [Unit.parse(unit) for unit in units]
    if precise := [word for word, unit in zip(units, parsed, strict=True) if unit.precision]:
        raise ArgumentError(f"units: expected none with a precision beside precisions, got {precise[0]!r}")
    by_component: dict[str, list[Unit]] = {}
    errors: dict[str, float] = {}
    refused: dict[str, str] = {}
    for component in dict.fromkeys(unit.component for unit in parsed):
        board.component(component)  # raises for one that is not there
        for precision in dict.fromkeys(precisions):
            name = _named(graph, component, precision)
            try:
                _check_able(graph, component, precision, board)
                if max_error is not None and precision != "fp32":
                    reference = _run(graph, frames, _named(graph, component, "fp32"), board)
                    errors[name] = _error(_run(graph, frames, name, board), reference)
            except DeviceError as error:
                refused[name] = str(error)
                continue
            if errors.get(name, 0.0) > (inf if max_error is None else max_error):
                refused[name] = f"error {errors[name]:.2g}, more than {max_error:g}"
            else:
                by_component.setdefault(component, []).append(name)
    if not by_component:
        raise ArgumentError(f"precisions: expected one that is left; {'; '.join(map(': '.join, refused.items()))}")
    able = (
        Unit(of.component, unit.cores, of.precision, unit.batch)
        for unit in parsed
        for of in by_component.get(unit.component, ())
    )
    return Allowed(tuple(dict.fromkeys(able)), errors, refused)


def _named(graph: Graph, component: str, precision: str) -> Unit:
    """A component in a precision. Alone it is fp32, but that CPUs compute quantized networks in 8 bits then."""
    if precision == "fp32" and not (graph.quantized and "fp32" in traits_of(component).precisions):
        return Unit(component)
    return Unit(component, None, precision)


def _check_able(graph: Graph, component: str, precision: str, board: Board) -> None:
    """Raises DeviceError where a component has no such precision, here or for this network."""
    if precision == "fp32":
        return
    if precision not in (has := traits_of(component).precisions):
        raise DeviceError(f"a {component} has {', '.join(dict.fromkeys(('fp32', *has)))}")
    if precision == "int8" and not graph.quantized:
        raise DeviceError(f"{graph.name} is not quantized; pipeall quantize makes such a network of it")
    board.component(Unit(component, None, precision))


def _run(graph: Graph, frames: Sequence, unit: str, board: Board) -> list[Outputs]:
    with Engine(graph, unit, board=board) as engine:
        results = [engine(frame) for frame in frames]
    return [result if isinstance(result, Mapping) else {"": result} for result in results]


def _error(runs: Sequence[Outputs], reference: Sequence[Outputs]) -> float:
    worst = 0.0
    for name in reference[0]:
        real = np.stack([np.asarray(outputs[name], np.float64) for outputs in reference])
        made = np.stack([np.asarray(outputs[name], np.float64) for outputs in runs])
        finite = np.isfinite(real)
        if not np.isfinite(made[finite]).all():
            return inf
        off = np.abs(made[finite] - real[finite]).max(initial=0.0)
        worst = max(worst, float(off / max(np.abs(real[finite]).max(initial=0.0), np.finfo(np.float32).tiny)))
    return worst
