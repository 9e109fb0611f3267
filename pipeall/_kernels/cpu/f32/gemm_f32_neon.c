/* GEMM micro-kernel, NEON, 8 x 8 floats, for out-of-order cores (gemm_neon_8x8.inc). */
#if defined(__aarch64__)
#define GEMM pa_gemm_f32_neon_8x8
enum { AHEAD = 8 }; /* nothing is prefetched: these cores fetch ahead by themselves */
#include "gemm_f32_neon_8x8.inc"
#endif
