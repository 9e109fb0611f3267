/* One row times a panel, NEON, 1 x 40 floats (kernels.h: pa_gemm_f32_fn): fully connected layers.
 *
 * Per two k: 20 loads of B, one of two A values, 20 multiply-adds by lane. Registers: 10 sums, v11 A, v12-v31 B.
 * Bound: the loads of B, each used once. Forty columns are ten sums: as many as a multiply-add takes cycles until
 * the next of its own chain (10), so that each sum runs over k in order; two k of B beside them fill the registers.
 * As in gemm_f32_neon.c an in-order core wants all the loads together, after the multiply-adds of the two k
 * before; a compiler mixes them, hence the asm statement.
 *
 * llvm-mca's model, cycles per two k on Cortex-A53 / A73: this loop 45 / 21, intrinsics compiled by gcc 12 56 / 25.
 */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#include "../kernels.h"

enum { NR = 40, SUMS = NR / 4 };

#define FMLA(s, b, lane) "fmla %" #s ".4s, v" #b ".4s, v11.s[" #lane "]\n"
#define MULTIPLY_TWO_K                                                                                       \
    FMLA(0, 12, 0) FMLA(1, 13, 0) FMLA(2, 14, 0) FMLA(3, 15, 0) FMLA(4, 16, 0)                               \
    FMLA(5, 17, 0) FMLA(6, 18, 0) FMLA(7, 19, 0) FMLA(8, 20, 0) FMLA(9, 21, 0)                               \
    FMLA(0, 22, 1) FMLA(1, 23, 1) FMLA(2, 24, 1) FMLA(3, 25, 1) FMLA(4, 26, 1)                               \
    FMLA(5, 27, 1) FMLA(6, 28, 1) FMLA(7, 29, 1) FMLA(8, 30, 1) FMLA(9, 31, 1)
#define LOAD_TWO_K                                                                                           \
    "ld1 {v12.4s-v15.4s}, [%[b]]\n"                                                                          \
    "ldr q16, [%[b], #64]\n ldr d11, [%[a]]\n add %[a], %[a], #8\n"                                          \
    "ldr q17, [%[b], #80]\n ldr q18, [%[b], #96]\n ldr q19, [%[b], #112]\n subs %[pairs], %[pairs], #1\n"    \
    "ldr q20, [%[b], #128]\n ldr q21, [%[b], #144]\n ldr q22, [%[b], #160]\n ldr q23, [%[b], #176]\n"        \
    "ldr q24, [%[b], #192]\n ldr q25, [%[b], #208]\n ldr q26, [%[b], #224]\n ldr q27, [%[b], #240]\n"        \
    "ldr q28, [%[b], #256]\n ldr q29, [%[b], #272]\n ldr q30, [%[b], #288]\n ldr q31, [%[b], #304]\n"        \
    "add %[b], %[b], #320\n"

void pa_gemv_f32_neon_1x40(const pa_gemm_args *g) {
    const int whole = g->n == NR;
    const size_t bytes = (size_t)g->n * sizeof(float);
    const float *b = g->b, *bias = g->bias;
    float border[NR];
    float32x4_t sum[SUMS];

    PA_UNROLL
    for (int j = 0; j < SUMS; j++) sum[j] = vdupq_n_f32(0);
    for (int t = 0; t < g->taps; t++) {
        const float *a = g->a[t] + g->a_offset;
        int64_t pairs = g->k / 2;
        if (pairs > 0)
            __asm__ volatile(LOAD_TWO_K
                             "b.eq 2f\n"
                             "1:\n"
                             MULTIPLY_TWO_K
                             LOAD_TWO_K
                             "b.ne 1b\n"
                             "2:\n"
                             MULTIPLY_TWO_K
                             : "+w"(sum[0]), "+w"(sum[1]), "+w"(sum[2]), "+w"(sum[3]), "+w"(sum[4]), "+w"(sum[5]),
                               "+w"(sum[6]), "+w"(sum[7]), "+w"(sum[8]), "+w"(sum[9]), [a] "+r"(a), [b] "+r"(b),
                               [pairs] "+r"(pairs)
                             :
                             : "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
                               "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
        if (g->k % 2) {
            PA_UNROLL
            for (int j = 0; j < SUMS; j++) sum[j] = vfmaq_n_f32(sum[j], vld1q_f32(b + 4 * j), *a);
            b += NR;
        }
    }
    if (!bias) bias = whole ? g->c : memcpy(border, g->c, bytes);
    PA_UNROLL
    for (int j = 0; j < SUMS; j++) sum[j] = vaddq_f32(sum[j], vld1q_f32(bias + 4 * j));
    if (g->r) {
        const float *r = whole ? g->r : memcpy(border, g->r, bytes);
        PA_UNROLL
        for (int j = 0; j < SUMS; j++) sum[j] = vaddq_f32(sum[j], vld1q_f32(r + 4 * j));
    }
    const float32x4_t lo = vdupq_n_f32(g->lo), hi = vdupq_n_f32(g->hi);
    float *out = whole ? g->c : border;
    PA_UNROLL
    for (int j = 0; j < SUMS; j++) vst1q_f32(out + 4 * j, vminq_f32(vmaxq_f32(sum[j], lo), hi));
    if (!whole) memcpy(g->c, border, bytes);
}
#endif
