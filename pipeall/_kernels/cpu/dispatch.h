/* The rows of kernels.inc and the names of pointwise.inc as arrays, in order. */
#ifndef PIPEALL_DISPATCH_H
#define PIPEALL_DISPATCH_H

/* A row for AVX-VNNI, which gcc 10 does not know. */
#if defined(__clang__) || __GNUC__ >= 11
#define PA_AVXVNNI(row) row
#else
#define PA_AVXVNNI(row)
#endif

typedef void (*pa_any_fn)(void); /* cast to pa_<op>_<element type>_fn before the call */

typedef enum pa_kernel_flags {
    PA_NARROW_WEIGHTS = 1, /* -128 is no weight: it multiplies pairs in 16 bits */
    PA_CHEAP_TAPS = 2,     /* a tap of few channels is set up fast: a window of them is not gathered to one tap */
    PA_UNSIGNED_A = 4,     /* multiplies unsigned by signed bytes: activations are wanted with 128 added */
    PA_JOINS = 8,          /* adds a residual to results in registers */
    PA_SMALL_SUMS = 16,    /* takes sums of few bits faster */
    PA_PARTS = 32,         /* makes a sum in several calls */
} pa_kernel_flags;

typedef struct pa_kernel_row {
    const char *op, *type, *name, *isa, *core;
    int mr, nr, kr, flags;
    pa_any_fn function;
} pa_kernel_row;

/* The function of a row, by its type: PA_FUNCTION(gemm, f32, row)(&args). */
#define PA_FUNCTION(op, type, row) ((pa_##op##_##type##_fn)(row)->function)

extern const pa_kernel_row pa_kernel_rows[];
extern const int pa_kernel_row_count;

extern const char *const pa_unary_names[]; /* by PA_UNARY_... */
extern const char *const pa_binary_names[];

typedef enum pa_form { PA_VECTOR, PA_SCALAR, PA_TYPED } pa_form; /* of a line of pointwise.inc */
extern const int pa_unary_forms[];                               /* by PA_UNARY_... */
extern const int pa_binary_forms[];

#endif
