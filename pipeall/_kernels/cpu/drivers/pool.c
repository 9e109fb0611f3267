#include "pool.h"

#include <math.h>

#include "index.h"
#include "parallel_for.h"

/* The window over output row y; rows has window->kh entries. */
static pa_row_window row_window(const pa_window *p, const pa_view *src, const char *first, int64_t row_bytes, int out_w,
                                int64_t y, const void **rows) {
    for (int i = 0; i < p->kh; i++) {
        const int64_t iy = y * p->stride_y - p->pad_top + (int64_t)i * p->dilation_y;
        rows[i] = iy >= 0 && iy < src->h ? first + iy * row_bytes : NULL;
    }
    return (pa_row_window){
        .out_w = out_w,
        .in_w = src->w,
        .kh = p->kh,
        .kw = p->kw,
        .stride_x = p->stride_x,
        .dilation_x = p->dilation_x,
        .pad_left = p->pad_left,
        .rows = rows,
        .in_stride = src->stride,
    };
}

/* The taps of a window along one side that lie inside. */
typedef struct reach {
    int64_t first, count;
} reach;

/* Of `taps` at positions at, at + dilation... among `size`. */
static reach inside(int64_t at, int64_t taps, int64_t dilation, int64_t size) {
    const int64_t first = at < 0 ? ceil_div(-at, dilation) : 0;
    const int64_t end = at < size ? min64((size - 1 - at) / dilation + 1, taps) : 0;
    return end > first ? (reach){first, end - first} : (reach){0, 0};
}

/* Taps of a window at output position i that its divisor counts: from `before` pads to `after` pads around `size` positions. */
static int counted(int i, int taps, int stride, int dilation, int pad, int before, int after, int size) {
    const int64_t first = (int64_t)i * stride - pad + before, positions = (int64_t)size + before + after;
    const int whole = first >= 0 && first + (taps - 1) * (int64_t)dilation < positions; /* mostly: a division takes long */
    return whole ? taps : (int)inside(first, taps, dilation, positions).count;
}

static char *at(const pa_pool_op *p, const pa_view *v, void *const *bases, int64_t element) {
    return (char *)bases[v->base] + (v->offset + element) * p->item_bytes;
}

/* Whether a row's channels are so few that its pixels together make the vectors. Averages of halves would round twice. */
static int lies_in_lines(const pa_pool_op *p) {
    enum { FEW = 4 };
    const int together = p->src.c <= FEW && p->src.stride == p->src.c && p->dst.stride == p->src.c;
    return together && (p->item_bytes == sizeof(float) || !p->average);
}

/* Elements of a line with its padding and what vectors read behind it, and of the windows at every column of it. */
static int64_t line_items(const pa_pool_op *p) {
    const pa_window *w = &p->window;
    const int64_t reach = (p->dst.w - 1) * (int64_t)w->stride_x + (w->kw - 1) * (int64_t)w->dilation_x + 1;
    return max64(reach, w->pad_left + (int64_t)p->src.w) * p->src.c + 2 * PA_LANES_MAX;
}
static int64_t window_items(const pa_pool_op *p) { return ((p->dst.w - 1) * (int64_t)p->window.stride_x + 1) * p->src.c; }

/* What adds nothing to a sum, or to a maximum. */
static void fill_padding(const pa_pool_op *p, void *line) {
    const int64_t n = line_items(p);
    for (int64_t i = 0; i < n; i++) {
        if (p->item_bytes == sizeof(float))
            ((float *)line)[i] = p->average ? 0 : -INFINITY;
        else
            ((uint16_t *)line)[i] = 0xfc00; /* -infinity */
    }
}

/* Whether the kernel does all windows of a line, of which every stride-th is taken then. */
static int takes_some(const pa_pool_op *p) { return p->window.stride_x > (p->src.c == 1 ? 2 : 1); }

