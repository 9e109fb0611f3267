#if defined(__x86_64__)
#define PA_ISA_AVXVNNI
#include "../kernels_s8.h"
#include "peak_s8_x86.inc"
#endif
