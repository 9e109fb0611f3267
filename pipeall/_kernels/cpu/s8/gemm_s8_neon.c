/* GEMM micro-kernel of integers, NEON without dot products, 4 x 4: sums of products in 16 bits, two of eight k each
 * (smull, smlal), are added in pairs to four sums of 32 bits (sadalp), which become one at the end. With weights of
 * -127 .. 127 two products fit 16 bits.
 *
 * Per 16 k and column: 8 multiply-adds and 4 sadalp, a load of 64 bits of B for each half and a quarter of those of A. On
 * in-order cores (Cortex-A53, A55) each of the twelve fills a cycle and a load goes beside it; four rows one after the other
 * are the four cycles that a result takes. Everything is loaded half a column or more before it is used.
 *
 * Registers: v0-v15 sums (row i, column j: v(4i + j)), v16-v23 A (k, then k + 8, of each row), v24-v27 products of a row,
 * v28, v29 B of an even column, v30, v31 of an odd one: all 32.
 *
 * Bound: the multiplying pipe (out of order), 8 multiply-adds per cycle; the NEON instructions (in order), 5.3. Modelled for
 * k = 1152: 7.1 on a Cortex-A73 (llvm-mca), 5.1 on an A53; of intrinsics, of which gcc 12 keeps sums in memory, 5.2 and 3.6.
 * Pairs of loads (ldp) gain nothing on the former.
 */
#if defined(__aarch64__)
#include <string.h>

#include "requantise_neon.h"

#define GEMM pa_gemm_s8_neon_4x4
#define TARGET
enum { MR = 4, NR = 4 };

/* A row: its number, A, products, pointer and sums; rows from m on are not assembled. */
#define ROW(f, i, ...) ".if %c[m] > " #i "\n" f(__VA_ARGS__) ".endif\n"
#define ROW_0(f) ROW(f, 0, 16, 17, 24, x9, 0, 1, 2, 3)
#define ROW_1(f) ROW(f, 1, 18, 19, 25, x10, 4, 5, 6, 7)
#define ROW_2(f) ROW(f, 2, 20, 21, 26, x11, 8, 9, 10, 11)
#define ROW_3(f) ROW(f, 3, 22, 23, 27, x12, 12, 13, 14, 15)
#define EACH_ROW(f) ROW_0(f) ROW_1(f) ROW_2(f) ROW_3(f)

#define BIAS(a0, a1, p, x, s0, s1, s2, s3)                                                                          \
    "ldr s" #s0 ", [%[bias]]\n ldr s" #s1 ", [%[bias], #4]\n ldr s" #s2 ", [%[bias], #8]\n ldr s" #s3 ", [%[bias], #12]\n"
#define COPY(a0, a1, p, x, s0, s1, s2, s3)                                                                          \
    "mov v" #s0 ".8b, v0.8b\n mov v" #s1 ".8b, v1.8b\n mov v" #s2 ".8b, v2.8b\n mov v" #s3 ".8b, v3.8b\n"
#define POINT_0(a0, a1, p, x, s0, s1, s2, s3) "ldr " #x ", [%[rows]]\n"
#define POINT_1(a0, a1, p, x, s0, s1, s2, s3) "ldr " #x ", [%[rows], #8]\n"
#define POINT_2(a0, a1, p, x, s0, s1, s2, s3) "ldr " #x ", [%[rows], #16]\n"
#define POINT_3(a0, a1, p, x, s0, s1, s2, s3) "ldr " #x ", [%[rows], #24]\n"
#define A_LOW(a0, a1, p, x, s0, s1, s2, s3) "ldr d" #a0 ", [" #x ", %[at]]\n"
#define A_HIGH(a0, a1, p, x, s0, s1, s2, s3) "ldr d" #a1 ", [" #x ", %[at8]]\n"
#define SMULL(p, a, b) "smull v" #p ".8h, v" #a ".8b, v" #b ".8b\n"
#define SMLAL(p, a, b) "smlal v" #p ".8h, v" #a ".8b, v" #b ".8b\n"
#define SADALP(s, p) "sadalp v" #s ".4s, v" #p ".8h\n"
#define EVEN_LOW(a0, a1, p, x, s0, s1, s2, s3) SMULL(p, a0, 28)
#define EVEN_HIGH(a0, a1, p, x, s0, s1, s2, s3) SMLAL(p, a1, 29)
#define ODD_LOW(a0, a1, p, x, s0, s1, s2, s3) SMULL(p, a0, 30)
#define ODD_HIGH(a0, a1, p, x, s0, s1, s2, s3) SMLAL(p, a1, 31)
#define ADD_0(a0, a1, p, x, s0, s1, s2, s3) SADALP(s0, p)
#define ADD_1(a0, a1, p, x, s0, s1, s2, s3) SADALP(s1, p)
#define ADD_2(a0, a1, p, x, s0, s1, s2, s3) SADALP(s2, p)
#define ADD_3(a0, a1, p, x, s0, s1, s2, s3) SADALP(s3, p)
#define LAST_LOW(...) ODD_LOW(__VA_ARGS__) A_LOW(__VA_ARGS__)
#define LAST_HIGH(...) ODD_HIGH(__VA_ARGS__) A_HIGH(__VA_ARGS__)

/* B of column j: 8 j bytes into its first k and, 32 bytes later, into its second. */
#define LOAD_B(b, offset) "ldr d" #b ", [%[b], #" #offset "]\n"

#define FIRST                                                                                                      \
    "subs %[count], %[count], #16\n" LOAD_B(28, 0) LOAD_B(29, 32) LOAD_B(30, 8) LOAD_B(31, 40) EACH_ROW(A_LOW)     \
        EACH_ROW(A_HIGH) "add %[at], %[at], #16\n add %[at8], %[at8], #16\n"
