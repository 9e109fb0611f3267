/* One work item per element of pixels: binary and unary operations. Bound by memory; neighbouring
 * work items (dimension 0) touch neighbouring channels. */
#include "typed.cl"
#include "pointwise.cl"
#ifndef UNARY
#define UNARY EVERY_neg /* the formula of unary */
#endif
#ifndef BINARY
#define BINARY EVERY_add /* the formula of binary */
#endif

/* out = clamp(a op b, lo, hi). Dimensions: channel, column, row. b's strides are per row, column and channel, and
 * 0 where b is broadcast. out may be a or b. */
ELEMENTWISE void binary(__global const X *a_at, int a_offset, int a_stride, __global const R *b_at, int b_offset, int b_row,
                   int b_column, int b_channel, __global Y *out, int out_offset, int out_stride, int channels, int w,
                   float lo, float hi) {
    const int channel = get_global_id(0), column = get_global_id(1), row = get_global_id(2);
    if (channel >= channels)
        return;
    const int pixel = row * w + column;
    const float a = get(a_at, a_offset + pixel * a_stride + channel);
    const float b = get(b_at, b_offset + row * b_row + column * b_column + channel * b_channel);
    set(limit(BINARY, lo, hi), out, out_offset + pixel * out_stride + channel);
}

/* Dimensions: channel, pixel. out may be x. */
ELEMENTWISE void unary(__global const X *x_at, int offset, int stride, __global Y *out, int out_offset, int out_stride,
                  int channels, float p0, float p1) {
    const int channel = get_global_id(0), pixel = get_global_id(1);
    if (channel >= channels)
        return;
    const float x = get(x_at, offset + pixel * stride + channel);
    set(UNARY, out, out_offset + pixel * out_stride + channel);
}
