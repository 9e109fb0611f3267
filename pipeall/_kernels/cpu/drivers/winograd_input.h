/* Winograd's tiles of the input (winograd.c): where they lie, and their transform. */
#ifndef PIPEALL_WINOGRAD_INPUT_H
#define PIPEALL_WINOGRAD_INPUT_H

#include "../../intmath.h"
#include "conv.h"

enum {
    SLICE = 64,      /* channels of a tile of integers that are floats at a time: 16 KB of 8 x 8 points */
    PAD = 16,        /* floats between points, whose distance would else often be a multiple of 4 KB */
    PHASE_LANES = 8, /* what the channels of a phase are rounded up to */
};

/* ---- sizes, of a planned op ---- */

static inline int is_f16(const pa_winograd_op *op) { return op->conv.item_bytes == sizeof(uint16_t); }
/* Of an element of all that is transformed. */
static inline int64_t real_bytes(const pa_winograd_op *op) { return (int64_t)(is_f16(op) ? sizeof(uint16_t) : sizeof(float)); }
static inline int points_of(const pa_winograd_op *op) { return op->n * op->n; }
static inline int64_t channels_of(const pa_winograd_op *op) {
    return (int64_t)op->conv.src.c * op->stride * op->stride / op->conv.groups;
}
static inline int64_t panels_of(const pa_winograd_op *op) { return ceil_div(op->conv.dst.c / op->conv.groups, op->conv.kernel->nr); }
static inline int64_t tiles_of(const pa_winograd_op *op) { return (int64_t)op->tiles_y * op->tiles_x; }

/* Floats between points of the transformed input, of transformed taps in scratch, and of the GEMMs' results. */
static inline int64_t input_stride(const pa_winograd_op *op) { return op->block * op->kc + PAD; }
static inline int64_t lazy_stride(const pa_winograd_op *op) { return op->kc * op->conv.kernel->nr + PAD; }
static inline int64_t m_stride(const pa_winograd_op *op) { return op->split * op->panel_block * op->conv.kernel->nr + PAD; }

static inline int64_t input_floats(const pa_winograd_op *op) {
    return round_up(op->conv.groups * op->k_blocks * points_of(op) * input_stride(op), 16);
}

/* Channels of the phases of a row, and what of them is transformed: whole vectors, since pixels and phases follow. */
static inline int64_t phase_channels(const pa_winograd_op *op) { return channels_of(op) / op->stride; }
static inline int64_t phase_width(const pa_winograd_op *op) {
    return op->stride > 1 ? round_up(phase_channels(op), PHASE_LANES) : channels_of(op);
}

/* A thread's own scratch: M, taps, a tile of integers as floats or the window under a tile, with what its last vector reads
 * behind it, and a pointer for each row of a GEMM. */
static inline int64_t m_floats(const pa_winograd_op *op) { return points_of(op) * m_stride(op); }
static inline int64_t staged_at(const pa_winograd_op *op) {
    return m_floats(op) + (op->lazy ? op->panel_block * points_of(op) * lazy_stride(op) : 0);
}
static inline int64_t staged_floats(const pa_winograd_op *op) {
    if (op->s8.dequantize) return points_of(op) * max64(SLICE, op->panel_block * op->conv.kernel->nr);
    return ceil_div(points_of(op) * op->stride * op->stride * op->conv.src.c * real_bytes(op), (int64_t)sizeof(float)) + PHASE_LANES;
}
static inline int64_t own_floats(const pa_winograd_op *op) {
    const int64_t pointers = round_up(op->split, op->conv.kernel->mr) * (int64_t)sizeof(float *) / (int64_t)sizeof(float);
    return round_up(staged_at(op) + round_up(staged_floats(op), 2) + pointers, 16);
}

typedef struct context {
    const pa_winograd_op *op;
    void *const *bases;
    char *input; /* transformed */
    float *scratch;
    int64_t tile0, tiles; /* of the block */
    int64_t input_tiles;  /* of a chunk of the input transform */
    int64_t panel_blocks;
} context;

/* Pixels of a tile: the first, of every channel, and how far apart the next in a row and the next row are, in elements. */
typedef struct tile_pixels {
    const void *first;
    int64_t right, down;
} tile_pixels;

/* Transforms `count` channels of a group from `first` on, of a tile. */
static inline void transform_input(const context *ctx, int64_t t, int64_t group, int64_t first, int64_t count,
                                   const tile_pixels *tile) {
    const pa_winograd_op *op = ctx->op;
    const int64_t part = group * op->k_blocks + first / op->kc;
    const int64_t at = part * points_of(op) * input_stride(op) + t * op->kc + first % op->kc;
    PA_FUNCTION(winograd_input, f32, op->input)(&(pa_winograd_input_args){
        .n = op->n,
        .channels = (int32_t)count,
        .in = tile->first,
        .in_right = tile->right,
        .in_down = tile->down,
        .out = ctx->input + at * real_bytes(op),
        .out_stride = input_stride(op),
    });
}

/* Copies what is under a tile, `side` x `side` pixels of the input of which the first is at (y, x), with zeros outside. */
static inline void stage(const context *ctx, int64_t y, int64_t x, int64_t side, char *to) {
    const pa_view *src = &ctx->op->conv.src;
    const int64_t item = ctx->op->conv.item_bytes, pixel = src->c * item, apart = ctx->op->conv.dilation_y;
    const int64_t step = apart * src->stride * item;
    const int64_t left = min64(ceil_div(max64(-x, 0), apart), side);
    const int64_t end = max64(left, min64(ceil_div(max64(src->w - x, 0), apart), side));
    for (int64_t i = 0; i < side; i++, y += apart, to += side * pixel) {
        if (y < 0 || y >= src->h || left == end) {
            memset(to, 0, (size_t)(side * pixel));
            continue;
        }
        const char *from = pa_view_at(src, ctx->bases, item) + (y * src->w + x + left * apart) * src->stride * item;
        memset(to, 0, (size_t)(left * pixel));
        if (step == pixel)
            memcpy(to + left * pixel, from, (size_t)((end - left) * pixel));
        else
            for (int64_t j = left; j < end; j++, from += step) memcpy(to + j * pixel, from, (size_t)pixel);
        memset(to + end * pixel, 0, (size_t)((side - end) * pixel));
    }
}

