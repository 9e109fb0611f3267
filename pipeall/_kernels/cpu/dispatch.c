#include "dispatch.h"

#include "kernels_f16.h"
#include "kernels_recurrent.h"
#include "kernels_resize.h"
#include "kernels_sparse.h"
#include "kernels_strassen.h"
#include "kernels_s8.h"

/* Declares every kernel with the function type of its op and element type, so that a wrong signature does not link silently. */
#define PA_KERNEL(op, type, name, ...) extern __typeof__(*(pa_##op##_##type##_fn)0) pa_##name;
#include "kernels.inc"
#undef PA_KERNEL

#define PA_KERNEL(op, type, name, isa, core, mr, nr, kr, flags) \
    {#op, #type, #name, #isa, #core, mr, nr, kr, flags, (pa_any_fn)pa_##name},
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

const int pa_unary_forms[] = {
#define PA_UNARY(name, formula) PA_VECTOR,
#define PA_UNARY_SCALAR(name, formula) PA_SCALAR,
#define PA_UNARY_TYPED(name) PA_TYPED,
#include "pointwise.inc"
};

const int pa_binary_forms[] = {
#define PA_BINARY(name, formula) PA_VECTOR,
#define PA_BINARY_SCALAR(name, formula) PA_SCALAR,
#define PA_BINARY_TYPED(name) PA_TYPED,
#include "pointwise.inc"
};
