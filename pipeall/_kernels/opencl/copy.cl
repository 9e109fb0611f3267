/* Strided copies and constants, one work item per element. Bound by memory; neighbouring work items (dimension 0) touch
 * neighbouring elements.
 *
 * X and Y are float or half, converted where they differ; or BITS, an unsigned integer that holds an element of any other
 * type, whose bits move as they are. */

#ifdef BITS
#define MOVE(x, i, out, j) ((out)[j] = (x)[i])
#define SET(value, out, i) ((out)[i] = (value))
typedef BITS constant_type;
#else
#define MOVE(x, i, out, j) put(at(x, i), out, j)
#define SET(value, out, i) put(value, out, i)
typedef float constant_type;
#endif

/* out[i . out_strides] = x[i . x_strides] for every index i below shape: RANK numbers of each vector count.
 * Dimensions: the first three indices; a work item walks the others. */
#ifndef RANK
#define RANK 6
#endif
ELEMENTWISE void copy(__global const X *x, int x_offset, int8 x_strides, __global Y *out, int out_offset,
                 int8 out_strides, int8 shape) {
    const int i0 = get_global_id(0), i1 = get_global_id(1), i2 = get_global_id(2);
    if (i0 >= shape.s0)
        return;
    x += x_offset + i0 * x_strides.s0 + i1 * x_strides.s1 + i2 * x_strides.s2;
    out += out_offset + i0 * out_strides.s0 + i1 * out_strides.s1 + i2 * out_strides.s2;
#if RANK <= 3
    MOVE(x, 0, out, 0);
#else
    for (int i3 = 0; i3 < shape.s3; i3++)
        for (int i4 = 0; i4 < shape.s4; i4++)
            for (int i5 = 0; i5 < shape.s5; i5++)
                MOVE(x, i3 * x_strides.s3 + i4 * x_strides.s4 + i5 * x_strides.s5, out,
                     i3 * out_strides.s3 + i4 * out_strides.s4 + i5 * out_strides.s5);
#endif
}

/* Dimensions: channel, pixel. */
ELEMENTWISE void fill(__global Y *out, int offset, int stride, int channels, constant_type value) {
    const int c = get_global_id(0);
    if (c < channels)
        SET(value, out, offset + get_global_id(1) * stride + c);
}