/* The channels of a phase, or of those side by side, from `first` of the convolution of stride 1 on. */
static inline void transform_phase(const context *ctx, int64_t t, int64_t first, int64_t channels, tile_pixels tile) {
    const int64_t kc = ctx->op->kc, end = first + channels;
    for (int64_t count; first < end; first += count, tile.first = (const char *)tile.first + count * real_bytes(ctx->op)) {
        count = min64(kc - first % kc, end - first);
        transform_input(ctx, t, 0, first, count, &tile);
    }
}

/* A tile whose first pixel is at (y, x), in place where all lie inside the input: then a phase that is no whole vectors needs a
 * row of pixels behind it, which its last vector reads. */
static inline void transform_reals(const context *ctx, int64_t t, int64_t y, int64_t x, char *staged) {
    const pa_winograd_op *op = ctx->op;
    const pa_view *src = &op->conv.src;
    const int64_t item = op->conv.item_bytes, stride = op->stride, apart = op->conv.dilation_y, width = phase_width(op);
    const int64_t side = op->n * stride, reach = (side - 1) * apart, rows = src->h - (width > phase_channels(op));
    const int inside = y >= 0 && x >= 0 && y + reach < rows && x + reach < src->w;
    const int64_t pixel = inside ? apart * src->stride : src->c, row = inside ? src->w * pixel : side * pixel;
    const char *first = inside ? pa_view_at(src, ctx->bases, item) + (y * src->w + x) * src->stride * item : staged;
    if (!inside) stage(ctx, y, x, side, staged);

    if (stride == 1) {
        const int64_t channels = channels_of(op);
        for (int64_t group = 0; group < op->conv.groups; group++) {
            for (int64_t at = 0; at < channels; at += op->kc) {
                const tile_pixels tile = {first + (group * channels + at) * item, pixel, row};
                transform_input(ctx, t, group, at, min64(op->kc, channels - at), &tile);
            }
        }
        return;
    }
    const int beside = pixel == src->c; /* those of a row lie side by side */
    for (int64_t i = 0; i < stride; i++) {
        for (int64_t j = 0; j < (beside ? 1 : stride); j++) {
            const tile_pixels tile = {first + (i * row + j * pixel) * item, stride * pixel, stride * row};
            transform_phase(ctx, t, (i * stride + j) * src->c, beside ? width : src->c, tile);
        }
    }
}

/* The first row of output pixels of a row of tiles, or the first column; `count` of them in all. Where taps have gaps, the
 * pixels of a tile are as far apart, and each remainder has tiles of its own. */
static inline int64_t first_of_tile(const pa_winograd_op *op, int64_t i, int64_t count) {
    const int64_t apart = op->conv.dilation_y;
    if (apart == 1) return i * op->m; /* no division for each tile */
    const int64_t each = count / apart;
    return i / each + i % each * op->m * apart;
}

/* The same of integers, of stride 1: a slice of the channels at a time becomes floats. */
static inline void transform_integers(const context *ctx, int64_t t, int64_t y, int64_t x, float *float_tile) {
    const pa_winograd_op *op = ctx->op;
    const pa_view *view = &op->conv.src;
    const int8_t *src = pa_s8_at(view, ctx->bases);
    const int64_t n = op->n, apart = op->conv.dilation_y, reach = (n - 1) * apart;
    const int64_t channels = channels_of(op), slice = min64(SLICE, op->kc);
    const tile_pixels tile = {float_tile, SLICE, n * SLICE};
    if (y < 0 || x < 0 || y + reach >= view->h || x + reach >= view->w) memset(float_tile, 0, (size_t)(n * n * SLICE) * sizeof(float));
    for (int64_t group = 0; group < op->conv.groups; group++) {
        for (int64_t first = 0, count; first < channels; first += count) {
            count = min64(min64(slice, op->kc - first % op->kc), channels - first);
            float *to = float_tile;
            for (int64_t i = y; i <= y + reach; i += apart) {
                for (int64_t j = x; j <= x + reach; j += apart, to += SLICE) {
                    if (i < 0 || j < 0 || i >= view->h || j >= view->w) continue;
                    const int8_t *from = src + (i * view->w + j) * view->stride + group * channels + first;
                    PA_FUNCTION(dequantize, s8, op->s8.dequantize)(count, from, to, 1, op->s8.src_zero);
                }
            }
            transform_input(ctx, t, group, first, count, &tile);
        }
    }
}

static inline void input_chunk(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const pa_winograd_op *op = ctx->op;
    const int64_t end = min64(ctx->tiles, (chunk + 1) * ctx->input_tiles);
    float *beside = ctx->scratch + thread * own_floats(op) + staged_at(op);
    for (int64_t t = chunk * ctx->input_tiles; t < end; t++) {
        const int64_t tile = ctx->tile0 + t;
        const int64_t y = first_of_tile(op, tile / op->tiles_x, op->tiles_y) * op->stride - op->conv.pad_top;
        const int64_t x = first_of_tile(op, tile % op->tiles_x, op->tiles_x) * op->stride - op->conv.pad_left;
        if (op->s8.dequantize)
            transform_integers(ctx, t, y, x, beside);
        else
            transform_reals(ctx, t, y, x, (char *)beside);
    }
}

#endif
