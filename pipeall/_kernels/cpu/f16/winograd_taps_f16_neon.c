#if defined(__aarch64__)
#define PA_ISA_NEON
#include "winograd_taps_f16.inc"
#endif
