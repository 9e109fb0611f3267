# program.h; its path is given so that it resolves from every folder that includes it.


cdef extern from "../_kernels/program.h" nogil:
    ctypedef struct atomic_int:
        pass
    ctypedef struct pa_slot_memory:
        float *data
        void *mem
        size_t bytes
    ctypedef struct pa_program:
        int (*open)(pa_program *) noexcept nogil
        int (*run)(pa_program *, pa_slot_memory *, pa_slot_memory *, const atomic_int *) noexcept nogil
        void (*close)(pa_program *) noexcept nogil
        const char *(*error)(const pa_program *, int) noexcept nogil
