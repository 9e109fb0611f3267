/* The contract of the kernels of half precision (f16/): the micro-kernel types of kernels.inc whose element type is f16.
 *
 * Activations and weights are halves, as IEEE 754 has them (half.h); bounds are floats. Sums of at most PA_F16_BLOCK products
 * may be made in half precision, each product fused: such a sum is within PA_F16_BLOCK * 2^-11 of the sum of its products'
 * sizes. A longer one, of n products, is a sum of blocks, whose each addition rounds once more: within
 * (PA_F16_BLOCK + n / PA_F16_BLOCK) * 2^-11 of the sum of all sizes.
 */
#ifndef PIPEALL_KERNELS_F16_H
#define PIPEALL_KERNELS_F16_H

#include "kernels_winograd.h"

enum { PA_F16_BLOCK = 128 };

/* Indirect GEMM of halves on one panel, by tiles of at most MR rows x NR columns, MR and NR being the row's of kernels.inc:
 *   S[i][j] = (first ? 0 : sums[i][j]) + sum_t sum_k A[t * MR + i][a_offset + k] * B[(t * K + k) * NR + j]
 * for every row i of a tile and j < NR, where taps * k <= PA_F16_BLOCK. Unless `last`, S goes to sums; else
 *   C[i][j] = clamp(S[i][j] + bias[j] + R[i][j], lo, hi)                  for j < n (1 <= n <= NR)
 * Each of these additions may round to a half.
 *   a      per tile, a_step pointers apart: taps * MR row pointers; entries beyond the tile's rows are never read
 *   b      packed panel: taps * k rows of NR halves, 64-byte aligned; columns from n on are 0
 *   next   the block that is read after b, of the same size, to prefetch as pa_gemm_args says
 *   sums   rows of NR halves, sums_stride apart, 16-byte aligned; never touched where first and last
 *   bias   NR halves
 *   r      residual rows of halves of stride r_stride, or NULL */
typedef struct pa_gemm_f16_args {
    int32_t n, taps, first, last;
    pa_tiling tiling;
    int64_t k, a_offset, a_step;
    const uint16_t *const *a;
    const uint16_t *b, *next;
    uint16_t *sums;
    int64_t sums_stride;
    const uint16_t *bias;
    uint16_t *c;
    int64_t c_stride;
    const uint16_t *r;
    int64_t r_stride;
    float lo, hi;
} pa_gemm_f16_args;
typedef void (*pa_gemm_f16_fn)(const pa_gemm_f16_args *);

/* As pa_gemv_f32_f16w_fn, but it multiplies halves, to which A is rounded. Sums of at most PA_F16_GEMV_BLOCK products of a
 * tap may be made in half precision, each product fused. They are added as floats; so are bias and residual. */
typedef pa_gemm_f32_fn pa_gemv_f32_f16w_f16acc_fn;
enum { PA_F16_GEMV_BLOCK = 32 };

/* As pa_gemm_f32_fn, of products of bfloat16, whose sums are floats: A is rounded to it as it is read, to nearest, ties to
 * even; b and next point to weights of it, KR of a column together, with zeros behind the last k of a tap. Of a row of A nothing
 * is read beyond its k. Two products may be added before they are added to the sum, each of the two additions within 2^-23 of
 * its result, and what is smaller than 2^-126 may become 0: so FEAT_BF16 of Arm computes. */
typedef pa_gemm_f32_fn pa_gemm_f32_bf16w_fn;

/* As pa_winograd_input_args, of halves; d' is PA_F16_WINOGRAD(n) times as large, half of it or a quarter from each dimension,
 * so that nothing on the way is more than twice as large as d: the points of the taps are by as much larger. These are
 * transformed as floats. Tiles are of n = 4 or 6 points. */
#define PA_F16_WINOGRAD(n) ((n) == 4 ? 0.25f : 0.0625f)
typedef pa_winograd_input_f32_fn pa_winograd_input_f16_fn;
typedef pa_winograd_output_f32_fn pa_winograd_output_f16_fn; /* all of halves */

/* As pa_winograd_products_f32_fn, of halves, in tiles of 6 points; k is PA_F16_BLOCK at most. Sums may be made in half precision as
 * of pa_gemm_f16_fn, and sums of the transform round to halves. */
typedef pa_winograd_products_f32_fn pa_winograd_products_f16_fn;
typedef pa_winograd_columns_f32_fn pa_winograd_columns_f16_fn;

/* The same of halves. taps * depth is PA_F16_BLOCK at most: the sums are in half precision, but the reference's, which are
 * floats. A packed bias is b and what b, rounded to a half, leaves of it, as a half: a sum starts from the rest, which is too
 * small to cost its products precision, and ends with b. Bias and residual are added, and bounds applied, in the sum's
 * precision. */
typedef pa_depthwise_f32_fn pa_depthwise_f16_fn;

/* The same of halves, by polynomials in half precision: within 2^-11 of the operands' sizes as test_silu.py derives. */
typedef pa_silu_f32_fn pa_silu_f16_fn;

/* The same of halves: maxima are exact, the sums of means floats, rounded once to a half. */
typedef pa_pool_f32_fn pa_pool_f16_fn;

#endif
