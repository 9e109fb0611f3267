/* The A operand of an indirect GEMM: for each tap of the kernel, pointers to the input pixels under it (conv.c). And the
 * chunks of such a GEMM, and how a step runs them. Elements are of any type: they are copied, and pointed at. */
#ifndef PIPEALL_INDIRECTION_H
#define PIPEALL_INDIRECTION_H

#include <string.h>

#include "../../intmath.h"
#include "conv.h"
#include "divide.h"
#include "gemm.h"

static inline int64_t channels_of(const pa_conv_op *p) { return p->src.c / p->groups; }
/* Bytes of a pixel's channels in one group, and between pixels. */
static inline int64_t channel_bytes(const pa_conv_op *p) { return channels_of(p) * p->item_bytes; }
static inline int64_t pixel_bytes(const pa_conv_op *p) { return p->src.stride * p->item_bytes; }
/* What a GEMM row consists of: so many taps of so many elements. */
static inline int taps_of(const pa_conv_op *p) { return p->tap_rows ? p->kh / p->tap_rows : p->kh * p->kw; }
static inline int64_t k_of(const pa_conv_op *p) { return p->kh * p->kw * channels_of(p) / taps_of(p); }
/* A chunk's scratch: the pointers to taps, those to lines, then the gathered taps. */
static inline int64_t tap_pointers(const pa_conv_op *p) { return round_up(p->row_block, p->kernel->mr) * taps_of(p); }
static inline int64_t pointer_bytes(const pa_conv_op *p) { return (tap_pointers(p) + p->kh) * (int64_t)sizeof(char *); }

/* The input rows under the rows of the kernel, from row y on, each at its first pixel; NULL in the padding. */
static inline void point_lines(const pa_conv_op *p, const char *src, int64_t y, const char **lines) {
    for (int i = 0; i < p->kh; i++, y += p->dilation_y)
        lines[i] = y >= 0 && y < p->src.h ? src + y * p->src.w * pixel_bytes(p) : NULL;
}

/* Pixel x of a line, zeros in the padding. */
static inline const char *pixel_at(const pa_conv_op *p, const char *line, int64_t x) {
    return line && x >= 0 && x < p->src.w ? line + x * pixel_bytes(p) : p->zero;
}

/* n bytes by moves of so many, a constant, the last over the one before. */
static inline void copy_by(char *to, const char *from, int64_t n, const int64_t bytes) {
    for (int64_t i = 0; i + bytes <= n; i += bytes) memcpy(to + i, from + i, (size_t)bytes);
    if (n % bytes) memcpy(to + n - bytes, from + n - bytes, (size_t)bytes);
}

