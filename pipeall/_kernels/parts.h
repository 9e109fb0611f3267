/* For a device from outside whose stage is some networks, one after the other (network_parts): all of program.h that is the
 * same for every such device, and the module that setuptools builds. A stage that is told to stop ends after the network
 * that it is in. */
#ifndef PIPEALL_PARTS_H
#define PIPEALL_PARTS_H

#include <Python.h>

#include <time.h>

#include "program.h"

/* Computes a network on the memory of a frame's slots, bases[PA_SLOT_IN] and bases[PA_SLOT_OUT]. Returns 0, or a code. */
typedef int pa_part_run(pa_program *self, int32_t number, char *const *bases);

static inline int64_t pa_parts_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* What start() does: networks [first, last), and when each has ended. */
static inline int pa_parts_start(pa_program *self, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                                 const atomic_int *stop, pa_part_run *run) {
    char *const bases[PA_BASES] = {[PA_SLOT_IN] = in->data, [PA_SLOT_OUT] = out->data};
    int64_t *marks = self->marks;
    if (marks && first <= self->first_late) pa_fill_marks(marks, pa_parts_ns(), 0, first);
    for (int32_t i = first; i < last; i++) {
        if (atomic_load(stop)) return PA_STOPPED;
        const int code = run(self, i, bases);
        if (code) return code;
        if (marks) marks[i + 1] = pa_parts_ns();
    }
    if (marks) pa_fill_marks(marks, marks[last], last, self->mark_count - 1);
    return 0;
}

static inline int pa_parts_nothing(pa_program *self) {
    (void)self;
    return 0;
}

static inline void pa_parts_close(pa_program *self) { (void)self; }

/* A program of so many networks, done when start() is. first_late, last_early: as in program.h. */
static inline pa_program pa_parts_program(int (*start)(pa_program *, pa_slot_memory *, pa_slot_memory *, int32_t, int32_t,
                                                       const atomic_int *),
                                          const char *(*error)(const pa_program *, int), int32_t count, int32_t first_late,
                                          int32_t last_early) {
    return (pa_program){.open = pa_parts_nothing, .start = start, .finish = pa_parts_nothing, .close = pa_parts_close,
                        .error = error, .depth = 1, .mark_count = count + 1, .first_late = first_late,
                        .last_early = last_early};
}

/* A module without anything in it: Python loads the library by ctypes. */
#define PA_PARTS_MODULE(name)                                                                                         \
    static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = #name, .m_size = 0};                         \
    PyMODINIT_FUNC PyInit_##name(void) { return PyModule_Create(&module); }

#endif
