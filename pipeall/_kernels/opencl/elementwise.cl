/* One work item per element: binary and unary operations, strided copy, fill. Bound by memory; neighbouring
 * work items (dimension 0) touch neighbouring channels. */
#ifndef LOCAL_ELEMENTS
#define LOCAL_ELEMENTS 64 /* work items of a group along dimension 0 */
#endif
#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL_ELEMENTS, 1, 1)))

/* Not clamp or fmin: NaN stays NaN. */
static float limit(float v, float lo, float hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* out = clamp(a op b, lo, hi). Dimensions: channel, column, row. b's strides are per row, column and channel, and
 * 0 where b is broadcast. out may be a or b. */
#define BINARY(name, value)                                                                                          \
    KERNEL void binary_##name(__global const X *a_at, int a_offset, int a_stride, __global const R *b_at,            \
                              int b_offset, int b_row, int b_column, int b_channel, __global Y *out,                 \
                              int out_offset, int out_stride, int channels, int w, float lo, float hi) {             \
        const int c = get_global_id(0), column = get_global_id(1), row = get_global_id(2);                           \
        if (c >= channels)                                                                                           \
            return;                                                                                                  \
        const int pixel = row * w + column;                                                                          \
        const float a = at(a_at, a_offset + pixel * a_stride + c);                                                   \
        const float b = at(b_at, b_offset + row * b_row + column * b_column + c * b_channel);                        \
        put(limit(value, lo, hi), out, out_offset + pixel * out_stride + c);                                         \
    }
BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a * b)
BINARY(rsub, b - a)

/* Dimensions: channel, pixel. out may be x. */
#define UNARY(name, value)                                                                                           \
    KERNEL void unary_##name(__global const X *x_at, int offset, int stride, __global Y *out, int out_offset,        \
                             int out_stride, int channels, float p0, float p1) {                                     \
        const int c = get_global_id(0), pixel = get_global_id(1);                                                    \
        if (c >= channels)                                                                                           \
            return;                                                                                                  \
        const float x = at(x_at, offset + pixel * stride + c);                                                       \
        put(value, out, out_offset + pixel * out_stride + c);                                                        \
    }
UNARY(clip, limit(x, p0, p1))
UNARY(leakyrelu, x < 0 ? p0 * x : x)
UNARY(sigmoid, 1 / (1 + exp(-x)))
UNARY(hardsigmoid, limit(p0 * x + p1, 0, 1))
UNARY(hardswish, x * limit(x / 6 + 0.5f, 0, 1))
UNARY(tanh, tanh(x))
UNARY(erf, erf(x))
UNARY(elu, x < 0 ? p0 * expm1(x) : x)

/* out[i . out_strides] = x[i . x_strides] for every index i below shape: RANK numbers of each vector count.
 * Dimensions: the first three indices; a work item walks the others. */
#ifndef RANK
#define RANK 6
#endif
KERNEL void copy(__global const X *x, int x_offset, int8 x_strides, __global Y *out, int out_offset,
                 int8 out_strides, int8 shape) {
    const int i0 = get_global_id(0), i1 = get_global_id(1), i2 = get_global_id(2);
    if (i0 >= shape.s0)
        return;
    x += x_offset + i0 * x_strides.s0 + i1 * x_strides.s1 + i2 * x_strides.s2;
    out += out_offset + i0 * out_strides.s0 + i1 * out_strides.s1 + i2 * out_strides.s2;
#if RANK <= 3
    put(at(x, 0), out, 0);
#else
    for (int i3 = 0; i3 < shape.s3; i3++)
        for (int i4 = 0; i4 < shape.s4; i4++)
            for (int i5 = 0; i5 < shape.s5; i5++)
                put(at(x, i3 * x_strides.s3 + i4 * x_strides.s4 + i5 * x_strides.s5), out,
                    i3 * out_strides.s3 + i4 * out_strides.s4 + i5 * out_strides.s5);
#endif
}

/* Dimensions: channel, pixel. */
KERNEL void fill(__global Y *out, int offset, int stride, int channels, float value) {
    const int c = get_global_id(0);
    if (c < channels)
        put(value, out, offset + get_global_id(1) * stride + c);
}
