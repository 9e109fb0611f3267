/* The contract of the kernels of 8-bit integers (s8/): the micro-kernel types of kernels.inc whose element type is s8.
 *
 * An integer q of a tensor stands for the real number (q - zero) * scale. Sums of products are exact, in 32 bits. What leaves
 * is rounded half to even: the nearest integer to the real number over the scale of the output, plus its zero point.
 * Activations of a model that are unsigned are kept less 128, zero point and all.
 */
#ifndef PIPEALL_KERNELS_S8_H
#define PIPEALL_KERNELS_S8_H

#include "kernels.h"

/* What a sum becomes: out = rint(clamp((sum + bias) * scale, lo, hi)) + zero. The bounds are integers that the zero point
 * takes to -128 .. 127, or to what is left of that by a ReLU. */
typedef struct pa_requantize {
    float lo, hi;
    int32_t zero;
} pa_requantize;

/* Sums and products of integers of different scales, b_step 0 or 1:
 *   add  out[i] = requantize((a[i] - a_zero) * a_factor + (b[i * b_step] - b_zero) * b_factor), without bias and scale
 *   mul  out[i] = requantize((a[i] - a_zero) * (b[i * b_step] - b_zero) * a_factor), likewise */
typedef struct pa_binary_s8_args {
    int32_t a_zero, b_zero;
    float a_factor, b_factor;
    pa_requantize to;
} pa_binary_s8_args;
/* A float of PA_BITS is 1.5 * 2^23. Of up to 2^22 more or less each is an integer, the last bits of which are how much. */
enum { PA_BITS = 0x4b400000, PA_SMALL_SUM = 1 << 22, PA_SMALL_RESULT = 1 << 14 };

/* Indirect GEMM of integers, by tiles of at most MR rows x NR columns, MR and NR being the row's of kernels.inc:
 *   C[i][j] = requantize(sum_t sum_k A[t * MR + i][k] * B[t][k][j], bias[j], scale[j])
 * for every row i of a tile, and j < n: on one panel (1 <= n <= NR), on aarch64 on any number of them, one behind the other.
 * With `r`, which only kernels with PA_JOINS take, C[i][j] is the add by `sum` of that and R[i][j]. With `float_dst` C is of floats, which are neither rounded nor moved by
 * the zero point: clamp((sum + bias) * scale, lo, hi), of any bounds, infinite ones too.
 *   a      per tile, a_step pointers apart: taps * MR row pointers, of any alignment; entries beyond the tile's rows are never
 *          read. Of each row k bytes are read: what is beyond the elements meets weights of 0. Kernels with
 *          PA_UNSIGNED_A take the bytes for unsigned ones
 *   b      packed panels, 64-byte aligned, of each: [tap][k / KR][NR][KR]. Kernels with PA_NARROW_WEIGHTS want -127 .. 127;
 *          all others take -128 too
 *   bias, scale   of each panel NR, 64-byte aligned; scale is finite and above 0
 *   small  sums and bias are within PA_SMALL_SUM, and what is rounded, with the residual, within PA_SMALL_RESULT; to the bias
 *          PA_BITS is added, so that the sums are the bits of floats. Kernels with PA_SMALL_SUMS take it
 * A call of a kernel with PA_PARTS may be about a part of the sums: so many taps and k, of each row from byte a_offset on. If
 * they `go_on` they begin with what is in `sums` in place of the bias, and if they are `open` they end there in place of C:
 * [panel][row][NR], panels sums_step apart.
 * KR is the row's of kernels.inc: 4, 8 or 16. k is a multiple of it; where it is 16, of 8: then the last eight lie together,
 * behind the blocks of 16. */
typedef struct pa_gemm_s8_args {
    int32_t n, taps;
    pa_tiling tiling;
    int64_t k, a_step;
    const int8_t *const *a;
    const int8_t *b;
    const int32_t *bias;
    const float *scale;
    pa_requantize to;
    void *c;          /* int8_t; float with `float_dst` */
    int64_t c_stride; /* in elements */
    int32_t float_dst;
    const int8_t *r; /* NULL: none; r_stride is 0 then */
    int64_t r_stride;
    pa_binary_s8_args sum;
    int32_t small;
    int64_t a_offset, sums_step;
    int32_t *sums;
    int32_t go_on, open;
} pa_gemm_s8_args;
typedef void (*pa_gemm_s8_fn)(const pa_gemm_s8_args *);

/* Depthwise convolution of n channels of some pixels, which are in tiles as rows are in a GEMM:
 *   C[i][c] = requantize(sum_t A[t * MR + i][c] * B[t][c], bias[c], scale[c])      for c < n
 *   b      packed, 64-byte aligned: [c / NR][tap][NR] 16-bit weights, or where KR is 4 [c / NR][tap / 4][NR][4] 8-bit ones, of
 *          channels in the order that pa_depthwise_s8_place gives; those past the last channel or tap are 0, and are read.
 *          NEON, which multiplies pairs in 16 bits, wants -127 .. 127; all others take -128 too
 *   bias, scale   n, up to a multiple of NR. Of each row of A only n bytes are read. Kernels with PA_UNSIGNED_A add 128 to them,
 *          which the bias has taken back */
typedef struct pa_depthwise_s8_args {
    int32_t n, taps;
    pa_tiling tiling;
    int64_t a_step;
    const int8_t *const *a;
    const int16_t *b;
    const int32_t *bias;
    const float *scale;
    pa_requantize to;
    int8_t *c;
    int64_t c_stride;
} pa_depthwise_s8_args;
typedef void (*pa_depthwise_s8_fn)(const pa_depthwise_s8_args *);

