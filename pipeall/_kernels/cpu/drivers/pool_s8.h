/* Pooling of 8-bit integers: the driver above pa_pool_s8_fn of kernels_s8.h. The op owns nothing. */
#ifndef PIPEALL_POOL_S8_H
#define PIPEALL_POOL_S8_H

#include "../kernels_s8.h"

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
