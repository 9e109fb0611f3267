/* GEMM micro-kernel, NEON, 8 x 8 floats (kernels.h: pa_gemm_f32_fn).
 *
 * Per four k: eight loads of B, one load of four A values from each of eight rows, 64 multiply-adds by lane.
 * Registers: v0-v15 sums (row i: v(2i), v(2i + 1)), v16-v23 A, v24-v31 B: all 32. Bound: multiply-add.
 *
 * An in-order core that also writes back in order (Cortex-A53 in llvm's model) lets a load that follows a multiply-add
 * wait for it. So all the loads of four k stand together, after the 64 multiply-adds of the four k before, and pay that
 * wait once. A compiler moves them back between the multiply-adds, and 16 sums are more operands than an asm statement
 * may both read and write: hence one statement from the first load to the last multiply-add. An out-of-order core
 * (Cortex-A73) does not mind the order, and has fewer instructions to take in than from a compiler.
 *
 * Cycles per four k (512 flop) in llvm-mca's model, Cortex-A53 / A73: this loop 84 / 64.2, that is 6.1 / 8.0 flop per
 * cycle; intrinsics compiled by gcc 12 111 / 65.3. Loads ahead of their own multiply-adds 88 on the A53; unrolling this
 * loop once more gains nothing. Of the tiles that fit into 32 registers, 8 x 8 needs the fewest loads per multiply-add.
 */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#include "../kernels.h"

enum { MR = 8, NR = 8, AHEAD = 8, FETCHES = 0 }; /* measured on x86 alone */
#define TARGET
#define GEMM pa_gemm_f32_neon_8x8

/* A row: its number, sums, A register and pointer; rows from m on are not assembled. */
#define ROW(f, i, s0, s1, a, x) ".if %c[m] > " #i "\n" f(i, s0, s1, a, x) ".endif\n"
#define ROW_0(f) f(0, 0, 1, 16, x9)
#define ROWS_1_TO_7(f)                                                                                              \
    ROW(f, 1, 2, 3, 17, x10) ROW(f, 2, 4, 5, 18, x11) ROW(f, 3, 6, 7, 19, x12) ROW(f, 4, 8, 9, 20, x13)             \
    ROW(f, 5, 10, 11, 21, x14) ROW(f, 6, 12, 13, 22, x15) ROW(f, 7, 14, 15, 23, x16)
#define EACH_ROW(f) ROW_0(f) ROWS_1_TO_7(f)
#define ZERO(i, s0, s1, a, x) "movi v" #s0 ".4s, #0\n movi v" #s1 ".4s, #0\n"
#define POINT(i, s0, s1, a, x) "ldr " #x ", [%[rows], #8 * " #i "]\n"
#define LOAD_A(i, s0, s1, a, x) "ldr q" #a ", [" #x ", %[at]]\n"
#define LOAD_A_ONE(i, s0, s1, a, x) "ldr s" #a ", [" #x ", %[at]]\n"
#define LANE(s0, s1, b0, b1, a, l)                                                                                  \
    "fmla v" #s0 ".4s, v" #b0 ".4s, v" #a ".s[" #l "]\n fmla v" #s1 ".4s, v" #b1 ".4s, v" #a ".s[" #l "]\n"
#define LANE_0(i, s0, s1, a, x) LANE(s0, s1, 24, 25, a, 0)
#define LANE_1(i, s0, s1, a, x) LANE(s0, s1, 26, 27, a, 1)
#define LANE_2(i, s0, s1, a, x) LANE(s0, s1, 28, 29, a, 2)
#define LANE_3(i, s0, s1, a, x) LANE(s0, s1, 30, 31, a, 3)
#define LOAD_FOUR_K                                                                                                 \
    "ld1 {v24.4s-v27.4s}, [%[b]]\n ld1 {v28.4s-v31.4s}, [x17]\n"                                                    \
    "add x17, x17, #128\n" ROW_0(LOAD_A) "subs %[count], %[count], #4\n" ROWS_1_TO_7(LOAD_A)                        \
    "add %[b], %[b], #128\n add %[at], %[at], #16\n"
#define MULTIPLY_FOUR_K EACH_ROW(LANE_0) EACH_ROW(LANE_1) EACH_ROW(LANE_2) EACH_ROW(LANE_3)

