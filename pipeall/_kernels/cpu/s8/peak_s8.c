#include "peak_s8.h"

#include "../kernels_s8.h"

PA_INLINE int32_t one_of(int8_t byte) { return byte; }
PA_INLINE void add_one(int32_t *sum, int32_t a, int32_t b) {
    PA_UNROLL
    for (int i = 0; i < 4; i++) {
        PA_OPAQUE(b);
        sum[i] += a * b;
    }
}
PEAK(pa_peak_s8_ref, , 4, int32_t, int32_t, one_of, add_one)

#if defined(__aarch64__)
#include "../simd/extension.h"

enum { CHAINS = 16, TOGETHER = 8 }; /* as many of each instruction in a row as an in-order core wants before the next */

/* Eight products of 16 bits, eight more on top of them, and both in pairs to four sums (gemm_s8_neon_4x4.inc). */
PA_INLINE void add_pairs(int32x4_t *sum, int8x8_t a, int8x8_t b) {
    PA_UNROLL
    for (int i = 0; i < CHAINS; i += TOGETHER) {
        int16x8_t product[TOGETHER];
        PA_UNROLL
        for (int j = 0; j < TOGETHER; j++)
            __asm__ volatile("smull %0.8h, %1.8b, %2.8b" : "=w"(product[j]) : "w"(a), "w"(b));
        PA_UNROLL
        for (int j = 0; j < TOGETHER; j++)
            __asm__ volatile("smlal %0.8h, %1.8b, %2.8b" : "+w"(product[j]) : "w"(a), "w"(b));
        PA_UNROLL
        for (int j = 0; j < TOGETHER; j++)
            __asm__ volatile("sadalp %0.4s, %1.8h" : "+w"(sum[i + j]) : "w"(product[j]));
    }
}

/* Products and their sums are one instruction. */
#define ADD(extension, instruction)                                                                                   \
    PA_EXTENSION(#extension) PA_INLINE void add_##extension(int32x4_t *sum, int8x16_t a, int8x16_t b) {               \
        PA_UNROLL                                                                                                     \
        for (int i = 0; i < CHAINS; i++)                                                                              \
            __asm__(instruction " %0.4s, %1.16b, %2.16b" : "+w"(sum[i]) : "w"(a), "w"(b));                            \
    }
ADD(dotprod, "sdot") /* of sixteen */
ADD(i8mm, "smmla")   /* of thirty-two */

PEAK(pa_peak_s8_neon, , CHAINS, int8x8_t, int32x4_t, vdup_n_s8, add_pairs)
PEAK(pa_peak_s8_dotprod, PA_EXTENSION("dotprod"), CHAINS, int8x16_t, int32x4_t, vdupq_n_s8, add_dotprod)
PEAK(pa_peak_s8_i8mm, PA_EXTENSION("i8mm"), CHAINS, int8x16_t, int32x4_t, vdupq_n_s8, add_i8mm)
#endif
