# program.h, thread_state.h; their paths are given so that they resolve from every folder that includes them.


from libc.stdint cimport int32_t, int64_t


cdef extern from "_kernels/program.h" nogil:
    enum: PA_DEPTH_MAX, PA_BATCH_MAX, PA_BASES
    ctypedef struct atomic_int:
        pass
    ctypedef struct pa_slot_memory:
        void *data
        void *mem
        size_t bytes
    ctypedef struct pa_program:
        int (*open)(pa_program *) noexcept nogil
        int (*start)(pa_program *, pa_slot_memory *, pa_slot_memory *, int32_t, int32_t, const atomic_int *) noexcept nogil
        int (*start_together)(pa_program *, pa_slot_memory *const *, pa_slot_memory *const *, int32_t, const atomic_int *) noexcept nogil
        int (*finish)(pa_program *) noexcept nogil
        void (*close)(pa_program *) noexcept nogil
        const char *(*error)(const pa_program *, int) noexcept nogil
        int32_t depth, batch
        int64_t map_ns, copy_ns
        int64_t *marks
        int32_t mark_count, first_late, last_early


cdef extern from "_kernels/thread_state.h" nogil:
    ctypedef struct pa_thread_state:
        pass
