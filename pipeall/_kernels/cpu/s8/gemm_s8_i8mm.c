/* GEMM micro-kernel of integers, 4 x 16, by smmla: two rows of A times two columns of B, eight k each, are a register of
 * 2 x 2 sums. A register of B is what the panel has; one of A is two rows zipped, two of them for 16 k.
 *
 * Per 16 k: 32 smmla, 16 loads of B, 4 of A, 4 zips. Registers: 16 sums, 4 B, 4 A as they are, 4 zipped. Statements stay in
 * the order written, in which a load stands eight smmla, and one of A sixteen, ahead of what uses it: an in-order core
 * (Cortex-A520) waits for none of them, and one that reorders loses nothing. Bound: smmla and zips, which share the pipes:
 * the wider the tile, the fewer zips. Modelled multiply-adds per cycle of this loop: 56.8 of 64 on a Cortex-A720 and 113 of
 * 128 on a Neoverse V2 (llvm-mca); 46 of 64 on an A520, as a core that issues three instructions a cycle in order, two of
 * them to vectors, with loads that take three cycles.
 */
#if defined(__aarch64__)
#define ROUND_BY_ADDING
#include "requantize_neon.h"

#define GEMM pa_gemm_s8_i8mm_4x16
#define TARGET PA_EXTENSION("i8mm")
enum { MR = 4, NR = 16, PAIRS = NR / 2, LOADED = 4 /* registers of B */ };

/* vmmlaq_s32, which clang before 16 has in files compiled for i8mm alone, and to 32 of which gcc 12 adds two moves. */
#define MULTIPLY(sum, a, b) __asm__ volatile("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b))
#define LOAD(to, from) __asm__ volatile("ldr %q0, %1" : "=w"(to) : "m"(*(const int8x16_t *)(from)))
#define ZIP(which, to, even, odd) __asm__ volatile("zip" #which " %0.2d, %1.2d, %2.2d" : "=w"(to) : "w"(even), "w"(odd))
#define PARTNER (2 * i + 1 < m ? 2 * i + 1 : 2 * i) /* of row 2 * i in its pair; its own where there is none */

/* Eight k of row pairs: `loaded` has the first of their columns, and then of those at `next`. */
TARGET PA_INLINE void add(int32x4_t sum[MR / 2][PAIRS], const int8x16_t *pairs, int8x16_t *loaded, const int8_t *b,
                          const int8_t *next, int8x16_t *rows, const int8_t *const *a, int64_t at, const int m) {
    PA_UNROLL
    for (int j = 0; j < PAIRS; j++) {
        PA_UNROLL
        for (int i = 0; 2 * i < m; i++) MULTIPLY(sum[i][j], pairs[i], loaded[j % LOADED]);
        LOAD(loaded[j % LOADED], j + LOADED < PAIRS ? b + 16 * (j + LOADED) : next + 16 * (j + LOADED - PAIRS));
        if (a && j < m) LOAD(rows[j], a[j] + at);
    }
}

TARGET PA_INLINE void sums(const pa_gemm_s8_args *g, const int8_t *const *rows, const int8_t *b, const int32_t *biases,
                           int32x4_t *out, const int m) {
    enum { BLOCK = 8 * NR };
    const int8_t *const end = b + g->taps * g->k * NR;
    int32x4_t sum[MR / 2][PAIRS];
    int8x16_t loaded[LOADED];
    PA_UNROLL
    for (int j = 0; j < PAIRS; j++) {
        const int32x2_t bias = vld1_s32(biases + 2 * j);
        PA_UNROLL
        for (int i = 0; 2 * i < m; i++) sum[i][j] = vcombine_s32(bias, bias);
    }
    PA_UNROLL
    for (int j = 0; j < LOADED; j++) LOAD(loaded[j], b + 16 * j);
    for (int t = 0; t < g->taps; t++, rows += MR) {
        int8x16_t row[MR], low[MR / 2], high[MR / 2];
        const int8_t *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = rows[i];
        int64_t at = 0;
        if (g->k >= 16) {
            PA_UNROLL
            for (int i = 0; i < m; i++) LOAD(row[i], a[i]);
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++) {
                ZIP(1, low[i], row[2 * i], row[PARTNER]);
                ZIP(2, high[i], row[2 * i], row[PARTNER]);
            }
        }
        for (int64_t left = g->k; left >= 16; left -= 16, b += 2 * BLOCK) {
            if (left >= 32) at += 16; /* the last rows are read twice, and no byte beyond them */
            add(sum, low, loaded, b, b + BLOCK, row, a, at, m);
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++) ZIP(1, low[i], row[2 * i], row[PARTNER]);
            add(sum, high, loaded, b + BLOCK, b + 2 * BLOCK < end ? b + 2 * BLOCK : b, row, NULL, 0, m);
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++) ZIP(2, high[i], row[2 * i], row[PARTNER]);
        }
        if (g->k % 16) {
            const int64_t last = g->k - 8;
            PA_UNROLL
            for (int i = 0; 2 * i < m; i++) low[i] = vcombine_s8(vld1_s8(a[2 * i] + last), vld1_s8(a[PARTNER] + last));
            add(sum, low, loaded, b, b + BLOCK < end ? b + BLOCK : b, row, NULL, 0, m);
            b += BLOCK;
        }
    }
    PA_UNROLL
    for (int v = 0; v < m * 4; v++) {
        const int64x2_t left = vreinterpretq_s64_s32(sum[v / 8][v % 4 * 2]);
        const int64x2_t right = vreinterpretq_s64_s32(sum[v / 8][v % 4 * 2 + 1]);
        out[v] = vreinterpretq_s32_s64(v / 4 % 2 ? vzip2q_s64(left, right) : vzip1q_s64(left, right));
    }
}

TARGET PA_INLINE int32x4_t total(const int32x4_t *sum, int i) { return sum[i]; }
enum { KEPT = 0, PARTS = 0, BIASED = 1 };

#include "gemm_s8_neon.inc"
#endif
