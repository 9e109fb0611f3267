#if defined(__aarch64__)
#define PA_ISA_ASIMDHP
#include "vector_f16.inc"
#endif
