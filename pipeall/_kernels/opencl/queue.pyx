"""Recorded OpenCL programs (program_cl.h) as Python objects. Handles and addresses are integers."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t

from ..program cimport PA_DEPTH_MAX, atomic_int, pa_program, pa_slot_memory

from ...errors import ArgumentError, DeviceError


cdef extern from "program_cl.h" nogil:
    enum: PA_SLOT_IN, PA_SLOT_OUT
    ctypedef struct pa_cl_picture:
        void *argument_of
        const char *step
        void *context
        void *importing
        int64_t offset, rows, columns
        int32_t base, filter, format
        int64_t *example
        void *table
    ctypedef struct pa_cl_command:
        void *kernel
        const char *step
        size_t *global_ "global"
        size_t *local
    ctypedef struct pa_cl_patch:
        void *kernel
        const char *step
        uint32_t argument
        int32_t base
    ctypedef struct pa_cl_frame:
        void **events
    ctypedef struct pa_cl_command_buffer:
        pass
    ctypedef struct pa_cl_program:
        pa_program program
        pa_cl_command_buffer buffers
        void *queue
        int32_t command_count, patch_count
        pa_cl_command *commands
        pa_cl_patch *patches
        pa_cl_frame *frames
        pa_cl_picture picture
        void **staging
        size_t *bytes
    void pa_cl_program_init(pa_cl_program *)
    const char *pa_cl_load(const char *)
    const char *pa_cl_load_command_buffer(void *, pa_cl_command_buffer *)
    void *pa_cl_map(void *, void *, size_t, int *)
    int pa_cl_unmap(void *, void *, void *)
    const char *pa_cl_error_name(int)

cdef extern from "picture_cl.h" nogil:
    enum: PA_PICTURE_WORDS, PA_RGB, PA_GRAY, PA_NV12, PA_I420, PA_YUYV
    enum: PA_PICTURE_BILINEAR, PA_PICTURE_ANTIALIAS, PA_PICTURE_AREA, PA_PICTURE_NEAREST
    int64_t pa_cl_picture_ints(int64_t, int64_t)
    int pa_cl_picture_init(pa_cl_picture *)
    void pa_cl_picture_free(pa_cl_picture *)

cdef extern from "<stdatomic.h>" nogil:
    void atomic_init(atomic_int *, int)


PICTURE_FORMATS = {"RGB": PA_RGB, "BGR": PA_RGB, "GRAY": PA_GRAY, "NV12": PA_NV12, "I420": PA_I420, "YUYV": PA_YUYV}
PICTURE_FILTERS = {
    "bilinear": PA_PICTURE_BILINEAR, "antialias": PA_PICTURE_ANTIALIAS, "area": PA_PICTURE_AREA,
    "nearest": PA_PICTURE_NEAREST,
}


def picture_table_bytes(int64_t rows, int64_t columns):
    """Of the table of a frame (picture_cl.h) for a network's input of that size."""
    return 4 * pa_cl_picture_ints(rows, columns)


cdef void *pointer(handle) except? NULL:
    return <void *><uintptr_t>handle


cdef check(str call, int code):
    if code:
        raise DeviceError(f"{call} failed with {pa_cl_error_name(code).decode()} ({code})")


def load(str path):
    """Finds the OpenCL entry points in the shared library at ``path``; ``DeviceError`` names a missing one."""
    cdef const char *missing = pa_cl_load(path.encode())
    if missing != NULL:
        raise DeviceError(f"{path}: expected the functions of OpenCL 1.2; missing: {missing.decode()}")


def map_buffer(queue, mem, size_t nbytes):
    """Maps a buffer for the CPU, to read and write, and waits; returns the address."""
    cdef void *queue_ = pointer(queue)
    cdef void *mem_ = pointer(mem)
    cdef int code = 0
    cdef void *data
    with nogil:
        data = pa_cl_map(queue_, mem_, nbytes, &code)
    check("clEnqueueMapBuffer", code)
    return <uintptr_t>data


def unmap_buffer(queue, mem, data):
    """Ends the mapping of a buffer at the address ``data``, and waits."""
    cdef void *queue_ = pointer(queue)
    cdef void *mem_ = pointer(mem)
    cdef void *data_ = pointer(data)
    cdef int code
    with nogil:
        code = pa_cl_unmap(queue_, mem_, data_)
    check("clEnqueueUnmapMemObject", code)