/* A row of output pixels of few channels. */
static void pool_line(const pa_pool_op *p, pa_pool_args args, char *windows) {
    const int64_t c = p->src.c, stride = args.window.stride_x;
    float *sums = args.out;
    if (takes_some(p)) {
        args.window.out_w = (int32_t)((p->dst.w - 1) * stride + 1), args.window.stride_x = 1;
        args.out = windows;
    }
    PA_FUNCTION(pool, f32, p->kernel)(&args);
    for (int64_t i = 0; takes_some(p) && i < c; i++)
        move_run(p->item_bytes, p->dst.w, windows + i * p->item_bytes, stride * c, (char *)sums + i * p->item_bytes, c);
    for (int64_t i = 0; p->average && i < p->dst.w * c; i++) sums[i] *= args.inverse_count[i];
}

/* Factors of a row: of each pixel, or of each element of a line. */
static int64_t factors(const pa_pool_op *p) { return p->average ? p->dst.w * (lies_in_lines(p) ? p->dst.c : 1) : 0; }

static void count_row(const pa_pool_op *p, int in_y, float *inverse) {
    const pa_window *w = &p->window;
    const int left = p->count_pads ? w->pad_left : 0, right = p->count_pads ? p->pad_right : 0;
    const int64_t times = factors(p) / p->dst.w;
    float factor = 0;
    for (int x = 0, last = 0; x < p->dst.w; x++) {
        const int in_x = counted(x, w->kw, w->stride_x, w->dilation_x, w->pad_left, left, right, p->src.w);
        if (in_x != last) factor = in_x * in_y > 0 ? 1.0f / (float)(in_x * in_y) : 0;
        last = in_x;
        for (int64_t i = 0; i < times; i++) *inverse++ = factor;
    }
}

static void pool_rows(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_pool_op *p = ctx->op;
    const pa_window *w = &p->window;
    const int top = p->count_pads ? w->pad_top : 0, bottom = p->count_pads ? p->pad_bottom : 0, lines = lies_in_lines(p);
    const int64_t block = round_up(ceil_div(p->dst.c, p->channel_blocks), PA_LANES_MAX);
    const int64_t row_bytes = p->src.w * p->src.stride * p->item_bytes;
    float *inverse = (float *)ctx->scratch + thread * p->scratch_floats;
    char *line = (char *)(inverse + factors(p)), *windows = line + line_items(p) * p->item_bytes;
    const void *rows[PA_KERNEL_ROWS_MAX];
    if (lines) fill_padding(p, line);
    for (int64_t unit = begin, made_for = -1; unit < end; unit++) {
        const int64_t y = unit / p->channel_blocks, c = unit % p->channel_blocks * block;
        if (c >= p->dst.c) continue; /* the rounding left nothing for the last block */
        if (p->average) {
            const int in_y = counted((int)y, w->kh, w->stride_y, w->dilation_y, w->pad_top, top, bottom, p->src.h);
            if (in_y != made_for) count_row(p, in_y, inverse);
            made_for = in_y;
        }
        const pa_pool_args args = {
            .window = row_window(w, &p->src, at(p, &p->src, ctx->bases, c), row_bytes, p->dst.w, y, rows),
            .channels = (int32_t)min64(block, p->dst.c - c),
            .line = lines ? line : NULL,
            .inverse_count = p->average ? inverse : NULL,
            .out = at(p, &p->dst, ctx->bases, y * p->dst.w * p->dst.stride + c),
            .out_stride = p->dst.stride,
        };
        if (lines)
            pool_line(p, args, windows);
        else
            PA_FUNCTION(pool, f32, p->kernel)(&args);
    }
}

static int64_t pool_row_work(const pa_pool_op *p) {
    const pa_window *w = &p->window;
    return (int64_t)p->dst.w * p->dst.c * (lies_in_lines(p) ? w->kh + w->kw : w->kh * w->kw);
}

void pa_pool_plan(pa_pool_op *p) {
    p->channel_blocks = 1;
    if (p->dst.h == 1) p->channel_blocks = (int32_t)min64(ceil_div(pool_row_work(p), CHUNK), ceil_div(p->dst.c, 64));
    const int64_t lines = lies_in_lines(p) ? line_items(p) + window_items(p) : 0;
    p->scratch_floats = round_up(factors(p) + lines, 16);
}

