/* Steps that normalise along any axes of strided float32 operands of one shape; dst may be src.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing. Call pa_<op>_plan once, after all
 * other fields are set. */
#ifndef PIPEALL_NORMALISE_H
#define PIPEALL_NORMALISE_H

#include "../kernels.h"
#include "axes.h"
#include "reduce.h"

/* Softmax along an axis, or its logarithm. */
typedef struct pa_softmax_nd_op {
    pa_strided src, dst;
    int32_t axis, log;
    pa_softmax_f32_fn softmax;
    pa_softmax_columns_f32_fn columns;
    pa_reduce_f32_fn reduce;
    pa_binary_f32_fn binary;
    /* set by plan */
    pa_axes kept; /* of src, dst */
    int32_t side_by_side;
    int64_t scratch_floats; /* per thread */
} pa_softmax_nd_op;
void pa_softmax_nd_plan(pa_softmax_nd_op *op);
void pa_softmax_nd_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* (x - mean) / sqrt(variance + epsilon) over some axes; without center x / sqrt(mean of x^2 + epsilon). */
typedef struct pa_layernorm_nd_op {
    pa_reduce_op sums; /* src, dst, folded, reduce and fold; plan sets its axes, those of dst being among them */
    int32_t center;
    float epsilon;
    pa_layernorm_f32_fn layernorm;
    pa_normalize_f32_fn normalize;
    pa_binary_f32_fn binary;
} pa_layernorm_nd_op;
void pa_layernorm_nd_plan(pa_layernorm_nd_op *op);
void pa_layernorm_nd_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
