/* What a picture step reads of a frame, and the weights of its pixels: the same on every device. */
#ifndef PIPEALL_PICTURE_FRAME_H
#define PIPEALL_PICTURE_FRAME_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "intmath.h"

enum { PA_PICTURE_WORDS = 18, PA_PICTURE_DMA_BUF = 15, PA_PICTURE_SIDE = 1 << 14 }; /* picture.py has them too */
enum { PA_RGB, PA_GRAY, PA_NV12, PA_I420, PA_YUYV };          /* how a frame's bytes lie; BGR is RGB backwards */
enum { PA_PICTURE_BILINEAR, PA_PICTURE_ANTIALIAS, PA_PICTURE_AREA, PA_PICTURE_NEAREST };

/* What each output position of an axis reads: `taps` pixels from start[i] on, weight[i * taps + k] of each. */
typedef struct pa_picture_axis {
    int64_t taps;
    int32_t *start;
    float *weight;
} pa_picture_axis;

/* Floats, or integers, that a table of so many outputs needs at most. */
static inline int64_t pa_picture_table(int64_t outputs) { return 2 * PA_PICTURE_SIDE + 4 * outputs; }

/* Of YUV, with 16 bits of fraction: red = grey * (y - black) + red_v * (v - 128), and likewise. */
typedef struct colours {
    int32_t black, grey, red_v, green_u, green_v, blue_u;
} colours;

typedef struct frame {
    const uint8_t *pixels;
    int64_t h, w, stride;         /* stride: bytes from row to row */
    double window[4];             /* top, left, height, width */
    int64_t top, left, rows, columns;
    int64_t channels;             /* of a row in the buffer */
    int64_t first, count;         /* pixels of a row that are read */
    colours from;
} frame;

/* red, blue: what they are of the luma. */
static inline colours colours_of(double red, double blue, int full_range) {
    const double one = 65536, grey = full_range ? one : one * 255 / 219, chroma = full_range ? one : one * 255 / 224;
    const double red_v = 2 * (1 - red) * chroma, blue_u = 2 * (1 - blue) * chroma, green = 1 - red - blue;
    return (colours){full_range ? 0 : 16, (int32_t)lround(grey), (int32_t)lround(red_v), (int32_t)lround(-blue_u * blue / green),
                     (int32_t)lround(-red_v * red / green), (int32_t)lround(blue_u)};
}

/* example: what is read where the words are 0. */
static inline frame frame_of(const int64_t *words, const int64_t *example, int format) {
    if (!words[0]) words = example;
    frame f = {(const uint8_t *)(intptr_t)words[0], words[1], words[2], words[3], {0}, words[8], words[9], words[10], words[11],
               format == PA_GRAY ? 1 : 3, 0, 0, {0}};
    double luma[2];
    memcpy(f.window, words + 4, sizeof f.window);
    memcpy(luma, words + 12, sizeof luma);
    f.from = colours_of(luma[0], luma[1], words[14] != 0);
    return f;
}

/* The weight of the pixel whose middle is at a distance from an output's middle; step: pixels to the next output. */
static inline double weight_of(int filter, double distance, double step) {
    const double d = fabs(distance);
    if (filter == PA_PICTURE_AREA) return fmax(0, fmin(1, fmin(step, (step + 1) / 2 - d)));
    return fmax(0, 1 - d / (filter == PA_PICTURE_ANTIALIAS && step > 1 ? step : 1));
}

/* Of `outputs` positions that show `length` pixels from `start` on, of `size`. */
static inline void table(int filter, int64_t size, double start, double length, int64_t outputs, pa_picture_axis *axis) {
    const double step = length / (double)outputs;
    const double wide = filter == PA_PICTURE_AREA ? step / 2 + 0.5 : filter == PA_PICTURE_ANTIALIAS && step > 1 ? step : 1;
    const int64_t reach = filter == PA_PICTURE_NEAREST ? 1 : (int64_t)ceil(2 * wide);
    axis->taps = min64(reach, size);
    for (int64_t i = 0; i < outputs; i++) {
        double middle = start + ((double)i + 0.5) * step, sum = 0;
        float *weight = axis->weight + i * axis->taps;
        if (filter == PA_PICTURE_NEAREST) {
            axis->start[i] = (int32_t)min64(max64((int64_t)floor(middle), 0), size - 1);
            weight[0] = 1;
            continue;
        }
        if (filter == PA_PICTURE_BILINEAR) middle = fmin(fmax(middle, 0.5), (double)size - 0.5);
        const int64_t first = min64(max64((int64_t)floor(middle - wide + 0.5), 0), size - axis->taps);
        axis->start[i] = (int32_t)first;
        for (int64_t k = 0; k < axis->taps; k++) sum += weight_of(filter, (double)(first + k) + 0.5 - middle, step);
        for (int64_t k = 0; k < axis->taps; k++)
            weight[k] = (float)(weight_of(filter, (double)(first + k) + 0.5 - middle, step) / sum);
    }
}

#endif
