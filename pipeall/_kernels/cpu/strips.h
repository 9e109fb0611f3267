/* Steps that take turns, strip by strip: each thread goes down a band of the image by itself (graph/lower/tiling.py). */
#ifndef PIPEALL_STRIPS_H
#define PIPEALL_STRIPS_H

#include "kernels.h"

typedef struct pa_strips {
    int32_t first, last; /* steps of the program that are computed so, the last one too */
    int32_t bands;
    const int64_t *ends;    /* of each band, where its parts end */
    const pa_step *parts;   /* planned for a team of one */
    const int32_t *numbers; /* of each part, the step that it is a part of, less `first` */
} pa_strips;

/* What the threads of a program have for them: each its block of `local` and of `scratch`. */
typedef struct pa_strip_room {
    char *local, *scratch;
    int64_t local_bytes, scratch_bytes;
    pa_team *team, *alone; /* alone: of one, which runs where it is called */
} pa_strip_room;

/* With `marks` not NULL, marks[i + 1] becomes when step first + i would have ended had they come one after the other: the time
 * from marks[0] on is divided as the threads spent theirs. `spent` has room for a number of each thread and step. */
void pa_strips_run(const pa_strips *strips, void *const *bases, const pa_strip_room *room, int64_t *spent,
                   int64_t *marks);

#endif
