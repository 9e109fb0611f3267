/* The input of a chunk with 128 added, for kernels that multiply unsigned bytes: copied densely to the chunk's scratch, each
 * pixel once, whatever the taps and panels that read it. */
#ifndef PIPEALL_UNSIGNED_INPUT_H
#define PIPEALL_UNSIGNED_INPUT_H

#include "indirection.h"

/* Pixels of the input: columns [x0, x1) of lines [y0, y1). */
typedef struct region {
    int64_t y0, y1, x0, x1;
} region;

static inline int64_t within(int64_t x, int64_t end) { return max64(0, min64(x, end)); }

/* What is under so many output pixels: of one row its columns, of several all. */
static inline region region_under(const pa_conv_op *p, int64_t row0, int64_t rows) {
    const int64_t last = row0 + rows - 1, oy0 = row0 / p->dst.w, oy1 = last / p->dst.w;
    const int64_t y = oy0 * p->stride_y - p->pad_top, down = (oy1 - oy0) * p->stride_y + (int64_t)(p->kh - 1) * p->dilation_y;
    region r = {within(y, p->src.h), within(y + down + 1, p->src.h), 0, p->src.w};
    if (oy0 == oy1) {
        const int64_t x = row0 % p->dst.w * p->stride_x - p->pad_left;
        const int64_t across = (rows - 1) * p->stride_x + (int64_t)(p->kw - 1) * p->dilation_x;
        r.x0 = within(x, p->src.w), r.x1 = within(x + across + 1, p->src.w);
    }
    return r;
}

/* Pixels of the region of a chunk at most. */
static inline int64_t region_pixels(const pa_conv_op *p) {
    if (pointwise(p)) return p->row_block;
    const int64_t down = (p->row_block + p->dst.w - 2) / p->dst.w * p->stride_y + (int64_t)(p->kh - 1) * p->dilation_y + 1;
    return min64(down, p->src.h) * p->src.w;
}

/* Points at what is under the rows of a tiling, from output pixel row0 on, as point() does; src_stride: of the pixels of src
 * (p is of those in the scratch), to: room for region_pixels(p). */
static inline void point_unsigned(const pa_conv_op *p, const pa_kernel_row *unsign, const char *src, int64_t src_stride,
                                  int64_t row0, const pa_tiling *tiling, const char **pointers, char *to) {
    const int64_t rows = pa_rows_before(tiling, tiling->tiles), channels = channels_of(p);
    const int8_t *from = (const int8_t *)src;
    if (pointwise(p)) {
        PA_FUNCTION(unsign, s8, unsign)(rows, channels, src_stride, from + row0 * src_stride, (int8_t *)to);
        pa_point_rows(pointers, tiling, p->kernel->mr, to, channels);
        return;
    }
    const region r = region_under(p, row0, rows);
    const int64_t across = r.x1 - r.x0, whole = across == p->src.w, lines = r.y1 - r.y0;
    const int64_t runs = whole ? 1 : lines, pixels = whole ? lines * across : across;
    for (int64_t i = 0; i < runs; i++)
        PA_FUNCTION(unsign, s8, unsign)(pixels, channels, src_stride, from + ((r.y0 + i) * p->src.w + r.x0) * src_stride,
                                        (int8_t *)to + i * across * channels);
    pa_conv_op lying = *p;
    lying.src.h = (int32_t)lines, lying.src.w = (int32_t)across;
    lying.pad_top += (int32_t)r.y0, lying.pad_left += (int32_t)r.x0;
    point_rows(&lying, to, row0, tiling, pointers);
}

#endif
