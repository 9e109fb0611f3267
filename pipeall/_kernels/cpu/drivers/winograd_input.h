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
    return (int64_t)op->conv.src.c * op->phases.stride * op->phases.stride / op->conv.groups;
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

/* With what the last vector of pixels reads behind it. */
static inline int64_t image_floats(const pa_winograd_op *op) {
    const int64_t bytes = op->phases.rows * op->phases.columns * op->conv.src.c * op->conv.item_bytes;
    return op->phases.stride > 1 ? round_up(ceil_div(bytes, (int64_t)sizeof(float)) + PHASE_LANES, 16) : 0;
}

/* A thread's own scratch: M, taps, a tile of integers as floats, and a pointer for each row of a GEMM. */
static inline int64_t m_floats(const pa_winograd_op *op) { return points_of(op) * m_stride(op); }
static inline int64_t float_tile_at(const pa_winograd_op *op) {
    return m_floats(op) + (op->lazy ? op->panel_block * points_of(op) * lazy_stride(op) : 0);
}
static inline int64_t float_tile_floats(const pa_winograd_op *op) {
    return op->s8.dequantize ? points_of(op) * max64(SLICE, op->panel_block * op->conv.kernel->nr) : 0;
}
static inline int64_t own_floats(const pa_winograd_op *op) {
    const int64_t pointers = round_up(op->split, op->conv.kernel->mr) * (int64_t)sizeof(float *) / (int64_t)sizeof(float);
    return round_up(float_tile_at(op) + float_tile_floats(op) + pointers, 16);
}

/* Where the rows of a phase begin, in elements of the image, and the channels of each. */
static inline int64_t phase_at(const pa_winograd_op *op, int64_t phase) { return phase * op->phases.columns * op->conv.src.c; }
static inline int64_t phase_channels(const pa_winograd_op *op) { return channels_of(op) / op->phases.stride; }

/* Channels of a phase that are transformed: whole vectors, since the pixel behind and the phase behind follow. */
static inline int64_t phase_width(const pa_winograd_op *op) {
    return op->phases.stride > 1 ? round_up(phase_channels(op), PHASE_LANES) : channels_of(op);
}

typedef struct context {
    const pa_winograd_op *op;
    void *const *bases;
    void *image; /* of a convolution with phases */
    char *input; /* transformed */
    float *scratch;
    int64_t tile0, tiles; /* of the block */
    int64_t input_tiles;  /* of a chunk of the input transform */
    int64_t panel_blocks;
} context;

/* Copies a row of the input into the image of phases, with zeros around it. */
static inline void copy_row(const void *arg, int64_t row, int thread) {
    const context *ctx = arg;
    const pa_space_to_depth *p = &ctx->op->phases;
    const pa_view *src = &ctx->op->conv.src;
    const int64_t item = ctx->op->conv.item_bytes, pixel = src->c * item, stride = src->stride * item;
    const int64_t y = row - p->pad_top, left = min64(p->pad_left, p->columns);
    const int64_t inside = y >= 0 && y < src->h ? min64(src->w, p->columns - left) : 0;
    char *to = (char *)ctx->image + row * p->columns * pixel;
    const char *from = inside > 0 ? pa_view_at(src, ctx->bases, item) + y * src->w * stride : NULL;
    memset(to, 0, (size_t)(left * pixel));
    to += left * pixel;
    if (stride == pixel && inside > 0)
        memcpy(to, from, (size_t)(inside * pixel));
    else
        for (int64_t i = 0; i < inside; i++) memcpy(to + i * pixel, from + i * stride, (size_t)pixel);
    memset(to + inside * pixel, 0, (size_t)((p->columns - left - inside) * pixel));
}

/* Transforms `count` channels of a group from `first` on, of a tile whose pixels have them from channel0 on. */
static inline void transform_input(const context *ctx, int64_t t, int64_t group, int64_t first, int64_t count,
                            const void *const *pixels, int64_t channel0) {
    const pa_winograd_op *op = ctx->op;
    const int64_t part = group * op->k_blocks + first / op->kc;
    const int64_t at = part * points_of(op) * input_stride(op) + t * op->kc + first % op->kc;
    PA_FUNCTION(winograd_input, f32, op->input)(&(pa_winograd_input_args){
        .n = op->n,
        .channel0 = (int32_t)channel0,
        .channels = (int32_t)count,
        .pixels = pixels,
        .out = ctx->input + at * real_bytes(op),
        .out_stride = input_stride(op),
    });
}

