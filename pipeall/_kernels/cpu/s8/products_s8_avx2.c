#if defined(__x86_64__)
#define PA_ISA_AVX2
#define GEMM pa_gemm_s8_avx2_4x16
enum { GEMM_MR = 4, DEPTHWISE_MR = 5 };
#include "products_s8_x86.inc"
#endif
