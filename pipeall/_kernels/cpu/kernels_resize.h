/* The contract of the kernels that resize images: the kernel types of kernels.inc named resample and upsample. */
#ifndef PIPEALL_KERNELS_RESIZE_H
#define PIPEALL_KERNELS_RESIZE_H

#include "kernels.h"

/* Weighted sums of runs of floats, for p < pixels and c < channels, over taps >= 1 positions k, in order:
 *   out[p * out_pixel + c] = sum_k weight[p * weight_pixel + k] * x[index[p * index_pixel + k] * x_step + p * x_pixel + c]
 * With one channel the same taps serve `lines` lines, x_line and out_line apart.
 *   room    not 0: x_step and out_pixel are 1, indices never decrease from a tap or a pixel to the next, and `room` floats may
 *           be read from the first of each line on
 *   factor  not 0, with one channel: lines of at least PA_LANES_MAX floats are upsampled by it (below); no index is read
 *   line    scratch for that: two PA_UPSAMPLE_LINE of the lines' size */
typedef struct pa_resample_args {
    int64_t pixels, channels, taps, index_pixel, weight_pixel, lines, room, factor, phase_offset;
    const int32_t *index;
    const float *weight, *x;
    float *out, *line;
    int64_t x_step, x_pixel, x_line, out_pixel, out_line;
} pa_resample_args;
typedef void (*pa_resample_f32_fn)(const pa_resample_args *);

/* A line of `size` pixels becomes one of size * factor, factor being 2 or 4. Output pixel i * factor + p is a sum of 2 or 4
 * taps with weights [p * taps, (p + 1) * taps). Its first tap is input pixel i + 1 - taps / 2; for p < factor / 2 it is
 * phase_offset, 0 or 1, pixels further left. Before the line and behind it the nearest pixel is repeated. */
#define PA_UPSAMPLE_LINE(size) ((size) + 2 * PA_LANES_MAX)

/* Both passes of an upsampled image: two rows of it, for c < channels, which are at least PA_LANES_MAX. Sums are in order.
 *   line[l][i][c] = sum_k down[l][k] * row[k][i * x_step + c]
 *   out[l][j * out_pixel + c] = sum over the taps of output pixel j (above) of weight * line[l]
 * The two of `out` may be one if their `down` are alike. */
typedef struct pa_upsample_args {
    int64_t channels, size, taps, factor, phase_offset;
    const float *row[4], *down[2], *weight;
    float *out[2];
    int64_t x_step, out_pixel;
} pa_upsample_args;
typedef void (*pa_upsample_f32_fn)(const pa_upsample_args *);

#endif
