/* Steps that take turns, tile by tile: each thread goes down a band of the image by itself (graph/lower/tiling.py). */
#ifndef PIPEALL_TILING_H
#define PIPEALL_TILING_H

#include "kernels.h"

typedef struct pa_tiled_steps {
    int32_t first, last; /* steps of the program that are computed so, the last one too */
    int32_t bands;
    const int64_t *band_ends; /* of each band, where its parts end */
    const pa_step *tile_steps; /* planned for a team of one */
    const int32_t *step_of; /* of each part, the step that it is a part of, less `first` */
} pa_tiled_steps;

/* What the threads of a program have for them: each its block of `local` and of `scratch`. */
typedef struct pa_thread_memory {
    char *local, *scratch;
    int64_t local_bytes, scratch_bytes;
    pa_team *team, *single; /* single: of one, which runs where it is called */
} pa_thread_memory;

/* With `marks` not NULL, marks[i + 1] becomes when step first + i would have ended had they come one after the other: the time
 * from marks[0] on is divided as the threads spent theirs. `spent` has room for a number of each thread and step. */
void pa_run_tiled(const pa_tiled_steps *tiled, void *const *bases, const pa_thread_memory *memory, int64_t *spent,
                   int64_t *marks);

#endif
