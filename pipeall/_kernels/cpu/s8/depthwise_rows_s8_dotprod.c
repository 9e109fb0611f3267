/* Rows of a depthwise convolution of integers (kernels_s8.h: pa_depthwise_rows_s8_fn) by dot products, for out-of-order cores:
 * the depth of a product are four pixels under a row of the kernel.
 *
 * Pixels of a row of the input become quads, once for all rows of the kernel: four bytes of each channel side by side. At
 * stride 1 a quad is under the windows of two outputs, whose taps lie one byte apart in it; quads begin two pixels apart.
 * A tile is 8 pixels of 8 channels. Registers: 16 sums, 4 of taps, 2 of a quad.
 * Bound: NEON instructions, of 3x3 at stride 1 for 16 outputs 12 that multiply, 20 of what becomes of small sums, 3 of quads.
 *
 * Modelled, cycles of a Cortex-A76 for 16 outputs of 3x3, whole layers; in brackets by depthwise_s8_neon.c, without dot products:
 *     112x112x32 29 [67]   56x56x128 30 [53]   14x14x512 35 [49]   112x112x64 stride 2 44 [60]
 * A Cortex-A55, which has half of the pipes and waits for each load, takes 71 [117], 74 [79], 91 [85] and 158 [117], of sums
 * that are not small.
 */
#if defined(__aarch64__)
#define ROUND_BY_ADDING
#include "../prefetch.h"
#include "requantize_neon.h"

#define TARGET PA_EXTENSION("dotprod")
enum { NR = 8, QUAD = 4 * NR, PIXELS = 8, AHEAD = 24 /* pixels */ };

/* Two pixels of 16 or of up to 8 channels, channel by channel; of up to 8 `high` says nothing. */
typedef struct pair {
    int8x16_t low, high;
} pair;

/* The bytes of n channels, and zeros; not one more is read. */
PA_INLINE int8x16_t channels_of(const int8_t *x, const int n) {
    if (n == 2 * NR) return vld1q_s8(x);
    if (n == NR) return vcombine_s8(vld1_s8(x), vdup_n_s8(0));
    int8_t some[2 * NR] = {0};
    for (int i = 0; i < n; i++) some[i] = x[i];
    return vld1q_s8(some);
}

PA_INLINE pair pair_of(const int8_t *first, const int8_t *second, const int n) {
    const int8x16_t a = channels_of(first, n), b = channels_of(second, n);
    return (pair){vzip1q_s8(a, b), vzip2q_s8(a, b)};
}

PA_INLINE void store_half(int8_t *to, int8x16_t left, int8x16_t right) {
    const int16x8_t a = vreinterpretq_s16_s8(left), b = vreinterpretq_s16_s8(right);
    vst1q_s8(to, vreinterpretq_s8_s16(vzip1q_s16(a, b)));
    vst1q_s8(to + 16, vreinterpretq_s8_s16(vzip2q_s16(a, b)));
}

/* A quad, of 16 channels also that of the next vector, row_bytes further on. */
PA_INLINE void store_quad(int8_t *to, int64_t row_bytes, const pair *left, const pair *right, const int n) {
    store_half(to, left->low, right->low);
    if (n == 2 * NR) store_half(to + row_bytes, left->high, right->high);
}

/* A row of the input, NULL where it is padding. */
typedef struct line {
    const int8_t *pixels, *zero;
    int64_t stride, width;
} line;

PA_INLINE const int8_t *pixel_of(const line *from, int64_t column) {
    return from->pixels && column >= 0 && column < from->width ? from->pixels + column * from->stride : from->zero;
}

/* Quads that begin two pixels apart, the first at a column. */
PA_INLINE void slide(const line *from, const pa_quads *quads, int64_t column, int8_t *to, const int n) {
    pair left = pair_of(pixel_of(from, column), pixel_of(from, column + 1), n);
    const int64_t end = from->pixels ? from->width : 0, row_bytes = quads->row_bytes, stride = from->stride;
    for (int64_t count = quads->count; count > 0;) {
        column += 2;
        const int64_t within = column < 0 ? 0 : (end - column) / 2, run = within < count ? within : count;
        const int8_t *x = from->pixels + column * stride;
        int64_t i = 0;
        for (; i + 2 <= run; i += 2, to += 2 * QUAD, x += 4 * stride) { /* most, without a question at each pixel */
            PA_UNROLL
            for (int k = 0; k < 4; k++) PA_AHEAD(x + (AHEAD + k) * stride);
            const pair middle = pair_of(x, x + stride, n), right = pair_of(x + 2 * stride, x + 3 * stride, n);
            store_quad(to, row_bytes, &left, &middle, n);
            store_quad(to + QUAD, row_bytes, &middle, &right, n);
            left = right;
        }
        if (i < run) {
            const pair right = pair_of(x, x + stride, n);
            store_quad(to, row_bytes, &left, &right, n);
            left = right, to += QUAD;
        }
        if (run > 0) {
            count -= run, column += 2 * (run - 1);
            continue;
        }
        const pair right = pair_of(pixel_of(from, column), pixel_of(from, column + 1), n);
        store_quad(to, row_bytes, &left, &right, n);
        left = right, to += QUAD, count--;
    }
}

