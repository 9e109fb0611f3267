/* Normalisations along the channels of each pixel: LRN and softmax. Few elements in any network we run. */
#ifndef LOCAL_CHANNELS
#define LOCAL_CHANNELS 32 /* work items of a group along the channels (lrn) */
#endif
#ifndef LOCAL_PIXELS
#define LOCAL_PIXELS 8 /* work items of a group along the pixels (softmax) */
#endif

/* out[c] = x[c] * (bias + alpha / size * sum_{j = c - (size - 1) / 2 .. c + size / 2} x[j]^2) ^ -beta, j inside.
 * Work item: VECTOR channels (dimension 0) of one pixel (dimension 1): size loads of vectors at any address, away from
 * the ends. Bound by arithmetic: a power, of square roots for beta = 3/4. out must not be x. */
__kernel __attribute__((reqd_work_group_size(LOCAL_CHANNELS, 1, 1))) void
lrn(__global const X *x, int x_offset, int x_stride, int channels, __global Y *out, int out_offset,
    int out_stride, int size, float alpha, float beta, float bias) {
    const int c = VECTOR * get_global_id(0), pixel = get_global_id(1);
    if (c >= channels)
        return;
    x += x_offset + pixel * x_stride;
    const int before = (size - 1) / 2, n = channels - c;
    vec squares = 0;
    if (c >= before && c + VECTOR + size / 2 <= channels) {
        for (int j = c - before; j <= c + size / 2; j++) {
            const vec v = load(x + j, VECTOR);
            squares += v * v;
        }
    } else {
        elements sums = {(vec)0};
        for (int i = 0; i < min(VECTOR, n); i++)
            for (int j = max(c + i - before, 0); j <= min(c + i + size / 2, channels - 1); j++)
                sums.each[i] += at(x, j) * at(x, j);
        squares = sums.all;
    }
    const vec scale = (real)bias + (real)(alpha / size) * squares, root = sqrt(scale);
    const vec power = beta == 0.75f ? 1 / (root * sqrt(root)) : exp((real)-beta * log(scale));
    store(load(x + c, n) * power, out + out_offset + pixel * out_stride + c, n);
}

/* Work item: one pixel. The maximum is subtracted first, so exp never overflows. out may be x. */
__kernel __attribute__((reqd_work_group_size(LOCAL_PIXELS, 1, 1))) void
softmax(__global const X *x, int x_offset, int x_stride, int channels, int pixels, __global Y *out,
        int out_offset, int out_stride) {
    const int pixel = get_global_id(0);
    if (pixel >= pixels)
        return;
    x += x_offset + pixel * x_stride;
    out += out_offset + pixel * out_stride;
    float best = -INFINITY, sum = 0; /* a thousand terms: not in half */
    for (int c = 0; c < channels; c++)
        best = at(x, c) > best ? at(x, c) : best;
    for (int c = 0; c < channels; c++) {
        const float e = exp((float)at(x, c) - best);
        put(e, out, c);
        sum += e;
    }
    for (int c = 0; c < channels; c++)
        put(at(out, c) / sum, out, c);
}

/* Work item: one pixel. The variance is that of the differences from the mean. out may be x. */
__kernel __attribute__((reqd_work_group_size(LOCAL_PIXELS, 1, 1))) void
layernorm(__global const X *x, int x_offset, int x_stride, int channels, int pixels, __global Y *out,
          int out_offset, int out_stride, float epsilon) {
    const int pixel = get_global_id(0);
    if (pixel >= pixels)
        return;
    x += x_offset + pixel * x_stride;
    out += out_offset + pixel * out_stride;
    float sum = 0, squares = 0; /* hundreds of terms: not in half */
    for (int c = 0; c < channels; c++)
        sum += at(x, c);
    const float mean = sum / channels;
    for (int c = 0; c < channels; c++)
        squares += (at(x, c) - mean) * (at(x, c) - mean);
    const float scale = 1 / sqrt(squares / channels + epsilon);
    for (int c = 0; c < channels; c++)
        put((at(x, c) - mean) * scale, out, c);
}
