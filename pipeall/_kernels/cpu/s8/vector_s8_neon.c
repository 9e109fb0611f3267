#if defined(__aarch64__)
#define PA_ISA_NEON
#include "vector_s8.inc"
#endif
