#define PA_ISA_REF
#include "vector_f16.inc"
