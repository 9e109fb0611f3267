/* Resampling along AXES axes: an element of the output is a weighted sum of TAPS elements along each of them, from
 * tables of indices and weights. One work item per element of the output. Bound by memory for few taps. */
#include "typed.cl"
#ifndef AXES
#define AXES 2 /* 1 to 3 */
#endif
#ifndef AXIS0 /* where the index along the first resized axis is in the indices */
#define AXIS0 s0
#endif
#ifndef AXIS1
#define AXIS1 s1
#endif
#ifndef AXIS2
#define AXIS2 s2
#endif
#ifndef NEAREST
#define NEAREST 0 /* 1: one tap everywhere, of weight 1: elements move, and may be of any type */
#endif
#define TABLE(n) __global const int *from##n, __global const float *weights##n, int taps##n, int stride##n
#define EACH_TAP(n, i)                                                                                               \
    for (int t##n = i * taps##n; t##n < (i + 1) * taps##n; t##n++)

/* x_strides are 0 along the resized axes, where strides are those of the tables. Dimensions: `indices` of typed.cl. */
ELEMENTWISE void
resize(__global const X *x, int x_offset, int8 x_strides, __global Y *out, int out_offset, int8 out_strides, int8 shape,
       TABLE(0), TABLE(1), TABLE(2)) {
    const int8 i = indices(shape);
    if (i.s0 >= shape.s0)
        return;
    x += x_offset + dot8(i, x_strides);
    out += out_offset + dot8(i, out_strides);
#if NEAREST
    int place = from0[i.AXIS0] * stride0;
#if AXES > 1
    place += from1[i.AXIS1] * stride1;
#endif
#if AXES > 2
    place += from2[i.AXIS2] * stride2;
#endif
    set(get(x, place), out, 0);
#else
    float sum = 0;
    EACH_TAP(0, i.AXIS0) {
#if AXES == 1
        sum += weights0[t0] * get(x, from0[t0] * stride0);
#else
        float row = 0;
        EACH_TAP(1, i.AXIS1) {
#if AXES == 2
            row += weights1[t1] * get(x, from0[t0] * stride0 + from1[t1] * stride1);
#else
            float plane = 0;
            EACH_TAP(2, i.AXIS2)
            plane += weights2[t2] * get(x, from0[t0] * stride0 + from1[t1] * stride1 + from2[t2] * stride2);
            row += weights1[t1] * plane;
#endif
        }
        sum += weights0[t0] * row;
#endif
    }
    set(sum, out, 0);
#endif
}
