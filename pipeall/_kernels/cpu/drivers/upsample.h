/* Images that grow 2 or 4 times along x. A part of resize.h. */
#ifndef PIPEALL_UPSAMPLE_H
#define PIPEALL_UPSAMPLE_H

#include "resize.h"

/* Sets factor and phase_offset, or factor to 0 where x does not grow so; after x, run and outer_taps. */
void pa_upsample_plan(pa_resize_op *op);
/* Whether vectors of channels grow, down by as many taps: then pa_upsample_rows computes them, without scratch. */
int pa_upsample_whole(const pa_resize_op *op);
/* Rows [begin, end) from element 0 of src to element 0 of dst. */
void pa_upsample_rows(const pa_resize_op *op, const float *src, float *dst, int64_t begin, int64_t end);

#endif
