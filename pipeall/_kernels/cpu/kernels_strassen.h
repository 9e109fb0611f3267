/* The contract of the kernels of Strassen's product (strassen.inc), of floats and of halves. */
#ifndef PIPEALL_KERNELS_STRASSEN_H
#define PIPEALL_KERNELS_STRASSEN_H

#include "kernels.h"

/* Of each row of the upper half of A (a1) and of the lower (a2), 2 k elements, all of stride
 * a_stride: what the products multiply, k elements each, `step` apart in the order of the products. */
enum {
    PA_STRASSEN_A11,
    PA_STRASSEN_A12,
    PA_STRASSEN_S2, /* S1 - A11 */
    PA_STRASSEN_S3, /* A11 - A21 */
    PA_STRASSEN_S1, /* A21 + A22 */
    PA_STRASSEN_S4, /* A12 - S2 */
    PA_STRASSEN_A22,
    PA_STRASSEN_PRODUCTS
};
typedef struct pa_strassen_split_args {
    int64_t rows, k, a_stride, s_stride, step;
    const void *a1, *a2;
    void *s;
} pa_strassen_split_args;
typedef void (*pa_strassen_split_f32_fn)(const pa_strassen_split_args *);

/* u4, which holds U2, += p5 + r1[columns];  c2[columns] = clamp(u3 + p5 + bias + r2[columns], lo, hi);  u3 += r2;
 * c1 = clamp(c1 + r1, lo, hi). r1 and r2 are rows of a residual, two quarters side by side, or NULL, and so may c2 be: a row
 * that is not there. Without r1, c1 stays as it is. columns is a multiple of NR; u4, u3 and p5 have one stride. */
typedef struct pa_strassen_join_args {
    int64_t rows, columns, stride, c_stride, r_stride;
    void *u4, *u3, *c1, *c2;
    const void *p5, *bias, *r1, *r2;
    float lo, hi;
} pa_strassen_join_args;
typedef void (*pa_strassen_join_f32_fn)(const pa_strassen_join_args *);

/* The same of halves, of which the S are by this smaller: they are sums of up to four elements. */
#define PA_F16_STRASSEN 0.25f
typedef pa_strassen_split_f32_fn pa_strassen_split_f16_fn;
typedef pa_strassen_join_f32_fn pa_strassen_join_f16_fn;

#endif
