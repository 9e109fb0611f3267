/* Copies of strided elements: transposes, slices, pads, changes of layout.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing.
 * Where there is a pa_<op>_plan, call it once, after all other fields are set. */
#ifndef PIPEALL_COPY_H
#define PIPEALL_COPY_H

#include "nd_loop.h"

enum { PA_COPY_DIMS = 6 };

/* Every element of the axes, of dst = that of src; of the views only base and offset count. src and dst do not overlap. */
typedef struct pa_copy_op {
    pa_view src, dst;
    int32_t item_bytes; /* 1, 2, 4 or 8: of an element */
    pa_axes axes;       /* operands: dst, src, of no negative stride; plan keeps those of the outer loop */
    const pa_kernel_row *transpose;
    /* set by plan; strides in bytes */
    int64_t run;           /* bytes that are contiguous in both */
    pa_axes rows, columns; /* a matrix of runs: down the rows src steps least, along the columns dst */
    int64_t tile_rows, tile_columns;
    int32_t few; /* columns that make lines of dst, or, negative, rows that make lines of src */
} pa_copy_op;
void pa_copy_plan(pa_copy_op *op);
void pa_copy_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
