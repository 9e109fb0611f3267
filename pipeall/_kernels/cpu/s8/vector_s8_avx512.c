#if defined(__x86_64__)
#define PA_ISA_AVX512
#include "vector_s8.inc"
#endif
