#if defined(__x86_64__)
#define PA_ISA_AVXVNNI
#include "../kernels_s8.h"
#include "simd_x86.h"

enum { MR = 6 };
#define GEMM pa_gemm_s8_avxvnni_6x16

#include "gemm_s8.inc"
#endif
