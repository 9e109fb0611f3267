/* Normalization over neighbouring channels of each pixel: LRN. Few elements in any network we run. */
#ifndef LOCAL_CHANNELS
#define LOCAL_CHANNELS 32 /* work items of a group along the channels */
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
