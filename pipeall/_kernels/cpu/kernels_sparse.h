/* The micro-kernel of the sparse GEMM (drivers/sparse.c). */
#ifndef PIPEALL_KERNELS_SPARSE_H
#define PIPEALL_KERNELS_SPARSE_H

#include "kernels.h"

/* A tile of at most MR rows of A times a panel of B, of NR columns, of which the rows of zeros are left out (sparse.c):
 *   C[i][j] = clamp(sum_q A[k[q] * MR + i] * B[q * NR + j] + bias[j] + R[i][j], lo, hi)     for i < rows, j < n (1 <= n <= NR)
 * The sum starts at 0 and runs over q < count, in order. R is NULL where there is none; without a bias C is added, which
 * holds the sum of other blocks of k. b is 32-byte aligned. */
typedef struct pa_gemm_sparse_args {
    int64_t rows, n, count;
    const float *a;
    const int32_t *k;
    const float *b, *bias;
    float *c;
    int64_t c_stride;
    const float *r;
    int64_t r_stride;
    float lo, hi;
} pa_gemm_sparse_args;
typedef void (*pa_gemm_sparse_f32_fn)(const pa_gemm_sparse_args *);
enum { PA_SPARSE_COLUMNS = 8 }; /* NR: so many filters have their zeros in common */

#endif
