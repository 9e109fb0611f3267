#if defined(__x86_64__)
#define PA_ISA_AVX512
#include "../kernels_s8.h"
#include "simd_x86.h"

enum { MR = 8 };
#define GEMM pa_gemm_s8_avx512_8x32

#include "gemm_s8.inc"
#endif
