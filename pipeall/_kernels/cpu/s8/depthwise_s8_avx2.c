#if defined(__x86_64__)
#define PA_ISA_AVX2
#include "../kernels_s8.h"
#include "simd_x86.h"

enum { MR = 5 };

#include "depthwise_s8.inc"
#endif