/* Quads of any windows: those of a group of taps lie together. */
PA_INLINE void gather(const line *from, const pa_quads *quads, const pa_window *w, int8_t *to, const int n) {
    for (int64_t i = 0; i < quads->count; i++, to += QUAD) {
        const int64_t x = i % quads->next * w->stride_x - w->pad_left + i / quads->next * 4 * w->dilation_x;
        const int8_t *pixels[4];
        for (int k = 0; k < 4; k++) pixels[k] = pixel_of(from, x + (int64_t)k * w->dilation_x);
        const pair left = pair_of(pixels[0], pixels[1], n), right = pair_of(pixels[2], pixels[3], n);
        store_quad(to, quads->row_bytes, &left, &right, n);
    }
}

PA_INLINE void quads_of(const line *from, const pa_quads *quads, const pa_window *w, int8_t *to, const int n) {
    if (quads->shared)
        slide(from, quads, -w->pad_left, to, n);
    else
        gather(from, quads, w, to, n);
}

/* A row of the input as quads, vector by vector. */
PA_INLINE void fill(const pa_depthwise_rows_s8_args *a, const pa_quads *quads, int64_t y, int8_t *to) {
    line from = {y >= 0 && y < a->in_h ? a->x + y * a->in_w * a->in_stride : NULL, a->zero, a->in_stride, a->in_w};
    int64_t left = a->n;
    for (int n; left > 0; left -= n, to += (n + NR - 1) / NR * quads->row_bytes) {
        n = left >= 2 * NR ? 2 * NR : left >= NR ? NR : (int)left;
        if (n == 2 * NR)
            quads_of(&from, quads, &a->window, to, 2 * NR);
        else if (n == NR)
            quads_of(&from, quads, &a->window, to, NR);
        else
            quads_of(&from, quads, &a->window, to, n);
        if (from.pixels) from.pixels += n;
    }
}

/* What the tiles of a row and vector have in common, and where one begins. */
typedef struct strip {
    const int8_t *const *rows; /* quads under each row of the kernel */
    int64_t at, next;          /* of the first quad; from a group of quads to the next */
    int kh, groups;
    const int8_t *b;
    const int32_t *bias;
    const float *scale;
    int8_t *out;
    int64_t out_stride;
    int n, small;
} strip;

/* What sums become. */
typedef struct finish {
    pa_narrowing to;
    pa_small_narrowing small;
} finish;

/* Adds the products of so many quads, `taps` outputs each, with one group of taps. */
TARGET PA_INLINE void add_products(const int8_t *quad, const int8_t *b, int32x4_t *sum, const int units, const int taps) {
    int8x16_t tap[2][2];
    PA_UNROLL
    for (int t = 0; t < taps; t++) tap[t][0] = vld1q_s8(b + t * QUAD), tap[t][1] = vld1q_s8(b + t * QUAD + 16);
    PA_UNROLL
    for (int u = 0; u < units; u++) {
        const int8x16_t low = vld1q_s8(quad + u * QUAD), high = vld1q_s8(quad + u * QUAD + 16);
        PA_UNROLL
        for (int t = 0; t < taps; t++) {
            const int i = 2 * (u * taps + t);
            sum[i] = vdotq_s32(sum[i], low, tap[t][0]), sum[i + 1] = vdotq_s32(sum[i + 1], high, tap[t][1]);
        }
    }
}

/* The sums of so many `units` of quads. `three`: whether the kernel is of three groups, one a row. */
TARGET PA_INLINE void sums_of(const strip *s, int32x4_t *sum, const int units, const int taps, const int three) {
    const int8_t *b = s->b;
    PA_UNROLL
    for (int i = 0; i < units * taps; i++) {
        const int32_t *bias = s->bias;
        __asm__ volatile("" : "+r"(bias)); /* loads, and no moves by the pipes that multiply */
        sum[2 * i] = vld1q_s32(bias), sum[2 * i + 1] = vld1q_s32(bias + 4);
    }
    if (three) {
        PA_UNROLL
        for (int ky = 0; ky < 3; ky++, b += taps * QUAD) add_products(s->rows[ky] + s->at, b, sum, units, taps);
        return;
    }
    for (int ky = 0; ky < s->kh; ky++) {
        const int8_t *quad = s->rows[ky] + s->at;
        for (int g = 0; g < s->groups; g++, quad += s->next, b += taps * QUAD) add_products(quad, b, sum, units, taps);
    }
}

/* Pairs of pixels in 8 bits; `small` as of a GEMM */
TARGET PA_INLINE void requantize(const strip *s, const finish *f, int32x4_t *sum, int8x16_t *two, const int pairs,
                                 const int small) {
    const pa_small_narrowing to = f->small;
    const float32x4_t scale[2] = {vld1q_f32(s->scale), vld1q_f32(s->scale + 4)};
    PA_UNROLL
    for (int i = 0; i < 4 * pairs; i++) {
        const float32x4_t x = vmulq_f32(vsubq_f32(vreinterpretq_f32_s32(sum[i]), to.base), scale[i % 2]);
        sum[i] = small ? vreinterpretq_s32_f32(vaddq_f32(x, to.base)) : scaled(sum[i], scale[i % 2]);
    }
    if (small)
        narrow_small(sum, pairs, &to, two);
    else
        narrow(sum, pairs, &f->to, two);
}

