/* Pooling of floats, halves or integers, whose output pixels depend on a window of input pixels.
 * The op is a struct that its step function takes as `args`; the struct owns nothing.
 * Call pa_pool_plan once, after all other fields are set. */
#ifndef PIPEALL_POOL_H
#define PIPEALL_POOL_H

#include "../kernels_s8.h"

typedef struct pa_pool_op {
    pa_view src, dst; /* of equal c */
    pa_window window;
    int32_t average;               /* else maximum */
    int32_t count_pads;            /* average: the divisor counts positions inside the padding (count_include_pad) */
    int32_t pad_bottom, pad_right; /* read only then */
    const pa_kernel_row *kernel;
    int32_t item_bytes;            /* of an element, as the kernel has them */
    int32_t channel_blocks;        /* set by plan: an op of one output row is cut along its channels */
    int64_t scratch_floats;        /* set by plan: per thread, the factors of a row of averages, and lines of few channels */
} pa_pool_op;

void pa_pool_plan(pa_pool_op *op);
void pa_pool_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Of 8-bit integers, by pa_pool_s8_fn of kernels_s8.h. */
typedef struct pa_pool_s8_op {
    pa_view src, dst; /* of equal c */
    pa_window window;
    const pa_kernel_row *kernel;
    int32_t average, count_pads, pad_bottom, pad_right; /* as pa_pool_op has them */
    int32_t a_zero;                                     /* of means, like the rest */
    float factor;                                       /* scale of the input over the output's */
    pa_requantize to;
} pa_pool_s8_op;

void pa_pool_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
