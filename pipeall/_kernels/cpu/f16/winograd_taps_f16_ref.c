#define PA_ISA_REF
#include "winograd_taps_f16.inc"
