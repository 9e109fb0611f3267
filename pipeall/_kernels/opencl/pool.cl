/* Maximum and average pooling. A work item computes VECTOR channels of one output pixel.
 * Bound by memory: every input is read about kh * kw / (stride_y * stride_x) times, mostly from cache.
 * Dimensions: 0 blocks of channels, 1 output columns, 2 output rows. */
#ifndef LOCAL_CHANNELS
#define LOCAL_CHANNELS 8 /* work items of a group along the blocks of channels */
#endif
#ifndef LOCAL_COLUMNS
#define LOCAL_COLUMNS 8 /* work items of a group along the output columns */
#endif
#define GROUP __attribute__((reqd_work_group_size(LOCAL_CHANNELS, LOCAL_COLUMNS, 1)))

/* Padding never wins the maximum. */
__kernel GROUP void
maxpool(__global const X *x, int x_offset, int x_stride, int x_h, int x_w, int channels,
        __global Y *out, int out_offset, int out_stride, int out_w,
        int kh, int kw, int stride_y, int stride_x, int pad_top, int pad_left, int dilation_y, int dilation_x) {
    const int c = VECTOR * get_global_id(0), column = get_global_id(1), y = get_global_id(2), n = channels - c;
    if (c >= channels || column >= out_w)
        return;
    x += x_offset + c;
    vec best = -INFINITY;
    for (int ky = 0; ky < kh; ky++)
        for (int kx = 0; kx < kw; kx++) {
            const int iy = y * stride_y - pad_top + ky * dilation_y;
            const int ix = column * stride_x - pad_left + kx * dilation_x;
            if ((uint)iy < (uint)x_h && (uint)ix < (uint)x_w) {
                const vec v = load(x + (iy * x_w + ix) * x_stride, n);
                best = ((v <= best) | (best != best)) ? best : v; /* a NaN stays */
            }
        }
    store(best, out + out_offset + (y * out_w + column) * out_stride + c, n);
}

/* A sum of the sums of rows: a large element swallows less of the small ones than in a single chain. The divisor
 * counts the positions of the window inside [-before, size + after) in each direction: the explicit padding for
 * count_include_pad, 0 otherwise. A window may overhang that (ceil mode). */
__kernel GROUP void
avgpool(__global const X *x, int x_offset, int x_stride, int x_h, int x_w, int channels,
        __global Y *out, int out_offset, int out_stride, int out_w,
        int kh, int kw, int stride_y, int stride_x, int pad_top, int pad_left,
        int top, int left, int bottom, int right) { /* how much padding counts, on each side */
    const int c = VECTOR * get_global_id(0), column = get_global_id(1), y = get_global_id(2), n = channels - c;
    if (c >= channels || column >= out_w)
        return;
    const int y0 = y * stride_y - pad_top, x0 = column * stride_x - pad_left;
    const int rows = min(y0 + kh, x_h + bottom) - max(y0, -top);
    const int columns = min(x0 + kw, x_w + right) - max(x0, -left);
    x += x_offset + c;
    vec sum = 0;
    for (int iy = max(y0, 0); iy < min(y0 + kh, x_h); iy++) {
        vec row = 0;
        for (int ix = max(x0, 0); ix < min(x0 + kw, x_w); ix++)
            row += load(x + (iy * x_w + ix) * x_stride, n);
        sum += row;
    }
    store(sum / (real)(rows * columns), out + out_offset + (y * out_w + column) * out_stride + c, n);
}
