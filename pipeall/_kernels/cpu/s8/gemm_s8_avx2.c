#if defined(__x86_64__)
#define PA_ISA_AVX2
#include "../kernels_s8.h"
#include "simd_x86.h"

enum { MR = 4 };
#define GEMM pa_gemm_s8_avx2_4x16

#include "gemm_s8.inc"
#endif
