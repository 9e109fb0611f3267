/* Every op but convolution as a step: the drivers above the micro-kernels that run along channels.
 *
 * Each op is a struct that its step function takes as `args`; the struct owns nothing. Where there is a
 * pa_<op>_plan, call it once, after all other fields are set. A driver cuts its op into chunks that do not depend
 * on the team, so that results do not either.
 */
#ifndef PIPEALL_VECTOR_H
#define PIPEALL_VECTOR_H

#include "kernels.h"

enum { PA_COPY_DIMS = 6 };

/* dst = clamp(depthwise(src) + residual, lo, hi), one output channel per input channel. */
typedef struct pa_depthwise_op {
    pa_view src, dst, residual; /* of equal c */
    int32_t has_residual;
    pa_window window;
    float lo, hi;
    const float *packed; /* pa_depthwise_pack; 64-byte aligned */
    pa_depthwise_fn kernel;
    int32_t band, bands, ring_rows, columns; /* set by plan */
    int64_t scratch_floats;            /* set by plan: per thread, the ring */
} pa_depthwise_op;
void pa_depthwise_plan(pa_depthwise_op *op, int threads);
void pa_depthwise_step(const void *op, float *const *bases, float *scratch, pa_team *team);

/* Floats of `packed`, and how to fill it from ONNX order: weight [channels][1][kh][kw], bias [channels]. */
int64_t pa_depthwise_packed_floats(int64_t channels, int64_t kh, int64_t kw);
void pa_depthwise_pack(const void *weight, const void *bias, int64_t channels, int64_t kh, int64_t kw, float *packed);

typedef struct pa_pool_op {
    pa_view src, dst; /* of equal c */
    pa_window window;
    int32_t average;               /* else maximum */
    int32_t count_pads;            /* average: the divisor counts positions inside the padding (count_include_pad) */
    int32_t pad_bottom, pad_right; /* read only then */
    pa_pool_fn kernel;
    int32_t channel_blocks;        /* set by plan: an op of one output row is cut along its channels */
    int64_t scratch_floats;        /* set by plan: per thread, the factors of a row of averages */
} pa_pool_op;
void pa_pool_plan(pa_pool_op *op);
void pa_pool_step(const void *op, float *const *bases, float *scratch, pa_team *team);

typedef struct pa_lrn_op {
    pa_view src, dst; /* of equal shape */
    int32_t size;     /* channels in the window, >= 1 */
    float alpha, beta, bias;
    pa_lrn_fn kernel;
    int64_t scratch_floats; /* set by plan: per thread, the squares of two pixels */
} pa_lrn_op;
void pa_lrn_plan(pa_lrn_op *op);
void pa_lrn_step(const void *op, float *const *bases, float *scratch, pa_team *team);

/* Over the channels of each pixel. */
typedef struct pa_softmax_op {
    pa_view src, dst; /* of equal shape */
    pa_softmax_fn kernel;
} pa_softmax_op;
void pa_softmax_step(const void *op, float *const *bases, float *scratch, pa_team *team);

typedef struct pa_layernorm_op {
    pa_view src, dst; /* of equal shape */
    float epsilon;
    pa_layernorm_fn kernel;
} pa_layernorm_op;
void pa_layernorm_step(const void *op, float *const *bases, float *scratch, pa_team *team);

/* dst = clamp(a op b, lo, hi); each of b's h, w, c is dst's or 1. */
typedef struct pa_binary_op {
    pa_view a, b, dst;     /* a and dst of equal shape */
    const float *constant; /* where b's pixel 0 lies instead of in a base, or NULL */
    int32_t op;            /* PA_ADD ... */
    float lo, hi;
    pa_binary_fn kernel;
} pa_binary_op;
void pa_binary_step(const void *op, float *const *bases, float *scratch, pa_team *team);

typedef struct pa_unary_op {
    pa_view src, dst; /* of equal shape; may be the same memory */
    int32_t op;       /* PA_CLIP ... */
    float p0, p1;
    pa_unary_fn kernel;
} pa_unary_op;
void pa_unary_step(const void *op, float *const *bases, float *scratch, pa_team *team);

/* dst[sum i_d * dst_stride[d]] = src[sum i_d * src_stride[d]] for 0 <= i_d < size[d]; of the views only base and
 * offset count. src and dst do not overlap. */
typedef struct pa_copy_op {
    pa_view src, dst;
    int32_t rank;                /* <= PA_COPY_DIMS; plan brings size and strides into the order it works in */
    int64_t size[PA_COPY_DIMS];  /* all >= 1 */
    int64_t src_stride[PA_COPY_DIMS], dst_stride[PA_COPY_DIMS];
} pa_copy_op;
void pa_copy_plan(pa_copy_op *op);
void pa_copy_step(const void *op, float *const *bases, float *scratch, pa_team *team);

/* dst = value */
typedef struct pa_fill_op {
    pa_view dst;
    float value;
} pa_fill_op;
void pa_fill_step(const void *op, float *const *bases, float *scratch, pa_team *team);

#endif
