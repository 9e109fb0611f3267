/* GEMM micro-kernel of integers, NEON, 4 x 4, for out-of-order cores without dot products (Cortex-A72, A73;
 * gemm_s8_neon_4x4.inc). */
#if defined(__aarch64__)
#define GEMM pa_gemm_s8_neon_4x4
#include "gemm_s8_neon_4x4.inc"
#endif
