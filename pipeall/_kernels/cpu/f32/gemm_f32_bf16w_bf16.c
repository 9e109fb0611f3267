/* GEMM micro-kernel of bfloat16 with floats as sums, 4 x 16, by bfmmla: two rows of A times two columns of B, four k each, are
 * a register of 2 x 2 sums. A register of B is what the panel has; one of A is two rows, rounded by two instructions that
 * also bring them together.
 *
 * Per four k: 16 bfmmla, 8 loads of B, 4 of A, 4 bfcvtn. Registers: 16 sums, 8 B, 4 A as they are and then rounded, 2 rounded:
 * 30. Statements stay in the order written, in which loads and roundings stand ahead of what uses them, as an in-order core
 * (Cortex-A520) wants. Bound: bfmmla and bfcvtn, which share the pipes; the wider the tile, the fewer bfcvtn. Modelled
 * multiply-adds per cycle, 64 channels of 3x3: 22.4 of 32 on a Cortex-A720 (llvm-mca; bfcvtn has one pipe of two), 12.6 on an
 * A520 (as gemm_s8_i8mm.c says); float32 has 7.8 and 6.8.
 */
#if defined(__aarch64__)
#include "../kernels_f16.h"
#include "../simd/extension.h"

#define GEMM pa_gemm_f32_bf16w_bf16_4x16
#define TARGET PA_EXTENSION("bf16")
enum { MR = 4, NR = 16, KR = 4, PAIRS = NR / 2, HALF_PAIRS = PAIRS / 2 };
enum { AHEAD = 8, FETCHES = 0, PART = NR, MOST = 1 }; /* nothing is prefetched */

#include "gemm_f32_neon_store.inc"

#define MULTIPLY(sum, a, b) __asm__ volatile("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b))
#define LOAD(to, from) __asm__ volatile("ldr %q0, %1" : "=w"(to) : "m"(*(const uint16x8_t *)(from)))
#define ROUND_EVEN(to, from) __asm__ volatile("bfcvtn %0.4h, %1.4s" : "=w"(to) : "w"(from))
#define ROUND_ODD(to, from) __asm__ volatile("bfcvtn2 %0.8h, %1.4s" : "+w"(to) : "w"(from))
#define PARTNER(i) (2 * (i) + 1 < m ? 2 * (i) + 1 : 2 * (i)) /* of row 2 * i in its pair; its own where there is none */

/* Four k of row pairs and of the columns in `loaded`, which then has those at `next`; `coming` gets what rows of A have at
 * `at`, unless a is NULL (a constant). */
TARGET PA_INLINE void add(float32x4_t sum[MR / 2][PAIRS], const uint16x8_t *pairs, uint16x8_t *coming, uint16x8_t *loaded,
                          const uint16_t *next, const float *const *a, int64_t at, const int m) {
    const int count = (m + 1) / 2, all = count * PAIRS; /* products */
    float32x4_t row[MR];
    PA_UNROLL
    for (int n = 0; n < all; n++) {
        const int i = n / HALF_PAIRS % count, j = n / (all / 2) * HALF_PAIRS + n % HALF_PAIRS;
        MULTIPLY(sum[i][j], pairs[i], loaded[j]);
        if (i + 1 == count) LOAD(loaded[j], next + 8 * j);
        if (!a) continue;
        const int even = n - all * 3 / 8, odd = n - all * 11 / 16; /* pairs: one is due behind some products */
        if (n < m) LOAD(row[n], a[n] + at);
        if (even >= 0 && even < count) ROUND_EVEN(coming[even], row[2 * even]);
        if (odd >= 0 && odd < count) ROUND_ODD(coming[odd], row[PARTNER(odd)]);
    }
}

/* n < 4 floats, then zeros */
PA_INLINE float32x4_t some(const float *x, int64_t n) {
    float32x4_t all = vdupq_n_f32(0);
    if (n > 0) all = vld1q_lane_f32(x, all, 0);
    if (n > 1) all = vld1q_lane_f32(x + 1, all, 1);
    if (n > 2) all = vld1q_lane_f32(x + 2, all, 2);
    return all;
}

TARGET PA_INLINE void round_pair(uint16x8_t *pair, float32x4_t even, float32x4_t odd) {
    ROUND_EVEN(*pair, even);
    ROUND_ODD(*pair, odd);
}

#define STEP(now, then, at)                              \
    {                                                    \
        if (b < last) b += BLOCK;                        \
        add(sum, now, then, loaded, b, a, at, m);        \
    }

TARGET PA_INLINE void sums_of(const pa_gemm_args *g, const float *const *rows, float32x4_t *out, const int m) {
    enum { BLOCK = KR * NR };
    const int64_t rest = g->k % KR, blocks = g->taps * ((g->k + KR - 1) / KR);
    const uint16_t *b = (const uint16_t *)g->b, *const last = b + (blocks - 1) * BLOCK;
    float32x4_t sum[MR / 2][PAIRS];
    uint16x8_t loaded[PAIRS];
    PA_UNROLL
    for (int j = 0; j < PAIRS; j++) {
        PA_UNROLL
        for (int i = 0; 2 * i < m; i++) sum[i][j] = vdupq_n_f32(0);
        LOAD(loaded[j], b + 8 * j);
    }
    for (int t = 0; t < g->taps; t++, rows += MR) {
        uint16x8_t pairs[MR / 2], coming[MR / 2];
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = rows[i] + g->a_offset;
        if (g->k >= KR) {
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++) round_pair(&pairs[i], vld1q_f32(a[2 * i]), vld1q_f32(a[PARTNER(i)]));
            int64_t left = g->k, at = 0;
            for (; left >= 2 * KR; left -= 2 * KR) {
                STEP(pairs, coming, at + KR)
                at += left >= 3 * KR ? 2 * KR : KR; /* the last rows are read twice, and none beyond them */
                STEP(coming, pairs, at)
            }
            if (left >= KR) STEP(pairs, coming, at)
        }
        if (rest) {
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++)
                round_pair(&pairs[i], some(a[2 * i] + g->k - rest, rest), some(a[PARTNER(i)] + g->k - rest, rest));
            if (b < last) b += BLOCK;
            add(sum, pairs, coming, loaded, b, NULL, 0, m);
        }
    }
    PA_UNROLL
    for (int v = 0; v < m * 4; v++) {
        const float64x2_t left = vreinterpretq_f64_f32(sum[v / 8][v % 4 * 2]);
        const float64x2_t right = vreinterpretq_f64_f32(sum[v / 8][v % 4 * 2 + 1]);
        out[v] = vreinterpretq_f32_f64(v / 4 % 2 ? vzip2q_f64(left, right) : vzip1q_f64(left, right));
    }
}

TARGET PA_INLINE void tile(const pa_gemm_args *g, const float *const *rows, float *c, const float *r, const float *next,
                           const float *const *later, int64_t last, const int m, const int parts) {
    (void)next, (void)later, (void)last;
    float32x4_t sum[MR * NR / 4];
    sums_of(g, rows, sum, m);
    store_sums(g, sum, c, r, m);
}

#include "gemm_f32.inc"
#endif
