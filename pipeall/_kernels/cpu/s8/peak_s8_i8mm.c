/* Thirty-two products and their sums are one instruction. */
#if defined(__aarch64__)
#include "requantise_neon.h"

#define TARGET PA_EXTENSION("i8mm")
#define PEAK pa_peak_s8_i8mm
enum { CHAINS = 16 };
typedef int8x16_t factor;
typedef int32x4_t sums;
PA_INLINE factor factor_of(int8_t byte) { return vdupq_n_s8(byte); }
TARGET PA_INLINE void add(sums *sum, factor a, factor b) {
    PA_UNROLL
    for (int i = 0; i < CHAINS; i++) __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum[i]) : "w"(a), "w"(b));
}

#include "peak_s8.inc"
#endif