static inline __attribute__((always_inline)) void tile(const pa_gemm_args *g, const float *const *rows, float *c,
                                                        const float *r, const float *next, const float *const *later,
                                                        int64_t last, const int m) {
    const float *b = g->b;
    int64_t taps = g->taps, at, count;
    register float32x4_t v0 __asm__("v0"), v1 __asm__("v1"), v2 __asm__("v2"), v3 __asm__("v3"), v4 __asm__("v4"),
        v5 __asm__("v5"), v6 __asm__("v6"), v7 __asm__("v7"), v8 __asm__("v8"), v9 __asm__("v9"), v10 __asm__("v10"),
        v11 __asm__("v11"), v12 __asm__("v12"), v13 __asm__("v13"), v14 __asm__("v14"), v15 __asm__("v15");
    __asm__ volatile(
        EACH_ROW(ZERO)
        "1:\n" /* a tap */
        EACH_ROW(POINT)
        "add %[rows], %[rows], #64\n"
        "add x17, %[b], #64\n"
        "mov %[at], %[offset]\n"
        "subs %[count], %[k], #4\n"
        "b.lt 4f\n"
        LOAD_FOUR_K
        "b.lt 3f\n"
        "2:\n" /* four k, and the loads of the next four */
        MULTIPLY_FOUR_K
        LOAD_FOUR_K
        "b.ge 2b\n"
        "3:\n"
        MULTIPLY_FOUR_K
        "4:\n"
        "adds %[count], %[count], #4\n"
        "b.eq 6f\n"
        "5:\n" /* one k */
        "ldp q24, q25, [%[b]]\n"
        EACH_ROW(LOAD_A_ONE)
        "add %[b], %[b], #32\n"
        "add %[at], %[at], #4\n"
        EACH_ROW(LANE_0)
        "subs %[count], %[count], #1\n"
        "b.ne 5b\n"
        "6:\n"
        "subs %[taps], %[taps], #1\n"
        "b.ne 1b\n"
        : "=&w"(v0), "=&w"(v1), "=&w"(v2), "=&w"(v3), "=&w"(v4), "=&w"(v5), "=&w"(v6), "=&w"(v7), "=&w"(v8),
          "=&w"(v9), "=&w"(v10), "=&w"(v11), "=&w"(v12), "=&w"(v13), "=&w"(v14), "=&w"(v15), [rows] "+r"(rows),
          [b] "+r"(b), [taps] "+r"(taps), [at] "=&r"(at),
          [count] "=&r"(count)
        : [m] "i"(m), [k] "r"(g->k), [offset] "r"(g->a_offset * 4)
        : "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
          "v31", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "cc", "memory");
    float32x4_t sum[2 * MR] = {v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15};

    (void)next; /* cores that fetch ahead by themselves; on an in-order core a prefetch is one more instruction */
    const int64_t c_stride = g->c_stride;
    if (g->bias) {
        const float32x4_t bias[2] = {vld1q_f32(g->bias), vld1q_f32(g->bias + 4)};
        PA_UNROLL
        for (int i = 0; i < 2 * m; i++) sum[i] = vaddq_f32(sum[i], bias[i % 2]);
    } else {
        PA_UNROLL
        for (int i = 0; i < 2 * m; i++) sum[i] = vaddq_f32(sum[i], vld1q_f32(c + i / 2 * c_stride + i % 2 * 4));
    }
    if (r) {
        const int64_t r_stride = g->r_stride;
        PA_UNROLL
        for (int i = 0; i < 2 * m; i++) sum[i] = vaddq_f32(sum[i], vld1q_f32(r + i / 2 * r_stride + i % 2 * 4));
    }
    if (g->hi < __builtin_inff()) {
        const float32x4_t hi = vdupq_n_f32(g->hi);
        PA_UNROLL
        for (int i = 0; i < 2 * m; i++) sum[i] = vminq_f32(sum[i], hi);
    }
    const float32x4_t lo = vdupq_n_f32(g->lo);
    PA_UNROLL
    for (int i = 0; i < 2 * m; i += 2, c += c_stride) {
        vst1q_f32(c, vmaxq_f32(sum[i], lo));
        vst1q_f32(c + 4, vmaxq_f32(sum[i + 1], lo));
    }
}

#include "gemm_f32.inc"
#endif
