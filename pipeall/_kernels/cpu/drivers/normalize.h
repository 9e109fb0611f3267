/* Normalization of float32: over the channels of each pixel, or along any axes of strided operands of one shape, where dst may
 * be src.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing. Where there is a pa_<op>_plan, call it
 * once, after all other fields are set. */
#ifndef PIPEALL_NORMALIZE_H
#define PIPEALL_NORMALIZE_H

#include "../kernels.h"
#include "nd_loop.h"
#include "reduce.h"

typedef struct pa_lrn_op {
    pa_view src, dst; /* of equal shape */
    int32_t size;     /* channels in the window, >= 1 */
    float alpha, beta, bias;
    const pa_kernel_row *kernel;
    int64_t scratch_floats; /* set by plan: per thread, the squares of two pixels */
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
