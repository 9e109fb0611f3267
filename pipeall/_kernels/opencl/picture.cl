/* A picture of any size into a network's input: fitted, resampled and normalized; as drivers/picture.c does it.
 *
 * FORMAT: how a frame's bytes lie (picture_frame.h). BACKWARDS: the network has the frame's channels in the other order.
 * table: of a frame (picture_cl.c). An axis has taps, where the first pixel of each output is, and their weights. */
#include "typed.cl"
#ifndef FORMAT
#define FORMAT 0
#endif
#ifndef CHANNELS
#define CHANNELS 3 /* of the network's input: 1 or 3 */
#endif
#ifndef BACKWARDS
#define BACKWARDS 0
#endif
#define RGB 0
#define GRAY 1
#define NV12 2
#define I420 3
#define YUYV 4
#define SEEN (FORMAT == GRAY ? 1 : 3) /* channels of a pixel */

enum { ROW_TAPS, ROW_STARTS, ROW_WEIGHTS, COLUMN_TAPS, COLUMN_STARTS, COLUMN_WEIGHTS, TOP, LEFT, ROWS, COLUMNS, HEIGHT,
       WIDTH, PITCH, UPSIDE_DOWN, BLACK, GREY, RED_V, GREEN_U, GREEN_V, BLUE_U, BEGIN };

static float level(int x) {
    return (float)clamp((x + (1 << 15)) >> 16, 0, 255);
}

/* The levels of pixel x of row y, in the frame's order. */
static void pixel_of(__global const uchar *pixels, __global const int *table, int y, int x, float *to) {
    const int w = table[WIDTH];
    __global const uchar *row = pixels + table[BEGIN] + (size_t)y * table[PITCH];
#if FORMAT == RGB
    for (int c = 0; c < 3; c++)
        to[c] = (float)row[3 * x + c];
#elif FORMAT == GRAY
    to[0] = (float)row[x];
#else
#if FORMAT == YUYV
    const int luma = row[2 * x], u = row[x / 2 * 4 + 1], v = row[x / 2 * 4 + 3];
#else
    const int h = table[HEIGHT];
    __global const uchar *chroma = pixels + table[BEGIN] + (size_t)h * w;
#if FORMAT == NV12
    chroma += (size_t)(y / 2) * w + x / 2 * 2;
    const int u = chroma[0], v = chroma[1];
#else
    chroma += (size_t)(y / 2) * (w / 2) + x / 2;
    const int u = chroma[0], v = chroma[(size_t)(h / 2) * (w / 2)];
#endif
    const int luma = row[x];
#endif
    const int grey = table[GREY] * (luma - table[BLACK]);
    to[0] = level(grey + table[RED_V] * (v - 128));
    to[1] = level(grey + table[GREEN_U] * (u - 128) + table[GREEN_V] * (v - 128));
    to[2] = level(grey + table[BLUE_U] * (u - 128));
#endif
}

/* What the network reads of a picture's levels at y, x of those that show it. */
static void mix(__global const uchar *pixels, __global const int *table, int y, int x, float *sum) {
    const int down = table[ROW_TAPS], across = table[COLUMN_TAPS];
    const int top = table[table[ROW_STARTS] + y], left = table[table[COLUMN_STARTS] + x];
    __global const int *row_weights = table + table[ROW_WEIGHTS] + y * down;
    __global const int *column_weights = table + table[COLUMN_WEIGHTS] + x * across;
    float seen[SEEN], here[SEEN];
    for (int c = 0; c < SEEN; c++)
        seen[c] = 0;
    for (int k = 0; k < across; k++) {
        float column[SEEN];
        for (int c = 0; c < SEEN; c++)
            column[c] = 0;
        for (int i = 0; i < down; i++) {
            const int line = table[UPSIDE_DOWN] ? table[HEIGHT] - 1 - (top + i) : top + i;
            pixel_of(pixels, table, line, left + k, here);
            for (int c = 0; c < SEEN; c++)
                column[c] += as_float(row_weights[i]) * here[c];
        }
        for (int c = 0; c < SEEN; c++)
            seen[c] += as_float(column_weights[k]) * column[c];
    }
#if CHANNELS == 1 && FORMAT != GRAY
    const float red = seen[BACKWARDS ? 2 : 0], blue = seen[BACKWARDS ? 0 : 2];
    sum[0] = 0.299f * red + 0.587f * seen[1] + 0.114f * blue;
#else
    for (int c = 0; c < CHANNELS; c++)
        sum[c] = seen[SEEN == 1 ? 0 : BACKWARDS ? 2 - c : c];
#endif
}

/* Dimensions: column, row. value: the level beside the picture; affine: factors of the channels, then offsets. */
__kernel __attribute__((reqd_work_group_size(16, 4, 1))) void picture(
    __global const uchar *pixels, __global const int *table, __global Y *out, int offset, int row, int column, int channel,
    int rows, int columns, float value, __global const float *affine) {
    const int x = get_global_id(0), y = get_global_id(1);
    if (x >= columns || y >= rows)
        return;
    const int inner_y = y - table[TOP], inner_x = x - table[LEFT];
    float sum[3] = {value, value, value};
    if (inner_y >= 0 && inner_y < table[ROWS] && inner_x >= 0 && inner_x < table[COLUMNS])
        mix(pixels, table, inner_y, inner_x, sum);
    for (int c = 0; c < CHANNELS; c++)
        set(sum[c] * affine[c] + affine[CHANNELS + c], out, offset + y * row + x * column + c * channel);
}
