"""From steps to launches: which kinds of step OpenCL has kernels for, and the recording of a program's."""

from __future__ import annotations

from math import prod
from typing import Any

from ...errors import DeviceError
from ...steps import CONSTANT, Lowered, Step, Strided, is_depthwise
from . import cl_devices as opencl
from . import copy_cl, index_cl, lrn_cl, matmul_cl, picture_cl, pointwise_cl, pool_cl, reduce_cl, resize_cl
from .axes import RANK_MAX
from .conv_cl import direct
from .depthwise_cl import depthwise
from .matmul_cl import scores
from .methods import Choose, modelled
from .recorder import Kind, Recorder, at, float32_only
from .winograd_cl import winograd


def conv(recorder: Recorder, step: Step) -> None:
    p = step.params
    residual = at(step.src[1]) if len(step.src) > 1 else (None, 0, 0)
    clamp = float(p["lo"]), float(p["hi"])
    if is_depthwise(step):
        depthwise(recorder, step, residual, clamp)
    elif recorder.m(step):
        winograd(recorder, step, residual, clamp)
    else:
        direct(recorder, step, residual, clamp)


KINDS: dict[str, Kind] = {
    "conv": Kind(conv, (float32_only,)),
    **copy_cl.KINDS,
    **index_cl.KINDS,
    **lrn_cl.KINDS,
    **matmul_cl.KINDS,
    **picture_cl.KINDS,
    **pointwise_cl.KINDS,
    **pool_cl.KINDS,
    **reduce_cl.KINDS,
    **resize_cl.KINDS,
}


def record(
    lowered: Lowered, device: opencl.Device, precision: str = "fp32", choose: Choose = modelled, arena: Any = None
) -> Recorder:
    """The launches of a program's steps; ``arena``: as for Recorder.

    Raises DeviceError naming the first step that has no kernel.
    """
    if reason := unsupported(lowered, precision):
        raise DeviceError(reason)
    products = [prod(scores(step).shape) for step in lowered.steps if step.kind == "attention"]
    recorder = Recorder(lowered, device, precision, choose, max(products, default=0), arena)
    for number, step in enumerate(lowered.steps):
        recorder.add(number, step, KINDS[step.kind])
    return recorder


def unsupported(lowered: Lowered, precision: str) -> str | None:
    """The first thing that OpenCL has no kernels for in a precision, in one line; None where it has all."""
    for step in lowered.steps:
        operands = (step.dst,) if step.kind == "picture" else (*step.src, step.dst)
        if step.kind not in KINDS:
            return f"step {step.node}: OpenCL has no {step.kind} kernel"
        if reason := _refusal(step):
            return f"step {step.node} ({step.kind}): OpenCL {reason}"
        foreign = sorted({x.dtype for x in operands if x.base != CONSTANT} - {"float32"})
        if precision != "fp32" and foreign:
            expected = f"{precision}: expected float32 tensors alone, which it stores in half"
            return f"step {step.node} ({step.kind}): {expected}; got {', '.join(foreign)}"
    return None


def _refusal(step: Step) -> str | None:
    ranks = (len(operand.shape) for operand in (*step.src, step.dst) if isinstance(operand, Strided))
    if (rank := max(ranks, default=0)) > RANK_MAX:
        return f"takes at most {RANK_MAX} axes, got {rank}"
    return next((reason for refuses in KINDS[step.kind].refusals if (reason := refuses(step))), None)
