/* The contract of the kernels: views, steps, and the micro-kernel types of kernels.inc.
 *
 * Activations are NHWC, batch 1. All sizes, strides and offsets of a view are in elements of its own type, which the
 * step knows that was built for it. Kernels of one element type lie in a folder: f32/.
 * A micro-kernel is dumb: it never allocates, starts threads, detects CPUs or looks at shapes beyond
 * its arguments. The drivers (drivers/) cut the work into chunks for a team and call it.
 */
#ifndef PIPEALL_KERNELS_H
#define PIPEALL_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../program.h"
#include "dispatch.h"
#include "grouping.h"
#include "team.h"

/* h x w pixels of c channels; pixel (y, x) is offset + (y * w + x) * stride elements behind bases[base]. */
typedef struct pa_view {
    int32_t base, h, w, c;
    int64_t offset, stride;
} pa_view;

static inline char *pa_view_at(const pa_view *v, void *const *bases, int64_t item_bytes) {
    return (char *)bases[v->base] + v->offset * item_bytes;
}
static inline float *pa_f32_at(const pa_view *v, void *const *bases) { return (float *)bases[v->base] + v->offset; }
static inline int8_t *pa_s8_at(const pa_view *v, void *const *bases) { return (int8_t *)bases[v->base] + v->offset; }

/* Elements of a tensor of any rank: element i lies at offset + i . stride of bases[base], or of `constant` unless it is
 * NULL, in elements of item_bytes. Every size is at least 1; a stride of 0 broadcasts. Checked by whoever builds a step. */
enum { PA_DIMS = 8 };
typedef enum pa_type { PA_F32, PA_F16, PA_S8, PA_U8, PA_S32, PA_S64, PA_B8 } pa_type;
typedef struct pa_strided {
    int32_t base, rank, type, item_bytes;
    int64_t offset, size[PA_DIMS], stride[PA_DIMS];
    const void *constant;
} pa_strided;

static inline void *pa_at(const pa_strided *s, void *const *bases) {
    return (char *)(s->constant ? s->constant : bases[s->base]) + s->offset * s->item_bytes;
}

/* Element i of floats as a model file has them: at any address. */
static inline float pa_unaligned(const void *floats, int64_t i) {
    float value;
    memcpy(&value, (const char *)floats + i * (int64_t)sizeof(float), sizeof value);
    return value;
}

/* A step of a program: run(args, bases, scratch, team). scratch holds team-size blocks of
 * pa_step.scratch_bytes (a multiple of 64 each, 64-byte aligned). */
typedef void (*pa_step_fn)(const void *args, void *const *bases, void *scratch, pa_team *team);
typedef struct pa_step {
    pa_step_fn run;
    void *args;
    int64_t scratch_bytes; /* per thread */
    pa_team_choice choice;
    const struct pa_together *together; /* how it computes several frames at once; NULL: one after the other */
} pa_step;

/* Before a loop over the rows of a register tile: gcc keeps an array of accumulators in registers only if
 * the loop is unrolled early; clang does so by itself (and a count makes it unroll too late). */
#ifdef __clang__
#define PA_UNROLL
#else
#define PA_UNROLL _Pragma("GCC unroll 40")
#endif

#ifdef __OPTIMIZE__
#define PA_INLINE static inline __attribute__((always_inline, unused))
#else /* what is not optimized keeps every branch of every copy: 1 GB and minutes to compile */
#define PA_INLINE static inline __attribute__((unused))
#endif

/* After it compilers do not know where a pointer leads: else they compute the addresses of all rows of a tile ahead, more
 * than there are registers, and keep them on the stack or in vectors. */
#define PA_OPAQUE(pointer) __asm__("" : "+r"(pointer))

/* ---- micro-kernels ------------------------------------------------------------------------- */

/* Rows of a GEMM in tiles, as equally as can be: a tile of one row would wait for its own multiply-adds. */
typedef struct pa_tiling {
    int64_t tiles, least, larger; /* rows of a tile at least; the first so many tiles have one more */
} pa_tiling;

static inline pa_tiling pa_tiling_of(int64_t rows, int mr) {
    const int64_t tiles = (rows + mr - 1) / mr;
    return (pa_tiling){tiles, rows / tiles, rows % tiles};
}

