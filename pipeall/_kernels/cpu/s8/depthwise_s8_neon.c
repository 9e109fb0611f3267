/* Depthwise convolution of integers, NEON, 4 pixels x 16 channels. Products of two taps are added in 16 bits (smull, smlal),
 * which weights of -127 .. 127 allow, and then to sums of 32 (saddw): four instructions for 16 products.
 *
 * Whole tiles are assembled by hand: on in-order cores (Cortex-A53, A55) each of these instructions fills a cycle and loads
 * go beside it, which the order that a compiler finds does not do. Pixels and weights of a pair of taps are loaded during
 * the pair before, when their registers have been read for the last time. ld2 drops the upper bytes of 16-bit weights.
 * Registers: v0-v15 sums (pixel i: v(4i) on), v16-v23 pixels of both taps, v24 and v30 weights, v26-v29 products.
 *
 * Bound: the NEON instructions (in order), 4 multiply-adds per cycle, or the multiplying pipe (out of order), 8; of few taps
 * what becomes of the sums, 22 instructions for 16. Modelled for 3x3, multiply-adds per cycle: Cortex-A53 4.0 in the loop and
 * 1.9 in all, A73 2.1, A76 2.9; without pairs of taps 1.4, 1.8 and 2.4 in all.
 */
#if defined(__aarch64__)
#include "requantize_neon.h"

enum { MR = 4, NR = 16, HALF = 8 };

/* A pixel: its number, pixels of both taps, pointers to them, products and sums; those from m on are not assembled. */
#define PIXEL(f, i, ...) ".if %c[m] > " #i "\n" f(__VA_ARGS__) ".endif\n"
#define PIXEL_0(f) PIXEL(f, 0, 16, 20, x9, x13, 26, 27, 0, 1, 2, 3)
#define PIXEL_1(f) PIXEL(f, 1, 17, 21, x10, x14, 28, 29, 4, 5, 6, 7)
#define PIXEL_2(f) PIXEL(f, 2, 18, 22, x11, x15, 26, 27, 8, 9, 10, 11)
#define PIXEL_3(f) PIXEL(f, 3, 19, 23, x12, x16, 28, 29, 12, 13, 14, 15)
#define EACH_PIXEL(f) PIXEL_0(f) PIXEL_1(f) PIXEL_2(f) PIXEL_3(f)

#define POINT_FIRST "ldp x9, x10, [%[rows]]\n"
#define POINT_FIRST_2 "ldp x11, x12, [%[rows], #16]\n"
#define POINT_SECOND "ldp x13, x14, [%[rows], #32]\n"
#define POINT_SECOND_2 "ldp x15, x16, [%[rows], #48]\n add %[rows], %[rows], #64\n"
#define WEIGHT_FIRST "ld2 {v24.16b, v25.16b}, [%[b]], #32\n"
#define WEIGHT_SECOND "ld2 {v30.16b, v31.16b}, [%[b]], #32\n"
#define LOAD_FIRST(x, y, px, py, p, q, s0, s1, s2, s3) "ldr q" #x ", [" #px ", %[at]]\n"
#define LOAD_SECOND(x, y, px, py, p, q, s0, s1, s2, s3) "ldr q" #y ", [" #py ", %[at]]\n"
#define FIRST(x, y, px, py, p, q, s0, s1, s2, s3) \
    "smull v" #p ".8h, v" #x ".8b, v24.8b\n smull2 v" #q ".8h, v" #x ".16b, v24.16b\n"
#define SECOND(x, y, px, py, p, q, s0, s1, s2, s3) \
    "smlal v" #p ".8h, v" #y ".8b, v30.8b\n smlal2 v" #q ".8h, v" #y ".16b, v30.16b\n"
#define ADD_LOW(x, y, px, py, p, q, s0, s1, s2, s3) \
    "saddw v" #s0 ".4s, v" #s0 ".4s, v" #p ".4h\n saddw2 v" #s1 ".4s, v" #s1 ".4s, v" #p ".8h\n"
#define ADD_HIGH(x, y, px, py, p, q, s0, s1, s2, s3) \
    "saddw v" #s2 ".4s, v" #s2 ".4s, v" #q ".4h\n saddw2 v" #s3 ".4s, v" #s3 ".4s, v" #q ".8h\n"
#define ADD(...) ADD_LOW(__VA_ARGS__) ADD_HIGH(__VA_ARGS__)

