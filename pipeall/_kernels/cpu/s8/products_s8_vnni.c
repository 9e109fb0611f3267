#if defined(__x86_64__)
#define PA_ISA_VNNI
#define GEMM pa_gemm_s8_vnni_8x32
enum { GEMM_MR = 8, DEPTHWISE_MR = 8 };
#include "products_s8_x86.inc"
#endif