static inline int64_t pa_tile_rows(const pa_tiling *t, int64_t tile) { return t->least + (tile < t->larger); }

/* Rows ahead of a tile, and the tiling of so many tiles from it on. */
static inline int64_t pa_rows_before(const pa_tiling *t, int64_t tile) {
    return tile * t->least + (tile < t->larger ? tile : t->larger);
}
static inline pa_tiling pa_tiling_part(const pa_tiling *t, int64_t tile, int64_t count) {
    const int64_t left = t->tiles - tile;
    return (pa_tiling){count < left ? count : left, t->least, t->larger > tile ? t->larger - tile : 0};
}

/* Indirect GEMM on one panel, by tiles of at most MR rows x NR columns, MR and NR being the row's of kernels.inc:
 *   C[i][j] = clamp(sum_t sum_k A[t * MR + i][a_offset + k] * B[(t * K + k) * NR + j] + bias[j] + R[i][j], lo, hi)
 * for every row i of a tile, and j < n (1 <= n <= NR).
 *   a     per tile, a_step pointers apart: taps * MR row pointers; entries beyond the tile's rows are never read
 *   b     packed panel: taps * K rows of NR floats, 64-byte aligned
 *   bias  NR floats; NULL: C, which holds the sum of other blocks of k
 *   r     residual rows of stride r_stride, or NULL
 *   next  the block that is read after b, of the same size. In a network weights come from memory; the first tile to
 *         read a block would wait for it, so every tile prefetches a part, NR floats for every k in AHEAD of its own.
 *   far   PA_FAR_A, of one tap, PA_FAR_C: these come from memory, so that every tile prefetches the next rows of A and its own
 *         of C, where the kernel can
 * A panel is NR columns of B as the kernel reads them, row after row; KR elements of a column lie together:
 *       B, 4 x 4            NR = 4, KR = 1     NR = 4, KR = 2 (as 8-bit integers have it, with 4, 8 or 16)
 *       a0 b0 c0 d0         a0 b0 c0 d0        a0 a1 b0 b1 c0 c1 d0 d1
 *       a1 b1 c1 d1         a1 b1 c1 d1        a2 a3 b2 b3 c2 c3 d2 d3
 *       a2 b2 c2 d2         a2 b2 c2 d2
 *       a3 b3 c3 d3         a3 b3 c3 d3        beyond the last column: zeros
 * The sum starts at 0 and runs over t, then k, in order; results do not depend on the tiles. What is added comes last: a
 * sum that starts from it rounds every product to its precision (CenterFace's error is 2.6 times as large then). */
enum { PA_FAR_A = 1, PA_FAR_C = 2 };
typedef struct pa_gemm_args {
    int32_t n, taps, far;
    pa_tiling tiling;
    int64_t k, a_offset, a_step;
    const float *const *a;
    const float *b, *bias, *next;
    float *c;
    int64_t c_stride;
    const float *r;
    int64_t r_stride;
    float lo, hi;
} pa_gemm_args;
typedef void (*pa_gemm_f32_fn)(const pa_gemm_args *);
/* The same of one tile with a wide NR: layers of a row (fully connected), or of those of a few frames. Each element of B is
 * read from memory once. MR is PA_GEMV_ROWS. */
typedef pa_gemm_f32_fn pa_gemv_f32_fn;
enum { PA_GEMV_ROWS = 4 };
enum { PA_GEMV_BLOCK = 192 }; /* k of a tap whose sums these add up */
typedef pa_gemm_f32_fn pa_gemv_f32_f16w_fn; /* likewise, and b points to weights in half precision; all else is float */

/* y[i] = bias[i] + sum_k a[i * a_stride + k] * x[k] for i < rows, k < columns; bias may be NULL, or y. */
typedef struct pa_gemv_t_args {
    int64_t rows, columns, a_stride;
    const float *a, *x, *bias;
    float *y;
} pa_gemv_t_args;
typedef void (*pa_gemv_t_f32_fn)(const pa_gemv_t_args *);

/* The way back of the same matrix, in one pass over it:
 *   dx[k] += sum_i dz[i] * a[i][k], i in order, of a as it was      unless dx is NULL
 *   a[i][k] += (alpha * dz[i]) * x[k]                               unless x is NULL */
