/* 3x3 convolution of stride 1 by Winograd's minimal filtering F(M x M, 3 x 3): tiles of N x N inputs, N = M + 2, give
 * M x M outputs. Between the two transforms here, conv.cl multiplies: a 1x1 convolution with a group for each of the
 * N x N points, whose pixels are the tiles.
 *
 * The lines of B^T and A^T are those of the points 0, 1, -1 (M = 2), and 0, 5/8, -5/8, 3/2, -3/2 (M = 4); the weights
 * are transformed when the program is compiled (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
 * 2016).
 *
 * Multiply-adds against a direct convolution: 2.25 (M = 2) and 4 times fewer. Bound of both kernels: memory, (N / M)^2
 * times the input written and of the output read. Registers: N x N vectors: with 64 of 32 bits a thread that is
 * VECTOR = 2 for M = 2 and 1 for M = 4, neighbours taking neighbouring channels.
 * Dimensions: 0 blocks of channels, 1 tiles along a row, 2 rows of tiles. */
#ifndef M
#define M 2 /* 2 or 4 */
#endif
#ifndef LOCAL_CHANNELS
#define LOCAL_CHANNELS 16 /* work items of a group along the blocks of channels */
#endif
#define N (M + 2)
#define GROUP __attribute__((reqd_work_group_size(LOCAL_CHANNELS, 1, 1)))

/* y = B^T x */
static void input_1d(const vec *x, vec *y) {
#if M == 2
    y[0] = x[0] - x[2];
    y[1] = x[1] + x[2];
    y[2] = x[2] - x[1];
    y[3] = x[1] - x[3];
#else
    const vec even = x[4] - (real)2.25f * x[2], odd = (real)0.625f * (x[3] - (real)2.25f * x[1]);
    const vec even2 = x[4] - (real)0.390625f * x[2], odd2 = (real)1.5f * (x[3] - (real)0.390625f * x[1]);
    y[0] = (real)0.87890625f * x[0] - (real)2.640625f * x[2] + x[4];
    y[1] = even + odd;
    y[2] = even - odd;
    y[3] = even2 + odd2;
    y[4] = even2 - odd2;
    y[5] = (real)0.87890625f * x[1] - (real)2.640625f * x[3] + x[5];
#endif
}

/* y = A^T x */
static void output_1d(const vec *x, vec *y) {
    const vec sum = x[1] + x[2], difference = x[1] - x[2];
#if M == 2
    y[0] = x[0] + sum;
    y[1] = difference - x[3];
#else
    const vec sum2 = x[3] + x[4], difference2 = x[3] - x[4];
    y[0] = x[0] + sum + sum2;
    y[1] = (real)0.625f * difference + (real)1.5f * difference2;
    y[2] = (real)0.390625f * sum + (real)2.25f * sum2;
    y[3] = (real)0.244140625f * difference + (real)3.375f * difference2 + x[5];
#endif
}

/* transformed: [tile][point][channels] */
__kernel GROUP void
winograd_input(__global const X *x, int x_offset, int x_stride, int x_h, int x_w, int channels,
               __global Y *transformed, int pad_top, int pad_left) {
    const int c = VECTOR * get_global_id(0), n = channels - c;
    if (n <= 0)
        return;
    const int tile = get_global_id(2) * get_global_size(1) + get_global_id(1);
    const int y0 = get_global_id(2) * M - pad_top, x0 = get_global_id(1) * M - pad_left;
    x += x_offset + c;
    vec rows[N][N], column[N], result[N]; /* rows: B^T x, transposed */
#pragma unroll
    for (int j = 0; j < N; j++) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int iy = y0 + i, ix = x0 + j, inside = (uint)iy < (uint)x_h && (uint)ix < (uint)x_w;
            column[i] = inside ? load(x + (iy * x_w + ix) * x_stride, n) : (vec)0;
        }
        input_1d(column, rows[j]);
    }
    transformed += tile * N * N * channels + c;
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int j = 0; j < N; j++)
            column[j] = rows[j][i];
        input_1d(column, result);
#pragma unroll
        for (int j = 0; j < N; j++)
            store(result[j], transformed + (i * N + j) * channels, n);
    }
}

/* products: [tile][point][channels]; bias: [VECTOR * blocks], zero past the last channel; r: residual, or NULL. */
__kernel GROUP void
winograd_output(__global const X *products, int channels, __global Y *out, int out_offset, int out_stride,
                int out_h, int out_w, __global const R *r, int r_offset, int r_stride, __global const float *bias,
                float lo, float hi) {
    const int c = VECTOR * get_global_id(0), n = channels - c;
    if (n <= 0)
        return;
    const int tile = get_global_id(2) * get_global_size(1) + get_global_id(1);
    const int y0 = get_global_id(2) * M, x0 = get_global_id(1) * M;
    products += tile * N * N * channels + c;
    vec rows[N][M], column[N], result[M]; /* rows: A^T products, transposed */
#pragma unroll
    for (int j = 0; j < N; j++) {
#pragma unroll
        for (int i = 0; i < N; i++)
            column[i] = load(products + (i * N + j) * channels, n);
        output_1d(column, rows[j]);
    }
#pragma unroll
    for (int i = 0; i < M; i++) {
        if (y0 + i >= out_h)
            break;
#pragma unroll
        for (int j = 0; j < N; j++)
            column[j] = rows[j][i];
        output_1d(column, result);
#pragma unroll
        for (int j = 0; j < M; j++) {
            const int q = (y0 + i) * out_w + x0 + j;
            if (x0 + j >= out_w)
                break;
            vec v = result[j] + aligned(bias + c);
            if (r)
                v += load(r + r_offset + q * r_stride + c, n);
            store(limited(v, lo, hi), out + out_offset + q * out_stride + c, n);
        }
    }
}
