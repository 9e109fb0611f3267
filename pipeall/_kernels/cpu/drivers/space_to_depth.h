/* The input of a convolution of strides s x s, with its pads and so that all lies inside: s x s pixels of it are one of s * s
 * times the channels, for algorithms of stride 1 (space_to_depth.py). */
#ifndef PIPEALL_SPACE_TO_DEPTH_H
#define PIPEALL_SPACE_TO_DEPTH_H

#include "../kernels.h"

typedef struct pa_space_to_depth {
    int32_t stride;               /* 1: no phases, and no other member is read */
    int32_t pad_top, pad_left, item_bytes;
    int64_t rows, columns;        /* of pixels of the input, with what is around it */
} pa_space_to_depth;

static inline int64_t pa_space_to_depth_bytes(const pa_space_to_depth *p, int channels) {
    return p->stride > 1 ? p->rows * p->columns * channels * p->item_bytes : 0;
}

/* Copies `src`, whose first pixel is at x, into `image`, with zeros around it. */
void pa_space_to_depth_copy(const pa_space_to_depth *p, const pa_view *src, const void *x, void *image, pa_team *team);

#endif
