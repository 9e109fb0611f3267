/* Steps that take turns, tile by tile: each thread goes down a band of the image by itself (graph/lower/tiling.py). */
#ifndef PIPEALL_TILING_H
#define PIPEALL_TILING_H

#include "kernels.h"

typedef struct pa_tiled_steps {
    int32_t first, last; /* steps of the program that are computed so, the last one too */
    int32_t bands;
    const pa_step *tile_steps;  /* each computes one tile of one step; all are planned for a team of one */
    const int64_t *band_ends;   /* [bands]: the index after a band's last tile step */
    const int32_t *step_of;     /* [tile steps]: the step that a tile step is a part of, counted from `first` */
} pa_tiled_steps;

/* What the threads of a program have for them: each its block of `local` and of `scratch`. */
typedef struct pa_thread_memory {
    char *local, *scratch;
    int64_t local_bytes, scratch_bytes;
    pa_team *team, *single; /* single: of one, which runs where it is called */
} pa_thread_memory;

/* Runs all bands of so many frames, one frame after the other; bases: the memories of each. If `marks` is not NULL, marks[i + 1] becomes the end of step first + i. The steps ran interleaved, so these ends
 * are computed: the time since marks[0] is divided among the steps in proportion to what all threads spent on each.
 * spent: [threads][steps], in nanoseconds; read only with `marks`. */
void pa_run_tiled(const pa_tiled_steps *tiled, void *const (*bases)[PA_BASES], int32_t frames, const pa_thread_memory *memory,
                  int64_t *spent, int64_t *marks);

#endif
