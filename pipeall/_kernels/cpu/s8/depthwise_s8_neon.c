/* Depthwise convolution of integers, NEON, 4 pixels x 16 channels: 16 registers of sums. Per tap two registers of weights
 * serve all pixels, and a pixel takes two loads, two sxtl and four smlal.
 *
 * Bound: the multiplying pipe (out of order) or the NEON instructions (in order), 4 and 2.7 multiply-adds per cycle.
 * Modelled for 3x3: 2.9 and 2.1 in the loop, 1.8 and 1.4 with what becomes of the sums.
 */
#if defined(__aarch64__)
#include "requantise_neon.h"

enum { MR = 4, NR = 16, HALF = 8 };

/* So many of 8 integers, 1 to 8, and zeros; not a byte more is read. */
PA_INLINE int8x8_t some(const int8_t *x, const int64_t count) {
    if (count >= 8) return vld1_s8(x);
    uint32_t first, last;
    if (count >= 4) {
        memcpy(&first, x, 4);
        memcpy(&last, x + count - 4, 4);
        return vcreate_s8(first | (uint64_t)last << 8 * (count - 4));
    }
    const uint8_t *byte = (const uint8_t *)x;
    return vcreate_s8(byte[0] | (uint64_t)byte[count / 2] << 8 * (count / 2) | (uint64_t)byte[count - 1] << 8 * (count - 1));
}

/* Of m pixels, the 8 * halves channels at x[i] of a tap: only `count` are read. */
PA_INLINE void load(int8x8_t x[MR][2], const int8_t *const *rows, int64_t at, int64_t count, const int m, const int halves) {
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        x[i][0] = some(rows[i] + at, count);
        if (halves > 1) x[i][1] = vld1_s8(rows[i] + at + HALF);
    }
}

PA_INLINE void add(int32x4_t sum[MR][4], int8x8_t x[MR][2], const int16_t *b, const int m, const int halves) {
    PA_UNROLL
    for (int h = 0; h < halves; h++) {
        const int16x8_t weights = vld1q_s16(b + h * HALF);
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            const int16x8_t wide = vmovl_s8(x[i][h]);
            sum[i][2 * h] = vmlal_s16(sum[i][2 * h], vget_low_s16(wide), vget_low_s16(weights));
            sum[i][2 * h + 1] = vmlal_high_s16(sum[i][2 * h + 1], wide, weights);
        }
    }
}

/* Channels [at, at + count) of m pixels, count <= 8 * halves. A tap is loaded ahead of the multiply-adds of the one before:
 * in-order cores would wait for it. */
PA_INLINE void block(const pa_depthwise_s8_args *g, const int8_t *const *rows, int8_t *c, const int64_t at,
                     const int64_t count, const pa_narrowing *to, const int m, const int halves) {
    const int16_t *b = g->b + at / NR * NR * g->taps + at % NR;
    const int64_t stride = g->c_stride;
    float32x4_t scale[4];
    int32x4_t sum[MR][4];
    int8x8_t x[MR][2], next[MR][2];
    PA_UNROLL
    for (int v = 0; v < 2 * halves; v++) {
        PA_UNROLL
        for (int i = 0; i < m; i++) sum[i][v] = vld1q_s32(g->bias + at + 4 * v);
    }
    load(x, rows, at, count, m, halves);
    for (int t = g->taps - 1; t > 0; t--, b += NR) {
        rows += MR;
        load(next, rows, at, count, m, halves);
        add(sum, x, b, m, halves);
        memcpy(x, next, sizeof x);
    }
    add(sum, x, b, m, halves);
    PA_UNROLL
    for (int v = 0; v < 2 * halves; v++) scale[v] = vld1q_f32(g->scale + at + 4 * v);
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        PA_UNROLL
        for (int v = 0; v < 4; v++) sum[i][v] = scaled(sum[i][v % (2 * halves)], scale[v % (2 * halves)]);
        const int8x16_t all = narrowed(sum[i], to);
        memcpy(c + i * stride + at, &all, (size_t)count);
    }
}

PA_INLINE void tile(const pa_depthwise_s8_args *g, const int8_t *const *rows, int8_t *c, const pa_narrowing *to,
                    const int m) {
    int64_t at = 0;
    for (; at + NR <= g->n; at += NR) block(g, rows, c, at, NR, to, m, 2);
    if (at + HALF <= g->n) block(g, rows, c, at, HALF, to, m, 1), at += HALF;
    if (at < g->n) block(g, rows, c, at, g->n - at, to, m, 1);
}

void pa_depthwise_s8_neon_4x16(const pa_depthwise_s8_args *g);
void pa_depthwise_s8_neon_4x16(const pa_depthwise_s8_args *g) {
    const pa_narrowing to = narrowing_of(&g->to);
    const int8_t *const *rows = g->a;
    int8_t *c = g->c;
    for (int64_t i = 0; i < g->tiling.tiles; i++, rows += g->a_step) {
        const int64_t m = pa_tile_rows(&g->tiling, i);
        switch (m) {
            case 1: tile(g, rows, c, &to, 1); break;
            case 2: tile(g, rows, c, &to, 2); break;
            case 3: tile(g, rows, c, &to, 3); break;
            case 4: tile(g, rows, c, &to, 4); break;
        }
        c += m * g->c_stride;
    }
}
#endif
