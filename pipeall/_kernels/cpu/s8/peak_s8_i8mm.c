/* Thirty-two products and their sums are one instruction. */
#if defined(__aarch64__)
#define TARGET PA_EXTENSION("i8mm")
#define PEAK pa_peak_s8_i8mm
#define PRODUCTS "smmla"
#include "peak_s8_neon_one.inc"
#endif