typedef struct pa_ger_args {
    int64_t rows, columns, a_stride;
    float *a;
    const float *dz, *x;
    float *dx, alpha;
} pa_ger_args;
typedef void (*pa_ger_f32_fn)(const pa_ger_args *);

/* The window of pooling as it slides over rows. Column kx of output pixel x is input pixel
 * x * stride_x - pad_left + kx * dilation_x; columns outside [0, in_w) and rows that are NULL are padding and
 * contribute nothing. The rows that are not NULL are consecutive. */
typedef struct pa_row_window {
    int32_t out_w, in_w, kh, kw, stride_x, dilation_x, pad_left;
    const void *const *rows; /* kh input rows, each at its pixel 0 */
    int64_t in_stride;       /* between pixels */
} pa_row_window;

enum { PA_LANES_MAX = 16 }; /* the widest vector of any instruction set; packed channels are padded to it */

/* A window of kh x kw taps, kh <= PA_KERNEL_ROWS_MAX, which whoever builds a step checks. */
enum { PA_KERNEL_ROWS_MAX = 256 };
typedef struct pa_window {
    int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x;
} pa_window;

/* Convolution of narrow groups, depthwise where they are of one channel. Output rows [y, y + rows) of a block of vectors:
 *   out[x][c] = clamp(sum_i sum_ky sum_kx weight[i][ky][kx][c] * input i of c's group[row ky][column kx] + bias[c] + r[x][c],
 *                     lo, hi)
 * The sum runs over i, then ky, then kx, in order, by fused multiply-adds, on every path and instruction set. A vector has NR
 * lanes, NR being the row's of kernels.inc.
 * What is void is of the kernel's element type, and strides count such elements.
 *   packed  64-byte aligned, zeros past the last channel; per vector: bias[NR], in the room of floats, then
 *           weight[i][ky][kx][NR]
 *   lanes   lanes[j] modulo NR is the lane of the inputs that holds the first channel of lane j's group. NULL: it is j, and
 *           depth is 1
 *   ring    scratch, 64-byte aligned: ring_rows > (kh - 1) * dilation_y padded input rows of vectors * slices planes, each
 *           columns = (out_w - 1) * stride_x + (kw - 1) * dilation_x + 1 pixels of NR elements */
enum { PA_DEPTHWISE_BLOCK = 32 }; /* channels of a block: its vectors and slices, unless it is one vector */
typedef struct pa_depthwise_args {
    pa_window window;
    int32_t in_h, in_w, out_w, y, rows;
    const pa_grouping *grouping;
    int64_t vector;         /* the first of the block */
    int32_t vectors, depth; /* of the block; input channels of a group */
    int32_t slices;         /* NR channels each that a vector's inputs take */
    const int32_t *lanes;
    const void *x; /* the image */
    int64_t in_stride;
    const void *packed; /* of the block */
    void *out;          /* row y, as r */
    int64_t out_stride;
    const void *r; /* residual or NULL */
    int64_t r_stride;
    float lo, hi;
    void *ring;
    int32_t ring_rows, columns;
} pa_depthwise_args;
typedef void (*pa_depthwise_f32_fn)(const pa_depthwise_args *);

/* Pooling of one output row, of elements of the kernel's type: inverse_count[x] (out_w factors) times the sum over the window,
 * or where that is NULL the maximum. A window of padding alone gives 0, or -inf.
 *   line  NULL, or a padded row of the input, of which the padding is filled, and 2 PA_LANES_MAX elements more: pixels lie
 *         together, stride_x is 1, or 2 with one channel, and an average is the sum alone */
typedef struct pa_pool_args {
    pa_row_window window;
    int32_t channels;
    const float *inverse_count;
    void *line, *out;
    int64_t out_stride;
} pa_pool_args;
typedef void (*pa_pool_f32_fn)(const pa_pool_args *);

/* Local response normalization across the channels of each pixel of a row:
 *   out[c] = x[c] * (bias + alpha / size * sum_{j = c - (size - 1) / 2 .. c + size / 2} x[j]^2) ^ -beta
 * squares: scratch of two times channels + size + 2 * PA_LANES_MAX floats. */
