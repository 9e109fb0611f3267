/* Products of float32 matrices of any strides, batched: the driver above the GEMM, ger and gemv_t kernels. */
#ifndef PIPEALL_MATMUL_H
#define PIPEALL_MATMUL_H

#include "../dispatch.h"
#include "../kernels.h"

/* dst = alpha a b:  a (..., M, K), b (..., K, N), dst (..., M, N) of one rank of at least 2; the sizes of all axes but
 * the last two are dst's, a stride of 0 broadcasts. No two elements of dst lie at one place.
 * pa_matmul_plan may change the operands' axes to equivalent ones. */
typedef struct pa_matmul_op {
    pa_strided a, b, dst;
    float alpha;
    int32_t accumulate; /* dst += a b, by the GEMM alone: rows of a and dst lie together, alpha is 1 */
    const pa_kernel_row *gemm, *ger, *gemv_t;
    /* filled in by pa_matmul_plan */
    int32_t form, packs_a, tiled; /* tiled: rows of dst do not lie together; a chunk keeps its own in scratch */
    int64_t chunk_rows, chunk_columns, scratch_floats; /* per thread */
} pa_matmul_op;

void pa_matmul_plan(pa_matmul_op *op, int threads);
void pa_matmul_step(const void *args, void *const *bases, void *scratch, pa_team *team);

/* c += a b of matrices in memory, the elements of whose rows lie together in a and c. No bit depends on how the rows or
 * columns of c are divided among calls. A matrix may have no element. */
typedef struct pa_matrix {
    const float *data;
    int64_t rows, columns, row_stride, column_stride;
} pa_matrix;
enum { PA_MATMUL_SCRATCH = 320 * 128 }; /* floats per thread, 64-byte aligned (matmul.c) */
void pa_matmul_add(const pa_kernel_row *gemm, pa_matrix a, pa_matrix b, pa_matrix c, float *scratch, pa_team *team);

/* The vector kernels by chunks of rows, or of columns. */
void pa_gemv_t(const pa_kernel_row *kernel, const pa_gemv_t_args *args, pa_team *team);
void pa_ger(const pa_kernel_row *kernel, const pa_ger_args *args, pa_team *team);

#endif
