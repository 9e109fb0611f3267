"""OpenCL kernels that check themselves: what a program needs and was not met on this device and driver is run on small
cases of the case table, against NumPy. What differs, or does not compile, is left out by name: a convolution takes
another method, any other step is refused.

What came of it is kept in the cache folder for each device, driver and version of this package.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...._kernels.opencl import cl_devices as opencl
from ...._kernels.opencl.methods import Choose, Method, methods
from ....cache import cached_path, read_cached, write_cached
from ....errors import ArgumentError, DeviceError
from ....graph.cases.case import Case
from ....graph.cases.op_cases import CASES, case_graph
from ....graph.lower.lower import lower
from ....graph.ops import run_graph
from ....steps import Lowered, Step, is_depthwise
from .opencl_program import ClProgram

KIND = "opencl-checked"
ELEMENTS = 10_000  # of a case's operands at most
NEAR = {"fp32": 1e-3, "mixed": 2e-2, "fp16": 6e-2}  # of 1 and the largest result: sums of up to 2,000 numbers
OPS = {  # kind of step -> ops of the table whose cases have it, where not its own name
    "conv": ("conv", "fc"),
    "copy": ("transpose", "concat"),
    "fill": ("pad",),
    "softmax_nd": ("softmax",),
    "layernorm_nd": ("layernorm",),
}

log = logging.getLogger(__name__)


class Checks:
    """What is known of the kernels of a device in a precision: their names, and what is wrong with those that are."""

    def __init__(self, info: opencl.DeviceInfo, precision: str):
        self.info, self.precision = info, precision
        self.path = cached_path(KIND, info.name, info.platform, info.driver, info.fp16, precision)
        self.known = _read(self.path)

    def refusal(self, lowered: Lowered) -> str | None:
        """The first step whose kernel is known to be wrong; None where none is."""
        return next((self._left_out(step) for step in _without_choice(lowered) if self.known.get(name_of(step))), None)

    def require(self, lowered: Lowered) -> None:
        """Checks what is not known. Raises DeviceError naming the first step whose kernel is wrong here."""
        for step in _without_choice(lowered):
            if self._fault(step):
                raise DeviceError(self._left_out(step))

    def choose(self, choose: Choose) -> Choose:
        """Chooses among the methods of a convolution that are right, the first being tried first."""

        def choose_right(step: Step, candidates: Sequence[Method]) -> Method:
            left = list(candidates)
            while left:
                method = choose(step, left)
                if not self._fault(step, method):
                    return method
                left.remove(method)
            raise DeviceError(f"step {step.node} (conv): {self.info} computes no convolution right: {self._listed()}")

        return choose_right

    def _left_out(self, step: Step) -> str:
        name = name_of(step)
        return (
            f"step {step.node} ({step.kind}): the OpenCL kernel {name} is left out on {self.info}, driver "
            f"{self.info.driver}: {self.known[name]}"
        )

    def _fault(self, step: Step, method: Method | None = None) -> str:
        name = name_of(step, method)
        if name not in self.known:
            self.known[name] = self._checked(name, step, method)
            _write(self.path, self.known)
            if self.known[name]:
                warnings.warn(
                    f"OpenCL kernel {name} is left out on {self.info}, driver {self.info.driver}: {self.known[name]}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return self.known[name]

    def _checked(self, name: str, step: Step, method: Method | None) -> str:
        """What is wrong; empty where nothing is, or the table has no case for it."""
        case = _case(name, step, method, self.info, self.precision)
        if case is None:
            return ""
        try:
            off = run_case(case, self.info, self.precision, method)
        except DeviceError as error:
            return " ".join(str(error).split())[:300]
        log.debug("OpenCL kernel %s on %s: off by %.1g", name, case, off)
        return "" if off <= NEAR[self.precision] else f"its results are off by {off:.1g} on {case}"

    def _listed(self) -> str:
        return "; ".join(f"{name}: {why}" for name, why in self.known.items() if why)


def _without_choice(lowered: Lowered) -> Iterator[Step]:
    return (step for step in lowered.steps if step.kind != "conv" or is_depthwise(step))


def name_of(step: Step, method: Method | None = None) -> str:
    """A kernel by what it computes, of which types, and how."""
    what = step.params.get("op") or step.params.get("how") or step.params.get("mode") or ""
    how = "depthwise" if step.kind == "conv" and method is None else str(method or "")
    types = dict.fromkeys(operand.dtype for operand in (*step.src, step.dst))
    return " ".join(filter(None, (step.kind, str(what), how, *types)))


def _case(name: str, step: Step, method: Method | None, info: opencl.DeviceInfo, precision: str) -> Case | None:
    """The largest small case that has such a step."""
    what = step.params.get("op")
    ops = OPS.get(step.kind, (what if what in CASES else step.kind,))
    small = [case for op in ops for case in CASES.get(op, ()) if _elements(case) <= ELEMENTS]
    small.sort(key=_elements, reverse=True)
    return next((case for case in small if _needs(case, name, method, info, precision)), None)


def _elements(case: Case) -> int:
    return sum(map(prod, (*case.shapes, *case.constants)))


def _needs(case: Case, name: str, method: Method | None, info: opencl.DeviceInfo, precision: str) -> bool:
    for step in _lowered(case).steps:
        if name_of(step, None if step.kind != "conv" or is_depthwise(step) else method) == name:
            return method is None or method in methods(step, info, precision)
    return False


def _lowered(case: Case) -> Lowered:
    graph, _ = case_graph(case)
    return lower(graph, int8=False)


def run_case(case: Case, info: opencl.DeviceInfo, precision: str, method: Method | None) -> float:
    """How far a result is off, by the size of the largest; exact types are off by 0 or infinitely."""
    graph, inputs = case_graph(case)
    lowered = lower(graph, int8=False)

    def choose(step: Step, candidates: Sequence[Method]) -> Method:
        return method if method in candidates else candidates[0]

    program = ClProgram(lowered, opencl.opened(info), precision=precision, choose=choose)
    slot = np.zeros(lowered.slot_in_bytes, np.uint8)
    for tensor in lowered.slot_in:
        content = np.ascontiguousarray(inputs[tensor.name]).reshape(-1).view(np.uint8)
        slot[tensor.offset_bytes : tensor.offset_bytes + content.size] = content
    (tensor,) = lowered.slot_out
    out = program.run(slot)[tensor.offset_bytes :][: graph.outputs[0].nbytes].view(graph.outputs[0].dtype)
    with np.errstate(all="ignore"):
        expected: Any = run_graph(graph, inputs)["y"].reshape(-1)
        if out.dtype.kind != "f":
            return 0.0 if np.array_equal(out, expected) else np.inf
        same = (out == expected) | (np.isnan(out) & np.isnan(expected))
        most = np.abs(expected[np.isfinite(expected)]).max(initial=0)
        return float(np.where(same, 0, np.abs(out - expected)).max(initial=0) / (1 + most))


def _read(path: Path) -> dict[str, str]:
    known = (read_cached(path, KIND) or {}).get("faults")
    if not isinstance(known, dict) or not all(isinstance(why, str) for why in known.values()):
        return {}
    return known


def _write(path: Path, known: dict[str, str]) -> None:
    """Others may have added some."""
    try:
        write_cached(path, KIND, {"faults": _read(path) | known})
    except ArgumentError as error:
        log.info("OpenCL kernels are checked again in the next process: %s", error)
