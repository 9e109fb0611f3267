/* Steps on elements one by one, of up to three strided operands of any type (the kind `pointwise`).
 * The struct is what the step function takes as `args`; it owns nothing. */
#ifndef PIPEALL_POINTWISE_H
#define PIPEALL_POINTWISE_H

#include "../kernels.h"
#include "nd_loop.h"

typedef enum pa_pointwise_form { PA_OF_ONE, PA_OF_TWO, PA_WHERE, PA_CAST } pa_pointwise_form;

typedef struct pa_pointwise_op pa_pointwise_op;
struct pa_pointwise_op {
    pa_strided src[3], dst; /* all of dst's sizes */
    int32_t form;           /* pa_pointwise_form, whose operands are 1, 2, 3 and 1 */
    int32_t op;             /* PA_UNARY_... or PA_BINARY_... */
    float p0, p1, lo, hi;
    int64_t least, most; /* lo and hi where the result is an integer, and p0 and p1 of clip */
    const pa_kernel_row *unary, *binary;
    /* set by plan */
    pa_axes axes; /* of dst, then src */
    int64_t segments; /* of each run along the last axis */
    void (*segment)(const pa_pointwise_op *, int64_t n, const void *const *src, void *dst);
};

/* Call it once, after all other fields are set. 0 where the op is not for these types. */
int pa_pointwise_plan(pa_pointwise_op *op);
void pa_pointwise_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
