#include "pool_s8.h"

#include "parallel_for.h"

enum { BLOCK = 256, BYTES_PER_FLOAT = 4 /* at a time: a chunk of floats takes as long */ };

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

/* The channels of `args` of one row of output pixels: the pixels whose windows have all columns inside in one call, each of
 * the others in its own. */
static void pool_row(const pa_pool_s8_op *p, const int8_t *src, int64_t y, pa_pool_s8_args *args) {
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
static int64_t block_of(const pa_pool_s8_op *p) { return p->dst.h > 1 ? p->dst.c : BLOCK; }

static void pool_rows(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_pool_s8_op *p = ctx->op;
    const pa_window *w = &p->window;
    const int64_t blocks = ceil_div(p->dst.c, block_of(p));
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t y = unit / blocks, c = unit % blocks * block_of(p);
        pa_pool_s8_args args = {
            .channels = min64(block_of(p), p->dst.c - c),
            .pixel_step = w->stride_x * p->src.stride,
            .row_step = (int64_t)w->dilation_y * p->src.w * p->src.stride,
            .column_step = w->dilation_x * p->src.stride,
            .mean = p->average,
            .a_zero = p->a_zero,
            .to = p->to,
            .out = (int8_t *)ctx->bases[p->dst.base] + p->dst.offset + y * p->dst.w * p->dst.stride + c,
            .out_stride = p->dst.stride,
        };
        pool_row(p, (const int8_t *)ctx->bases[p->src.base] + p->src.offset + c, y, &args);
    }
}

void pa_pool_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_pool_s8_op *p = op;
    const int64_t units = p->dst.h * ceil_div(p->dst.c, block_of(p));
    const int64_t bytes = p->dst.w * min64(p->dst.c, block_of(p)) * p->window.kh * p->window.kw;
    parallel_for(op, bases, scratch, team, pool_rows, units, ceil_div(bytes, BYTES_PER_FLOAT));
}
