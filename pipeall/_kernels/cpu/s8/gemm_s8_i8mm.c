/* GEMM micro-kernel of integers, 4 x 16, by smmla: two rows of A times two columns of B, eight k each, are a register of
 * 2 x 2 sums. A register of B is what the panel has; one of A is two rows zipped, two of them for 16 k.
 *
 * Per 16 k: 32 smmla, 16 loads of B, 4 of A, 4 zips. Registers: 16 sums, 4 A. Bound: smmla and zips, which share the pipes:
 * the wider the tile, the fewer zips. Modelled for k = 1152 (llvm-mca): 52 multiply-adds per cycle of 64 on a Neoverse N2,
 * 102 of 128 on a V1.
 */
#if defined(__aarch64__)
#include "requantize_neon.h"

#define GEMM pa_gemm_s8_i8mm_4x16
#define TARGET PA_EXTENSION("i8mm")
enum { MR = 4, NR = 16, PAIRS = NR / 2 };

/* vmmlaq_s32, which clang before 16 has in files compiled for i8mm alone, and to 32 of which gcc 12 adds two moves. */
TARGET PA_INLINE int32x4_t multiply(int32x4_t sum, int8x16_t a, int8x16_t b) {
    __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

/* Eight k of row pairs a. */
TARGET PA_INLINE void add(int32x4_t sum[MR / 2][PAIRS], const int8x16_t *a, const int8_t *b, const int m) {
    PA_UNROLL
    for (int j = 0; j < PAIRS; j++) {
        const int8x16_t columns = vld1q_s8(b + 16 * j);
        PA_UNROLL
        for (int i = 0; 2 * i < m; i++) sum[i][j] = multiply(sum[i][j], a[i], columns);
    }
}

TARGET PA_INLINE void sums(const pa_gemm_s8_args *g, const int8_t *const *rows, int32x4_t *out, const int m) {
    const int8_t *b = g->b;
    int32x4_t sum[MR / 2][PAIRS];
    PA_UNROLL
    for (int j = 0; j < PAIRS; j++) {
        const int32x2_t bias = vld1_s32(g->bias + 2 * j);
        PA_UNROLL
        for (int i = 0; 2 * i < m; i++) sum[i][j] = vcombine_s32(bias, bias);
    }
    for (int t = 0; t < g->taps; t++, rows += MR) {
        int8x16_t low[MR / 2], high[MR / 2];
        const int8_t *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = rows[i];
        if (m % 2) a[m] = a[m - 1]; /* the row that a pair lacks: its sums are not looked at */
        int64_t at = 0;
        for (; at + 16 <= g->k; at += 16, b += 16 * NR) {
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++) {
                const int64x2_t even = vreinterpretq_s64_s8(vld1q_s8(a[2 * i] + at));
                const int64x2_t odd = vreinterpretq_s64_s8(vld1q_s8(a[2 * i + 1] + at));
                low[i] = vreinterpretq_s8_s64(vzip1q_s64(even, odd));
                high[i] = vreinterpretq_s8_s64(vzip2q_s64(even, odd));
            }
            add(sum, low, b, m);
            add(sum, high, b + 8 * NR, m);
        }
        if (at < g->k) {
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++) low[i] = vcombine_s8(vld1_s8(a[2 * i] + at), vld1_s8(a[2 * i + 1] + at));
            add(sum, low, b, m);
            b += 8 * NR;
        }
    }
    PA_UNROLL
    for (int v = 0; v < m * 4; v++) {
        const int64x2_t left = vreinterpretq_s64_s32(sum[v / 8][v % 4 * 2]);
        const int64x2_t right = vreinterpretq_s64_s32(sum[v / 8][v % 4 * 2 + 1]);
        out[v] = vreinterpretq_s32_s64(v / 4 % 2 ? vzip2q_s64(left, right) : vzip1q_s64(left, right));
    }
}

#include "gemm_s8_neon.inc"
#endif
