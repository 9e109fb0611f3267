"""The OpenCL device: every op of the case table against NumPy in float64.

In the table tests a program's arena and slots lie behind each other in one buffer, with guards between them and gaps
between pixels. All but the inputs is poisoned with NaN: what reads outside or too early turns into NaN, and every
element that no step is meant to write must keep its bits.
"""

import ctypes
import re
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from bounds import bound
from graphs import zoo_net
from kernel_runs import nhwc
from strided_memory import elements
from winograd_reference import winograd_bound

from pipeall._kernels.opencl import methods as cl_methods
from pipeall._kernels.opencl.launches import unsupported
from pipeall.errors import DeviceError
from pipeall.graph.cases.op_cases import CASES, Case, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.memory import dense, slot_elements
from pipeall.graph.ops import attributes, run_graph
from pipeall.graph.pointwise import BINARY, UNARY
from pipeall.pipeline.devices.opencl.opencl_device import ClProgram
from pipeall.steps import ARENA, CONSTANT, SLOT_IN, SLOT_OUT, Lowered, Step, Strided, View, item_bytes

GUARD = 64
POISON = np.array(0x7FC0DEAD, np.uint32).view(np.float32)  # a NaN that no arithmetic makes


def run_mapped(program, source, target):
    """One frame through slots in OpenCL memory; ``target`` is what the output slot holds before. Returns it after."""
    slots = [program.slot(max(array.nbytes, 4)) for array in (source, target)]
    for slot, array in zip(slots, (source, target), strict=True):
        ctypes.memmove(slot.data, array.ctypes.data, array.nbytes)
    _, data = program.native.run(*((slot.data, slot.mem, slot.nbytes) for slot in slots))
    return np.array((ctypes.c_float * target.size).from_address(data))


def in_one_buffer(lowered):
    """The same steps with all three bases in SLOT_OUT, and where an operand of the old steps lies in the new ones.

    A single step on pixels gets gaps between them, too, where the slots are those pixels; several share views, which
    have to stay dense.
    """
    scale, gap = (4, 3) if on_pixels(lowered) else (1, 0)
    sizes = {
        SLOT_IN: lowered.slot_in_bytes // 4,
        ARENA: lowered.arena_bytes // 4,
        SLOT_OUT: lowered.slot_out_bytes // 4,
    }
    starts, end = {}, GUARD
    for base, size in sizes.items():
        starts[base], end = end, end + (scale * size + 1) // 2 * 2 + GUARD  # whole elements of 8 bytes

    def moved(operand):
        if operand.base == CONSTANT:
            return operand
        offset = starts[operand.base] * 4 // item_bytes(operand.dtype) + scale * operand.offset
        wider = {"stride": operand.stride + gap} if isinstance(operand, View) else {}
        return replace(operand, base=SLOT_OUT, offset=offset, **wider)

    steps = tuple(replace(s, src=tuple(map(moved, s.src)), dst=moved(s.dst)) for s in lowered.steps)
    return replace(lowered, steps=steps, arena_bytes=0, slot_in_bytes=0, slot_out_bytes=4 * end), moved


def on_pixels(lowered):
    """Whether there is a single step on pixels, and the slots hold just these."""
    if len(lowered.steps) != 1 or lowered.steps[0].kind == "copy":
        return False
    (step,) = lowered.steps
    slots = [(SLOT_IN, slot) for slot in lowered.slot_in] + [(SLOT_OUT, slot) for slot in lowered.slot_out]
    return {dense(slot.shape, base, slot.offset, slot.dtype) for base, slot in slots} == {*step.src, step.dst}


def pixels(view):
    """The operand that has the (h, w, c) elements of a view."""
    strides = (view.w * view.stride, view.stride, 1)
    return Strided(view.base, view.offset, (view.h, view.w, view.c), strides, view.dtype)


def border(lowered, slot, base, moved=lambda operand: operand):
    """Where the elements of a slot's tensor lie, and their shape there."""
    if on_pixels(lowered):
        return pixels(moved(dense(slot.shape, base, slot.offset, slot.dtype)))
    return moved(slot_elements(slot, base))


