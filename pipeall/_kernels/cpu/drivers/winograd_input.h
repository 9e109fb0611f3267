/* Winograd's tiles of the input (winograd.c): where they lie, and their transform. */
#ifndef PIPEALL_WINOGRAD_INPUT_H
#define PIPEALL_WINOGRAD_INPUT_H

#include "../../intmath.h"
#include "conv.h"

enum {
    SLICE = 64,      /* channels of a tile that are copied, or of integers made floats, at a time: 16 KB of 8 x 8 points */
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
static inline int64_t phase_channels(const pa_winograd_op *op) { return (int64_t)op->conv.src.c * op->stride; }
static inline int64_t phase_width(const pa_winograd_op *op) {
    return op->stride > 1 ? round_up(phase_channels(op), PHASE_LANES) : phase_channels(op);
}

/* A thread's own scratch: M, taps, a tile of integers as floats or the window under a tile, with what its last vector reads
 * behind it, and a pointer for each row of a GEMM. */
static inline int64_t m_floats(const pa_winograd_op *op) { return points_of(op) * m_stride(op); }
static inline int64_t staged_at(const pa_winograd_op *op) {
    return m_floats(op) + (op->lazy ? op->panel_block * points_of(op) * lazy_stride(op) : 0);
}
static inline int64_t staged_channels(const pa_winograd_op *op) { return min64(op->stride > 1 ? SLICE / op->stride : SLICE, op->conv.src.c); }
static inline int64_t staged_floats(const pa_winograd_op *op) {
    if (op->s8.dequantize) return points_of(op) * max64(SLICE, op->panel_block * op->conv.kernel->nr);
    const int64_t elements = points_of(op) * op->stride * op->stride * staged_channels(op);
    return ceil_div(elements * real_bytes(op), (int64_t)sizeof(float)) + PHASE_LANES;
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

/* Transforms channels of a group from `first` on, of a tile: `count` at most, as many as are of one part. Returns how many. */
static inline int64_t transform_input(const context *ctx, int64_t t, int64_t group, int64_t first, int64_t count,
                                      const tile_pixels *tile) {
    const pa_winograd_op *op = ctx->op;
    const int64_t part = first < op->kc ? 0 : first / op->kc, within = first - part * op->kc;
    const int64_t at = (group * op->k_blocks + part) * points_of(op) * input_stride(op) + t * op->kc + within;
    count = min64(count, op->kc - within);
    PA_FUNCTION(winograd_input, f32, op->input)(&(pa_winograd_input_args){
        .n = op->n,
        .channels = (int32_t)count,
        .in = tile->first,
        .in_right = tile->right,
        .in_down = tile->down,
        .out = ctx->input + at * real_bytes(op),
        .out_stride = input_stride(op),
    });
    return count;
}

/* Copies `count` channels from c on of what is under a tile, `side` x `side` pixels of the input of which the first is at (y, x),
 * with zeros outside. */
static inline void stage(const context *ctx, int64_t y, int64_t x, int64_t side, int64_t c, int64_t count, char *to) {
    const pa_view *src = &ctx->op->conv.src;
    const int64_t item = ctx->op->conv.item_bytes, pixel = count * item, apart = ctx->op->conv.dilation_y;
    const int64_t step = apart * src->stride * item;
    const int64_t left = min64(ceil_div(max64(-x, 0), apart), side);
    const int64_t end = max64(left, min64(ceil_div(max64(src->w - x, 0), apart), side));
    for (int64_t i = 0; i < side; i++, y += apart, to += side * pixel) {
        if (y < 0 || y >= src->h || left == end) {
            memset(to, 0, (size_t)(side * pixel));
            continue;
        }
        const char *from = pa_view_at(src, ctx->bases, item) + ((y * src->w + x + left * apart) * src->stride + c) * item;
        memset(to, 0, (size_t)(left * pixel));
        if (step == pixel)
            memcpy(to + left * pixel, from, (size_t)((end - left) * pixel));
        else
            for (int64_t j = left; j < end; j++, from += step) memcpy(to + j * pixel, from, (size_t)pixel);
        memset(to + end * pixel, 0, (size_t)((side - end) * pixel));
    }
}

/* Transforms channels of the input from c on, `count` of all phases, by the parts that they are of. */
static inline void transform_channels(const context *ctx, int64_t t, tile_pixels tile, int64_t c, int64_t count) {
    const pa_winograd_op *op = ctx->op;
    const int64_t stride = op->stride, item = op->conv.item_bytes, all = op->conv.src.c;
    const int beside = count == all && tile.right == all; /* those of a row of phases lie side by side */
    const tile_pixels phases = {NULL, stride * tile.right, stride * tile.down};
    for (int64_t i = 0; i < stride; i++) {
        for (int64_t j = 0; j < (beside ? 1 : stride); j++) {
            tile_pixels from = phases;
            from.first = (const char *)tile.first + (i * tile.down + j * tile.right) * item;
            int64_t at = (i * stride + j) * all + c, end = at + (beside && stride > 1 ? phase_width(op) : count), n;
            for (; at < end; at += n, from.first = (const char *)from.first + n * item) {
                int64_t group = 0, first = at, most = end - at;
                if (op->conv.groups > 1) { /* else no division for each tile */
                    const int64_t each = channels_of(op);
                    group = at / each, first = at % each, most = min64(most, each - first);
                }
                n = transform_input(ctx, t, group, first, most, &from);
            }
        }
    }
}

/* A tile whose first pixel is at (y, x), in place where all lie inside the input: then a phase that is no whole vectors needs a
 * row of pixels behind it, which its last vector reads. Else in slices, which stay in L1 between copy and transform. */
static inline void transform_reals(const context *ctx, int64_t t, int64_t y, int64_t x, char *staged) {
    const pa_winograd_op *op = ctx->op;
    const pa_view *src = &op->conv.src;
    const int64_t item = op->conv.item_bytes, apart = op->conv.dilation_y, side = op->n * op->stride, reach = (side - 1) * apart;
    const int64_t rows = src->h - (phase_width(op) > phase_channels(op));
    if (y >= 0 && x >= 0 && y + reach < rows && x + reach < src->w) {
        const char *first = pa_view_at(src, ctx->bases, item) + (y * src->w + x) * src->stride * item;
        transform_channels(ctx, t, (tile_pixels){first, apart * src->stride, src->w * apart * src->stride}, 0, src->c);
        return;
    }
    for (int64_t c = 0, count; c < src->c; c += count) {
        count = min64(staged_channels(op), src->c - c);
        stage(ctx, y, x, side, c, count, staged);
        transform_channels(ctx, t, (tile_pixels){staged, count, side * count}, c, count);
    }
}

/* Of a tile, in rows of tiles. */
typedef struct place {
    int64_t row, column;
} place;

static inline place place_of_tile(const pa_winograd_op *op, int64_t tile) {
    return (place){tile / op->tiles_x, tile % op->tiles_x};
}

static inline void next_tile(const pa_winograd_op *op, place *at) {
    if (++at->column == op->tiles_x) at->column = 0, at->row++;
}

/* The first row of output pixels of a row of tiles, or the first column; `count` of them in all. Where taps have gaps, the
 * pixels of a tile are as far apart, and each remainder has tiles of its own. */
static inline int64_t first_of_tile(const pa_winograd_op *op, int64_t i, int64_t count) {
    const int64_t apart = op->conv.dilation_y;
    if (apart == 1) return i * op->m; /* no division for each tile */
    const int64_t each = count / apart;
    return i / each + i % each * op->m * apart;
}

/* Of a row or column of it, of which so many pixels of the output are left. */
static inline int32_t pixels_of_tile(const pa_winograd_op *op, int64_t left) {
    const int64_t apart = op->conv.dilation_y;
    return left > (op->m - 1) * apart ? op->m : (int32_t)ceil_div(left, apart);
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
    place at = place_of_tile(op, ctx->tile0 + chunk * ctx->input_tiles);
    for (int64_t t = chunk * ctx->input_tiles; t < end; t++, next_tile(op, &at)) {
        const int64_t y = first_of_tile(op, at.row, op->tiles_y) * op->stride - op->conv.pad_top;
        const int64_t x = first_of_tile(op, at.column, op->tiles_x) * op->stride - op->conv.pad_left;
        if (op->s8.dequantize)
            transform_integers(ctx, t, y, x, beside);
        else
            transform_reals(ctx, t, y, x, (char *)beside);
    }
}

#endif
