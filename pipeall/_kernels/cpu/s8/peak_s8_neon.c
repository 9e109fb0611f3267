/* Eight products of 16 bits, eight more on top of them, and both in pairs to four sums (gemm_s8_neon_4x4.inc). */
#if defined(__aarch64__)
#include "requantise_neon.h"

#define TARGET
#define PEAK pa_peak_s8_neon
enum { CHAINS = 16, TOGETHER = 8 }; /* as many of each instruction in a row as an in-order core wants before the next */
typedef int8x8_t factor;
typedef int32x4_t sums;
PA_INLINE factor factor_of(int8_t byte) { return vdup_n_s8(byte); }
PA_INLINE void add(sums *sum, factor a, factor b) {
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

#include "peak_s8.inc"
#endif