void pa_pool_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_pool_op *p = op;
    const int64_t units = (int64_t)p->dst.h * p->channel_blocks;
    parallel_for(op, bases, scratch, team, pool_rows, units, ceil_div(pool_row_work(p), p->channel_blocks));
}

/* ---- 8-bit integers ---- */

enum { BLOCK = 256, BYTES_PER_FLOAT = 4 /* at a time: a chunk of floats takes as long */ };

/* The channels of `args` of one row of output pixels: the pixels whose windows have all columns inside in one call, each of
 * the others in its own. */
static void pool_row_s8(const pa_pool_s8_op *p, const int8_t *src, int64_t y, pa_pool_s8_args *args) {
    const pa_window *w = &p->window;
    const int64_t row = y * w->stride_y - w->pad_top, top = p->count_pads ? w->pad_top : 0;
    const int64_t left = p->count_pads ? w->pad_left : 0, right = p->count_pads ? p->pad_right : 0;
    const int64_t bottom = p->count_pads ? p->pad_bottom : 0;
    const reach down = inside(row, w->kh, w->dilation_y, p->src.h);
    const int64_t tall = inside(row + top, w->kh, w->dilation_y, p->src.h + top + bottom).count;
    const int8_t *line = src + (row + down.first * w->dilation_y) * p->src.w * p->src.stride;
    args->rows = down.count;
    for (int64_t x = 0; x < p->dst.w; x += args->pixels) {
        const int64_t column = x * w->stride_x - w->pad_left;
        const reach across = inside(column, w->kw, w->dilation_x, p->src.w);
        const int64_t wide = inside(column + left, w->kw, w->dilation_x, p->src.w + left + right).count;
        const int64_t room = p->src.w - 1 - (w->kw - 1) * (int64_t)w->dilation_x - column;
        args->pixels = across.count == w->kw ? min64(room / w->stride_x + 1, p->dst.w - x) : 1;
        args->columns = across.count;
        args->a = line + (column + across.first * w->dilation_x) * p->src.stride;
        if (p->average) args->factor = tall * wide > 0 ? p->factor / (float)(tall * wide) : 0;
        PA_FUNCTION(pool, s8, p->kernel)(args);
        args->out += args->pixels * p->dst.stride;
    }
}

/* A unit is a block of channels of a row of output pixels; all of them unless there is one row. */
static int64_t s8_block(const pa_pool_s8_op *p) { return p->dst.h > 1 ? p->dst.c : BLOCK; }

static void pool_rows_s8(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_pool_s8_op *p = ctx->op;
    const pa_window *w = &p->window;
    const int64_t blocks = ceil_div(p->dst.c, s8_block(p));
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t y = unit / blocks, c = unit % blocks * s8_block(p);
        pa_pool_s8_args args = {
            .channels = min64(s8_block(p), p->dst.c - c),
            .pixel_step = w->stride_x * p->src.stride,
            .row_step = (int64_t)w->dilation_y * p->src.w * p->src.stride,
            .column_step = w->dilation_x * p->src.stride,
            .mean = p->average,
            .a_zero = p->a_zero,
            .to = p->to,
            .out = (int8_t *)ctx->bases[p->dst.base] + p->dst.offset + y * p->dst.w * p->dst.stride + c,
            .out_stride = p->dst.stride,
        };
        pool_row_s8(p, (const int8_t *)ctx->bases[p->src.base] + p->src.offset + c, y, &args);
    }
}

void pa_pool_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_pool_s8_op *p = op;
    const int64_t units = p->dst.h * ceil_div(p->dst.c, s8_block(p));
    const int64_t bytes = p->dst.w * min64(p->dst.c, s8_block(p)) * p->window.kh * p->window.kw;
    parallel_for(op, bases, scratch, team, pool_rows_s8, units, ceil_div(bytes, BYTES_PER_FLOAT));
}
