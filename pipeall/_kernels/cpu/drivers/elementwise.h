/* Steps on elements one by one: of two tensors, of one, and a constant.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing.
 * Where there is a pa_<op>_plan, call it once, after all other fields are set. */
#ifndef PIPEALL_ELEMENTWISE_H
#define PIPEALL_ELEMENTWISE_H

#include "../kernels.h"

/* dst = clamp(a op b, lo, hi); each of b's h, w, c is dst's or 1. */
typedef struct pa_binary_op {
    pa_view a, b, dst;     /* a and dst of equal shape */
    const float *constant; /* where b's pixel 0 lies instead of in a base, or NULL */
    int32_t op;            /* PA_BINARY_... */
    float lo, hi;
    const pa_kernel_row *kernel;
} pa_binary_op;
void pa_binary_step(const void *op, void *const *bases, void *scratch, pa_team *team);

typedef struct pa_unary_op {
    pa_view src, dst; /* of equal shape; may be the same memory */
    int32_t op;       /* PA_UNARY_... */
    float p0, p1;
    const pa_kernel_row *kernel;
} pa_unary_op;
void pa_unary_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Every element of dst is the one of item_bytes at `element`. */
typedef struct pa_fill_op {
    pa_view dst;
    int32_t item_bytes; /* 1, 2, 4 or 8 */
    char element[8];
} pa_fill_op;
void pa_fill_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
