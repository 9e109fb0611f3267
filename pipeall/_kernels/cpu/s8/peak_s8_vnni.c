#if defined(__x86_64__)
#define PA_ISA_VNNI
#include "../kernels_s8.h"
#include "peak_s8_x86.inc"
#endif
