#define PA_ISA_REF
#include "winograd_f16.inc"
