/* Products of two computed operands of any strides, batched: the driver above the GEMM, ger and gemv_t kernels. */
#ifndef PIPEALL_MATMUL_H
#define PIPEALL_MATMUL_H

#include "../kernels.h"

/* dst = alpha a b:  a (..., M, K), b (..., K, N), dst (..., M, N) of one rank of at least 2; the sizes of all axes but
 * the last two are dst's, a stride of 0 broadcasts. No two elements of dst lie at one place.
 * pa_matmul_plan may change the operands' axes to equivalent ones. */
typedef struct pa_matmul_op {
    pa_strided a, b, dst;
    float alpha;
    pa_gemm_f32_fn gemm;
    pa_ger_f32_fn ger;
    pa_gemv_t_f32_fn gemv_t;
    int32_t mr, nr;
    /* filled in by pa_matmul_plan */
    int32_t form, packs_a, tiled; /* tiled: rows of dst do not lie together; a chunk keeps its own in scratch */
    int64_t chunk_rows, chunk_columns, scratch_floats; /* per thread */
} pa_matmul_op;

void pa_matmul_plan(pa_matmul_op *op, int threads);
void pa_matmul_step(const void *args, void *const *bases, void *scratch, pa_team *team);

#endif
