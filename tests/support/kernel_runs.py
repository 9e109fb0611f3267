"""Cases of the table run on the kernels of one table, in place on views with gaps and guard bands.

What a kernel must not read holds NaN, what it must not write is checked afterwards.
"""

from dataclasses import replace
from functools import cache
from math import inf

import numpy as np
import pytest
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu import cluster
from pipeall._kernels.cpu.table import OPS, ROWS, choose
from pipeall.graph.cases.op_cases import Case, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import attributes, run_graph
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

FLOAT_ROWS = tuple(row for row in ROWS if row.type == "f32")
FLOAT_ISAS = sorted({row.isa for row in FLOAT_ROWS})
GUARD, GAP = 37, 3  # floats around a view, and between its pixels; odd, so that nothing is aligned


@cache
def supported_isas():
    return cluster.detect()[0].isas


def float_isas():
    """Those with kernels of floats."""
    return [isa for isa in supported_isas() if isa in FLOAT_ISAS]


@cache
def reference_table():
    return {key: next(row.name for row in ROWS if (row.op, row.type) == key and row.isa == "ref") for key in OPS}


def spread(view):
    """The same view with guard bands and gaps."""
    if view.base not in (SLOT_IN, SLOT_OUT):
        return view
    return replace(view, offset=view.offset + GUARD, stride=view.c + GAP)


def end(view):
    return view.offset + view.h * view.w * view.stride


def nhwc(array):
    """Pixels (N h, w, c) of images, several one below the other; anything else as one pixel."""
    if array.ndim != 4:
        return array.reshape(1, 1, -1)
    return array.transpose(0, 2, 3, 1).reshape(-1, array.shape[3], array.shape[1])


def pixels(memory, view):
    """A (h, w, c) window into flat memory of the view's type."""
    strides = tuple(memory.itemsize * step for step in (view.w * view.stride, view.stride, 1))
    return np.lib.stride_tricks.as_strided(memory[view.offset :], (view.h, view.w, view.c), strides)


def run_step(step, arrays, table, cores, algorithm=None, arena_bytes=0):
    """The result of a step, (h, w, c), after checking every element around it; what must not be read is NaN."""
    read, written = (end(view) + GUARD for view in (step.src[-1], step.dst))
    slot = np.full(read, np.nan, step.dst.dtype)
    program = CpuProgram(table, cores, "test", (arena_bytes, slot.nbytes, slot.itemsize * written))
    program.add(step, algorithm)
    for view, array in zip(step.src, arrays, strict=True):
        pixels(slot, view)[:] = array
    out = program.run(slot)[:written]
    result = pixels(out, step.dst).copy()
    pixels(out, step.dst)[:] = np.nan
    assert np.isnan(out).all(), "wrote outside its view"
    return result


def run_case(case, table, cores, algorithm=None, weights=lambda array: array):
    """The result of the one step of a case, (h, w, c), after checking every float around it.

    ``weights`` makes others of those of a convolution.
    """
    graph, inputs = case_graph(case)
    made = {name: weights(array) if array.ndim == 4 else array for name, array in graph.constants.items()}
    graph = replace(graph, constants=made)
    lowered = lower(replace(graph, receives=True, transmits=True))
    (step,) = lowered.steps
    offset, views = 0, []
    for view in step.src:  # inputs one after the other, each with its own bands
        view = spread(replace(view, offset=offset))
        views.append(view)
        offset = end(view) + GUARD
    step = replace(step, src=tuple(views), dst=spread(replace(step.dst, offset=0)))
    order = [slot_tensor.name for slot_tensor in lowered.slot_in]
    arrays = [nhwc(inputs[name]).reshape(view.h, view.w, view.c) for view, name in zip(views, order, strict=True)]
    result = run_step(step, arrays, table, cores, algorithm, lowered.arena_bytes)
    return result, graph, inputs


def pointwise_case(c_in, c_out, hw, lo=-inf, hi=inf, strides=(1, 1), residual=False):
    """A convolution of 1x1."""
    attrs = attributes("conv", lo=lo, hi=hi, strides=strides)
    out = (1, c_out, *(-(-size // stride) for size, stride in zip(hw, strides, strict=True)))
    return Case("conv", attrs, ((1, c_in, *hw), *((out,) if residual else ())), ((c_out, c_in, 1, 1), (c_out,)))


def pointwise_magnitudes(graph, inputs):
    """Of a convolution of 1x1: of A (pixels, channels), of B (channels, filters), and of what is added to A B."""
    (node,) = graph.nodes
    x, weight, bias, *residual = (np.abs((inputs | graph.constants)[name].astype(np.float64)) for name in node.inputs)
    down, right = node.attrs["strides"]
    a = nhwc(x[:, :, ::down, ::right]).reshape(-1, x.shape[1])
    added = sum((nhwc(r).reshape(len(a), -1) for r in residual), np.tile(bias, (len(a), 1)))
    return a, weight[:, :, 0, 0].T, added


def check_pointwise(case, isa, core, algorithm, bound, **run):
    """A case of 1x1 is within ``bound(graph, inputs)``, (rows, columns), by an algorithm, and has the same bits from
    any number of threads, whose chunks differ. ``run``: see ``run_case``."""
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    table = choose((isa, "ref"), core)
    result, graph, inputs = run_case(case, table, (-1,), algorithm, **run)
    (expected,) = run_graph(graph, inputs).values()
    error = np.abs(result - nhwc(expected)).reshape(-1, expected.shape[1])
    allowed = bound(graph, inputs)[: len(error)]
    assert (error <= allowed).all(), f"error {error.max():.3g}, allowed there {allowed.flat[error.argmax()]:.3g}"
    for threads in (2, 3):
        again, _, _ = run_case(case, table, (-1,) * threads, algorithm, **run)
        assert np.array_equal(result, again), f"differs on {threads} threads"


def on_pixels(step):
    return all(isinstance(view, View) for view in (*step.src, step.dst))


def single_step(case):
    """The step of a case that lowers to one on views of its own, else None: test_lower and the networks cover those."""
    steps = lower(replace(case_graph(case)[0], receives=True, transmits=True)).steps
    return steps[0] if len(steps) == 1 and steps[0].dst.base == SLOT_OUT and on_pixels(steps[0]) else None


def conv_step(c_in, c_out, size, kernel, stride=1, groups=1, dilation=1):
    """A convolution of a square input, padded to keep its size at stride 1."""
    kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    pads = tuple(dilation * (k // 2) for k in kernel) * 2
    out = (size - 1) // stride + 1
    strides, dilations = (stride, stride), (dilation, dilation)
    params = dict(kernel=kernel, strides=strides, pads=pads, dilations=dilations, groups=groups, lo=0.0, hi=6.0)
    source, target = View(SLOT_IN, 0, size, size, c_in, c_in), View(SLOT_OUT, 0, out, out, c_out, c_out)
    weight = np.zeros((c_out, c_in // groups, *kernel), np.float32)
    return Step("conv", "c", (source,), target, params, weight, np.zeros(c_out, np.float32))
