"""The OpenCL device: every op of the case table against NumPy in float64, the program cache, errors.

In the table tests a program's arena and slots lie behind each other in one buffer, with guards between them and gaps
between pixels. All but the inputs is poisoned with NaN: what reads outside or too early turns into NaN, and every
element that no step is meant to write must keep its bits.
"""

import ctypes
import hashlib
import shutil
import subprocess
from dataclasses import replace
from math import inf, prod

import numpy as np
import pytest
from bounds import bound
from graphs import zoo_net
from process import resident_bytes
from step_reference import Memory
from winograd_reference import winograd_bound

from pipeall._kernels.opencl import devices as opencl
from pipeall._kernels.opencl import launches as cl_launches
from pipeall._kernels.opencl import queue as clqueue
from pipeall.errors import ArgumentError, DeviceError, MissingExtraError
from pipeall.graph.cases import CASES, Case, case_graph
from pipeall.graph.lower import UNARY, lower
from pipeall.graph.memory import dense
from pipeall.graph.ops import run_graph
from pipeall.pipeline.devices.opencl.device import ClProgram
from pipeall.steps import ARENA, SLOT_IN, SLOT_OUT, Lowered, Step, View

GUARD = 64
POISON = np.array(0x7FC0DEAD, np.uint32).view(np.float32)  # a NaN that no arithmetic makes


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPEALL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def info(cache_folder):
    try:
        available = opencl.devices()
    except MissingExtraError as error:
        pytest.skip(f"no OpenCL: {error}; pip install 'pyopencl[pocl]' runs the kernels on any CPU")
    if not available:
        pytest.skip("no OpenCL device: pip install 'pyopencl[pocl]' adds one that runs on any CPU")
    return opencl.choose(available)


@pytest.fixture(scope="module")
def device(info):
    return opencl.Device(info)


@pytest.fixture(scope="module")
def tiled_as_gpu(info):
    """The same device under the kernel parameters of a GPU."""
    return opencl.Device(replace(info, stand_in=False))


def run_mapped(program, source, target):
    """One frame through slots in OpenCL memory; ``target`` is what the output slot holds before. Returns it after."""
    slots = [program.slot(max(array.nbytes, 4)) for array in (source, target)]
    for slot, array in zip(slots, (source, target), strict=True):
        ctypes.memmove(slot.data, array.ctypes.data, array.nbytes)
    _, data = program.native.run(*((slot.data, slot.mem, slot.nbytes) for slot in slots))
    return np.array((ctypes.c_float * target.size).from_address(data))


def in_one_buffer(lowered):
    """The same steps with all three bases in SLOT_OUT, and where a view of the old steps lies in the new ones.

    A single step gets gaps between its pixels, too; several share views, which have to stay dense.
    """
    scale, gap = (4, 3) if [step.kind == "copy" for step in lowered.steps] == [False] else (1, 0)
    sizes = {
        SLOT_IN: lowered.slot_in_bytes // 4,
        ARENA: lowered.arena_bytes // 4,
        SLOT_OUT: lowered.slot_out_bytes // 4,
    }
    starts, end = {}, GUARD
    for base, size in sizes.items():
        starts[base], end = end, end + scale * size + GUARD

    def moved(view):
        offset = starts[view.base] + scale * view.offset
        return replace(view, base=SLOT_OUT, offset=offset, stride=view.stride + gap)

    steps = tuple(replace(s, src=tuple(map(moved, s.src)), dst=moved(s.dst)) for s in lowered.steps)
    return replace(lowered, steps=steps, arena_bytes=0, slot_in_bytes=0, slot_out_bytes=4 * end), moved


def pixels(memory, view):
    """The (h, w, c) elements of a view, in place."""
    strides = (view.w * view.stride * 4, view.stride * 4, 4)
    return np.lib.stride_tricks.as_strided(memory[view.offset :], (view.h, view.w, view.c), strides)


def nhwc(array):
    return array[0].transpose(1, 2, 0) if array.ndim == 4 else array.reshape(1, 1, -1)


