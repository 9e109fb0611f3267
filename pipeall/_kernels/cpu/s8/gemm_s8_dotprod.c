/* GEMM micro-kernel of integers, dot products, 8 x 8, for out-of-order cores (gemm_neon_8x8.inc). */
#if defined(__aarch64__)
#define GEMM pa_gemm_s8_dotprod_8x8
#include "gemm_s8_dotprod_8x8.inc"
#endif