/* Where a channel of NR lies where KR is 4: in four vectors, each with four of every sixteen channels, as x86 leaves bytes that
 * it brought side by side. */
static inline int64_t pa_depthwise_s8_place(int64_t channel, int64_t nr) {
    return channel % 16 / 4 * (nr / 4) + channel / 16 * 4 + channel % 4;
}

/* How pixels of a row of the input lie for dot products: quads, of four pixels under a row of the kernel each, channel by
 * channel; `groups` of quads hold all taps of that row. Where windows overlap and have no gaps, quads begin two pixels apart:
 * at stride 1 outputs 2 i and 2 i + 1 are made of quads i + next * g, with taps that lie one pixel apart, at stride 2 output i
 * is. Else each output has its own. */
enum { PA_QUAD_CHANNELS = 8 /* of a vector */ };
typedef struct pa_quads {
    int32_t shared, taps;    /* outputs that a quad is under by sharing: sets of taps, 1 or 2 */
    int64_t groups, next;    /* from a group to the next, in quads */
    int64_t count, row_bytes; /* of a vector of NR channels */
} pa_quads;

static inline pa_quads pa_quads_of(const pa_window *w, int64_t out_w) {
    const int shared = w->dilation_x == 1 && w->stride_x <= 2, taps = shared && w->stride_x == 1 ? 2 : 1;
    const int64_t groups = (w->kw + taps - 1 + 3) / 4, units = (out_w + taps - 1) / taps;
    const int64_t count = shared ? units + 2 * (groups - 1) : units * groups;
    return (pa_quads){shared, taps, groups, shared ? 2 : units, count, count * 4 * PA_QUAD_CHANNELS};
}

/* Rows [y, y + rows) of a depthwise convolution of n channels of an image:
 *   out[x][c] = requantize(sum_ky sum_kx X[row ky][column kx][c] * weight[ky][kx][c], bias[c], scale[c])
 *   b      packed, 64-byte aligned: [c / NR][ky][group][set of taps][NR][4], zeros where a quad has no tap
 *   bias, scale   n, up to a multiple of NR
 *   zero   n elements, up to a multiple of 16, of padding
 *   small  as of a GEMM, without a residual
 *   ring   scratch, 64-byte aligned: ring_rows > (kh - 1) * dilation_y rows of quads of all vectors */
typedef struct pa_depthwise_rows_s8_args {
    pa_window window;
    int32_t in_h, in_w, out_w, y, rows, n;
    const int8_t *x;
    int64_t in_stride;
    const int8_t *b;
    const int32_t *bias;
    const float *scale;
    pa_requantize to;
    const int8_t *zero;
    int8_t *out; /* row y */
    int64_t out_stride;
    int8_t *ring;
    int32_t ring_rows, small;
} pa_depthwise_rows_s8_args;
typedef void (*pa_depthwise_rows_s8_fn)(const pa_depthwise_rows_s8_args *);

/* out[i] = clamp(rint(x[i] / scale) + zero, -128, 127); NaN becomes any of them */
typedef void (*pa_quantize_s8_fn)(int64_t n, const float *x, int8_t *out, float scale, int32_t zero);

/* out[i] = (x[i] - zero) * scale */
typedef void (*pa_dequantize_s8_fn)(int64_t n, const int8_t *x, float *out, float scale, int32_t zero);

/* out[i] = x[i] + 128, unsigned, of n integers in each of so many rows, which lie `stride` apart in x and n apart in out. */
typedef void (*pa_unsign_s8_fn)(int64_t rows, int64_t n, int64_t stride, const int8_t *x, int8_t *out);

/* out[i] = table[x[i] + 128] of n integers in each of so many rows, which lie `stride` apart in both; out may be x. */
typedef void (*pa_lut_s8_fn)(int64_t rows, int64_t n, int64_t stride, const int8_t *x, int8_t *out,
                               const int8_t *table);

/* Sums and products of integers by pa_binary_s8_args, b_step 0 or 1; out may be a or b. */
typedef void (*pa_add_s8_fn)(int64_t n, const int8_t *a, const int8_t *b, int b_step, int8_t *out,
                             const pa_binary_s8_args *args);
typedef pa_add_s8_fn pa_mul_s8_fn;

/* Maxima or means of the windows of pixels of a row, of rows x columns taps each; steps are in bytes:
 *   out[p * out_stride + c] = max_ij a[p * pixel_step + i * row_step + j * column_step + c]               unless `mean`
 *                             requantize(sum_ij (a[...] - a_zero) * factor)                              elsewhere
 * for at most 2^23 taps, whose sums are of 32 bits, and a finite factor. A window without taps gives -128, or the zero
 * point. Only means read a_zero, factor and to. */
typedef struct pa_pool_s8_args {
    int64_t pixels, channels, rows, columns;
    const int8_t *a;
    int64_t pixel_step, row_step, column_step;
    int32_t mean, a_zero;
    float factor;
    pa_requantize to;
    int8_t *out;
    int64_t out_stride;
} pa_pool_s8_args;
typedef void (*pa_pool_s8_fn)(const pa_pool_s8_args *);

/* A measure of a core, as pa_peak_f32_fn is for floats: each round makes MR * NR products x[0] * x[1], NR by what one
 * instruction or sequence of them adds to a register of sums. Returns the sum of all, modulo 2^32. 0 <= x[0]: x86 multiplies
 * unsigned bytes by signed ones. */
typedef int32_t (*pa_peak_s8_fn)(int64_t rounds, const int8_t *x);

#endif
