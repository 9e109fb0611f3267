/* Sliding windows that keep channels apart: depthwise convolution, maximum and average pooling.
 *
 * A work item computes 4 channels of one output pixel (depthwise: of PIXELS neighbours in a row, which share
 * the weights). The last block of channels may hold fewer than 4: nothing past them is read or written.
 * Bound by memory: every input is read about kh * kw / (stride_y * stride_x) times, mostly from cache.
 * Dimensions: 0 blocks of channels, 1 output columns, 2 output rows. */
#ifndef PIXELS
#define PIXELS 4 /* output pixels of a work item of depthwise */
#endif
#ifndef LOCAL_CHANNELS
#define LOCAL_CHANNELS 8 /* work items of a group along the blocks of channels */
#endif
#ifndef LOCAL_COLUMNS
#define LOCAL_COLUMNS 8 /* work items of a group along the output columns */
#endif
#define GROUP __attribute__((reqd_work_group_size(LOCAL_CHANNELS, LOCAL_COLUMNS, 1)))

/* A vector at any float: vload4, and mad and fmax too, are calls that PoCL does not inline. */
typedef struct __attribute__((packed, aligned(4))) {
    float4 v;
} any4;

/* The first min(n, 4) floats at p; the rest is 0. */
static float4 load(__global const float *p, int n) {
    if (n >= 4)
        return ((__global const any4 *)p)->v;
    return (float4)(p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, 0);
}

static void store(float4 v, __global float *p, int n) {
    if (n >= 4) {
        ((__global any4 *)p)->v = v;
        return;
    }
    p[0] = v.s0;
    if (n > 1)
        p[1] = v.s1;
    if (n > 2)
        p[2] = v.s2;
}

/* weight: [ky][kx][4 * blocks], bias: [4 * blocks], zero past the last channel; r: residual, or NULL. */
__kernel GROUP void
depthwise(__global const float *x, int x_offset, int x_stride, int x_h, int x_w, int channels,
          __global float *out, int out_offset, int out_stride, int out_w,
          __global const float *r, int r_offset, int r_stride,
          __global const float4 *weight, __global const float4 *bias,
          int kh, int kw, int stride_y, int stride_x, int pad_top, int pad_left, int dilation_y, int dilation_x,
          float lo, float hi) {
    const int block = get_global_id(0), c = 4 * block, first = get_global_id(1) * PIXELS, y = get_global_id(2);
    if (c >= channels || first >= out_w)
        return;
    const int n = channels - c, blocks = (channels + 3) / 4;
    x += x_offset + c;

    float4 sum[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; p++)
        sum[p] = bias[block];
    for (int ky = 0; ky < kh; ky++) {
        const int iy = y * stride_y - pad_top + ky * dilation_y;
        if ((uint)iy >= (uint)x_h)
            continue;
        for (int kx = 0; kx < kw; kx++) {
            const float4 w = weight[(ky * kw + kx) * blocks + block];
#pragma unroll
            for (int p = 0; p < PIXELS; p++) {
                const int ix = (first + p) * stride_x - pad_left + kx * dilation_x;
                if ((uint)ix < (uint)x_w)
                    sum[p] += load(x + (iy * x_w + ix) * x_stride, n) * w;
            }
        }
    }
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
        const int q = y * out_w + first + p;
        if (first + p >= out_w)
            break;
        float4 v = sum[p];
        if (r)
            v += load(r + r_offset + q * r_stride + c, n);
        v = v < lo ? (float4)lo : v; /* not fmax, fmin: NaN stays NaN */
        v = v > hi ? (float4)hi : v;
        store(v, out + out_offset + q * out_stride + c, n);
    }
}

/* Padding never wins the maximum. */
__kernel GROUP void
maxpool(__global const float *x, int x_offset, int x_stride, int x_h, int x_w, int channels,
        __global float *out, int out_offset, int out_stride, int out_w,
        int kh, int kw, int stride_y, int stride_x, int pad_top, int pad_left, int dilation_y, int dilation_x) {
    const int c = 4 * get_global_id(0), column = get_global_id(1), y = get_global_id(2), n = channels - c;
    if (c >= channels || column >= out_w)
        return;
    x += x_offset + c;
    float4 best = -INFINITY;
    for (int ky = 0; ky < kh; ky++)
        for (int kx = 0; kx < kw; kx++) {
            const int iy = y * stride_y - pad_top + ky * dilation_y;
            const int ix = column * stride_x - pad_left + kx * dilation_x;
            if ((uint)iy < (uint)x_h && (uint)ix < (uint)x_w) {
                const float4 v = load(x + (iy * x_w + ix) * x_stride, n);
                best = ((v <= best) | (best != best)) ? best : v; /* a NaN stays */
            }
        }
    store(best, out + out_offset + (y * out_w + column) * out_stride + c, n);
}

/* The divisor counts the positions of the window inside [-before, size + after) in each direction: the
 * explicit padding for count_include_pad, 0 otherwise. A window may overhang that (ceil mode). */
__kernel GROUP void
avgpool(__global const float *x, int x_offset, int x_stride, int x_h, int x_w, int channels,
        __global float *out, int out_offset, int out_stride, int out_w,
        int kh, int kw, int stride_y, int stride_x, int pad_top, int pad_left,
        int top, int left, int bottom, int right) { /* how much padding counts, on each side */
    const int c = 4 * get_global_id(0), column = get_global_id(1), y = get_global_id(2), n = channels - c;
    if (c >= channels || column >= out_w)
        return;
    const int y0 = y * stride_y - pad_top, x0 = column * stride_x - pad_left;
    const int rows = min(y0 + kh, x_h + bottom) - max(y0, -top);
    const int columns = min(x0 + kw, x_w + right) - max(x0, -left);
    x += x_offset + c;
    float4 sum = 0;
    for (int iy = max(y0, 0); iy < min(y0 + kh, x_h); iy++)
        for (int ix = max(x0, 0); ix < min(x0 + kw, x_w); ix++)
            sum += load(x + (iy * x_w + ix) * x_stride, n);
    store(sum / (float)(rows * columns), out + out_offset + (y * out_w + column) * out_stride + c, n);
}