/* A load of 128 bits takes two cycles: two other instructions stand between any two. */
#define MORE                                                                                                       \
    PIXEL_0(FIRST) POINT_FIRST PIXEL_1(FIRST) POINT_FIRST_2 PIXEL_0(SECOND) POINT_SECOND PIXEL_1(SECOND)           \
    POINT_SECOND_2 PIXEL_0(ADD_LOW) PIXEL_0(LOAD_FIRST) PIXEL_0(ADD_HIGH) PIXEL_0(LOAD_SECOND) PIXEL_2(FIRST)      \
    PIXEL_1(LOAD_FIRST) PIXEL_1(ADD_LOW) PIXEL_1(LOAD_SECOND) PIXEL_1(ADD_HIGH) PIXEL_2(LOAD_FIRST) PIXEL_3(FIRST) \
    WEIGHT_FIRST PIXEL_2(SECOND) PIXEL_3(SECOND) PIXEL_2(LOAD_SECOND) PIXEL_2(ADD_LOW) PIXEL_3(LOAD_FIRST)         \
    PIXEL_2(ADD_HIGH) PIXEL_3(LOAD_SECOND) PIXEL_3(ADD_LOW) WEIGHT_SECOND PIXEL_3(ADD_HIGH)
#define LAST                                                                                                       \
    PIXEL_0(FIRST) PIXEL_1(FIRST) PIXEL_0(SECOND) PIXEL_1(SECOND) PIXEL_0(ADD) PIXEL_2(FIRST) PIXEL_1(ADD)         \
    PIXEL_3(FIRST) PIXEL_2(SECOND) PIXEL_3(SECOND) PIXEL_2(ADD) PIXEL_3(ADD)

#define BIAS(x, y, px, py, p, q, s0, s1, s2, s3) \
    "ldp q" #s0 ", q" #s1 ", [%[bias]]\n ldp q" #s2 ", q" #s3 ", [%[bias], #32]\n"
#define COPY(x, y, px, py, p, q, s0, s1, s2, s3) \
    "mov v" #s0 ".16b, v0.16b\n mov v" #s1 ".16b, v1.16b\n mov v" #s2 ".16b, v2.16b\n mov v" #s3 ".16b, v3.16b\n"
#define START_LOW(x, y, px, py, p, q, s0, s1, s2, s3) \
    "saddw v" #s0 ".4s, v0.4s, v" #p ".4h\n saddw2 v" #s1 ".4s, v1.4s, v" #p ".8h\n"
#define START_HIGH(x, y, px, py, p, q, s0, s1, s2, s3) \
    "saddw v" #s2 ".4s, v2.4s, v" #q ".4h\n saddw2 v" #s3 ".4s, v3.4s, v" #q ".8h\n"
#define START(...) START_LOW(__VA_ARGS__) START_HIGH(__VA_ARGS__)
/* The first tap of an odd number goes by itself; the pixel whose sums hold the bias is the last. The first pair of taps is
 * loaded meanwhile. */
#define ODD                                                                                                        \
    POINT_FIRST POINT_FIRST_2 "add %[rows], %[rows], #32\n" WEIGHT_FIRST EACH_PIXEL(LOAD_FIRST)
#define ODD_ALONE                                                                                                  \
    PIXEL_3(FIRST) PIXEL_2(FIRST) PIXEL_3(START) PIXEL_1(FIRST) PIXEL_2(START) PIXEL_0(FIRST) PIXEL_1(START)       \
    PIXEL_0(START)
#define ODD_AND_PAIR                                                                                               \
    POINT_FIRST PIXEL_3(FIRST) POINT_FIRST_2 PIXEL_2(FIRST) POINT_SECOND PIXEL_3(START_LOW) POINT_SECOND_2         \
    PIXEL_3(START_HIGH) PIXEL_3(LOAD_FIRST) PIXEL_1(FIRST) PIXEL_3(LOAD_SECOND) PIXEL_2(START_LOW)                 \
    PIXEL_2(LOAD_FIRST) PIXEL_2(START_HIGH) PIXEL_2(LOAD_SECOND) PIXEL_0(FIRST) PIXEL_1(LOAD_FIRST)                \
    PIXEL_1(START_LOW) WEIGHT_FIRST PIXEL_1(START_HIGH) PIXEL_0(LOAD_FIRST) PIXEL_0(START_LOW)                     \
    PIXEL_1(LOAD_SECOND) PIXEL_0(START_HIGH) WEIGHT_SECOND PIXEL_0(LOAD_SECOND)

