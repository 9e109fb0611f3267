/* The contract of the kernels that resize images: the kernel types of kernels.inc named resample and upsample. */
#ifndef PIPEALL_KERNELS_RESIZE_H
#define PIPEALL_KERNELS_RESIZE_H

#include "kernels.h"

/* Weighted sums of runs of floats, for p < pixels and c < channels, over taps >= 1 positions k, in order:
 *   out[p * out_pixel + c] = sum_k weight[p * weight_pixel + k] * x[index[p * index_pixel + k] * x_step + p * x_pixel + c]
 * Of one channel there are so many lines, x_line and out_line apart, with the same taps. With a room, x_step and out_pixel are
 * 1, no index falls from a tap or a pixel to the next, and `room` floats may be read from the first of each line on. With a
 * period, of one channel, it is lines that grow (below), of at least PA_LANES_MAX floats, and no index is read; `line` has room
 * for two PA_UPSAMPLE_LINE of their size. */
typedef struct pa_resample_args {
    int64_t pixels, channels, taps, index_pixel, weight_pixel, lines, room, period, late;
    const int32_t *index;
    const float *weight, *x;
    float *out, *line;
    int64_t x_step, x_pixel, x_line, out_pixel, out_line;
} pa_resample_args;
typedef void (*pa_resample_f32_fn)(const pa_resample_args *);

/* A line of `size` pixels grows `period` times, 2 or 4, where pixel i * period + p of what it becomes is a sum of 2 or 4 taps
 * with weights [p * taps, (p + 1) * taps), the first of which is at i + 1 - taps / 2, for p < period / 2 as much as `late`, 0 or
 * 1, less. Of what lies before a line or behind it the nearest pixel is taken. */
#define PA_UPSAMPLE_LINE(size) ((size) + 2 * PA_LANES_MAX)

/* Both passes of an image that grows: two rows of it, sums of so many rows of x, for c < channels, at least PA_LANES_MAX of
 * them. All sums are in order.
 *   line[l][i][c] = sum_k down[l][k] * row[k][i * x_step + c]
 *   out[l][j * out_pixel + c] = sum_k of the taps of j in weight * line[l], at the pixels said above
 * The two of `out` may be one if their `down` are alike. */
typedef struct pa_upsample_args {
    int64_t channels, size, taps, period, late;
    const float *row[4], *down[2], *weight;
    float *out[2];
    int64_t x_step, out_pixel;
} pa_upsample_args;
typedef void (*pa_upsample_f32_fn)(const pa_upsample_args *);

#endif
