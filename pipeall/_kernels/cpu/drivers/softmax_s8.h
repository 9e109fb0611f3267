/* Softmax of integers that stand for real numbers, along an axis of strided operands of one shape.
 * The op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_SOFTMAX_S8_H
#define PIPEALL_SOFTMAX_S8_H

#include "../kernels.h"
#include "../kernels_s8.h"
#include "nd_loop.h"

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
