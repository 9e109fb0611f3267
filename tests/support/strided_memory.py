"""Steps on strided operands on an OpenCL device: their memory, what they make of arrays, and how near that must be.

All operands lie in one buffer with random orders of axes and gaps. Everything but them is poisoned, and elements that
no step is meant to write must keep their bits.
"""

import ctypes
from dataclasses import replace
from math import inf

import numpy as np

from pipeall.pipeline.devices.opencl.opencl_device import ClProgram
from pipeall.steps import ARENA, CONSTANT, SLOT_OUT, Lowered, Step, Strided, View

U = 2.0**-24  # the rounding of one operation in float32
HALF = 2.0**-11  # what storing in half precision rounds by; 2^-25 below its normal numbers
POISON = 0xC3  # of every byte: -391.5 in float32, far from all operands in any type
GUARD = 64  # bytes


class Buffer:
    """The output slot as memory for all operands; ``rng`` chooses how they lie."""

    def __init__(self, seed):
        self.rng, self.bytes = np.random.default_rng(seed), bytearray([POISON] * GUARD)

    def place(self, array, dense=False):
        """Strided: the array's elements with its axes in a random order, each with a random gap; stride 0 stays 0."""
        kept = [axis for axis in range(array.ndim) if array.strides[axis] or array.shape[axis] == 1]
        order = kept if dense else self.rng.permutation(kept).tolist()
        size, strides = 1, [0] * array.ndim
        for axis in reversed(order):
            strides[axis] = size
            size *= array.shape[axis]
            if not dense:
                size += int(self.rng.integers(0, 3))
        item = array.itemsize
        self.bytes += bytes([POISON]) * (-len(self.bytes) % 8)
        offset = len(self.bytes) // item
        self.bytes += bytes([POISON]) * (size * item + GUARD)
        operand = Strided(SLOT_OUT, offset, array.shape, tuple(strides), str(array.dtype))
        elements(self.bytes, operand)[...] = array
        return operand


def elements(memory, operand):
    """The elements of an operand, in place."""
    array = np.frombuffer(memory, operand.dtype)[operand.offset :]
    strides = [stride * array.itemsize for stride in operand.strides]
    return np.lib.stride_tricks.as_strided(array, operand.shape, strides)


def constant(array):
    """An operand that brings its elements; its axes of stride 0 stay."""
    bare = np.array(array[tuple(slice(0, 1) if not step else slice(None) for step in array.strides)], order="C")
    strides = [
        0 if not given else step // array.itemsize for given, step in zip(array.strides, bare.strides, strict=True)
    ]
    return Strided(CONSTANT, 0, array.shape, tuple(strides), str(array.dtype), bare)


def run_in_slot(program, memory):
    """One frame with ``memory`` (bytes) in the output slot; its bytes afterwards."""
    slots = [program.slot(8), program.slot(memory.nbytes)]
    ctypes.memmove(slots[1].data, memory.ctypes.data, memory.nbytes)
    _, data = program.native.run(*((slot.data, slot.mem, slot.nbytes) for slot in slots))
    return np.array((ctypes.c_uint8 * memory.nbytes).from_address(data))


def computed(device, kind, sources, out, seed=0, constants=(), **params):
    """What a step makes of arrays. ``out``: (shape, type) of the result; ``constants``: which sources are."""
    buffer = Buffer(seed)
    sources = [constant(x) if number in constants else buffer.place(x) for number, x in enumerate(sources)]
    dst = buffer.place(np.zeros(*out))
    step = Step(kind, "it", tuple(sources), dst, params)
    before = np.frombuffer(bytes(buffer.bytes), np.uint8)
    after = run_in_slot(ClProgram(Lowered((step,), 0, (), 8, (), before.nbytes), device), before)
    got = elements(after, dst).copy()
    elements(after, dst)[...] = elements(before, dst)
    np.testing.assert_array_equal(after, before)  # nothing else was written
    return got


def computed_in_half(device, kind, sources, shape, **params):
    """The same of float32 arrays, which lie in the arena in half precision."""
    buffer = Buffer(0)
    sources = [buffer.place(x) for x in sources]
    dst = buffer.place(np.zeros(shape, np.float32))
    buffer.bytes += bytes(-len(buffer.bytes) % 4)
    before = np.frombuffer(bytes(buffer.bytes), np.uint8)
    whole = [View(base, 0, 1, 1, before.size // 4, before.size // 4) for base in (SLOT_OUT, ARENA)]
    moves = dict(dims=(before.size // 4,), src_strides=(1,), dst_strides=(1,))
    inside = [replace(operand, base=ARENA) for operand in (*sources, dst)]
    steps = (
        Step("copy", "in", (whole[0],), whole[1], moves),
        Step(kind, "it", tuple(inside[:-1]), inside[-1], params),
        Step("copy", "out", (whole[1],), whole[0], moves),
    )
    program = ClProgram(Lowered(steps, before.size, (), 8, (), before.size), device, precision="mixed")
    return elements(run_in_slot(program, before), dst).copy()


def close(got, expected, allowed):
    """Floats within what is allowed, and NaN where it is expected; all else equal."""
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.where((got == expected) | np.isnan(expected), 0, np.abs(got - expected))
    assert (error <= allowed).all(), f"largest error {error.max()}"


def drawn(rng, shape, dtype, domain=(-inf, inf)):
    """Random elements; a float's are those of single precision."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype != "float32":
        return rng.integers(0 if dtype == "uint8" else -9, 10, shape).astype(dtype)
    low, high = max(domain[0], -4), min(domain[1], 4)
    return rng.uniform(low, high, shape).astype(np.float32)
