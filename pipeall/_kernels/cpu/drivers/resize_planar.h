/* Resizing of planes, whose elements lie side by side along x: some rows at a time. A part of resize.h. */
#ifndef PIPEALL_RESIZE_PLANAR_H
#define PIPEALL_RESIZE_PLANAR_H

#include "resize.h"

/* Sets width, lines, across and, where there is a width, scratch_bytes; after y, x, run, band and outer_taps. */
void pa_resize_planar_plan(pa_resize_op *op);
/* Rows [begin, end) of one plane, from element 0 of src to element 0 of dst; op has a width. */
void pa_resize_planar_rows(const pa_resize_op *op, const float *src, float *dst, float *scratch, int64_t begin, int64_t end);

#endif
