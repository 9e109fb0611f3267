/* What the runtime knows of a component: a program it can run once per frame.
 *
 * A program owns packed weights and an arena and is driven by exactly one stage thread:
 *   open()   once, on the stage thread, before the first frame (pins it, starts the team)
 *   start()  once per frame: a CPU computes it here, another device is told to
 *   finish() once per frame that start() returned 0 for, in their order, also when the stage is stopped
 *   close()  once, on the stage thread, after the last frame, also after an error; not after a failed open()
 * Another thread may take the stage thread's place for a frame, while that one waits:
 *   enter()  before start(), on that thread, which remembers in *thread_state what it was like
 *   leave()  after finish(), on the same thread, which is then as it was
 * One with a `batch` may be given several frames at once:
 *   start_together()  in the place of start(), for all their steps; finish() is then called once for them
 * At most `depth` frames, or batches, are started and not finished. None of them touches Python. open(), start() and finish() return
 * 0, or an error code whose text error() gives; enter() 0 or an errno, which has changed nothing.
 */
#ifndef PIPEALL_PROGRAM_H
#define PIPEALL_PROGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The memories a step reads and writes; PA_LOCAL: of the thread that runs it (cpu/tiling.h). */
enum { PA_ARENA = 0, PA_SLOT_IN = 1, PA_SLOT_OUT = 2, PA_LOCAL = 3, PA_BASES = 4 };

/* Memory of one ring slot. data is valid for the CPU while the CPU owns the slot; mem is the OpenCL
 * buffer behind it (NULL for plain host memory). A device that maps the slot again may move data. */
typedef struct pa_slot_memory {
    void *data;
    void *mem;
    size_t bytes;
} pa_slot_memory;

enum { PA_STOPPED = -1000000 }; /* start() gave up between two steps because *stop was set: not an error */

enum { PA_DEPTH_MAX = 2, PA_BATCH_MAX = 4 };

typedef struct pa_thread_state pa_thread_state; /* thread_state.h */
typedef struct pa_program pa_program;
struct pa_program {
    int (*open)(pa_program *self);
    /* Runs steps [first, last); with a depth of 1 there may be a second call for a frame, which goes on from last_early.
     * in and out are the program's until finish() has returned, or start() with an error; stop is tested between steps. */
    int (*start)(pa_program *self, pa_slot_memory *in, pa_slot_memory *out, int32_t first, int32_t last,
                 const atomic_int *stop);
    /* NULL where batch is 0. frames: 2 to batch; in and out have as many. Marks are those of all these frames. */
    int (*start_together)(pa_program *self, pa_slot_memory *const *in, pa_slot_memory *const *out, int32_t frames,
                          const atomic_int *stop);
    int (*finish)(pa_program *self); /* waits for the oldest frame started */
    void (*close)(pa_program *self);
    int (*enter)(pa_program *self, pa_thread_state *thread_state); /* NULL, as leave(): only the stage thread computes */
    void (*leave)(pa_program *self, const pa_thread_state *thread_state);
    const char *(*error)(const pa_program *self, int code);
    int32_t depth; /* 1 to PA_DEPTH_MAX */
    int32_t batch; /* most frames of start_together(), 2 to PA_BATCH_MAX, where the depth is 1; 0: one at a time */
    /* Time spent, in all, on making slots the program's own: mapping and unmapping; copying. */
    int64_t map_ns, copy_ns;
    /* Where the times of a frame go (CLOCK_MONOTONIC ns), set before each start(): when its steps began, which is when the
     * input was handed over or the frame before had ended, then when each step ended (one left out: when the one before
     * it did); complete after finish(). NULL: not recorded.
     * Undefined after an error. */
    int64_t *marks;
    int32_t mark_count; /* steps + 1 */
    /* Where a frame may also come in and go out (lower.py): steps [first_late, last_early), which are some, are always
     * run; 0 and all steps where no cut floats. */
    int32_t first_late, last_early;
};

/* marks[first] to marks[last]: of steps that are left out. */
static inline void pa_fill_marks(int64_t *marks, int64_t ns, int32_t first, int32_t last) {
    for (int32_t i = first; i <= last; i++) marks[i] = ns;
}

#endif
