/* The rows of kernels.inc and the names of pointwise.inc as arrays, in order. */
#ifndef PIPEALL_DISPATCH_H
#define PIPEALL_DISPATCH_H

typedef void (*pa_any_fn)(void); /* cast to pa_<op>_<element type>_fn before the call */

typedef struct pa_kernel_row {
    const char *op, *type, *name, *isa, *core;
    int mr, nr;
    pa_any_fn function;
} pa_kernel_row;

extern const pa_kernel_row pa_kernel_rows[];
extern const int pa_kernel_row_count;

extern const char *const pa_unary_names[]; /* by PA_UNARY_... */
extern const char *const pa_binary_names[];

typedef enum pa_form { PA_VECTOR, PA_SCALAR, PA_TYPED } pa_form; /* of a line of pointwise.inc */
extern const int pa_unary_forms[];                               /* by PA_UNARY_... */
extern const int pa_binary_forms[];

#endif
