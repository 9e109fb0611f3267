/* Depthwise convolution: channels stay apart. A work item computes VECTOR channels of PIXELS neighbours in a row.
 * Dimensions: 0 blocks of channels, 1 output columns, 2 output rows.
 *
 * Depthwise 3x3, stride 1, VECTOR = PIXELS = 4: 18 loads of inputs, 9 of weights and 4 stores of 128 bits for 36
 * vector multiply-adds. A Mali-G52 engine does 8 multiply-adds and its core loads 128 bits in a cycle: the 31
 * accesses of a thread bound it, not its 18 cycles of arithmetic. Registers: 4 sums, 6 inputs, 1 weight: 44 of 64. */
#ifndef PIXELS
#define PIXELS 4 /* output pixels of a work item */
#endif
#ifndef LOCAL_CHANNELS
#define LOCAL_CHANNELS 8 /* work items of a group along the blocks of channels */
#endif
#ifndef LOCAL_COLUMNS
#define LOCAL_COLUMNS 8 /* work items of a group along the output columns */
#endif
#ifndef KW /* width of the kernel: with these known, the inputs under a row of it are loaded once */
#define KW 3
#endif
#ifndef STRIDE_X
#define STRIDE_X 1
#endif
#ifndef DILATION_X
#define DILATION_X 1
#endif
#define COLUMNS ((PIXELS - 1) * STRIDE_X + (KW - 1) * DILATION_X + 1) /* of the input, under PIXELS outputs */

/* weight: [ky][kx][VECTOR * blocks], bias: [VECTOR * blocks], zero past the last channel; r: residual, or NULL. */
__kernel __attribute__((reqd_work_group_size(LOCAL_CHANNELS, LOCAL_COLUMNS, 1))) void
depthwise(__global const X *x, int x_offset, int x_stride, int x_h, int x_w, int channels,
          __global Y *out, int out_offset, int out_stride, int out_w,
          __global const R *r, int r_offset, int r_stride,
          __global const W *weight, __global const float *bias,
          int kh, int stride_y, int pad_top, int pad_left, int dilation_y, float lo, float hi) {
    const int block = get_global_id(0), c = VECTOR * block, first = get_global_id(1) * PIXELS, y = get_global_id(2);
    if (c >= channels || first >= out_w)
        return;
    const int n = channels - c, blocks = (channels + VECTOR - 1) / VECTOR, x0 = first * STRIDE_X - pad_left;
    x += x_offset + c;

    vec sum[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; p++)
        sum[p] = 0; /* the bias comes last: kernels.h */
    for (int ky = 0; ky < kh; ky++) {
        const int iy = y * stride_y - pad_top + ky * dilation_y;
        if ((uint)iy >= (uint)x_h)
            continue;
        __global const X *row = x + iy * x_w * x_stride;
        __global const W *w = weight + ky * KW * blocks * VECTOR + c;
        vec input[COLUMNS];
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            input[i] = (uint)(x0 + i) < (uint)x_w ? load(row + (x0 + i) * x_stride, n) : (vec)0;
#pragma unroll
        for (int kx = 0; kx < KW; kx++)
#pragma unroll
            for (int p = 0; p < PIXELS; p++)
                sum[p] += input[p * STRIDE_X + kx * DILATION_X] * aligned(w + kx * blocks * VECTOR);
    }
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
        const int q = y * out_w + first + p;
        if (first + p >= out_w)
            break;
        vec v = sum[p] + aligned(bias + c);
        if (r)
            v += load(r + r_offset + q * r_stride + c, n);
        store(limited(v, lo, hi), out + out_offset + q * out_stride + c, n);
    }
}
