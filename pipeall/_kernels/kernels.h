/* The contract of the kernels: views, steps, and the micro-kernel types of kernels.inc.
 *
 * Activations are NHWC, batch 1, float32. All sizes, strides and offsets are in elements.
 * A micro-kernel is dumb: it never allocates, starts threads, detects CPUs or looks at shapes beyond
 * its arguments. The drivers (conv.c, vector.c) cut the work into chunks for a team and call it.
 */
#ifndef PIPEALL_KERNELS_H
#define PIPEALL_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "team.h"

enum { PA_ARENA = 0, PA_SLOT_IN = 1, PA_SLOT_OUT = 2, PA_BASES = 3 };

/* h x w pixels of c channels; pixel (y, x) is at bases[base] + offset + (y * w + x) * stride. */
typedef struct pa_view {
    int32_t base, h, w, c;
    int64_t offset, stride;
} pa_view;

static inline float *pa_at(const pa_view *v, float *const *bases) { return bases[v->base] + v->offset; }

/* A step of a program: run(args, bases, scratch, team). scratch holds team-size blocks of
 * pa_step.scratch floats (a multiple of 16 each, 64-byte aligned). */
typedef void (*pa_step_fn)(const void *args, float *const *bases, float *scratch, pa_team *team);
typedef struct pa_step {
    pa_step_fn run;
    void *args;
    int64_t scratch; /* floats per thread */
} pa_step;

/* ---- micro-kernels ------------------------------------------------------------------------- */

/* Indirect GEMM on an MR x NR tile, MR and NR being the row's of kernels.inc:
 *   C[i][j] = clamp(bias[j] + sum_t sum_k A[t * MR + i][k] * B[(t * k_count + k) * NR + j] + R[i][j], lo, hi)
 * for i < m (1 <= m <= MR), j < n (1 <= n <= NR).
 *   a  taps * MR row pointers; entries i >= m are never read
 *   b  packed panel: taps * k_count rows of NR floats, 64-byte aligned
 *   bias  NR floats;  r  residual rows of stride r_stride, or NULL
 * The sum runs over t, then k, in order, for every tile shape: results do not depend on the tiling. */
typedef struct pa_gemm_args {
    int32_t m, n, taps;
    int64_t k;
    const float *const *a;
    const float *b, *bias;
    float *c;
    int64_t c_stride;
    const float *r;
    int64_t r_stride;
    float lo, hi;
} pa_gemm_args;
typedef void (*pa_gemm_fn)(const pa_gemm_args *);

/* Depthwise convolution of one output row: for x in [0, w), c in [0, channels)
 *   out[x * out_stride + c] = clamp(bias[c] + sum_t weight[t * channels + c] * rows[x * taps_x_step ...]) : see depthwise.inc.
 * rows holds, for each of kh kernel rows, the first input pixel of the row, or NULL where it lies in the padding. */
typedef struct pa_depthwise_args {
    int32_t channels, out_w, in_w, kh, kw, stride_x, dilation_x, pad_left;
    const float *const *rows; /* kh pointers to the input rows (pixel 0), NULL = padding */
    int64_t in_stride;        /* between pixels */
    const float *weight;      /* [kh][kw][channels] */
    const float *bias;        /* [channels] */
    float *out;
    int64_t out_stride;
    const float *r;           /* residual row or NULL */
    int64_t r_stride;
    float lo, hi;
} pa_depthwise_args;
typedef void (*pa_depthwise_fn)(const pa_depthwise_args *);

/* Pooling of one output row, all channels. rows as above (NULL = outside). count: for an average, the
 * divisor of each output pixel (out_w floats, already inverted); NULL means maximum. */
typedef struct pa_pool_args {
    int32_t channels, out_w, in_w, kh, kw, stride_x, dilation_x, pad_left;
    const float *const *rows;
    int64_t in_stride;
    const float *inverse_count;
    float *out;
    int64_t out_stride;
} pa_pool_args;
typedef void (*pa_pool_fn)(const pa_pool_args *);

/* Local response normalisation across the channels of one pixel:
 *   out[c] = x[c] * (bias + alpha / size * sum_{j = c - (size - 1) / 2 .. c + size / 2} x[j]^2) ^ -beta
 * squares: scratch of channels + size + 32 floats. */
typedef struct pa_lrn_args {
    int32_t channels, size;
    float alpha, beta, bias;
    const float *x;
    float *out, *squares;
} pa_lrn_args;
typedef void (*pa_lrn_fn)(const pa_lrn_args *);

/* softmax over n contiguous floats; out may be x. */
typedef void (*pa_softmax_fn)(int64_t n, const float *x, float *out);

/* out[i] = clamp(a[i * 1] op b[i * b_step], lo, hi), b_step 0 or 1; op: 0 add, 1 sub (a - b), 2 mul, 3 reverse sub (b - a). */
typedef void (*pa_binary_fn)(int op, int64_t n, const float *a, const float *b, int b_step, float *out, float lo, float hi);

/* op: 0 clip(p0, p1), 1 leakyrelu(slope p0), 2 sigmoid, 3 hardsigmoid(p0 * x + p1 in [0, 1]), 4 hardswish. */
typedef void (*pa_unary_fn)(int op, int64_t n, const float *x, float *out, float p0, float p1);

#endif
