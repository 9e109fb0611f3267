/* Softmax. Rows that are contiguous go to the kernel of rows; where a kept axis is contiguous, columns are done side by side;
 * other rows are gathered in blocks. */
#include "softmax.h"

#include <math.h>

#include "convert.h"
#include "parallel_for.h"

enum {
    GATHERED = 1024, /* floats of several rows that are gathered */
    SOFTMAX_BLOCK = 16384 /* floats whose softmax is a unit of work: they stay in the second-level cache */
};

/* ---- over the channels of each pixel ---- */

static void softmax_pixels(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_softmax_op *p = ctx->op;
    const float *src = pa_f32_at(&p->src, ctx->bases);
    float *dst = pa_f32_at(&p->dst, ctx->bases);
    PA_FUNCTION(softmax, f32, p->kernel)(end - begin, p->src.c, src + begin * p->src.stride, p->src.stride,
        dst + begin * p->dst.stride,
              p->dst.stride);
}

void pa_softmax_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_softmax_op *p = op;
    parallel_for(op, bases, scratch, team, softmax_pixels, pixels(&p->src), p->src.c);
}

/* ---- along any axis ---- */

/* Of contiguous rows */
static void softmax_of(const pa_softmax_nd_op *p, int64_t rows, int64_t n, const float *x, int64_t x_stride, float *y,
                       int64_t y_stride) {
    if (!p->log) {
        PA_FUNCTION(softmax, f32, p->softmax)(rows, n, x, x_stride, y, y_stride);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += x_stride, y += y_stride) {
        const float most = pa_reduce_one(p->reduce, PA_FOLD_MAX, n, x, 0);
        const float logarithm = logf(pa_reduce_one(p->reduce, PA_FOLD_EXP, n, x, most));
        PA_FUNCTION(binary, f32, p->binary)(PA_BINARY_sub, n, x, &most, 0, y, -INFINITY, INFINITY);
        PA_FUNCTION(binary, f32, p->binary)(PA_BINARY_sub, n, y, &logarithm, 0, y, -INFINITY, INFINITY);
    }
}

/* Rows that are gathered at a time. */
static int64_t gathered(const pa_softmax_nd_op *p) { return max64(1, min64(PA_LANES_MAX, GATHERED / p->src.size[p->axis])); }

static void softmax_rows(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_softmax_nd_op *p = ctx->op;
    const int64_t n = p->src.size[p->axis], x_step = p->src.stride[p->axis], y_step = p->dst.stride[p->axis];
    float *row = (float *)ctx->scratch + thread * p->scratch_floats;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], x_row = p->kept.stride[0][last], y_row = p->kept.stride[1][last];
    for (int64_t i = begin, rows; i < end; i += rows) {
        const walk w = walk_from(&p->kept, last + 1, i);
        const float *x = (const float *)pa_at(&p->src, ctx->bases) + w.offset[0];
        float *y = (float *)pa_at(&p->dst, ctx->bases) + w.offset[1];
        rows = min64(size - i % size, end - i);
        if (p->scratch_floats == 0) {
            softmax_of(p, rows, n, x, x_row, y, y_row);
            continue;
        }
        rows = min64(rows, gathered(p));
        for (int64_t r = 0; r < rows; r++) pa_load_f32(PA_F32, n, x + r * x_row, x_step, row + r * n);
        softmax_of(p, rows, n, row, n, row, n);
        for (int64_t r = 0; r < rows; r++) pa_store_f32(PA_F32, n, row + r * n, y + r * y_row, y_step);
    }
}

/* Columns of a unit: runs of memory as long as the rows allow. */
static int64_t softmax_side(const pa_softmax_nd_op *p) {
    return max64(64, min64(1024, SOFTMAX_BLOCK / p->src.size[p->axis] / 16 * 16));
}

static void softmax_columns(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_softmax_nd_op *p = ctx->op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], side = softmax_side(p), blocks = ceil_div(size, side);
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * side;
        const float *x = (const float *)pa_at(&p->src, ctx->bases) + w.offset[0] + first;
        float *y = (float *)pa_at(&p->dst, ctx->bases) + w.offset[1] + first;
        PA_FUNCTION(softmax_columns, f32, p->columns)(p->src.size[p->axis], min64(side, size - first), x,
            p->src.stride[p->axis], y,
                   p->dst.stride[p->axis], p->log);
    }
}

void pa_softmax_nd_plan(pa_softmax_nd_op *p) {
    int32_t folded[PA_DIMS] = {0};
    pa_axes inner;
    folded[p->axis] = 1;
    pa_fold_axes(&p->src, &p->dst, folded, &p->kept, &inner, 1);
    const int last = p->kept.rank - 1, row = p->src.stride[p->axis] == 1 && p->dst.stride[p->axis] == 1;
    const int beside = p->kept.stride[0][last] == 1 && p->kept.stride[1][last] == 1;
    p->side_by_side = !row && beside && p->kept.size[last] >= PA_FOLD_LEAST;
    p->scratch_floats = row || p->side_by_side ? 0 : round_up(gathered(p) * p->src.size[p->axis], 16);
}

void pa_softmax_nd_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_softmax_nd_op *p = op;
    const int last = p->kept.rank - 1;
    const int64_t n = p->src.size[p->axis], size = p->kept.size[last], side = softmax_side(p);
    if (p->side_by_side)
        parallel_for(op, bases, scratch, team, softmax_columns, positions(&p->kept, last) * ceil_div(size, side),
            min64(size, side) * n);
    else
        parallel_for(op, bases, scratch, team, softmax_rows, positions(&p->kept, last + 1), n);
}
