/* Sixteen products and their sums are one instruction. */
#if defined(__aarch64__)
#define TARGET PA_EXTENSION("dotprod")
#define PEAK pa_peak_s8_dotprod
#define PRODUCTS "sdot"
#include "peak_s8_neon_one.inc"
#endif
