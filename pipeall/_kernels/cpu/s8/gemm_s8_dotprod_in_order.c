/* GEMM micro-kernel of integers, dot products, 8 x 8, for in-order cores (Cortex-A55; gemm_neon_8x8.inc). */
#if defined(__aarch64__)
#define GEMM pa_gemm_s8_dotprod_8x8_in_order
#define IN_ORDER
#include "gemm_s8_dotprod_8x8.inc"
#endif
