"""CPU programs: native steps over an arena, run by a pinned team (program_cpu.h).

``Program.add`` takes a step description (``steps.Step``), checks every view and size
against the memory it will touch, packs the weights for the chosen kernel, and appends the native step.
"""

cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t, uint16_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strncpy

from .strided cimport *
from ..program cimport PA_BASES, PA_BATCH_MAX, atomic_int, pa_program, pa_slot_memory

from dataclasses import replace
from math import ceil, floor, inf, prod

import numpy as np

from ...errors import ArgumentError, DeviceError
from ...steps import CONSTANT, PIXEL_KINDS, TYPES, is_depthwise, item_bytes
from .algorithms import (
    BF16_GEMM, DIRECT, GEMM, GEMV_HALVES, HALVED, SPARSE, STRASSEN, makes_reals, padded, possible, reads_many_weights, tile,
)
from .cores import pinnable
from .pack_pixels import KC, fold, folded, folded_weights
from .space_to_depth import phased, phased_weight, phases_of
from .sparse_panels import SPARSE_COLUMNS, kept_rows
from ..buffers import aligned, mapped, packable

BASES = ("arena", "input slot", "output slot", "memory of a tile")
POOL = 2**26  # bytes: the mappings that weights share
LINE_BYTES = 64  # bytes of a cache line
ELEMENTS_MAX = 2**31 - 1  # of an operand
WINDOW_MAX = 2**20  # of a kernel, stride, dilation or padding: products of two stay far inside 64 bits
# pointwise op -> its code in kernels.h, in the order of pointwise.inc
UNARY = {pa_unary_names[i].decode(): i for i in range(PA_UNARY_COUNT)}
BINARY = {pa_binary_names[i].decode(): i for i in range(PA_BINARY_COUNT)}
# those with a kernel from float32 to float32
UNARY_F32 = {op: code for op, code in UNARY.items() if pa_unary_forms[<int>code] != PA_TYPED}
BINARY_F32 = {op: code for op, code in BINARY.items() if pa_binary_forms[<int>code] != PA_TYPED}
BUILDERS = {}  # kind of step -> function (program, step) that appends it; each part fills in its own
# kind of step -> how many operands it reads, where not one
OPERANDS = {"fill": (0,), "conv": (1, 2), "binary": (1, 2), "pointwise": (1, 2, 3), "matmul": (2,), "attention": (3, 4)}
OPERANDS |= dict.fromkeys("gather gather_elements gather_nd nms grid_sample max_unpool".split(), (2,))
OPERANDS |= dict.fromkeys("scatter_elements scatter_nd roi_align".split(), (3,))
OPERANDS |= dict.fromkeys("rnn gru lstm".split(), (5, 7))
ELEMENT = {dtype: code for code, dtype in enumerate(TYPES)}  # pa_type of kernels.h


include "listing.pxi"


