/* Normalization: over the channels of each pixel, or along any axes of strided operands of one shape, where dst may be src.
 * All of it is of float32; over windows of channels also of halves and of integers, which are floats while they are in L1.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing. Where there is a pa_<op>_plan, call it
 * once, after all other fields are set. */
#ifndef PIPEALL_NORMALIZE_H
#define PIPEALL_NORMALIZE_H

#include "../kernels_s8.h"
#include "nd_loop.h"
#include "reduce.h"

typedef struct pa_lrn_op {
    pa_view src, dst; /* of equal shape and type */
    int32_t type;     /* PA_F32, PA_F16 or PA_S8 */
    int32_t size;     /* channels in the window, >= 1 */
    float alpha, beta, bias;
    float src_scale, dst_scale;
    int32_t src_zero, dst_zero;
    const pa_kernel_row *kernel, *dequantize, *quantize; /* the last two of integers */
    int64_t block, scratch_floats; /* set by plan: pixels that are floats at a time; per thread, these and squares of two */
} pa_lrn_op;
void pa_lrn_plan(pa_lrn_op *op);
void pa_lrn_step(const void *op, void *const *bases, void *scratch, pa_team *team);

typedef struct pa_layernorm_op {
    pa_view src, dst; /* of equal shape */
    float epsilon;
    const pa_kernel_row *kernel;
} pa_layernorm_op;
void pa_layernorm_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* (x - mean) / sqrt(variance + epsilon) over some axes; without center x / sqrt(mean of x^2 + epsilon). */
typedef struct pa_layernorm_nd_op {
    pa_reduce_op sums; /* src, dst, folded, reduce and fold; plan sets its axes, those of dst being among them */
    int32_t center;
    float epsilon;
    const pa_kernel_row *layernorm, *normalize, *binary;
} pa_layernorm_nd_op;
void pa_layernorm_nd_plan(pa_layernorm_nd_op *op);
void pa_layernorm_nd_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
