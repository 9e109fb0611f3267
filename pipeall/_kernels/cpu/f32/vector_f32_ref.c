#define PA_ISA_REF
#include "vector_f32.inc"
