/* GEMM micro-kernel, NEON, 8 x 8 floats, for in-order cores (Cortex-A53, A55; gemm_neon_8x8.inc). */
#if defined(__aarch64__)
#define GEMM pa_gemm_f32_neon_8x8_in_order
#define IN_ORDER
enum { AHEAD = 2 };
#include "gemm_f32_neon_8x8.inc"
#endif
