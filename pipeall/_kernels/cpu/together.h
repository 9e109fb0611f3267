/* A step that computes several frames together, so that its weights are read once: layers of one pixel. */
#ifndef PIPEALL_TOGETHER_H
#define PIPEALL_TOGETHER_H

#include "kernels.h"
#include "../program.h"

/* One operand: where it lies in a frame's memory, and where those of all frames lie below each other. */
typedef struct pa_stacked {
    int32_t base;
    int64_t offset, bytes; /* in the frame's memory */
    int64_t at, apart;     /* the first one, and from each to the next, in the memory for rows */
} pa_stacked;

/* run[n - 2] is the step on n frames; it finds the rows in the place of the arena. */
typedef struct pa_together {
    pa_stacked dst, src[2];
    int32_t sources;
    pa_step run[PA_BATCH_MAX - 1]; /* of which `together` is NULL */
} pa_together;

/* frames: 2 to PA_BATCH_MAX; bases: the memories of each; rows: memory for the rows of all operands. */
void pa_run_together(const pa_together *together, void *const (*bases)[PA_BASES], int32_t frames, char *rows, void *scratch,
                     pa_team *team);

#endif
