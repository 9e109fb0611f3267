/* What the runtime knows of a component: a program it can run once per frame.
 *
 * A program owns packed weights and an arena and is driven by exactly one stage thread:
 *   open()   once, on the stage thread, before the first frame (pins it, starts the team)
 *   run()    once per frame
 *   close()  once, on the stage thread, after the last frame, also after an error; not after a failed open()
 * None of them touches Python. open() and run() return 0, or an error code whose text error() gives.
 */
#ifndef PIPEALL_PROGRAM_H
#define PIPEALL_PROGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of one ring slot. data is valid for the CPU while the CPU owns the slot; mem is the OpenCL
 * buffer behind it (NULL for plain host memory). A device that maps the slot again may move data. */
typedef struct pa_slot_memory {
    float *data;
    void *mem;
    size_t bytes;
} pa_slot_memory;

enum { PA_STOPPED = -1000000 }; /* run() gave up between two steps because *stop was set: not an error */

typedef struct pa_program pa_program;
struct pa_program {
    int (*open)(pa_program *self);
    /* in and out are the caller's for the length of the call; stop is tested between steps. */
    int (*run)(pa_program *self, pa_slot_memory *in, pa_slot_memory *out, const atomic_int *stop);
    void (*close)(pa_program *self);
    const char *(*error)(const pa_program *self, int code);
    /* Time run() spent, in all, on making slots its own: mapping and unmapping; copying. */
    int64_t map_ns, copy_ns;
    /* Where run() writes times (CLOCK_MONOTONIC ns), set before each run: when the input was handed over, then when
     * each step ended. NULL: not recorded. Undefined after a run() that returned other than 0. */
    int64_t *marks;
    int32_t mark_count; /* steps + 1 */
};

#endif
