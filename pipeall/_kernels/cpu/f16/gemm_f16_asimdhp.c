/* GEMM micro-kernel of halves, 8 x 16, for out-of-order cores (gemm_f16_8x16.inc). */
#if defined(__aarch64__)
#define GEMM pa_gemm_f16_asimdhp_8x16
#include "gemm_f16_8x16.inc"
#endif
