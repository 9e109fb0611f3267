/* Convolution, also grouped and fully connected, as a GEMM whose tile lives in registers:
 *
 *   out[q][n] = clamp(bias[n] + sum_{ky, kx, c} x[pixel(q, ky, kx)][c] * weight[ky][kx][c][n] + r[q][n], lo, hi)
 *
 * A work item computes PIXELS output pixels, consecutive in row-major order, times VECTOR output channels
 * of one group. Its weights lie behind each other as [ky][kx][c][VECTOR], zero where a group's last block
 * passes its last channel; bias is [block][VECTOR]. A tap in the padding reads `zeros` (cin floats), so the
 * inner loop has no condition. Registers: PIXELS * VECTOR sums, INPUTS * PIXELS inputs, VECTOR weights.
 *
 * Dimension 0 runs over pixels, so that neighbouring work items share one block of weights.
 *
 * Mali-G52, VECTOR = 8, PIXELS = 4: per four input channels a thread has 128 multiply-adds, 5.3 cycles of a core's 3
 * engines of 8, and loads 64 bytes of inputs and 16 of weights that 8 threads share, 5 cycles at 16 bytes: balanced.
 * VECTOR = 4 does half the multiply-adds with as many inputs (bench/mali_bound.py). Sums of blocks before find no room
 * in 64 registers; a compiler may keep them in memory, 256 bytes for each block of 192: 5.3 cycles too. */
#ifndef PIXELS
#define PIXELS 4 /* output pixels of a work item */
#endif
#ifndef INPUTS
#define INPUTS 4 /* input channels of a pixel loaded at a time: 4, or 1 where a load can spread a float over a vector */
#endif
#ifndef BLOCK
#define BLOCK 0 /* products, at least, that a long sum adds by themselves: a multiple of 4. 0: the sum is short */
#endif
#ifndef LOCAL_PIXELS
#define LOCAL_PIXELS 8 /* work items of a group along the pixels */
#endif
#ifndef LOCAL_BLOCKS
#define LOCAL_BLOCKS 4 /* work items of a group along the blocks of channels */
#endif

/* One of four input channels, whose weights are in registers no longer than it takes. */
#define MULTIPLY(i, lane)                                                                                            \
    {                                                                                                                \
        const vec w = aligned(weight + i * VECTOR);                                                                  \
        _Pragma("unroll") for (int p = 0; p < PIXELS; p++) sum[p] += v[p].lane * w;                                  \
    }

__kernel __attribute__((reqd_work_group_size(LOCAL_PIXELS, LOCAL_BLOCKS, 1))) void
conv(__global const X *x, int x_offset, int x_stride, int x_h, int x_w, /* stride of pixels */
     __global Y *out, int out_offset, int out_stride, int out_pixels, int out_w, /* out_pixels = h * w */
     __global const R *r, int r_offset, int r_stride, /* residual, or NULL */
     __global const W *weight, __global const float *bias, __global const X *zeros,
     int groups, int cin, int cout, int blocks, /* channels in and out of one group, blocks of VECTOR in it */
     int kh, int kw, int stride_y, int stride_x, int pad_top, int pad_left, int dilation_y, int dilation_x,
     float lo, float hi) {
    const int first = get_global_id(0) * PIXELS, block = get_global_id(1);
    if (first >= out_pixels || block >= groups * blocks)
        return;
    const int group = block / blocks, channel = (block - group * blocks) * VECTOR;
    x += x_offset + group * cin;
    weight += block * kh * kw * cin * VECTOR;

    vec sum[PIXELS], total[PIXELS]; /* of the blocks before */
    int chain = 0;                  /* products in sum */
    int y0[PIXELS], x0[PIXELS];
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
        const int q = min(first + p, out_pixels - 1);
        sum[p] = total[p] = 0; /* the bias comes last: kernels.h */
        y0[p] = q / out_w * stride_y - pad_top;
        x0[p] = q % out_w * stride_x - pad_left;
    }
    for (int ky = 0; ky < kh; ky++)
        for (int kx = 0; kx < kw; kx++) {
            __global const X *a[PIXELS];
#pragma unroll
            for (int p = 0; p < PIXELS; p++) {
                const int iy = y0[p] + ky * dilation_y, ix = x0[p] + kx * dilation_x;
                const int inside = (uint)iy < (uint)x_h && (uint)ix < (uint)x_w;
                a[p] = inside ? x + (iy * x_w + ix) * x_stride : zeros;
            }
            for (int c = 0; c < cin;) {
                const int stop = BLOCK ? min(cin, c + BLOCK) : cin;
                chain += stop - c;
#if INPUTS == 4
                for (; c + 4 <= stop; c += 4, weight += 4 * VECTOR) {
                    real4 v[PIXELS];
#pragma unroll
                    for (int p = 0; p < PIXELS; p++)
                        v[p] = four(a[p] + c);
                    MULTIPLY(0, s0)
                    MULTIPLY(1, s1)
                    MULTIPLY(2, s2)
                    MULTIPLY(3, s3)
                }
#endif
                for (; c < stop; c++, weight += VECTOR) {
                    const vec w = aligned(weight);
#pragma unroll
                    for (int p = 0; p < PIXELS; p++)
                        sum[p] += at(a[p], c) * w;
                }
                if (!BLOCK || chain < BLOCK)
                    continue;
                chain = 0;
#pragma unroll
                for (int p = 0; p < PIXELS; p++) {
                    total[p] += sum[p];
                    sum[p] = 0;
                }
            }
        }

    const int n = cout - channel;
    out += out_offset + group * cout + channel;
    if (r)
        r += r_offset + group * cout + channel;
#pragma unroll
    for (int p = 0; p < PIXELS; p++) {
        const int q = first + p;
        if (q >= out_pixels)
            break;
        vec v = (BLOCK ? total[p] + sum[p] : sum[p]) + aligned(bias + block * VECTOR);
        if (r)
            v += load(r + q * r_stride, n);
        store(limited(v, lo, hi), out + q * out_stride, n);
    }
}