def check_case(case, device, bound=bound):
    """``bound``: of graph, inputs and expected result, as in bounds.py."""
    graph, inputs = case_graph(case)
    lowered = lower(replace(graph, receives=True, transmits=True))
    guarded, moved = in_one_buffer(lowered)
    before = np.full(guarded.slot_out_bytes // 4, POISON)
    for slot in lowered.slot_in:
        pixels(before, moved(dense(slot.shape, SLOT_IN, slot.offset)))[:] = nhwc(inputs[slot.name])
    after = run_mapped(ClProgram(guarded, device), np.zeros(0, np.float32), before)

    untouched, numbers, memory = np.ones(before.size, bool), np.arange(before.size), Memory(guarded)
    for step in guarded.steps:
        untouched[memory.touched(numbers, step)[1]] = False
    np.testing.assert_array_equal(after[untouched].view(np.uint32), before[untouched].view(np.uint32))

    (expected,) = run_graph(graph, inputs).values()
    (slot,) = lowered.slot_out
    error = np.abs(pixels(after, moved(dense(slot.shape, SLOT_OUT, slot.offset))) - nhwc(expected))
    assert (error <= nhwc(bound(graph, inputs, expected))).all(), f"{case}: largest error {error.max():.3g}"


WINDOW = dict(strides=(1, 1), pads=(1, 0, 1, 1))
PAIRS = [  # the window kernels take four channels at a time: a rest of two is not in the table
    Case("maxpool", WINDOW | dict(kernel=(3, 2), dilations=(1, 1), ceil=False), ((1, 6, 5, 4),)),
    Case("avgpool", WINDOW | dict(kernel=(3, 2), ceil=False, count_include_pad=True), ((1, 6, 5, 4),)),
    Case("conv", WINDOW | dict(dilations=(1, 1), groups=6, lo=-inf, hi=inf), ((1, 6, 5, 4),), ((6, 1, 3, 2), (6,))),
]


@pytest.mark.parametrize("case", [*(case for cases in CASES.values() for case in cases), *PAIRS], ids=str)
def test_case(case, device):
    check_case(case, device)


@pytest.mark.parametrize("case", [*CASES["conv"], *CASES["fc"]], ids=str)
def test_case_with_gpu_tile(case, tiled_as_gpu):
    check_case(case, tiled_as_gpu)


def three_by_three(h, w, cin, cout, pads=(1, 1, 1, 1), **clamp):
    window = dict(strides=(1, 1), dilations=(1, 1), groups=1, pads=pads) | dict(lo=-inf, hi=inf) | clamp
    return Case("conv", window, ((1, cin, h, w),), ((cout, cin, 3, 3), (cout,)))


def plain(case):
    return case.attrs["strides"] == case.attrs["dilations"] == (1, 1) and case.attrs["groups"] == 1


WINOGRAD = [
    *(case for case in CASES["conv"] if case.constants[0][2:] == (3, 3)),
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
        chosen.append(tile if tile in cl_launches.winograd_tiles(step) else 0)
        return chosen[-1]

    monkeypatch.setattr(cl_launches, "winograd", always)
    within = (lambda graph, inputs, _: winograd_bound(graph, inputs, tile)) if plain(case) else bound
    check_case(case, request.getfixturevalue(parameters), within)
    assert chosen == [tile] if plain(case) else set(chosen) <= {0}  # a depthwise one is not asked for


def test_winograd_is_chosen_where_it_saves_most():
    steps = [step for step in lower(zoo_net("resnet50")).steps if step.kind == "conv"]
    chosen = {(s.src[0].h, s.src[0].c): cl_launches.winograd(s, 4) for s in steps if s.weight.shape[2:] == (3, 3)}
    assert chosen[56, 64] == chosen[28, 128] == chosen[14, 256] == 4
    assert {cl_launches.winograd(step, 2) for step in steps if step.src[0].h == 56} == {0, 2}
    assert not any(cl_launches.winograd(step, 4) for step in steps if step.weight.shape[2:] != (3, 3))


# ---- half precision

HALF = 2.0**-11  # what storing rounds by, relatively; half of the smallest number is 2^-25


def in_arena(lowered):
    """The same steps between a copy of the input slot into the arena and one of the result out of it."""
    n, m = lowered.slot_in_bytes // 4, lowered.slot_out_bytes // 4
    starts = {SLOT_IN: 0, SLOT_OUT: n, ARENA: n + m}

    def moved(view):
        return replace(view, base=ARENA, offset=starts[view.base] + view.offset)

    def copy(node, source, target, size):
        views = [View(base, offset, 1, 1, size, size) for base, offset in (source, target)]
        return Step("copy", node, (views[0],), views[1], dict(dims=(size,), src_strides=(1,), dst_strides=(1,)))

    steps = tuple(replace(s, src=tuple(map(moved, s.src)), dst=moved(s.dst)) for s in lowered.steps)
    steps = (copy("in", (SLOT_IN, 0), (ARENA, 0), n), *steps, copy("out", (ARENA, n), (SLOT_OUT, 0), m))
    return replace(lowered, steps=steps, arena_bytes=4 * (n + m) + lowered.arena_bytes)


@pytest.mark.parametrize("case", [*(case for cases in CASES.values() for case in cases[::3]), *PAIRS], ids=str)
@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_case_stored_in_half(case, parameters, request, monkeypatch):
    """Inputs and weights are numbers of half precision: then only the result is rounded to it."""
    monkeypatch.setattr(cl_launches, "winograd", lambda step, largest: 0)
    graph, inputs = case_graph(case)
    weights = graph.nodes[0].inputs[1:2] if graph.nodes[0].op in ("conv", "fc") else ()
    rounded = {name: np.float32(np.float16(array)) for name, array in graph.constants.items() if name in weights}
    graph = replace(graph, constants=dict(graph.constants) | rounded)
    inputs = {name: np.float32(np.float16(x)) for name, x in inputs.items()}
    lowered = lower(replace(graph, receives=True, transmits=True))
    source = np.zeros(lowered.slot_in_bytes // 4, np.float32)
    for slot in lowered.slot_in:
        pixels(source, dense(slot.shape, SLOT_IN, slot.offset))[:] = nhwc(inputs[slot.name])
    program = ClProgram(in_arena(lowered), request.getfixturevalue(parameters), precision="mixed")
    result = program.run(source)
    (expected,) = run_graph(graph, inputs).values()
    (slot,) = lowered.slot_out
    got = pixels(result, dense(slot.shape, SLOT_OUT, slot.offset))
    times = 3 if case.op == "softmax" else 1.01  # the exponentials are stored, then divided
    allowed = nhwc(bound(graph, inputs, expected)) + times * HALF * np.abs(nhwc(expected)) + 2.0**-25
    error = np.abs(got - nhwc(expected))
    assert (error <= allowed).all(), f"{case}: largest error {error.max():.3g}"


def test_arithmetic_in_half_needs_the_device(info, device):
    lowered = lower(zoo_net("squeezenet"))
    if info.fp16:
        zeros = np.zeros(lowered.slot_in_bytes // 4, np.float32)
        assert np.isfinite(ClProgram(lowered, device, precision="fp16").run(zeros)).all()
    else:
        with pytest.raises(DeviceError, match="expected cl_khr_fp16 for fp16, got none; mixed only stores in it"):
            ClProgram(lowered, device, precision="fp16")


@pytest.mark.parametrize("op", ["maxpool", "conv", "depthwise", "add", *UNARY])
def test_nan_stays_nan(op, device):
    """A clamp or a maximum must not turn NaN into a number; the poison of the table tests relies on that, too."""
    view, out = View(SLOT_IN, 0, 1, 1, 4, 4), View(SLOT_OUT, 0, 1, 1, 4, 4)
    window = dict(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), kernel=(1, 1))
    clamp, bias = dict(lo=0.0, hi=6.0), np.zeros(4, np.float32)
    step = {
        "maxpool": Step("maxpool", op, (view,), out, window),
        "conv": Step(
            "conv", op, (view,), out, window | clamp | dict(groups=1), np.ones((4, 4, 1, 1), np.float32), bias
        ),
        "depthwise": Step(
            "conv", op, (view,), out, window | clamp | dict(groups=4), np.ones((4, 1, 1, 1), np.float32), bias
        ),
        "add": Step("binary", op, (view, view), out, dict(op="add", swapped=False) | clamp),
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


def copy_program(device, elements=256):
    """Copies its input slot to its output slot."""
    views = [View(base, 0, 1, 1, elements, elements) for base in (SLOT_IN, SLOT_OUT)]
    step = Step("copy", "copy1", (views[0],), views[1], dict(dims=(elements,), src_strides=(1,), dst_strides=(1,)))
    return ClProgram(Lowered((step,), 0, (), 4 * elements, (), 4 * elements), device)


def test_plain_and_mapped_slots_in_any_combination(device):
    program = copy_program(device)
    for frame in range(3):
        for kinds in ((0, 0), (0, 1), (1, 0), (1, 1)):
            x, y = np.full(256, frame + 1, np.float32), np.zeros(256, np.float32)
            slots = [program.slot(1024) for _ in kinds]
            ctypes.memmove(slots[0].data, x.ctypes.data, 1024)
            source, target = (
                (slot.data, slot.mem, 1024) if mapped else (array.ctypes.data, 0, 1024)
                for mapped, slot, array in zip(kinds, slots, (x, y), strict=True)
            )
            kept, data = program.native.run(source, target)
            for address in (kept, data):  # the input slot is mapped again, too
                np.testing.assert_array_equal((ctypes.c_float * 256).from_address(address), x)


def test_slots_are_freed(device):
    program = copy_program(device)

    def resident_bytes_after(slots):
        for _ in range(slots):
            slot = program.slot(1 << 22)
            ctypes.memset(slot.data, 1, slot.nbytes)
        return resident_bytes()

    first = resident_bytes_after(4)
    assert resident_bytes_after(40) - first < 20 << 22


def test_run_checks_its_argument(device):
    with pytest.raises(ArgumentError, match="slot_in: expected 1024 bytes, got 1020"):
        copy_program(device).run(np.zeros(255, np.float32))
    with pytest.raises(ArgumentError, match="got 2048"):
        copy_program(device).run(np.zeros(256))


def test_error_names_call_code_and_step(device):
    kernel, group = device.kernel("copy.cl", "fill")
    for index, value in enumerate((device.allocate(4), np.int32(0), np.int32(1), np.int32(1), np.float32(0))):
        kernel.set_arg(index, value)
    queue, buffer = device.queue(), device.allocate(4)
    staging = {SLOT_IN: (buffer.int_ptr, 4), SLOT_OUT: (buffer.int_ptr, 4)}
    clqueue.load(device.library)
    program = clqueue.Program(queue.int_ptr, [(kernel.int_ptr, "conv1", (3, 1, 1), (2, 1, 1))], [], staging)
    memory = np.zeros(1, np.float32)
    slot = (memory.ctypes.data, 0, 4)
    expected = r"clEnqueueNDRangeKernel failed with CL_INVALID_WORK_GROUP_SIZE \(-54\) in step conv1"
    with pytest.raises(DeviceError, match=expected):
        program.run(slot, slot)


def test_unknown_step_is_refused(device):
    step = Step("fft", "fft1", (), View(SLOT_OUT, 0, 1, 1, 1, 1))
    with pytest.raises(DeviceError, match="step fft1: expected one of conv, .* got fft"):
        ClProgram(Lowered((step,), 0, (), 4, (), 4), device)


def test_buffer_beyond_the_limit(device):
    with pytest.raises(DeviceError, match="expected a buffer of at most [0-9]+ bytes; needed"):
        device.allocate(1 << 62)


def test_missing_entry_points(device):
    with pytest.raises(DeviceError, match="nowhere.so"):
        clqueue.load("nowhere.so")
    try:
        with pytest.raises(DeviceError, match="missing: clSetKernelArg"):
            clqueue.load("libc.so.6")
    finally:
        clqueue.load(device.library)


# ---- building ----


FILES = sorted({*opencl.SOURCES.glob("*.cl")} - {opencl.SOURCES / opencl.COMMON})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_compiles_alone(path, device):
    first = {"channels": "lrn", "elementwise": "binary_add", "peak": "stream", "pool": "avgpool"}
    first["winograd"] = "winograd_output"
    _, group = device.kernel(path.name, first.get(path.stem, path.stem))
    assert prod(group) >= 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("vector", [1, 4])
def test_half_arithmetic_compiles(path, vector, tmp_path):
    """For a device with cl_khr_fp16, which may not be at hand, by clang's front end."""
    if not shutil.which("clang"):
        pytest.skip("no clang: apt-get install clang")
    source = tmp_path / path.name
    source.write_text((opencl.SOURCES / opencl.COMMON).read_text() + path.read_text())
    types = ["-DX=half", "-DY=half", "-DR=half", "-DW=half", "-DHALF_ARITHMETIC=1", f"-DVECTOR={vector}"]
    target = [
        "-target",
        "spir64-unknown-unknown",
        "-Xclang",
        "-finclude-default-header",
        "-Xclang",
        "-cl-ext=+cl_khr_fp16",
    ]
    command = ["clang", "-x", "cl", "-cl-std=CL1.2", *target, *types, "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_build_failure_shows_file_and_log(device):
    with pytest.raises(DeviceError, match=r"conv.cl does not build for .*-DVECTOR=5(?s:.*)float5"):
        device.kernel("conv.cl", "conv", VECTOR=5)


@pytest.fixture
def built(info, tmp_path, monkeypatch):
    """Opens the device with an empty cache and gives the sources it compiled; each call is a fresh start."""
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    compiled = []
    build = opencl.Device._build
    monkeypatch.setattr(
        opencl.Device, "_build", lambda self, file, *rest: compiled.append(file) or build(self, file, *rest)
    )

    def start():
        compiled.clear()
        np.testing.assert_array_equal(
            copy_program(opencl.Device(info)).run(np.arange(256, dtype=np.float32)), np.arange(256)
        )
        return list(compiled)

    return start


def test_second_start_does_not_compile(built):
    assert built() == ["copy.cl"]
    assert built() == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: hashlib.sha256(b"no program").digest() + b"no program",
    ],
    ids=["empty", "cut", "last bit", "first bit", "refused by the driver"],
)
def test_damaged_cache_file_is_rebuilt(damage, built, tmp_path):
    built()
    (path,) = (tmp_path / "opencl").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert built() == ["copy.cl"]
    assert list((tmp_path / "opencl").iterdir()) == [path]
    assert built() == []


def test_cache_that_cannot_be_written_is_a_warning(built, tmp_path):
    (tmp_path / "opencl").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="compiled OpenCL programs are not kept: .*opencl"):
        assert built() == ["copy.cl"]


def test_devices_lists_what_there_is(info):
    assert [device.index for device in opencl.devices()] == list(range(len(opencl.devices())))
    assert info in opencl.devices() and info.compute_units >= 1
    assert ("a CPU standing in" in str(info)) == info.stand_in
