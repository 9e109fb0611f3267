/* GEMM micro-kernel, AVX2 + FMA, 6 x 16 floats (gemm_f32_avx2.inc). */
#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,fma")))
#define GEMM pa_gemm_f32_avx2_6x16
enum { MR = 6, NR = 16, MOST = 2, AHEAD = 8 };
#include "gemm_f32_avx2.inc"
#endif