TARGET PA_INLINE void tile(const strip *s, const finish *f, const int m, const int taps, const int three) {
    int32x4_t sum[2 * PIXELS + 2];
    int8x16_t two[PIXELS / 2]; /* pixels each */
    sums_of(s, sum, (m + taps - 1) / taps, taps, three);
    if (m % 2) sum[2 * m] = sum[2 * m - 2], sum[2 * m + 1] = sum[2 * m - 1];
    if (s->small)
        requantize(s, f, sum, two, (m + 1) / 2, 1);
    else
        requantize(s, f, sum, two, (m + 1) / 2, 0);
    const int64_t stride = s->out_stride;
    int8_t *out = s->out;
    if (s->n < NR) {
        int8_t bytes[(PIXELS + 1) * NR];
        PA_UNROLL
        for (int i = 0; i < m; i += 2) vst1q_s8(bytes + i * NR, two[i / 2]);
        for (int i = 0; i < m; i++, out += stride) memcpy(out, bytes + i * NR, (size_t)s->n);
        return;
    }
    PA_UNROLL
    for (int i = 0; i < m; i++, out += stride)
        vst1_s8(out, i % 2 ? vget_high_s8(two[i / 2]) : vget_low_s8(two[i / 2]));
}

#define TILE(m, taps, three)                                                                                             \
    TARGET static __attribute__((noinline)) void tile_##m##_##taps##_##three(const strip *s, const finish *f) { \
        tile(s, f, m, taps, three);                                                                                \
    }
#define NAME(m, taps, three) tile_##m##_##taps##_##three,
#define EACH(X, taps, three)                                                                                              \
    X(1, taps, three) X(2, taps, three) X(3, taps, three) X(4, taps, three) X(5, taps, three) X(6, taps, three)           \
    X(7, taps, three) X(8, taps, three)
EACH(TILE, 1, 0) EACH(TILE, 1, 1) EACH(TILE, 2, 0) EACH(TILE, 2, 1)
typedef void (*tile_fn)(const strip *, const finish *);
static const tile_fn tile_fns[4][PIXELS] = {{EACH(NAME, 1, 0)}, {EACH(NAME, 1, 1)}, {EACH(NAME, 2, 0)}, {EACH(NAME, 2, 1)}};

void pa_depthwise_rows_s8_dotprod(const pa_depthwise_rows_s8_args *a);
void pa_depthwise_rows_s8_dotprod(const pa_depthwise_rows_s8_args *a) {
    const pa_window *w = &a->window;
    const pa_quads quads = pa_quads_of(w, a->out_w);
    const finish f = {narrowing_of(&a->to), small_narrowing_of(&a->to)};
    const pa_tiling tiling = pa_tiling_of((a->out_w + quads.taps - 1) / quads.taps, PIXELS / quads.taps);
    const int64_t vectors = (a->n + NR - 1) / NR, ring_row = vectors * quads.row_bytes;
    const int64_t first = (int64_t)a->y * w->stride_y - w->pad_top;
    const tile_fn *tiles = tile_fns[2 * (quads.taps - 1) + (w->kh == 3 && quads.groups == 1)];
    const int8_t *rows[PA_KERNEL_ROWS_MAX];
    for (int64_t y = 0, copied = 0; y < a->rows; y++) { /* copied: input rows, from `first` on */
        const int64_t top = y * w->stride_y, last = top + (int64_t)(w->kh - 1) * w->dilation_y;
        for (copied = copied < top ? top : copied; copied <= last; copied++)
            fill(a, &quads, first + copied, a->ring + copied % a->ring_rows * ring_row);
        for (int64_t ky = 0; ky < w->kh; ky++) rows[ky] = a->ring + (top + ky * w->dilation_y) % a->ring_rows * ring_row;
        for (int64_t v = 0; v < vectors; v++) {
            strip s = {
                .rows = rows,
                .at = v * quads.row_bytes,
                .next = quads.next * QUAD,
                .kh = w->kh,
                .groups = quads.groups,
                .b = a->b + v * quads.groups * w->kh * quads.taps * QUAD,
                .bias = a->bias + v * NR,
                .scale = a->scale + v * NR,
                .out = a->out + y * a->out_w * a->out_stride + v * NR,
                .out_stride = a->out_stride,
                .n = a->n - v * NR < NR ? (int)(a->n - v * NR) : NR,
                .small = a->small,
            };
            for (int64_t i = 0, x = 0; i < tiling.tiles; i++) {
                const int64_t units = pa_tile_rows(&tiling, i), rest = a->out_w - x;
                const int64_t m = units * quads.taps < rest ? units * quads.taps : rest;
                tiles[m - 1](&s, &f);
                s.at += units * QUAD, s.out += m * a->out_stride, x += m;
            }
        }
    }
}
#endif
