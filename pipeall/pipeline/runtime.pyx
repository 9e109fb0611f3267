"""A lane of native stages (stage.h) as a Python object: frames in, frames out, counters.

Knows slots as blocks of bytes; which tensor lies where in them its maker says (``lane.py``).
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_STRIDED_RO, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset, strerror, strncpy
from posix.unistd cimport getpid

from .._kernels.program cimport atomic_int, pa_thread_state, pa_program, pa_slot_memory

from math import prod
from threading import RLock

import numpy as np

from ..errors import ArgumentError, DeviceError, PipelineError
from .planning.schedule_plan import AHEAD, HEAD_START_MS


include "native.pxi"


PLACED_BYTES = 2**14  # results from so many bytes on are computed where they stay: to copy 16 KB takes 0.4 us


def now_ns() -> int:
    """The clock of every time stamp: CLOCK_MONOTONIC in nanoseconds."""
    return pa_now_ns()


cdef void *allocate(size_t nbytes) except NULL:
    cdef void *memory = aligned_alloc(64, (nbytes + 63) // 64 * 64)
    if memory == NULL:
        raise MemoryError(f"expected {nbytes} bytes for the pipeline, got none")
    memset(memory, 0, (nbytes + 63) // 64 * 64)
    return memory


include "unit.pxi"


include "frames.pxi"


include "pieces.pxi"


@cython.no_gc  # refers to nothing that could refer back; the threads use its members until __dealloc__ closes the lane
cdef class NativeLane:
    """Stages in a row (stage.h). ``close`` ends them; the memory goes with the object."""

    cdef pa_lane lane
    cdef pa_ring *ring
    cdef pa_branch *branch  # one for each ring, of which those are used that are no stage's first
    cdef atomic_llong submitted, taken  # the latter tells the submitter that a block may be written again
    cdef int64_t depth, in_place, result_bytes
    cdef Gate gate
    cdef object programs, slots, names, outputs, spare
    cdef object placed  # the arrays that hold the next result, which was computed in them
    cdef list units  # those that were joined
    cdef bint running
    cdef int process  # after a fork the threads exist in the parent only

    def __cinit__(self):
        memset(&self.lane, 0, sizeof(pa_lane))
        self.units = []

    def __init__(self, names, units, programs, rings, outputs, Gate gate, int depth, leaves, *, shares=None, int64_t in_place=0,
                 fault=None, int64_t log_frames=0):
        """Starts the stages.

        names       of what each stage runs on, for errors
        units       the NativeUnit that serves each stage; several stages may have the same
        programs    one per stage: objects with ``handle``, the address of a pa_program
        rings       (sender, receiver, slots, pieces) of each: numbers of stages, or -1 for the host, from which the first
                    ring comes and to which the last leads. Slots are objects with ``data`` and ``mem`` (addresses) and
                    ``nbytes``, kept alive here. A stage fills the first of its rings, and reads the first; others are of
                    branches. Pieces, (offset from, offset to, bytes), are what is copied to one from its sender's first,
                    or from one to its receiver's first
        outputs     (early, offset in bytes, shape, NumPy type) of each result, in its block or the last ring's slots
        gate        changes when the lane has space or a result
        depth       most frames under way, at least 1: each has a block
        leaves      for each stage what leaves there: (offset in its out slot, offset in a block, bytes) of each
        shares      of each stage, percent of the frames that go out late where its cut floats, or None
        in_place    bytes of the input, where the first stage may read it in any memory of its type's alignment; else 0
        fault       (stage, frame) at which an error is reported, or None
        log_frames  keep a log of so many latest frames of each stage (``log``); the programs must be able to record
        """
        cdef int count = len(programs), i
        if not 1 <= count <= PA_MAX_STAGES:
            raise ArgumentError(f"stages: expected 1 to {PA_MAX_STAGES}, got {count}")
        self.names, self.programs, self.gate = list(names), list(programs), gate
        self.slots = [slots for _, _, slots, _ in rings]
        self.lane.block_bytes = -(-max([at + size for some in leaves for _, at, size in some], default=0) // 64) * 64
        self.outputs = [(early, offset, shape, np.dtype(dtype)) for early, offset, shape, dtype in outputs]
        rooms = room_of(self.slots[-1]), self.lane.block_bytes
        for early, offset, shape, dtype in self.outputs:
            if not 0 <= offset <= rooms[early] - prod(shape) * dtype.itemsize:
                raise ArgumentError(f"output at byte {offset}: expected {shape} of {dtype} inside {rooms[early]} bytes")
        self.lane.stages = count
        self.lane.host = gate.gate
        self.lane.stage = <pa_stage *>allocate(count * sizeof(pa_stage))
        for i in range(count):
            self.lane.stage[i].lane = &self.lane
            self.lane.stage[i].index = i
            self.lane.stage[i].program = <pa_program *><uintptr_t>programs[i].handle
            self.lane.stage[i].unit = &(<NativeUnit?>units[i]).unit
            self.lane.stage[i].late_share = -1 if shares is None or shares[i] is None else shares[i]
            self.lane.stage[i].fault_frame = fault[1] if fault is not None and fault[0] == i else -1
            if log_frames:
                self.lane.stage[i].log.capacity = log_frames
                self.lane.stage[i].log.rows = <int64_t *>allocate((log_frames + PA_UNDER_WAY_MAX) * self.width(i) * sizeof(int64_t))
        self.set_rings(rings)
        for i in range(count):
            room = next(room_of(slots) for sender, _, slots, _ in rings if sender == i)
            self.lane.stage[i].leaves = pieces_of(leaves[i], room, self.lane.block_bytes)
            self.lane.stage[i].leaf_count = len(leaves[i])
        self.depth, self.in_place = depth, in_place
        self.result_bytes = 0
        if count == len(self.outputs) == 1:
            early, offset, shape, dtype = self.outputs[0]
            if not early and offset == 0 and prod(shape) * dtype.itemsize >= PLACED_BYTES:
                self.result_bytes = rooms[0]
        if self.lane.block_bytes:
            self.lane.block = <char *>allocate(depth * self.lane.block_bytes)
            self.lane.blocks = depth
        self.process = getpid()
        try:
            self.start(units)
        except BaseException:
            self.leave_units()
            raise
        self.running = True

    cdef start(self, units):
        cdef int error, i
        for unit in units:
            (<NativeUnit>unit).join()
            self.units.append(unit)
        with nogil:
            error = pa_lane_start(&self.lane)
        if error:
            for i in range(self.lane.stages):
                if self.lane.stage[i].open_error:
                    raise DeviceError(f"stage {i} on {self.names[i]}: {self.text(i, self.lane.stage[i].open_error)}")

    cdef leave_units(self):
        while self.units:
            (<NativeUnit>self.units.pop()).leave()

    cdef set_rings(self, rings):
        cdef int i
        self.ring = <pa_ring *>allocate(len(rings) * sizeof(pa_ring))
        self.branch = <pa_branch *>allocate(len(rings) * sizeof(pa_branch))
        for i, (sender, receiver, slots, pieces) in enumerate(rings):
            fill_ring(&self.ring[i], slots)
            connect(&self.ring[i], &self.branch[i], NULL if sender < 0 else &self.lane.stage[sender],
                    NULL if receiver < 0 else &self.lane.stage[receiver], pieces)

    cdef int64_t width(self, int stage):
        return PA_LOG_FIXED + self.lane.stage[stage].program.mark_count

    cdef str text(self, int stage, int code):
        if code == PA_FAULT:
            return "injected fault (PIPEALL_FAULT)"
        cdef pa_program *program = self.lane.stage[stage].program
        return program.error(program, code).decode()

    @property
    def failed(self) -> bool:
        """A stage has failed; its frame is (or will be) the last to arrive."""
        return load_int(&self.lane.failed) != 0

    @property
    def ready(self) -> bool:
        """A result waits to be taken."""
        return pa_lane_front(&self.lane) != NULL

    @property
    def under_way(self) -> int:
        """Frames submitted whose results have not been taken out of the lane."""
        return load_ll(&self.submitted) - load_ll(&self.taken)

    def try_submit(self, Frames frames, pieces, alive) -> int:
        """Copies ``pieces`` ((offset in bytes, array), ...) into a free slot, each once, also where its rows lie apart.

        The objects ``alive`` live until the result is taken. Returns the frame's number, or -1 when full.
        """
        cdef int64_t frame = frames.submitted
        cdef pa_slot *slot = self.room()
        if slot == NULL:
            return -1
        self.fill(slot, pieces)
        if alive:
            frames.alive[frame] = alive
        pa_lane_submit(&self.lane, frame, frames.next_due())
        frames.submitted += 1
        add_ll(&self.submitted, 1)
        return frame

    def run_inline(self, Frames frames, pieces) -> bool:
        """The same of an empty lane, and computes the frame on this thread, if that may be (stage.h); else False."""
        cdef pa_thread_state thread_state
        cdef int64_t frame = frames.submitted
        cdef pa_slot *slot = self.room()
        cdef pa_slot *to
        cdef void *own
        cdef void *there
        cdef Py_buffer source
        if slot == NULL or load_ll(&self.submitted) > load_ll(&self.taken) or not pa_lane_begin_inline(&self.lane, &thread_state):
            return False
        to = pa_lane_result(&self.lane)
        own, there, source.buf = slot.memory.data, to.memory.data, NULL
        try:
            if self.in_place:
                PyObject_GetBuffer(pieces[0][1], &source, PyBUF_STRIDED_RO)
            if (source.buf != NULL and source.len == self.in_place and PyBuffer_IsContiguous(&source, b"C")
                    and <uintptr_t>source.buf % source.itemsize == 0):
                slot.memory.data = source.buf
            else:
                self.fill(slot, pieces)
            if self.result_bytes:
                to.memory.data = self.place_result()
            frames.submitted += 1
            add_ll(&self.submitted, 1)
            with nogil:
                pa_lane_run_inline(&self.lane, frame)
        finally:
            slot.memory.data, to.memory.data = own, there
            pa_lane_end_inline(&self.lane, &thread_state)
            if source.buf != NULL:
                PyBuffer_Release(&source)
        return True

    cdef void *place_result(self) except NULL:
        """Makes the array of the next result, as a slot lies in memory."""
        cdef unsigned char[::1] memory = np.empty(self.result_bytes + 128, np.uint8)
        cdef int64_t skip = -<uintptr_t>&memory[0] % 64
        _, _, shape, dtype = self.outputs[0]
        self.placed = [np.ndarray(shape, dtype, memory.base, skip)]
        return &memory[skip]

    cdef pa_slot *room(self) noexcept:
        """A slot for a frame; NULL when full, and when a stage has failed: it may have given back one that it could not
        map again."""
        if load_ll(&self.submitted) - load_ll(&self.taken) >= self.depth:
            return NULL
        cdef pa_slot *slot = pa_lane_free(&self.lane)
        return NULL if load_int(&self.lane.failed) else slot

    cdef int fill(self, pa_slot *slot, pieces) except -1:
        cdef Py_buffer source
        cdef unsigned char *to
        cdef Py_ssize_t offset, size = slot.memory.bytes
        for offset, array in pieces:
            PyObject_GetBuffer(array, &source, PyBUF_STRIDED_RO)
            try:
                if not 0 <= offset <= size - source.len:
                    raise ArgumentError(f"piece at byte {offset}: expected {source.len} bytes in a slot of {size}")
                to = <unsigned char *>slot.memory.data + offset
                if PyBuffer_IsContiguous(&source, b"C"):
                    memcpy(to, source.buf, source.len)
                else:
                    there = np.asarray(<unsigned char[:source.len]>to).view(array.dtype).reshape(array.shape)
                    np.copyto(there, array)
            finally:
                PyBuffer_Release(&source)
        return 0

    def try_result(self, Frames frames) -> bool:
        """Copies the oldest result out, to where ``frames`` has it in its turn; False when none is ready."""
        cdef pa_slot *slot = pa_lane_front(&self.lane)
        if slot == NULL:
            if self.spare is None and not self.result_bytes:  # while there is time
                self.spare = self.new_arrays()
            return False
        cdef Arrived arrived = Arrived.__new__(Arrived)
        cdef int i, last = self.lane.stages if slot.failed_stage < 0 else slot.failed_stage + 1
        arrived.times = (slot.frame, slot.submitted_ns, tuple([slot.begin_ns[i] for i in range(last)]),
                         tuple([slot.end_ns[i] for i in range(last)]))
        cdef int64_t offset
        cdef bint early
        cdef char *data
        cdef Py_buffer target
        if slot.failed_stage < 0 and self.placed:
            arrived.arrays = self.placed
        elif slot.failed_stage < 0:
            arrays = self.spare or self.new_arrays()
            self.spare = None
            for (early, offset, _, _), array in zip(self.outputs, arrays):
                data = pa_lane_block(&self.lane, slot) if early else <char *>slot.memory.data
                PyObject_GetBuffer(array, &target, PyBUF_C_CONTIGUOUS)
                memcpy(target.buf, data + offset, target.len)
                PyBuffer_Release(&target)
            arrived.arrays = arrays
        else:
            unit = self.names[slot.failed_stage]
            arrived.error = PipelineError(
                f"stage {slot.failed_stage} on {unit} failed at frame {slot.frame}: "
                f"{self.text(slot.failed_stage, slot.error)}",
                stage=slot.failed_stage, component=unit, frame=slot.frame)
        self.placed = None
        frames.arrived[slot.frame] = arrived
        pa_lane_release(&self.lane)
        add_ll(&self.taken, 1)
        return True

    cdef list new_arrays(self):
        """An array for each output."""
        return [np.empty(shape, dtype) for _, _, shape, dtype in self.outputs]

    def counters(self) -> list:
        """Per stage, since the start: frames, those that floated, those late for the pace; busy, wait_in, wait_out, map and copy ns."""
        cdef pa_stage *stage
        cdef int i
        rows = []
        for i in range(self.lane.stages):
            stage = &self.lane.stage[i]
            rows.append({
                "frames": load_ll(&stage.frames), "floated": load_ll(&stage.floated), "late": load_ll(&stage.late),
                "busy_ns": load_ll(&stage.busy_ns),
                "wait_in_ns": load_ll(&stage.wait_in_ns), "wait_out_ns": load_ll(&stage.wait_out_ns),
                "map_ns": load_ll(&stage.map_ns), "copy_ns": load_ll(&stage.copy_ns)})
        return rows

    def set_pace(self, int stage, paces):
        """From its next frame on, the stage ends no earlier than so many ns after it began (0: as it comes); any thread.

        paces: one, or one for every way to run a frame: in and out early, out late, in late, both late; of a stage that
        takes several frames together, for one to four of them.
        """
        cdef int way
        paces = paces if isinstance(paces, list) else [paces] * 4
        if not 0 <= stage < self.lane.stages:
            raise ArgumentError(f"stage: expected 0 to {self.lane.stages - 1}, got {stage}")
        if len(paces) != 4 or min(paces) < 0:
            raise ArgumentError(f"pace: expected one or four of at least 0 ns, got {paces}")
        for way in range(4):
            store_ll(&self.lane.stage[stage].pace_ns[way], paces[way])

    def log(self):
        """Per stage, the latest frames it completed, oldest first: int64 rows as pa_log in stage.h says.

        After ``close`` only: until then the stages write. Empty without ``log_frames``.
        """
        cdef pa_log *log
        cdef int i
        cdef int64_t j, kept, row, width
        cdef int64_t[:, ::1] rows
        if self.running:
            raise PipelineError("log: expected a closed lane, got one whose stages are running")
        logs = []
        for i in range(self.lane.stages):
            log, width = &self.lane.stage[i].log, self.width(i)
            kept = min(log.count, log.capacity)
            logs.append(np.empty((kept, width), np.int64))
            rows = logs[i]
            for j in range(kept):
                row = (log.count - kept + j) % (log.capacity + PA_UNDER_WAY_MAX)
                memcpy(&rows[j, 0], log.rows + row * width, width * sizeof(int64_t))
        return logs

    def close(self):
        """Ends the stages after the step each is in; frames inside are dropped. Safe to call twice."""
        cdef int i, j
        if self.running and self.process == getpid():
            self.running = False
            with nogil:
                pa_lane_close(&self.lane)
            self.leave_units()
            for i, slots in enumerate(self.slots):
                for j, slot in enumerate(slots):
                    slot.data = <uintptr_t>self.ring[i].slot[j].memory.data  # a device may have moved it

    def __dealloc__(self):
        if self.running and self.process == getpid():
            with nogil:
                pa_lane_close(&self.lane)
            self.leave_units()
        if self.ring != NULL:
            for i in range(len(self.slots)):
                free(self.ring[i].slot)
                free(self.branch[i].pieces)
        if self.lane.stage != NULL:
            for i in range(self.lane.stages):
                free(self.lane.stage[i].log.rows)
                free(self.lane.stage[i].leaves)
        free(self.lane.block)
        free(self.branch)
        free(self.ring)
        free(self.lane.stage)
