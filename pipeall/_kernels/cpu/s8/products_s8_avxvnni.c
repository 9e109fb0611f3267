#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 11)
#define PA_ISA_AVXVNNI
#define GEMM pa_gemm_s8_avxvnni_6x16
enum { GEMM_MR = 6, DEPTHWISE_MR = 4 };
#include "products_s8_x86.inc"
#endif