typedef struct pa_lrn_args {
    int32_t pixels, channels, size;
    float alpha, beta, bias;
    const float *x;
    int64_t x_stride;
    float *out;
    int64_t out_stride;
    float *squares;
} pa_lrn_args;
typedef void (*pa_lrn_f32_fn)(const pa_lrn_args *);

/* Winograd F(m x m, r x r) on tiles of n x n points, n = m + r - 1: n is 4, 6, 7 or 8, r is 2 to 5
 * (winograd.inc). For a tile d of input pixels and taps g, every channel and filter by itself:
 *   d' = B^T d B,  g' = G g G^T,  out = A^T (sum over channels of d' * g', point by point) A */

/* out[p * out_stride + c] = d'[p][c] for the n * n points p and so many channels, of the n x n pixels from `in` on.
 * What is void is of the kernel's element type here and below, and strides count such elements. */
typedef struct pa_winograd_input_args {
    int32_t n, channels;
    const void *in;
    int64_t in_right, in_down; /* to the next pixel and the next row */
    void *out;
    int64_t out_stride;
} pa_winograd_input_args;
typedef void (*pa_winograd_input_f32_fn)(const pa_winograd_input_args *);

/* out[p * out_stride + i] = g'[p] of the taps at taps[(y * r + x) * tap_stride + i], for i < rows * nr;
 * nr is a multiple of the vector's lanes. next: likewise, the taps that will be transformed after these, to prefetch:
 * they come from memory in every frame. */
typedef struct pa_winograd_weight_args {
    int32_t n, r, nr;
    int64_t rows;
    const float *taps, *next;
    int64_t tap_stride;
    float *out;
    int64_t out_stride;
} pa_winograd_weight_args;
typedef void (*pa_winograd_weight_f32_fn)(const pa_winograd_weight_args *);

/* The first height x width pixels of clamp(bias + out + r, lo, hi); point p of the sum is at in[p * in_stride + c], and
 * in may be read up to the next multiple of PA_LANES_MAX channels. r: residual or NULL. */
typedef struct pa_winograd_output_args {
    int32_t n, m, height, width, channels, silu; /* the last of columns alone */
    const void *in;
    int64_t in_stride;
    const void *bias;
    void *out;
    int64_t out_row, out_pixel;
    const void *r;
    int64_t r_row, r_pixel;
    float lo, hi;
} pa_winograd_output_args;
typedef void (*pa_winograd_output_f32_fn)(const pa_winograd_output_args *);

/* Softmax over the n contiguous floats of each row; out may be x. */
typedef void (*pa_softmax_f32_fn)(int64_t rows, int64_t n, const float *x, int64_t x_stride, float *out, int64_t out_stride);

/* Each of so many rows of n floats, `stride` apart: x becomes e^(x - its row's maximum), sums[row] the sum of these.
 * n is a multiple of PA_LANES_MAX: fill up with -INFINITY. */
typedef void (*pa_softmax_exp_f32_fn)(int64_t rows, int64_t n, float *x, int64_t stride, float *sums);

/* (x - mean) / sqrt(variance + epsilon) of n contiguous floats; out may be x. */
typedef void (*pa_layernorm_f32_fn)(int64_t n, const float *x, float *out, float epsilon);

/* out[i] = wa * a[i] + wb * b[i] of n bytes; more: added to what out holds */
typedef struct pa_picture_rows_args {
    int64_t n;
    const uint8_t *a, *b;
    float wa, wb;
    int32_t more;
    float *out;
} pa_picture_rows_args;
typedef void (*pa_picture_rows_f32_fn)(const pa_picture_rows_args *);

/* Pixels of a row, of 1 or 3 channels, into others of 1 or 3: grey is repeated, and made of RGB as BT.601 says.
 *   level[c] = sum_k weight[i * taps + k] * row[(start[i] - first + k) * channels + c]
 *   out[i * out_pixel + c * out_channel] = level[c, or that of 2 - c if backwards] * factor[c] + offset[c]
 * row has room for a float behind its last pixel. */
typedef struct pa_picture_pixels_args {
    int64_t count, taps, channels, out_channels, first;
    const int32_t *start;
    const float *weight, *row;
    int32_t backwards;
    const float *factor, *offset; /* 3 */
    float *out;
    int64_t out_pixel, out_channel;
} pa_picture_pixels_args;
typedef void (*pa_picture_pixels_f32_fn)(const pa_picture_pixels_args *);