@cython.no_gc  # refers to nothing that could refer back; __dealloc__ needs its members
cdef class CpuProgram:
    """Steps for one CPU component.

    kernels  (op, element type) -> name of a line of kernels.inc (``table.choose``)
    cores    ids to pin the team to, the stage thread first; -1 leaves a thread unpinned
    name     of the threads
    sizes    bytes of the arena, the input slot and the output slot, and of what each thread has for tiles of rows
    pack     False: weights get their memory and are not written there, so that it costs nothing; only ``nbytes`` counts
    beside   a program of the same unit: both share its team, and its arena where that is large enough
    packed   a weak mapping, in which programs of one network find each other's packed weights
    batch    frames that it may be given at once
    """

    cdef pa_cpu_program program
    cdef int32_t[::1] cores
    cdef object kernels, sizes, keep, scratch, pool, tiled, spent
    cdef readonly object arena
    cdef object packed  # weights by who shares them
    cdef list args, steps, parts  # parts: of what is added now and is no step by itself, else None
    cdef object rows  # memory for the steps that compute frames together
    cdef int64_t capacity, weight_bytes
    cdef int threads  # that a step is planned for
    cdef int batch, frames  # the latter: of a step that is added now
    cdef bint pack

    def __cinit__(self):
        memset(&self.program, 0, sizeof(pa_cpu_program))
        self.args = []
        self.steps = []

    def __init__(self, kernels, cores, str name, sizes, *, bint pack=True, CpuProgram beside=None, packed=None,
                 int batch=1):
        by_name = {pa_kernel_rows[i].name.decode(): i for i in range(pa_kernel_row_count)}
        self.kernels = {}
        for key, kernel in kernels.items():
            if kernel not in by_name:
                raise DeviceError(f"kernel {kernel}: expected a line of kernels.inc for {key}, got none of that name")
            self.kernels[key] = by_name[kernel]
        self.cores = np.array(pinnable(cores), np.int32)
        self.sizes, self.pack = (*sizes, 0)[:len(BASES)], pack
        self.keep, self.pool, self.packed = [], (), {} if packed is None else packed
        if not 1 <= batch <= PA_BATCH_MAX:
            raise ArgumentError(f"batch: expected 1 to {PA_BATCH_MAX} frames, got {batch}")
        self.batch, self.frames = batch, 1
        self.rows = aligned(LINE_BYTES, np.uint8)
        self.program.arena_bytes = self.sizes[0] if batch == 1 else -(-self.sizes[0] // LINE_BYTES) * LINE_BYTES
        whole = batch * self.program.arena_bytes
        shared = beside is not None and beside.arena.nbytes >= whole
        self.arena = beside.arena if shared else aligned(whole, np.uint8)
        self.program.arena = <char *>pointer(self.arena)
        self.program.cores = <int *>&self.cores[0]
        self.program.core_count = self.threads = len(cores)
        self.tiled = np.empty(0, np.uintp)
        self.program.memory.local_bytes = padded = -(-self.sizes[3] // LINE_BYTES) * LINE_BYTES
        local = aligned(max(LINE_BYTES, padded * self.threads), np.uint8)
        self.program.memory.local = <char *>pointer(local)
        self.keep.append(local)
        strncpy(self.program.name, name.encode(), 11)
        pa_cpu_program_init(&self.program, batch if batch > 1 else 0)
        if beside is not None:
            self.program.owner = beside.program.owner
            self.keep.append(beside)

    def __dealloc__(self):
        for address in self.args:
            free(<void *><uintptr_t>address)
        free(self.program.steps)

    @property
    def depth(self) -> int:
        """Frames that may be under way at once."""
        return self.program.program.depth

    @property
    def handle(self) -> int:
        """Address of the pa_program; valid while this object lives. Add no step afterwards."""
        return <uintptr_t>&self.program

    @property
    def labels(self) -> tuple:
        """(kind, node name) of each native step, in the order they run."""
        return tuple((kind, node) for kind, node, _ in self.steps)

    @property
    def algorithms(self) -> tuple:
        """The algorithm of each native step; None where there was nothing to choose."""
        return tuple(algorithm for _, _, algorithm in self.steps)

    @property
    def step_of(self) -> tuple:
        """The number of each native step: one computes one step."""
        return tuple(range(len(self.steps)))

    @property
    def nbytes(self) -> dict:
        """Bytes of the packed weights, of the arena with what threads and a batch have for rows, and of the scratch of all threads."""
        cdef pa_thread_memory *memory = &self.program.memory
        scratch = max(LINE_BYTES, memory.scratch_bytes * self.program.core_count)
        arena = self.batch * self.program.arena_bytes + memory.local_bytes * self.program.core_count
        arena += self.rows.nbytes if self.batch > 1 else 0
        return {"weights": self.weight_bytes, "arena": arena, "scratch": scratch}

    def run(self, *slots_in):
        """A frame, or some of a batch together, on the calling thread. Pins the thread unless cores say -1.

        slots_in: for each frame an array of any type whose bytes begin its input slot. Returns the output slot as elements of
        that type, or a list of these; bytes that no step writes are 255, which in floats are NaN.
        """
        slots, results = [], []
        for slot_in in slots_in:
            given = np.ascontiguousarray(slot_in).reshape(-1)
            padded, out = aligned(max(1, self.sizes[1]), np.uint8), aligned(max(1, self.sizes[2]), np.uint8)
            padded[:given.nbytes] = given.view(np.uint8)
            out[:] = 255
            slots.append((padded, out))
            results.append(out[:out.size // given.itemsize * given.itemsize].view(given.dtype))
        self.timed(slots, np.zeros(1, np.int64))
        return results if len(results) > 1 else results[0]

    def time(self, int rounds, int frames=1):
        """Nanoseconds of each of ``rounds`` rounds of zeros, so many frames together, run on the calling thread as ``run`` does,
        copies left out."""
        times = np.zeros(rounds, np.int64)
        slots = [tuple(aligned(max(1, size), np.uint8) for size in self.sizes[1:3]) for _ in range(frames)]
        for source, target in slots:
            source[:], target[:] = 0, 0  # or the first frame would get their memory from the system
        self.timed(slots, times)
        return times

    cdef int timed(self, slots, int64_t[::1] times) except -1:
        """Runs frames on these slots, as many together, once per element of ``times``, and fills it."""
        cdef pa_slot_memory memory[2][PA_BATCH_MAX]
        cdef pa_slot_memory *source[PA_BATCH_MAX]
        cdef pa_slot_memory *target[PA_BATCH_MAX]
        cdef atomic_int stop
        cdef pa_program *program = &self.program.program
        cdef int64_t i, begin
        cdef int code, side, frames = len(slots)
        if not 1 <= frames <= self.batch:
            raise ArgumentError(f"frames: expected 1 to {self.batch}, got {frames}")
        atomic_init(&stop, 0)
        for i, pair in enumerate(slots):
            for side, array in enumerate(pair):
                memory[side][i].data, memory[side][i].mem, memory[side][i].bytes = pointer(array), NULL, array.nbytes
            source[i], target[i] = &memory[0][i], &memory[1][i]
        with nogil:
            code = program.open(program)
            if code == 0:
                for i in range(times.shape[0]):
                    begin = pa_now_ns()
                    if frames > 1:
                        program.start_together(program, source, target, frames, &stop)
                    else:
                        program.start(program, source[0], target[0], 0, self.program.step_count, &stop)
                    program.finish(program)
                    times[i] = pa_now_ns() - begin
                program.close(program)
        if code:
            raise DeviceError(program.error(program, code).decode())
        return 0

    # ---- building

    def weights(self, int64_t count):
        """A zeroed float32 array of ``count`` elements on a 64-byte border, beside the weights before it; lives as long as the program."""
        cdef int64_t size = (count + 31) // 16 * 16  # 64 bytes to spare
        if len(self.pool) < size:
            self.pool = np.frombuffer(mapped(max(POOL, size * 4)), np.float32)
            self.keep.append(self.pool)
        array, self.pool = self.pool[:count], self.pool[size:]
        self.weight_bytes += 4 * size
        return array

    def bytes_of(self, int64_t nbytes):
        """The same as int8."""
        return self.weights((nbytes + 3) // 4).view(np.int8)[:nbytes]

    def halves(self, int64_t count):
        """The same as the bits of halves."""
        return self.bytes_of(2 * count).view(np.uint16)

    cdef void *new(self, size_t nbytes) except NULL:
        cdef void *args = calloc(1, nbytes)
        if args == NULL:
            raise MemoryError(f"expected {nbytes} bytes for a step, got none")
        self.args.append(<uintptr_t>args)
        return args

    cdef int append(self, pa_step_fn run, void *args, int64_t scratch_bytes) except -1:
        cdef int64_t count = self.program.step_count
        cdef pa_step *steps
        if scratch_bytes > self.program.memory.scratch_bytes or self.scratch is None:
            self.program.memory.scratch_bytes = max(scratch_bytes, self.program.memory.scratch_bytes)
            nbytes = self.program.memory.scratch_bytes * self.program.core_count
            self.scratch = aligned(max(LINE_BYTES, nbytes), np.uint8)
            self.program.memory.scratch = <char *>pointer(self.scratch)
        if self.parts is not None:
            self.parts.append((<uintptr_t>run, <uintptr_t>args))
            return 0
        if count == self.capacity:
            self.capacity = 2 * count + 16
            steps = <pa_step *>calloc(self.capacity, sizeof(pa_step))
            if steps == NULL:
                raise MemoryError(f"expected memory for {self.capacity} steps, got none")
            memcpy(steps, self.program.steps, count * sizeof(pa_step))
            free(self.program.steps)
            self.program.steps = steps
        steps = &self.program.steps[count]
        steps.run, steps.args, steps.scratch_bytes, steps.choice.number = run, args, scratch_bytes, count
        self.program.step_count = count + 1
        self.program.program.mark_count = count + 2
        self.program.program.last_early = count + 1
        return 0

    def floats_between(self, int first_late, int last_early):
        """Frames may also come in before step ``first_late`` and go out after step ``last_early`` - 1 (program.h)."""
        cdef pa_program *program = &self.program.program
        if not 0 <= first_late < last_early < program.mark_count:
            raise ArgumentError(
                f"stage: expected steps that every frame runs between its floating cuts, got {first_late} to "
                f"{last_early} of {program.mark_count - 1}")
        program.first_late, program.last_early = first_late, last_early

    cdef const pa_kernel_row *row(self, step, op) except NULL:
        """The kernel of an op for the element type of a step."""
        return self.row_of(step, op, TYPES[step.dst.dtype])

    cdef const pa_kernel_row *row_of(self, step, op, type_) except NULL:
        number = self.kernels.get((op, type_))
        if number is None:
            raise DeviceError(f"step {step.node} ({step.kind}): the CPU has no {op} kernel for {type_}")
        return &pa_kernel_rows[<int>number]

    cdef int check(self, bint good, step, str expected, got) except -1:
        if not good:
            raise ArgumentError(f"step {step.node} ({step.kind}): expected {expected}, got {got}")
        return 0

    cdef pa_view view(self, step, v) except *:
        """A view, checked to lie inside its base."""
        self.check(min(v.h, v.w, v.c) >= 1 and v.offset >= 0 and v.stride >= v.c, step, "a view of positive size", v)
        self.check(0 <= v.base < len(BASES), step, "a view of the arena or a slot", v)
        end = item_bytes(v.dtype) * (v.offset + (v.h * v.w - 1) * v.stride + v.c)
        self.check(end <= self.sizes[v.base], step, f"at most {self.sizes[v.base]} bytes in the {BASES[v.base]}", f"{end}")
        return pa_view(base=v.base, h=v.h, w=v.w, c=v.c, offset=v.offset, stride=v.stride)

    cdef pa_window window(self, step) except *:
        """Kernel geometry, checked: every number positive, no output pixel beyond the padded input."""
        p = step.params
        (kh, kw), (sy, sx), (dy, dx) = p["kernel"], p["strides"], p["dilations"] if "dilations" in p else (1, 1)
        self.check(min(kh, kw, sy, sx, dy, dx) >= 1 and min(p["pads"]) >= 0, step,
                   "positive kernel, strides and dilations", dict(p))
        self.check(max(kh, kw, sy, sx, dy, dx, *p["pads"]) <= WINDOW_MAX, step, f"sizes up to {WINDOW_MAX}", dict(p))
        return pa_window(kh=kh, kw=kw, stride_y=sy, stride_x=sx, pad_top=p["pads"][0], pad_left=p["pads"][1],
                         dilation_y=dy, dilation_x=dx)

    cdef int rows_fit(self, step, pa_window window) except -1:
        """The drivers of pool.c keep a pointer per kernel row on the stack."""
        self.check(window.kh <= PA_KERNEL_ROWS_MAX, step, f"a kernel of at most {PA_KERNEL_ROWS_MAX} rows", window.kh)
        return 0

    cdef int same_shape(self, step) except -1:
        src, dst = step.src[0], step.dst
        self.check((src.h, src.w, src.c) == (dst.h, dst.w, dst.c), step, "input and output of equal shape", dst)
        return 0

    cdef int32_t code(self, step, codes) except -1:
        """The code of a pointwise step's op."""
        op = step.params["op"]
        self.check(op in codes, step, f"one of {', '.join(codes)}", op)
        return codes[op]

    cdef pa_strided strided(self, step, operand) except *:
        """An operand of a strided step, checked to lie inside its memory."""
        cdef pa_strided result
        cdef int d
        shape, strides, dtype = operand.shape, operand.strides, operand.dtype
        self.check(len(shape) == len(strides) <= PA_DIMS and min(shape, default=1) >= 1, step,
                   f"at most {PA_DIMS} dimensions of positive size", shape)
        self.check(prod(shape) <= ELEMENTS_MAX, step, f"at most {ELEMENTS_MAX} elements, broadcast ones too", shape)
        reach = [(size - 1) * stride for size, stride in zip(shape, strides)]
        least = operand.offset + sum(r for r in reach if r < 0)
        end = item_bytes(dtype) * (operand.offset + sum(r for r in reach if r > 0) + 1)
        memset(&result, 0, sizeof(pa_strided))
        if operand.base == CONSTANT:
            self.check(operand.array is not None, step, "an operand with its elements", operand)
            kept = np.ascontiguousarray(operand.array, dtype)
            self.keep.append(kept)
            self.weight_bytes += kept.nbytes
            result.constant, room, where = pointer(kept), kept.nbytes, "constant"
        else:
            self.check(0 <= operand.base < len(BASES), step, "a view of the arena or a slot", operand.base)
            room, where = self.sizes[operand.base], BASES[operand.base]
        self.check(least >= 0 and end <= room, step, f"at most {room} bytes in the {where}", f"{end}")
        result.base, result.offset, result.rank = max(0, operand.base), operand.offset, len(shape)
        result.type, result.item_bytes = ELEMENT[dtype], item_bytes(dtype)
        for d in range(len(shape)):
            result.size[d], result.stride[d] = shape[d], strides[d]
        return result

    def add(self, step, algorithm=None):
        """Appends a step (``steps.Step``); raises ArgumentError naming the node where it does not fit.

        ``algorithm`` is one of ``algorithms.possible(step)``, for a convolution; by default the first.
        """
        build = BUILDERS.get(step.kind)
        if build is None:
            raise DeviceError(f"step {step.node}: the CPU has no kernel for {step.kind}")
        counts = OPERANDS.get(step.kind, (1,))
        self.check(len(step.src) in counts, step, f"{' or '.join(map(str, counts))} operands", len(step.src))
        ways = possible(step)
        if algorithm is not None:
            expected = f"one of {', '.join(map(str, ways))}" if ways else "no algorithm"
            self.check(algorithm in ways, step, expected, algorithm)
        elif ways:
            algorithm = ways[0]
        if step.kind in PIXEL_KINDS and not (step.kind == "conv" and makes_reals(step)):
            types = {view.dtype for view in (*step.src, step.dst)}
            self.check(len(types) == 1, step, "one element type", ", ".join(sorted(types)))
        build(self, step, algorithm) if step.kind == "conv" else build(self, step)
        if self.parts is None:
            self.steps += [(step.kind, step.node, algorithm)] * (self.program.step_count - len(self.steps))
            if self.batch > 1 and algorithm in (GEMM, *HALVED) and reads_many_weights(step):
                add_together(self, step, algorithm)

include "peak.pxi"
include "drivers/conv.pxi"
include "drivers/conv_s8.pxi"
include "drivers/quantize.pxi"
include "drivers/pool.pxi"
include "drivers/softmax.pxi"
include "drivers/normalize.pxi"
include "drivers/elementwise.pxi"
include "drivers/copy.pxi"
include "drivers/pointwise.pxi"
include "drivers/reduce.pxi"
include "drivers/matmul.pxi"
include "drivers/attention.pxi"
include "drivers/resize.pxi"
include "drivers/index.pxi"
include "drivers/pad.pxi"
include "drivers/sample.pxi"
include "drivers/recurrent.pxi"
include "drivers/picture.pxi"
include "tiling.pxi"
include "together.pxi"
