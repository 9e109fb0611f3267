/* Softmax: of float32 over the channels of each pixel, or along any axis of strided operands of one shape, where dst may be src.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing. Where there is a pa_<op>_plan, call it
 * once, after all other fields are set. */
#ifndef PIPEALL_SOFTMAX_H
#define PIPEALL_SOFTMAX_H

#include "../kernels_s8.h"
#include "nd_loop.h"
#include "reduce.h"

typedef struct pa_softmax_op {
    pa_view src, dst; /* of equal shape */
    const pa_kernel_row *kernel;
} pa_softmax_op;
void pa_softmax_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Softmax along an axis, or its logarithm. */
typedef struct pa_softmax_nd_op {
    pa_strided src, dst;
    int32_t axis, log;
    const pa_kernel_row *softmax, *columns, *reduce, *binary;
    /* set by plan */
    pa_axes kept; /* of src, dst */
    int32_t side_by_side;
    int64_t scratch_floats; /* per thread */
} pa_softmax_nd_op;
void pa_softmax_nd_plan(pa_softmax_nd_op *op);
void pa_softmax_nd_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Of integers that stand for real numbers, along an axis of operands of one shape. */
typedef struct pa_softmax_s8_op {
    pa_strided src, dst;
    int32_t axis, src_zero, dst_zero;
    float src_scale, dst_scale;
    float powers[256]; /* e^(-k * src_scale) */
    const pa_kernel_row *dequantize, *quantize, *softmax, *columns;
    /* set by plan */
    pa_axes kept; /* of src, dst */
    int32_t side_by_side, by_table;
    int64_t block;         /* rows, or columns side by side, that are computed together */
    int64_t scratch_bytes; /* per thread, a multiple of 64 */
} pa_softmax_s8_op;
void pa_softmax_s8_plan(pa_softmax_s8_op *op);
void pa_softmax_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
