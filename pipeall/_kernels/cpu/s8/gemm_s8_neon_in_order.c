/* GEMM micro-kernel of integers, NEON, 4 x 4, for in-order cores without dot products (Cortex-A53; gemm_s8_neon_4x4.inc). */
#if defined(__aarch64__)
#define GEMM pa_gemm_s8_neon_4x4_in_order
#define IN_ORDER
#include "gemm_s8_neon_4x4.inc"
#endif
