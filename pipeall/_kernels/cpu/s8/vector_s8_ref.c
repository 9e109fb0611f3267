#define PA_ISA_REF
#include "vector_s8.inc"