#define COLUMNS_0_AND_1                                                                                            \
    EACH_ROW(EVEN_LOW) ROW_0(EVEN_HIGH) LOAD_B(28, 16) ROW_1(EVEN_HIGH) ROW_2(EVEN_HIGH) ROW_3(EVEN_HIGH)          \
    ROW_0(ADD_0) LOAD_B(29, 48) ROW_1(ADD_0) ROW_2(ADD_0) ROW_3(ADD_0)                                             \
    EACH_ROW(ODD_LOW) ROW_0(ODD_HIGH) LOAD_B(30, 24) ROW_1(ODD_HIGH) ROW_2(ODD_HIGH) ROW_3(ODD_HIGH)               \
    ROW_0(ADD_1) LOAD_B(31, 56) ROW_1(ADD_1) ROW_2(ADD_1) ROW_3(ADD_1)
#define MORE                                                                                                       \
    COLUMNS_0_AND_1                                                                                                \
    EACH_ROW(EVEN_LOW) ROW_0(EVEN_HIGH) LOAD_B(28, 64) ROW_1(EVEN_HIGH) ROW_2(EVEN_HIGH) ROW_3(EVEN_HIGH)          \
    ROW_0(ADD_2) LOAD_B(29, 96) ROW_1(ADD_2) ROW_2(ADD_2) ROW_3(ADD_2)                                             \
    EACH_ROW(LAST_LOW) ROW_0(LAST_HIGH) LOAD_B(30, 72) ROW_1(LAST_HIGH) ROW_2(LAST_HIGH) ROW_3(LAST_HIGH)          \
    ROW_0(ADD_3) LOAD_B(31, 104) ROW_1(ADD_3) "add %[at], %[at], #16\n add %[at8], %[at8], #16\n" ROW_2(ADD_3)     \
    "add %[b], %[b], #64\n subs %[count], %[count], #16\n" ROW_3(ADD_3)
#define LAST                                                                                                       \
    COLUMNS_0_AND_1 EACH_ROW(EVEN_LOW) EACH_ROW(EVEN_HIGH) EACH_ROW(ADD_2) EACH_ROW(ODD_LOW) EACH_ROW(ODD_HIGH)    \
        "add %[b], %[b], #64\n" EACH_ROW(ADD_3)
#define EIGHT                                                                                                      \
    LOAD_B(28, 0) LOAD_B(30, 8) EACH_ROW(A_LOW) EACH_ROW(EVEN_LOW) LOAD_B(28, 16) EACH_ROW(ADD_0) EACH_ROW(ODD_LOW) \
        LOAD_B(30, 24) EACH_ROW(ADD_1) EACH_ROW(EVEN_LOW) EACH_ROW(ADD_2) EACH_ROW(ODD_LOW)                        \
            "add %[b], %[b], #32\n" EACH_ROW(ADD_3)

PA_INLINE void sums(const pa_gemm_s8_args *g, const int8_t *const *rows, int32x4_t *out, const int m) {
    const int8_t *b = g->b;
    int64_t taps = g->taps, at, at8, count;
    register int32x4_t v0 __asm__("v0"), v1 __asm__("v1"), v2 __asm__("v2"), v3 __asm__("v3"), v4 __asm__("v4"),
        v5 __asm__("v5"), v6 __asm__("v6"), v7 __asm__("v7"), v8 __asm__("v8"), v9 __asm__("v9"), v10 __asm__("v10"),
        v11 __asm__("v11"), v12 __asm__("v12"), v13 __asm__("v13"), v14 __asm__("v14"), v15 __asm__("v15");
    __asm__ volatile(
        ROW_0(BIAS) ROW_1(COPY) ROW_2(COPY) ROW_3(COPY)
        "1:\n" /* a tap */
        ROW_0(POINT_0) ROW_1(POINT_1) ROW_2(POINT_2) ROW_3(POINT_3)
        "mov %[at], #0\n"
        "mov %[at8], #8\n"
        "subs %[count], %[k], #16\n"
        "b.lt 4f\n"
        FIRST
        "b.lt 3f\n"
        "2:\n"
        MORE
        "b.ge 2b\n"
        "3:\n"
        LAST
        "4:\n"
        "tbz %[count], #3, 5f\n"
        EIGHT
        "5:\n"
        "add %[rows], %[rows], #32\n"
        "subs %[taps], %[taps], #1\n"
        "b.ne 1b\n"
        : "=&w"(v0), "=&w"(v1), "=&w"(v2), "=&w"(v3), "=&w"(v4), "=&w"(v5), "=&w"(v6), "=&w"(v7), "=&w"(v8),
          "=&w"(v9), "=&w"(v10), "=&w"(v11), "=&w"(v12), "=&w"(v13), "=&w"(v14), "=&w"(v15), [rows] "+r"(rows),
          [b] "+r"(b), [taps] "+r"(taps), [at] "=&r"(at), [at8] "=&r"(at8), [count] "=&r"(count)
        : [m] "i"(m), [k] "r"(g->k), [bias] "r"(g->bias)
        : "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31", "x9", "x10", "x11", "x12", "cc", "memory");
    const int32x4_t sum[4 * MR] = {v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15};
    PA_UNROLL
    for (int i = 0; i < m; i++)
        out[i] = vpaddq_s32(vpaddq_s32(sum[4 * i], sum[4 * i + 1]), vpaddq_s32(sum[4 * i + 2], sum[4 * i + 3]));
}

#include "gemm_s8_neon.inc"
#endif
