/* softmax(scale q k^T + mask) v without a matrix of all scores: the driver above the GEMM and softmax_exp kernels. */
#ifndef PIPEALL_ATTENTION_H
#define PIPEALL_ATTENTION_H

#include "../kernels.h"

/* q (..., Tq, D), k (..., Tk, D), v (..., Tk, E), dst (..., Tq, E), mask (..., Tq, Tk), all of one rank of at least 2;
 * the sizes of all axes but the last two are dst's, a stride of 0 broadcasts. No two elements of dst lie at one place.
 * mask (if `masked`): float32 is added to the scores; bool keeps those where it is true, the others are -inf.
 * causal: query i has scores of keys 0 to i alone. A row whose scores are all -inf becomes NaN. */
typedef struct pa_attention_op {
    pa_strided q, k, v, mask, dst;
    int32_t masked, causal;
    float scale;
    const pa_kernel_row *gemm, *softmax_exp;
    /* filled in by pa_attention_plan */
    int64_t block_rows, scratch_floats; /* per thread */
} pa_attention_op;

void pa_attention_plan(pa_attention_op *op);
void pa_attention_step(const void *args, void *const *bases, void *scratch, pa_team *team);

#endif
