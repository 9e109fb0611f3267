#include "dispatch.h"

#include "kernels.h"

/* Declares every kernel with the type of its op, so that a wrong signature does not link silently. */
#define PA_KERNEL(op, name, isa, core, mr, nr) extern __typeof__(*(pa_##op##_fn)0) pa_##name;
#include "kernels.inc"
#undef PA_KERNEL

#define PA_KERNEL(op, name, isa, core, mr, nr) {#op, #name, #isa, #core, mr, nr, (pa_any_fn)pa_##name},
const pa_kernel_row pa_kernel_rows[] = {
#include "kernels.inc"
};
#undef PA_KERNEL

const int pa_kernel_row_count = sizeof pa_kernel_rows / sizeof pa_kernel_rows[0];

const char *const pa_unary_names[] = {
#define PA_UNARY(name, formula) #name,
#include "pointwise.inc"
};

const char *const pa_binary_names[] = {
#define PA_BINARY(name, formula) #name,
#include "pointwise.inc"
};