/* A call of memcpy would take longer than the copy. */
static inline void copy(char *to, const char *from, int64_t n) {
    if (n >= 16)
        copy_by(to, from, n, 16);
    else if (n >= 8)
        copy_by(to, from, n, 8);
    else if (n >= 4)
        copy_by(to, from, n, 4);
    else
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

/* Whether the pixels under each row of the kernel lie together, but at the borders. */
static inline int dense(const pa_conv_op *p) { return p->dilation_x == 1 && p->src.stride == channels_of(p); }

/* Copies the pixels under a row of the kernel, from x on, to `to`. */
static inline void gather(const pa_conv_op *p, const char *line, int64_t x, char *to) {
    const int64_t bytes = channel_bytes(p);
    for (int j = 0; j < p->kw; j++, to += bytes) copy(to, pixel_at(p, line, x + (int64_t)j * p->dilation_x), bytes);
}

/* Points at the taps of an output pixel whose window begins in column x, mr pointers apart. Rows of the kernel are
 * gathered; returns the end of that. */
static inline char *point_taps(const pa_conv_op *p, const char *const *lines, int64_t x, const char **pointers, char *gathered) {
    const int64_t run = p->kw * channel_bytes(p), first = x * pixel_bytes(p);
    const int together = dense(p) && x >= 0 && x + p->kw <= p->src.w;
    for (int i = 0; i < p->kh; i++) {
        const char *line = lines[i];
        if (p->tap_rows) {
            const int padding = p->tap_rows == 1 && !line;
            if (p->tap_rows == 1 || i == 0) *pointers = padding ? p->zero : gathered, pointers += p->kernel->mr;
            if (padding) continue;
            if (!line || together)
                copy(gathered, line ? line + first : p->zero, run);
            else
                gather(p, line, x, gathered);
            gathered += run;
            continue;
        }
        for (int j = 0; j < p->kw; j++, pointers += p->kernel->mr) *pointers = pixel_at(p, line, x + (int64_t)j * p->dilation_x);
    }
    return gathered;
}

/* At m pixels, so many bytes apart. Opaque: compilers would make a vector of each two pointers, which takes longer. */
static inline void point_each(const char *pixel, int64_t apart, int64_t m, const char **pointers) {
    int64_t r = 0;
    for (; r + 4 <= m; r += 4) {
        const char *second = pixel + apart, *third = second + apart, *fourth = third + apart;
        PA_OPAQUE(second);
        PA_OPAQUE(third);
        PA_OPAQUE(fourth);
        pointers[r] = pixel, pointers[r + 1] = second, pointers[r + 2] = third, pointers[r + 3] = fourth;
        pixel = fourth + apart;
    }
    for (; r < m; r++, pixel += apart) pointers[r] = pixel;
}

/* The same for m pixels of a row with no tap to the left or right of the input: those of each are stride_x pixels from
 * those of the one before. */
static inline void point_inside(const pa_conv_op *p, const char *const *lines, int64_t x, int64_t m,
                                const char **pointers) {
    const int64_t pixel = pixel_bytes(p), step = p->stride_x * pixel, right = p->dilation_x * pixel, mr = p->kernel->mr;
    const int across = p->tap_rows ? 1 : p->kw;
    for (int i = 0; i < p->kh; i++) {
        const char *line = lines[i], *tap = line ? line + x * pixel : p->zero;
        for (int j = 0; j < across; j++, tap += line ? right : 0, pointers += mr) point_each(tap, line ? step : 0, m, pointers);
    }
}

/* m runs of up to three times so many bytes, a constant, those to `to` a window apart. */
static inline void copy_runs(const char *from, int64_t apart, int64_t run, int64_t m, char *to, int64_t window,
                             const int64_t bytes) {
    for (int64_t r = 0; r < m; r++, from += apart, to += window) {
        memcpy(to, from, (size_t)bytes);
        if (run > 2 * bytes) memcpy(to + bytes, from + bytes, (size_t)bytes);
        memcpy(to + run - bytes, from + run - bytes, (size_t)bytes);
    }
}

/* Whole windows of m pixels of a row with no tap to the left or right of the input, gathered one after the other; returns
 * the end of that. */
static inline char *gather_inside(const pa_conv_op *p, const char *const *lines, int64_t x, int64_t m, const char **pointers,
                           char *gathered) {
    const int64_t run = p->kw * channel_bytes(p), window = p->kh * run, pixel = pixel_bytes(p);
    for (int64_t r = 0; r < m; r++) pointers[r] = gathered + r * window;
    for (int i = 0; i < p->kh; i++) {
        const char *from = lines[i] ? lines[i] + x * pixel : p->zero;
        const int64_t apart = lines[i] ? p->stride_x * pixel : 0;
        char *to = gathered + i * run;
        if (run >= 16 && run <= 48)
            copy_runs(from, apart, run, m, to, window, 16);
        else if (run >= 8 && run < 16)
            copy_runs(from, apart, run, m, to, window, 8);
        else
            for (int64_t r = 0; r < m; r++) copy(to + r * window, from + r * apart, run);
    }
    return gathered + m * window;
}

/* Whether output pixel i is computed from input pixel i alone. */
static inline int pointwise(const pa_conv_op *p) {
    return p->kh * p->kw * p->stride_y * p->stride_x == 1 && p->pad_top == 0 && p->pad_left == 0 &&
           p->dst.h == p->src.h && p->dst.w == p->src.w;
}

/* The output pixels of a row with no tap to the left or right of the input, and whose taps are as they lie there. */
typedef struct span {
    int64_t begin, end;
} span;

static inline span inside(const pa_conv_op *p) {
    const int64_t room = p->src.w + p->pad_left - (int64_t)(p->kw - 1) * p->dilation_x - 1;
    const int lying = !p->tap_rows || dense(p);
    return lying && room >= 0 ? (span){ceil_div(p->pad_left, p->stride_x), room / p->stride_x + 1} : (span){0, 0};
}

/* pointers: [tile][tap][MR] */
static inline void point_rows(const pa_conv_op *p, const char *src, int64_t row0, const pa_tiling *tiling,
                       const char **pointers) {
    const char **lines = pointers + tap_pointers(p);
    char *gathered = (char *)pointers + pointer_bytes(p);
    const int64_t step = (int64_t)taps_of(p) * p->kernel->mr;
    if (pointwise(p)) { /* as the loop below would, which took 3 % of a layer of 72 channels (Zen 5) */
        pa_point_rows(pointers, tiling, p->kernel->mr, src + row0 * pixel_bytes(p), pixel_bytes(p));
        return;
    }
    const span whole = inside(p);
    int64_t y = row0 / p->dst.w, x = row0 % p->dst.w;
    point_lines(p, src, y * p->stride_y - p->pad_top, lines);
    for (int64_t tile = 0; tile < tiling->tiles; tile++, pointers += step) {
        const int64_t m = pa_tile_rows(tiling, tile);
        for (int64_t r = 0, run; r < m; r += run) {
            const int64_t column = x * p->stride_x - p->pad_left;
            if (x >= whole.begin && x < whole.end) {
                run = min64(m - r, min64(whole.end, p->dst.w) - x);
                if (p->tap_rows > 1)
                    gathered = gather_inside(p, lines, column, run, pointers + r, gathered);
                else
                    point_inside(p, lines, column, run, pointers + r);
            } else {
                gathered = point_taps(p, lines, column, pointers + r, gathered);
                run = 1;
            }
            if ((x += run) == p->dst.w) {
                x = 0;
                point_lines(p, src, ++y * p->stride_y - p->pad_top, lines);
            }
        }
    }
}

/* Whether a chunk's input is staged: the channels of a group, or of a slice of wider pixels, copied together with their
 * padding. The rows of the kernel then lie there as in a dense input without borders, and each pixel was copied once and
 * not for each tap that it is under. */
static inline int staged(const pa_conv_op *p) {
    return p->tap_rows == 1 && p->dilation_y * p->dilation_x == 1 && !dense(p);
}

/* The input under so many rows of the output. */
static inline int64_t staged_rows(const pa_conv_op *p, int64_t rows) { return (rows - 1) * p->stride_y + p->kh; }
static inline int64_t staged_columns(const pa_conv_op *p) { return (int64_t)(p->dst.w - 1) * p->stride_x + p->kw; }

/* Bytes of a chunk's scratch that are staged or gathered. */
static inline int64_t gathered_bytes(const pa_conv_op *p) {
    if (!staged(p)) return p->tap_rows ? p->row_block * taps_of(p) * k_of(p) * p->item_bytes : 0;
    const int64_t rows = min64(p->dst.h, (p->row_block + p->dst.w - 2) / p->dst.w + 1);
    return staged_rows(p, rows) * staged_columns(p) * channel_bytes(p);
}

/* Copies the channels of so many pixels, which lie `apart`, together. */
static inline char *copy_pixels(char *to, const char *from, int64_t pixels, int64_t apart, int64_t channels) {
    for (; pixels > 0; pixels--, from += apart, to += channels) copy(to, from, channels);
    return to;
}

/* Stages what is under output rows y0 to y1, and returns the op that reads it, from row 0 on. */
static inline pa_conv_op stage(const pa_conv_op *p, const char *src, int64_t y0, int64_t y1, char *to) {
    const int64_t channels = channel_bytes(p), pixel = pixel_bytes(p);
    pa_conv_op lying = *p;
    lying.pad_top = lying.pad_left = 0;
    lying.src.h = (int32_t)staged_rows(p, y1 - y0 + 1);
    lying.src.w = (int32_t)staged_columns(p);
    lying.src.stride = channels_of(p);
    const int64_t left = min64(p->pad_left, lying.src.w), inside = min64(p->src.w, lying.src.w - left);
    int64_t y = y0 * p->stride_y - p->pad_top;
    for (int64_t i = 0; i < lying.src.h; i++, y++) {
        const int padding = y < 0 || y >= p->src.h;
        to = copy_pixels(to, p->zero, left, 0, channels);
        to = copy_pixels(to, padding ? p->zero : src + y * p->src.w * pixel, inside, padding ? 0 : pixel, channels);
        to = copy_pixels(to, p->zero, lying.src.w - left - inside, 0, channels);
    }
    return lying;
}

/* Points at what is under the rows of a tiling, from output pixel row0 on. */
static inline void point(const pa_conv_op *p, const char *src, int64_t row0, const pa_tiling *tiling, const char **pointers) {
    if (!staged(p)) {
        point_rows(p, src, row0, tiling, pointers);
        return;
    }
    char *to = (char *)pointers + pointer_bytes(p);
    const int64_t last = row0 + pa_rows_before(tiling, tiling->tiles) - 1;
    const pa_conv_op lying = stage(p, src, row0 / p->dst.w, last / p->dst.w, to);
    point_rows(&lying, to, row0 % p->dst.w, tiling, pointers);
}

/* A step's call, for all its threads. */
typedef struct context {
    const void *op; /* the driver's own, which `conv` may be a part of */
    const pa_conv_op *conv;
    const char *src, *residual;
    char *dst, *scratch;
    int64_t panel_blocks, panels;
} context;

/* row_block output pixels x panel_block panels of one group. */
typedef struct chunk {
    int64_t group, row0, rows;       /* rows of the GEMM are output pixels */
    int64_t panel, channel, columns; /* the first panel of those of all groups, its first channel; channels */
} chunk;

static inline int64_t row_blocks_of(const pa_conv_op *p) { return ceil_div((int64_t)p->dst.h * p->dst.w, p->row_block); }

/* A piece of a chunk is a panel. The last chunk of a group may have fewer: `columns` may be 0. */
static inline chunk chunk_at(const context *ctx, int64_t first_piece, int64_t end_piece) {
    const pa_conv_op *p = ctx->conv;
    const pa_chunk_place at = pa_place_of(first_piece, row_blocks_of(p), ctx->panel_blocks, p->groups, p->panel_block, p->by_panels);
    const int64_t nr = p->kernel->nr, columns = p->dst.c / p->groups, row0 = at.row_block * p->row_block;
    return (chunk){
        .group = at.group,
        .row0 = row0,
        .rows = min64(p->row_block, (int64_t)p->dst.h * p->dst.w - row0),
        .panel = at.group * ctx->panels + at.panel,
        .channel = at.group * columns + at.panel * nr,
        .columns = max64(0, min64((end_piece - first_piece) * nr, columns - at.panel * nr)),
    };
}

static inline int64_t panels_of(const pa_conv_op *p) { return ceil_div(p->dst.c / p->groups, p->kernel->nr); }

/* Cuts a convolution into chunks of at most so many output pixels: of what is staged whole rows, of which there may be twice
 * as many, so that pixels are staged twice at the borders of chunks only. k: products of an element; panel_bytes: of weights;
 * dst_bytes: of an element. */
static inline void divide(pa_conv_op *p, int64_t most, int64_t k, int64_t panel_bytes, int64_t dst_bytes, int threads) {
    const int64_t unit = staged(p) ? p->dst.w : p->kernel->mr, panels = panels_of(p);
    const int64_t input_bytes = (int64_t)p->src.h * p->src.w * p->src.c * p->item_bytes;
    const pa_product product = {
        .rows = (int64_t)p->dst.h * p->dst.w,
        .panels = panels,
        .groups = p->groups,
        .unit = unit,
        .most = staged(p) ? unit * max64(1, min64(2 * most / unit, p->dst.h)) : most,
        .line = max64(1, LINE_BYTES / (p->kernel->nr * dst_bytes)),
        .widest = panels,
        .work = k * p->kernel->nr,
        .input_bytes = input_bytes,
        .panel_bytes = panel_bytes,
        .by_panels = p->groups * panels * panel_bytes > input_bytes,
    };
    const pa_chunk_size size = pa_divide(&product, threads);
    p->row_block = size.rows, p->panel_block = size.panels, p->by_panels = product.by_panels;
}

/* With few channels a tap is more than a pixel: the set-up of a tap would outweigh its multiply-adds. They are fewer where
 * rows of the kernel would be gathered, and more where an instruction multiplies more elements. */
static inline int few_channels(const pa_conv_op *p) {
#ifdef __aarch64__ /* whose kernels of bytes have small tiles */
    const int few[] = {[1] = 96, [2] = 48, [4] = 24}, gathered[] = {[1] = 24, [2] = 24, [4] = 12};
#else
    const int few[] = {[1] = 24, [2] = 48, [4] = 24}, gathered[] = {[1] = 12, [2] = 24, [4] = 12};
#endif
    return p->kw > 1 && channels_of(p) < (dense(p) ? few : gathered)[p->item_bytes];
}

/* dst_bytes: of an element of dst. */
static inline context context_of(const void *op, const pa_conv_op *p, int64_t dst_bytes, void *const *bases, void *scratch) {
    return (context){
        .op = op,
        .conv = p,
        .src = pa_view_at(&p->src, bases, p->item_bytes),
        .residual = p->has_residual ? pa_view_at(&p->residual, bases, p->item_bytes) : NULL,
        .dst = pa_view_at(&p->dst, bases, dst_bytes),
        .scratch = scratch,
        .panel_blocks = ceil_div(panels_of(p), p->panel_block),
        .panels = panels_of(p),
    };
}

static inline void run_chunks(const context *ctx, pa_team *team, pa_piece_fn run) {
    const pa_conv_op *p = ctx->conv;
    pa_team_run_pieces(team, run, ctx, row_blocks_of(p) * ctx->panel_blocks * p->groups, p->panel_block);
}

#endif