def shaped(array, operand):
    """An array as the elements of a ``border``."""
    return array if array.shape == operand.shape else nhwc(array).reshape(operand.shape)


def written(steps, nbytes):
    """Whether some step writes each byte of the memory that all lie in."""
    found = np.zeros(nbytes, np.uint8)
    for step in steps:
        dst = step.dst if isinstance(step.dst, Strided) else pixels(step.dst)
        if step.kind == "copy":
            dst = replace(dst, shape=step.params["dims"], strides=step.params["dst_strides"])
        size = item_bytes(dst.dtype)
        strides = (*(size * stride for stride in dst.strides), 1)
        np.lib.stride_tricks.as_strided(found[size * dst.offset :], (*dst.shape, size), strides)[...] = 1
    return found.astype(bool)


def check_case(case, device, bound=bound):
    """``bound``: of graph, inputs and expected result, as in bounds.py. What has no kernel is refused by name."""
    graph, inputs = case_graph(case)
    lowered = lower(replace(graph, receives=True, transmits=True))
    if reason := unsupported(lowered, "fp32"):
        with pytest.raises(DeviceError, match=re.escape(reason)):
            ClProgram(lowered, device)
        return
    guarded, moved = in_one_buffer(lowered)
    before = np.full(guarded.slot_out_bytes // 4, POISON)
    for slot in lowered.slot_in:
        at = border(lowered, slot, SLOT_IN, moved)
        elements(before, at)[...] = shaped(inputs[slot.name], at)
    after = run_mapped(ClProgram(guarded, device), np.zeros(0, np.float32), before)

    untouched = ~written(guarded.steps, before.nbytes)
    np.testing.assert_array_equal(after.view(np.uint8)[untouched], before.view(np.uint8)[untouched])

    (expected,) = run_graph(graph, inputs).values()
    (slot,) = lowered.slot_out
    at = border(lowered, slot, SLOT_OUT, moved)
    close(elements(after, at), shaped(expected, at), lambda: shaped(bound(graph, inputs, expected), at), case)


def close(got, expected, allowed, case):
    """Floats within what is allowed, all else equal."""
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    with np.errstate(invalid="ignore"):
        error = np.where((got == expected) | (np.isnan(got) & np.isnan(expected)), 0, np.abs(got - expected))
    assert ((error == 0) | (error <= allowed())).all(), f"{case}: largest error {error.max():.3g}"


WINDOW = dict(strides=(1, 1), pads=(1, 0, 1, 1))
PAIRS = [  # the window kernels take four channels at a time: a rest of two is not in the table
    Case("maxpool", WINDOW | dict(kernel=(3, 2), dilations=(1, 1), ceil=False), ((1, 6, 5, 4),)),
    Case("avgpool", WINDOW | dict(kernel=(3, 2), ceil=False, count_include_pad=True), ((1, 6, 5, 4),)),
    Case("conv", attributes("conv", **WINDOW, groups=6), ((1, 6, 5, 4),), ((6, 1, 3, 2), (6,))),
]


POINTWISE = {*UNARY, *BINARY, "cast", "where"}


def fewer(cases, rare, *before):
    """Parameters of a test: two of three of the rare cases run with --full alone.

    Of a formula each type of elements is a program of its own, which takes longer to compile than all else.
    ``before``: further parameters of each.
    """
    marks = cycle(((), pytest.mark.full, pytest.mark.full))
    return [pytest.param(*before, case, marks=next(marks) if rare(case) else ()) for case in cases]


TABLE = [*(case for cases in CASES.values() for case in cases), *PAIRS]


# test_opencl_strided has every formula on integers
@pytest.mark.parametrize("case", fewer(TABLE, lambda case: case.types and case.op in POINTWISE), ids=str)
def test_case(case, device):
    check_case(case, device)


@pytest.mark.parametrize("case", [*CASES["conv"], *CASES["fc"]], ids=str)
def test_case_with_gpu_tile(case, tiled_as_gpu):
    check_case(case, tiled_as_gpu)


def three_by_three(h, w, cin, cout, pads=(1, 1, 1, 1), **clamp):
    return Case("conv", attributes("conv", pads=pads, **clamp), ((1, cin, h, w),), ((cout, cin, 3, 3), (cout,)))


def plain(case):
    return case.attrs["strides"] == case.attrs["dilations"] == (1, 1) and case.attrs["groups"] == 1


WINOGRAD = [
    *(case for case in CASES["conv"] if case.constants[0][2:] == (3, 3) and case.shapes[0][0] == 1),
    three_by_three(7, 9, 19, 21),
    three_by_three(5, 4, 16, 32, lo=0.0, hi=6.0),
    three_by_three(3, 11, 7, 3, pads=(0, 2, 1, 0)),
    three_by_three(1, 1, 8, 8),
]


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("case", WINOGRAD, ids=str)
@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_winograd(case, tile, parameters, request, monkeypatch):
    chosen = []

    def always(step, largest):
        chosen.append(tile if tile in cl_methods.winograd_tiles(step) else 0)
        return chosen[-1]

    monkeypatch.setattr(cl_methods, "winograd", always)
    within = (lambda graph, inputs, _: winograd_bound(graph, inputs, tile)) if plain(case) else bound
    check_case(case, request.getfixturevalue(parameters), within)
    assert chosen == [tile] if plain(case) else set(chosen) <= {0}  # a depthwise one is not asked for


def test_winograd_is_chosen_where_it_saves_most():
    steps = [step for step in lower(zoo_net("resnet50")).steps if step.kind == "conv"]
    chosen = {(s.src[0].h, s.src[0].c): cl_methods.winograd(s, 4) for s in steps if s.weight.shape[2:] == (3, 3)}
    assert chosen[56, 64] == chosen[28, 128] == chosen[14, 256] == 4
    assert {cl_methods.winograd(step, 2) for step in steps if step.src[0].h == 56} == {0, 2}
    assert not any(cl_methods.winograd(step, 4) for step in steps if step.weight.shape[2:] != (3, 3))


# ---- half precision

HALF = 2.0**-11  # what storing rounds by, relatively; half of the smallest number is 2^-25


def in_arena(lowered):
    """The same steps between a copy of the input slot into the arena and one of the result out of it."""
    n, m = lowered.slot_in_bytes // 4, lowered.slot_out_bytes // 4
    starts = {SLOT_IN: 0, SLOT_OUT: n, ARENA: n + m}

    def moved(operand):
        if operand.base == CONSTANT:
            return operand
        return replace(operand, base=ARENA, offset=starts[operand.base] + operand.offset)

    def copy(node, source, target, size):
        views = [View(base, offset, 1, 1, size, size) for base, offset in (source, target)]
        return Step("copy", node, (views[0],), views[1], dict(dims=(size,), src_strides=(1,), dst_strides=(1,)))

    steps = tuple(replace(s, src=tuple(map(moved, s.src)), dst=moved(s.dst)) for s in lowered.steps)
    steps = (copy("in", (SLOT_IN, 0), (ARENA, 0), n), *steps, copy("out", (ARENA, n), (SLOT_OUT, 0), m))
    return replace(lowered, steps=steps, arena_bytes=4 * (n + m) + lowered.arena_bytes)


IN_ARENA = [cases for op, cases in CASES.items() if op != "picture"]  # whose words are read by the CPU, in a slot
STORED = [*(case for cases in IN_ARENA for case in cases[::3]), *PAIRS]
AS_GPU = [case for op in ("conv", "fc") for case in CASES[op][::3]]  # the parameters are theirs


@pytest.mark.parametrize(
    ("parameters", "case"),
    [
        *fewer(STORED, lambda case: case.op in {*POINTWISE, "reduce"}, "device"),  # formulas are those of floats
        *(("tiled_as_gpu", case) for case in AS_GPU),
    ],
    ids=str,
)
def test_case_stored_in_half(case, parameters, request, monkeypatch):
    """Inputs and weights are numbers of half precision: then only the result is rounded to it."""
    monkeypatch.setattr(cl_methods, "winograd", lambda step, largest: 0)
    graph, inputs = case_graph(case)
    weights = graph.nodes[0].inputs[1:2] if graph.nodes[0].op in ("conv", "deconv", "fc") else ()
    rounded = {name: np.float32(np.float16(array)) for name, array in graph.constants.items() if name in weights}
    graph = replace(graph, constants=dict(graph.constants) | rounded)
    inputs = {name: np.float32(np.float16(x)) for name, x in inputs.items()}
    lowered = lower(replace(graph, receives=True, transmits=True))
    device = request.getfixturevalue(parameters)
    if reason := unsupported(lowered, "mixed"):
        with pytest.raises(DeviceError, match=re.escape(reason)):
            ClProgram(lowered, device, precision="mixed")
        return
    source = np.zeros(lowered.slot_in_bytes // 4, np.float32)
    for slot in lowered.slot_in:
        elements(source, slot_elements(slot, SLOT_IN))[...] = inputs[slot.name]
    result = ClProgram(in_arena(lowered), device, precision="mixed").run(source)
    (expected,) = run_graph(graph, inputs).values()
    (slot,) = lowered.slot_out
    allowed = bound(graph, inputs, expected) + 1.01 * HALF * np.abs(expected) + 2.0**-25
    allowed = np.where(np.abs(expected) > np.finfo(np.float16).max, np.inf, allowed)  # half has no such number
    close(elements(result, slot_elements(slot, SLOT_OUT)), expected, lambda: allowed, case)


def test_arithmetic_in_half_needs_the_device(opencl_info, device):
    lowered = lower(zoo_net("squeezenet"))
    if opencl_info.fp16:
        zeros = np.zeros(lowered.slot_in_bytes // 4, np.float32)
        result = ClProgram(lowered, device, precision="fp16").run(zeros)
        (slot,) = lowered.slot_out
        assert np.isfinite(elements(result, slot_elements(slot, SLOT_OUT))).all()
    else:
        with pytest.raises(DeviceError, match="expected cl_khr_fp16 for fp16, got none; mixed only stores in it"):
            ClProgram(lowered, device, precision="fp16")


# From floats to floats; those that are 0 in a range are so for NaN
FLOAT_UNARY = [op for op, entry in UNARY.items() if entry.floats and op not in ("thresholdedrelu", "shrink")]


@pytest.mark.parametrize("op", ["maxpool", "conv", "depthwise", "add", *FLOAT_UNARY])
def test_nan_stays_nan(op, device):
    """A clamp or a maximum must not turn NaN into a number; the poison of the table tests relies on that, too."""
    view, out = View(SLOT_IN, 0, 1, 1, 4, 4), View(SLOT_OUT, 0, 1, 1, 4, 4)
    window = dict(kernel=(1, 1), **attributes("conv", lo=0.0, hi=6.0))
    bias = np.zeros(4, np.float32)
    step = {
        "maxpool": Step("maxpool", op, (view,), out, window),
        "conv": Step("conv", op, (view,), out, window, np.ones((4, 4, 1, 1), np.float32), bias),
        "depthwise": Step("conv", op, (view,), out, window | dict(groups=4), np.ones((4, 1, 1, 1), np.float32), bias),
        "add": Step("binary", op, (view, view), out, dict(op="add", lo=0.0, hi=6.0)),
    }.get(op, Step("unary", op, (view,), out, dict(op=op, p0=0.5, p1=6.0)))
    result = ClProgram(Lowered((step,), 0, (), 16, (), 16), device).run(np.full(4, np.nan, np.float32))
    assert np.isnan(result).all()


def test_network_is_as_accurate_as_numpy(device):
    """All of MobileNet; the yardstick is the error that float32 in NumPy has against float64."""
    graph = zoo_net("mobilenet")
    (tensor,) = graph.inputs
    x = np.random.default_rng(1).standard_normal(tensor.shape).astype(np.float32)
    (exact,) = run_graph(graph, {tensor.name: x}).values()
    (single,) = run_graph(graph, {tensor.name: x}, np.float32).values()
    lowered = lower(graph)
    slot_in = np.zeros(lowered.slot_in_bytes // 4, np.float32)
    slot_in[: x.size] = x.ravel()
    result = ClProgram(lowered, device).run(slot_in)[: exact.size].reshape(exact.shape)
    assert np.abs(result - exact).max() <= 4 * np.abs(single - exact).max()
