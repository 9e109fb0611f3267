/* One work item per element: binary and unary operations. Bound by memory; neighbouring
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