/* c = silu(c) + r of n channels of so many pixels, silu(x) = x / (1 + e^-x); r: residual or NULL. */
typedef void (*pa_silu_f32_fn)(int64_t rows, int64_t n, void *c, int64_t c_stride, const void *r, int64_t r_stride);

/* The codes of the pointwise ops; pa_unary_names and pa_binary_names (dispatch.h) are in their order. */
enum {
#define PA_UNARY(name, formula) PA_UNARY_##name,
#include "pointwise.inc"
    PA_UNARY_COUNT
};
enum {
#define PA_BINARY(name, formula) PA_BINARY_##name,
#include "pointwise.inc"
    PA_BINARY_COUNT
};

/* out[i] = clamp(a[i] op b[i * b_step], lo, hi), b_step 0 or 1; out may be a or b. */
typedef void (*pa_binary_f32_fn)(int op, int64_t n, const float *a, const float *b, int b_step, float *out, float lo,
                             float hi);

/* out[i] = op(x[i], p0, p1); out may be x. */
typedef void (*pa_unary_f32_fn)(int op, int64_t n, const float *x, float *out, float p0, float p1);

/* The same for those that pointwise.inc marks as scalar, by the C library; the kernels above pass them on. */
extern __typeof__(*(pa_binary_f32_fn)0) pa_binary_scalar_f32;
extern __typeof__(*(pa_unary_f32_fn)0) pa_unary_scalar_f32;
/* What becomes of several floats; shift is read by SQUARES, of x - shift, and EXP, of e^(x - shift), alone. */
enum { PA_FOLD_SUM, PA_FOLD_ABS, PA_FOLD_SQUARES, PA_FOLD_MAX, PA_FOLD_MIN, PA_FOLD_PROD, PA_FOLD_EXP };

/* out[r] = the fold of the n contiguous floats of row r; rows are `stride` apart. */
typedef void (*pa_reduce_f32_fn)(int how, int64_t rows, int64_t n, const float *x, int64_t stride, float shift,
                             float *out);

/* acc[j] becomes the fold of acc[j] and column j of the rows, which are `stride` apart; shift[j] is the shift of column j. */
typedef void (*pa_reduce_columns_f32_fn)(int how, int64_t rows, int64_t columns, const float *x, int64_t stride,
                                         const float *shift, float *acc);

/* out[r * step] = where the largest or smallest of the n floats of row r is in it: the first or the last of equals. NaN
 * counts as largest and smallest. Rows are `stride` apart. */
typedef void (*pa_argmax_rows_f32_fn)(int least, int last, int64_t rows, int64_t n, const float *x, int64_t stride,
                                     int64_t *out, int64_t step);

/* Rows number first, first + 1... against the best[j] of those before in column j and at[j], the bits of its int32 number. */
typedef void (*pa_argmax_columns_f32_fn)(int least, int last, int64_t rows, int64_t columns, const float *x, int64_t stride,
                                        int32_t first, float *best, float *at);

/* out[r][j] = (x[r][j] - shift[j]) * factor[j]; out may be x. */
typedef void (*pa_normalize_f32_fn)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *shift,
                              const float *factor, float *out, int64_t out_stride);

/* Softmax down each column, or its logarithm; out may be x. */
typedef void (*pa_softmax_columns_f32_fn)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, float *out,
                                      int64_t out_stride, int log);

/* Items of 1 or 2 floats, or of anything as large, at any address: item r of column c, which begins from[c] bytes behind src,
 * becomes item c of row r, to[r] bytes behind dst. */
typedef void (*pa_transpose_f32_fn)(int item, int64_t rows, int64_t columns, const void *src, const int64_t *from, void *dst,
                                    const int64_t *to);

/* Measures of a core, in rounds of MR vectors of NR floats, MR and NR being the row's of kernels.inc:
 * peak    x holds MR vectors, then a and b; each round adds a * b to each of the MR. Returns the sum of their lanes
 * stream  the sum of rounds * MR * NR floats at x */
typedef float (*pa_peak_f32_fn)(int64_t rounds, const float *x);
typedef pa_peak_f32_fn pa_stream_f32_fn;

#endif
