/* A picture of any size into a network's input: fitted, resampled, normalized and laid out in one pass over its rows.
 * The op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_PICTURE_H
#define PIPEALL_PICTURE_H

#include "../../picture_frame.h"
#include "../kernels.h"

typedef struct pa_picture_op {
    pa_strided src, dst; /* PA_PICTURE_WORDS int64 (picture.py); float32 [rows][columns][channels] */
    int32_t filter, format, backwards; /* backwards: the network has the frame's channels in the other order */
    float factor[3], offset[3];        /* of the network's channels: level * factor + offset */
    float value;                       /* the level of the border beside the picture */
    int64_t example[PA_PICTURE_WORDS]; /* what is read where the words are 0; its frame outlives the op */
    const pa_kernel_row *mix, *spread;

    /* Memory for the frame that is computed; rows: PA_PICTURE_TABLE(rows), and columns likewise. */
    pa_picture_axis rows, columns;
    int64_t scratch_bytes; /* per thread; set by plan */
} pa_picture_op;

void pa_picture_plan(pa_picture_op *op);
void pa_picture_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
