/* Normalisations along the channels of each pixel: LRN and softmax. Few elements in any network we run. */
#ifndef LOCAL_CHANNELS
#define LOCAL_CHANNELS 32 /* work items of a group along the channels (lrn) */
#endif
#ifndef LOCAL_PIXELS
#define LOCAL_PIXELS 8 /* work items of a group along the pixels (softmax) */
#endif

/* out[c] = x[c] * (bias + alpha / size * sum_{j = c - (size - 1) / 2 .. c + size / 2} x[j]^2) ^ -beta, j inside.
 * Work item: one channel (dimension 0) of one pixel (dimension 1). out must not be x. */
__kernel __attribute__((reqd_work_group_size(LOCAL_CHANNELS, 1, 1))) void
lrn(__global const float *x, int x_offset, int x_stride, int channels, __global float *out, int out_offset,
    int out_stride, int size, float alpha, float beta, float bias) {
    const int c = get_global_id(0), pixel = get_global_id(1);
    if (c >= channels)
        return;
    x += x_offset + pixel * x_stride;
    float squares = 0;
    for (int j = max(c - (size - 1) / 2, 0); j <= min(c + size / 2, channels - 1); j++)
        squares += x[j] * x[j];
    out[out_offset + pixel * out_stride + c] = x[c] * exp(-beta * log(bias + alpha / size * squares));
}

/* Work item: one pixel. The maximum is subtracted first, so exp never overflows. out may be x. */
__kernel __attribute__((reqd_work_group_size(LOCAL_PIXELS, 1, 1))) void
softmax(__global const float *x, int x_offset, int x_stride, int channels, int pixels, __global float *out,
        int out_offset, int out_stride) {
    const int pixel = get_global_id(0);
    if (pixel >= pixels)
        return;
    x += x_offset + pixel * x_stride;
    out += out_offset + pixel * out_stride;
    float best = -INFINITY, sum = 0;
    for (int c = 0; c < channels; c++)
        best = x[c] > best ? x[c] : best;
    for (int c = 0; c < channels; c++) {
        const float e = exp(x[c] - best);
        out[c] = e;
        sum += e;
    }
    for (int c = 0; c < channels; c++)
        out[c] /= sum;
}
