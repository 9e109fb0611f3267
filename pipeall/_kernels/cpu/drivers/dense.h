/* Products of matrices that lie in row-major order, for training: the driver above the GEMM and gemv_t kernels.
 *
 * Work is cut into chunks that the team claims. Results depend neither on the cut nor on the team: each element of a
 * product is one sum in order of k, in float32.
 */
#ifndef PIPEALL_DENSE_H
#define PIPEALL_DENSE_H

#include "../kernels.h"

/* C = A B + start, or C += A B:  A rows x k at a, rows a_stride apart; element (p, j) of B, k x columns, at
 * b + p * b_row + j * b_column; C rows x columns, rows c_stride apart. start holds a value per row, or is NULL;
 * with `accumulate` the sum starts from C instead. */
typedef struct pa_product_op {
    int64_t rows, k, columns;
    const float *a, *b, *start;
    float *c;
    int64_t a_stride, b_row, b_column, c_stride;
    int32_t accumulate;
    pa_gemm_f32_fn gemm;
    int32_t mr, nr;
} pa_product_op;
enum { PA_PRODUCT_SCRATCH = 320 * 128 + 128 * 32 }; /* floats per thread, 64-byte aligned (dense.c) */
void pa_product(const pa_product_op *op, float *scratch, pa_team *team);

/* The vector kernels by chunks of rows, or of columns. */
void pa_gemv_t(pa_gemv_t_f32_fn kernel, const pa_gemv_t_args *args, pa_team *team);
void pa_ger(pa_ger_f32_fn kernel, const pa_ger_args *args, pa_team *team);

#endif