cdef class LaunchProgram:
    """A ``pa_cl_program``.

    queue     handle of an in-order queue, with profiling where the frames are to be recorded
    commands  (kernel handle, step name, global size, local size) of every launch; a size is three numbers
    patches   (kernel handle, step name, argument index, base) of every argument that is a slot
    staging   {SLOT_IN: (buffer handle, bytes), SLOT_OUT: ...}
    picture   of a step that reads frames: (kernel handle, step name, context handle, slot of the words and their offset
              there in bytes, size, filter, frames, the example's words, handle of a buffer for the table); None: none
    always    (first, last): commands that every frame runs, the others only some (program.h); None: all
    platform  handle of the device's, where it has cl_khr_command_buffer; else None
    importing  handle of the device's platform, where it imports a dma-buf; else None

    The caller keeps all handles alive as long as this object, and uses it from one thread at a time.
    """

    cdef pa_cl_program program
    cdef list names

    def __cinit__(self, queue, commands, patches, staging, platform=None, always=None, picture=None,
                  importing=None):
        cdef const char *missing = NULL
        cdef pa_cl_command *command
        cdef pa_cl_patch *patch
        cdef int i
        pa_cl_program_init(&self.program)
        self.names = []
        self.program.queue = pointer(queue)
        self.program.commands = <pa_cl_command *>PyMem_Calloc(len(commands) + 1, sizeof(pa_cl_command))
        self.program.patches = <pa_cl_patch *>PyMem_Calloc(len(patches) + 1, sizeof(pa_cl_patch))
        if self.program.commands == NULL or self.program.patches == NULL:
            raise MemoryError(f"expected room for {len(commands)} kernel launches, got none")
        for i in range(PA_DEPTH_MAX):
            self.program.frames[i].events = <void **>PyMem_Calloc(len(commands) + 1, sizeof(void *))
            if self.program.frames[i].events == NULL:
                raise MemoryError(f"expected room for {len(commands)} events, got none")
        for kernel, step, global_size, local_size in commands:
            command = &self.program.commands[self.program.command_count]
            command.kernel = pointer(kernel)
            command.step = self.text(step)
            for i in range(3):
                command.global_[i] = global_size[i]
                command.local[i] = local_size[i]
            self.program.command_count += 1
        self.program.program.mark_count = self.program.command_count + 1
        self.program.program.first_late, self.program.program.last_early = always or (0, self.program.command_count)
        for kernel, step, argument, base in patches:
            patch = &self.program.patches[self.program.patch_count]
            patch.kernel = pointer(kernel)
            patch.step = self.text(step)
            patch.argument = argument
            patch.base = base
            self.program.patch_count += 1
        for i in (PA_SLOT_IN, PA_SLOT_OUT):
            mem, nbytes = staging[i]
            self.program.staging[i] = pointer(mem)
            self.program.bytes[i] = nbytes
        if picture is not None:
            self.set_picture(picture)
            self.program.picture.importing = pointer(importing or 0)
        if platform is not None:
            missing = pa_cl_load_command_buffer(pointer(platform), &self.program.buffers)
            if missing != NULL:
                raise DeviceError(f"expected the functions of cl_khr_command_buffer; missing: {missing.decode()}")

    cdef set_picture(self, given):
        cdef pa_cl_picture *picture = &self.program.picture
        cdef int i
        kernel, step, context, base, offset, size, kind, frames, example, table = given
        picture.step, picture.context, picture.table = self.text(step), pointer(context), pointer(table)
        picture.base, picture.offset, (picture.rows, picture.columns) = base, offset, size
        picture.filter, picture.format = PICTURE_FILTERS[kind], PICTURE_FORMATS[frames]
        for i in range(PA_PICTURE_WORDS):
            picture.example[i] = example[i]
        if not pa_cl_picture_init(picture):
            raise MemoryError(f"step {step}: expected room for the weights of a picture, got none")
        picture.argument_of = pointer(kernel)

    def __dealloc__(self):
        pa_cl_picture_free(&self.program.picture)
        PyMem_Free(self.program.commands)
        PyMem_Free(self.program.patches)
        for i in range(PA_DEPTH_MAX):
            PyMem_Free(self.program.frames[i].events)

    cdef const char *text(self, str name) except NULL:
        cdef bytes encoded = name.encode()
        self.names.append(encoded)
        return encoded

    @property
    def depth(self):
        """Frames that may be under way at once."""
        return self.program.program.depth

    @property
    def handle(self):
        """Address of the ``pa_program``; valid as long as this object lives."""
        return <uintptr_t>&self.program

    def run(self, source, target, int64_t[::1] marks=None):
        """One frame between two slots, each (host address, buffer handle or 0, bytes); returns the new addresses.

        marks: one more than commands; filled with the ns at which the frame was given and each command ended.
        """
        cdef pa_slot_memory slot_in, slot_out
        cdef pa_program *program = &self.program.program
        cdef atomic_int stop
        cdef int code
        slot_in.data, slot_in.mem, slot_in.bytes = pointer(source[0]), pointer(source[1]), source[2]
        slot_out.data, slot_out.mem, slot_out.bytes = pointer(target[0]), pointer(target[1]), target[2]
        atomic_init(&stop, 0)
        if marks is not None:
            if marks.shape[0] != program.mark_count:
                raise ArgumentError(f"marks: expected {program.mark_count} numbers, got {marks.shape[0]}")
            program.marks = &marks[0]
        with nogil:
            code = program.start(program, &slot_in, &slot_out, 0, self.program.command_count, &stop)
            if code == 0:
                code = program.finish(program)
        program.marks = NULL
        if code:
            raise DeviceError(program.error(program, code).decode())
        return <uintptr_t>slot_in.data, <uintptr_t>slot_out.data
