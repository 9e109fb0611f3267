/* Resizing of integers that stand for real numbers (resize.h): they are floats while they are summed, in a cache. */
#ifndef PIPEALL_RESIZE_S8_H
#define PIPEALL_RESIZE_S8_H

#include "resize.h"

/* Of an op whose `s8` is set, the weights of one axis being those of real numbers times src's scale over dst's: sets window
 * and scratch_bytes. At most two axes have taps. */
void pa_resize_s8_plan(pa_resize_op *op);
/* Rows [begin, end) of a plane, the first elements of which are at src and dst. */
void pa_resize_s8_rows(const pa_resize_op *op, const int8_t *src, int8_t *dst, char *scratch, int64_t begin, int64_t end);

#endif