/* at: of each point of the tile where its pixel is from the first on, in bytes, -1 in the padding */
static inline void transform_reals(const context *ctx, int64_t t, const int64_t *at) {
    const pa_winograd_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const char *src = op->phases.stride > 1 ? ctx->image : pa_view_at(&p->src, ctx->bases, p->item_bytes);
    const int64_t channels = phase_channels(op), width = phase_width(op);
    const void *pixels[8 * 8];
    for (int phase = 0; phase < op->phases.stride; phase++, src += phase_at(op, 1) * p->item_bytes) {
        for (int i = 0; i < points_of(op); i++) pixels[i] = at[i] >= 0 ? src + at[i] : p->zero;
        for (int64_t group = 0; group < p->groups; group++)
            for (int64_t first = 0; first < channels; first += op->kc)
                transform_input(ctx, t, group, phase * channels + first, min64(op->kc, width - first), pixels,
                                group * channels + first);
    }
}

static inline void transform_integers(const context *ctx, int64_t t, const int64_t *at, float *float_tile) {
    const pa_winograd_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const int8_t *src = pa_s8_at(&p->src, ctx->bases);
    const int64_t channels = channels_of(op), slice = min64(SLICE, op->kc);
    const void *pixels[8 * 8];
    for (int i = 0; i < points_of(op); i++) pixels[i] = at[i] >= 0 ? float_tile + i * SLICE : p->zero;
    for (int64_t group = 0; group < p->groups; group++) {
        for (int64_t first = 0, count; first < channels; first += count) {
            count = min64(min64(slice, op->kc - first % op->kc), channels - first);
            for (int i = 0; i < points_of(op); i++) {
                const int8_t *x = src + at[i] + group * channels + first;
                if (at[i] < 0) continue;
                PA_FUNCTION(dequantize, s8, op->s8.dequantize)(count, x, float_tile + i * SLICE, 1, op->s8.src_zero);
            }
            transform_input(ctx, t, group, first, count, pixels, 0);
        }
    }
}

/* The first row of output pixels of a row of tiles, or the first column; `count` of them in all. Where taps have gaps, the
 * pixels of a tile are as far apart, and each remainder has tiles of its own. */
static inline int64_t first_of_tile(const pa_winograd_op *op, int64_t i, int64_t count) {
    const int64_t apart = op->conv.dilation_y, each = count / apart;
    return i / each + i % each * op->m * apart;
}

/* Where the pixels of a tile are, in bytes of the image of phases or of the input; -1 in the padding, which the image has. */
static inline void pixels_at(const pa_winograd_op *op, int64_t y, int64_t x, int64_t *at) {
    const pa_conv_op *p = &op->conv;
    const int64_t stride = op->phases.stride, n = op->n, apart = p->dilation_y, reach = (n - 1) * apart;
    const int64_t pixel = (stride > 1 ? stride * p->src.c : p->src.stride) * p->item_bytes;
    const int64_t row = stride > 1 ? phase_at(op, stride) * p->item_bytes : p->src.w * pixel;
    if (stride == 1) y -= p->pad_top, x -= p->pad_left;
    const int inside = stride > 1 || (y >= 0 && x >= 0 && y + reach < p->src.h && x + reach < p->src.w);
    int64_t first = y * row + x * pixel;
    for (int64_t i = 0; i < n; i++, first += apart * row, y += apart) {
        for (int64_t j = 0, to = first; j < n; j++, to += apart * pixel) *at++ = to;
        if (inside) continue;
        const int beside = y < 0 || y >= p->src.h;
        for (int64_t j = 0; j < n; j++)
            if (beside || x + j * apart < 0 || x + j * apart >= p->src.w) at[j - n] = -1;
    }
}

static inline void input_chunk(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const pa_winograd_op *op = ctx->op;
    const int64_t end = min64(ctx->tiles, (chunk + 1) * ctx->input_tiles);
    for (int64_t t = chunk * ctx->input_tiles; t < end; t++) {
        const int64_t tile = ctx->tile0 + t;
        int64_t at[8 * 8];
        pixels_at(op, first_of_tile(op, tile / op->tiles_x, op->tiles_y), first_of_tile(op, tile % op->tiles_x, op->tiles_x), at);
        if (op->s8.dequantize)
            transform_integers(ctx, t, at, ctx->scratch + thread * own_floats(op) + float_tile_at(op));
        else
            transform_reals(ctx, t, at);
    }
}

#endif
