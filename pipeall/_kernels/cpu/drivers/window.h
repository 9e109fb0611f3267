/* Steps whose output pixels depend on a window of input pixels: depthwise convolution and pooling.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing.
 * Where there is a pa_<op>_plan, call it once, after all other fields are set. */
#ifndef PIPEALL_WINDOW_H
#define PIPEALL_WINDOW_H

#include "../kernels.h"

/* dst = clamp(depthwise(src) + residual, lo, hi), one output channel per input channel. */
typedef struct pa_depthwise_op {
    pa_view src, dst, residual; /* of equal c */
    int32_t has_residual;
    pa_window window;
    float lo, hi;
    const float *packed; /* pa_depthwise_pack; 64-byte aligned */
    pa_depthwise_f32_fn kernel;
    int32_t band, bands, ring_rows, columns; /* set by plan */
    int64_t scratch_floats;            /* set by plan: per thread, the ring */
} pa_depthwise_op;
void pa_depthwise_plan(pa_depthwise_op *op, int threads);
void pa_depthwise_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Floats of `packed`, and how to fill it from ONNX order: weight [channels][1][kh][kw], bias [channels]. */
int64_t pa_depthwise_packed_floats(int64_t channels, int64_t kh, int64_t kw);
void pa_depthwise_pack(const void *weight, const void *bias, int64_t channels, int64_t kh, int64_t kw, float *packed);

typedef struct pa_pool_op {
    pa_view src, dst; /* of equal c */
    pa_window window;
    int32_t average;               /* else maximum */
    int32_t count_pads;            /* average: the divisor counts positions inside the padding (count_include_pad) */
    int32_t pad_bottom, pad_right; /* read only then */
    pa_pool_f32_fn kernel;
    int32_t channel_blocks;        /* set by plan: an op of one output row is cut along its channels */
    int64_t scratch_floats;        /* set by plan: per thread, the factors of a row of averages */
} pa_pool_op;
void pa_pool_plan(pa_pool_op *op);
void pa_pool_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
