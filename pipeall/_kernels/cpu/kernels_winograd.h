/* The contract of the kernels that make Winograd's sums by rows of points (winograd_columns.inc, f32/winograd_products_f32.inc,
 * f16/winograd_products_f16.inc). */
#ifndef PIPEALL_KERNELS_WINOGRAD_H
#define PIPEALL_KERNELS_WINOGRAD_H

#include "kernels.h"

/* A row of points of tiles of n x n, n at least 6, whose sums over k are transformed as they are made: with
 * S[p] = sum_k A[tile * a_tile + p * a_point + k] * B[(p * k + k) * NR + c], for p < n and c < NR,
 *   out[j * out_stride + tile * out_tile + c] = (first ? 0 : itself) + (A^T S)[j]      for j < m
 * k is a multiple of 4 and at least 8. next: what is read after b, of the same size, to prefetch. */
typedef struct pa_winograd_products_args {
    int32_t n, m, first;
    int64_t tiles, k;
    const void *a;
    int64_t a_tile, a_point;
    const void *b, *next; /* 16-byte aligned */
    void *out;
    int64_t out_stride, out_tile;
} pa_winograd_products_args;
typedef void (*pa_winograd_products_f32_fn)(const pa_winograd_products_args *);
enum { PA_WINOGRAD_ROW_TILES = 3 }; /* of floats that are computed together */

/* As pa_winograd_output_f32_fn, where that was done: row i of a tile is m sums, at in[(i * m + j) * in_stride + c]. With `silu`,
 * SiLU of each sum with its bias, as pa_silu_f32_fn has it, before the residual. */
typedef pa_winograd_output_f32_fn pa_winograd_columns_f32_fn;

#endif