/* Of 16 channels and m pixels the bias and the products. */
PA_INLINE void sums(const int8_t *const *rows, int64_t at, const int16_t *b, int64_t taps, const int32_t *bias,
                    int32x4_t *out, const int m) {
    int64_t pairs = taps / 2;
    register int32x4_t v0 __asm__("v0"), v1 __asm__("v1"), v2 __asm__("v2"), v3 __asm__("v3"), v4 __asm__("v4"),
        v5 __asm__("v5"), v6 __asm__("v6"), v7 __asm__("v7"), v8 __asm__("v8"), v9 __asm__("v9"), v10 __asm__("v10"),
        v11 __asm__("v11"), v12 __asm__("v12"), v13 __asm__("v13"), v14 __asm__("v14"), v15 __asm__("v15");
    __asm__ volatile(
        PIXEL_0(BIAS)
        "tbz %[taps], #0, 4f\n"
        ODD
        "cbz %[pairs], 6f\n"
        ODD_AND_PAIR
        "b 5f\n"
        "6:\n"
        ODD_ALONE
        "b 3f\n"
        "4:\n"
        PIXEL_1(COPY) PIXEL_2(COPY) PIXEL_3(COPY)
        "cbz %[pairs], 3f\n"
        POINT_FIRST POINT_FIRST_2 POINT_SECOND POINT_SECOND_2 WEIGHT_FIRST EACH_PIXEL(LOAD_FIRST) WEIGHT_SECOND
        EACH_PIXEL(LOAD_SECOND)
        "5:\n"
        "subs %[pairs], %[pairs], #1\n"
        "b.eq 2f\n"
        "1:\n"
        MORE
        "subs %[pairs], %[pairs], #1\n"
        "b.ne 1b\n"
        "2:\n"
        LAST
        "3:\n"
        : "=&w"(v0), "=&w"(v1), "=&w"(v2), "=&w"(v3), "=&w"(v4), "=&w"(v5), "=&w"(v6), "=&w"(v7), "=&w"(v8),
          "=&w"(v9), "=&w"(v10), "=&w"(v11), "=&w"(v12), "=&w"(v13), "=&w"(v14), "=&w"(v15), [rows] "+r"(rows),
          [b] "+r"(b), [pairs] "+r"(pairs)
        : [m] "i"(m), [at] "r"(at), [bias] "r"(bias), [taps] "r"(taps)
        : "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "cc", "memory");
    const int32x4_t vectors[16] = {v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15};
    memcpy(out, vectors, sizeof vectors);
}

/* Channels [at, at + 16) of m pixels. */
PA_INLINE void block(const pa_depthwise_s8_args *g, const int8_t *const *rows, int8_t *c, const int64_t at,
                     const pa_narrowing *to, const int m) {
    int32x4_t sum[4 * MR];
    sums(rows, at, g->b + at * g->taps, g->taps, g->bias + at, sum, m);
    PA_UNROLL
    for (int v = 0; v < 4; v++) {
        const float32x4_t scale = vld1q_f32(g->scale + at + 4 * v);
        PA_UNROLL
        for (int i = 0; i < m; i++) sum[4 * i + v] = scaled(sum[4 * i + v], scale);
    }
    PA_UNROLL
    for (int i = 0; i < m; i++) vst1q_s8(c + i * g->c_stride + at, narrowed(sum + 4 * i, to));
}

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

/* Channels [at, at + count) of m pixels, 8 at most. */
PA_INLINE void rest(const pa_depthwise_s8_args *g, const int8_t *const *rows, int8_t *c, const int64_t at,
                    const int64_t count, const pa_narrowing *to, const int m) {
    const int16_t *b = g->b + at / NR * NR * g->taps + at % NR;
    const float32x4_t low = vld1q_f32(g->scale + at), high = vld1q_f32(g->scale + at + 4);
    int32x4_t sum[MR][2];
    PA_UNROLL
    for (int i = 0; i < m; i++) sum[i][0] = vld1q_s32(g->bias + at), sum[i][1] = vld1q_s32(g->bias + at + 4);
    for (int t = 0; t < g->taps; t++, rows += MR, b += NR) {
        const int16x8_t weights = vld1q_s16(b);
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            const int16x8_t x = vmovl_s8(some(rows[i] + at, count));
            sum[i][0] = vmlal_s16(sum[i][0], vget_low_s16(x), vget_low_s16(weights));
            sum[i][1] = vmlal_high_s16(sum[i][1], x, weights);
        }
    }
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        const int32x4_t first = scaled(sum[i][0], low), second = scaled(sum[i][1], high);
        const int8x16_t all = narrowed((int32x4_t[]){first, second, first, second}, to);
        memcpy(c + i * g->c_stride + at, &all, (size_t)count);
    }
}

PA_INLINE void tile(const pa_depthwise_s8_args *g, const int8_t *const *rows, int8_t *c, const pa_narrowing *to,
                    const int m) {
    int64_t at = 0;
    for (; at + NR <= g->n; at += NR) block(g, rows, c, at, to, m);
    if (at + HALF <= g->n) rest(g, rows, c, at, HALF, to, m), at += HALF;
    if (at < g->n) rest(g, rows, c, at, g->n - at, to, m);
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
