/* The place of a largest or smallest element along one axis; the others are kept. */
#include "convert.h"
#include "parallel_for.h"
#include "reduce.h"

#include <string.h>

enum {
    SIDE = 1024, /* lines that are done side by side */
    LONG = 4096, /* floats of a part of a long line: they stay in L1 */
};

/* Whether y, of a later part of a line, takes the place of x. */
static int takes(const pa_argmax_op *p, float x, float y) {
    if (x != x || y != y) return y != y && (p->last || x == x);
    return (p->least ? y < x : y > x) || (p->last && y == x);
}

static int64_t argmax_of_long_line(const pa_argmax_op *p, int64_t n, const float *x) {
    int64_t part = 0, at;
    float best = 0;
    for (int64_t i = 0; i < n; i += LONG) {
        const float next = pa_reduce_one(p->reduce, p->least ? PA_FOLD_MIN : PA_FOLD_MAX, min64(LONG, n - i), x + i, 0);
        if (i == 0 || takes(p, best, next)) best = next, part = i;
    }
    PA_FUNCTION(argmax_rows, f32, p->argmax_rows)(p->least, p->last, 1, min64(LONG, n - part), x + part, 0, &at, 1);
    return part + at;
}

static void argmax_along(const pa_argmax_op *p, int64_t lines, const float *x, int64_t stride, int64_t *y, int64_t step) {
    const int64_t n = p->src.size[p->axis];
    if (n <= LONG)
        PA_FUNCTION(argmax_rows, f32, p->argmax_rows)(p->least, p->last, lines, n, x, stride, y, step);
    else
        for (int64_t c = 0; c < lines; c++) y[c * step] = argmax_of_long_line(p, n, x + c * stride);
}

static void argmax_of_floats(const pa_argmax_op *p, int64_t columns, const float *x, int64_t step, int32_t *at) {
    const int64_t n = p->src.size[p->axis], by = p->src.stride[p->axis];
    float best[SIDE], next[SIDE], place[SIDE] = {0}; /* the bits of int32 0 */
    pa_load_f32(PA_F32, columns, x, step, best);
    if (step == 1 && n > 1) {
        PA_FUNCTION(argmax_columns, f32, p->argmax_columns)(p->least, p->last, n - 1, columns, x + by, by, 1, best, place);
    } else {
        for (int64_t i = 1; i < n; i++) {
            pa_load_f32(PA_F32, columns, x + i * by, step, next);
            PA_FUNCTION(argmax_columns, f32, p->argmax_columns)(p->least, p->last, 1, columns, next, 0, (int32_t)i, best,
                place);
        }
    }
    memcpy(at, place, (size_t)columns * sizeof *at);
}

static void argmax_of_ints(const pa_argmax_op *p, int64_t columns, const char *x, int64_t step, int32_t *at) {
    const int64_t n = p->src.size[p->axis], by = p->src.stride[p->axis] * p->src.item_bytes;
    int64_t best[SIDE], next[SIDE];
    for (int64_t c = 0; c < columns; c++) at[c] = 0;
    pa_load_s64(p->src.type, columns, x, step, best);
    for (int64_t i = 1; i < n; i++) {
        pa_load_s64(p->src.type, columns, x + i * by, step, next);
        for (int64_t c = 0; c < columns; c++) {
            const int beats = p->least ? next[c] < best[c] : next[c] > best[c];
            const int wins = beats | (p->last & (next[c] == best[c]));
            best[c] = wins ? next[c] : best[c];
            at[c] = wins ? (int32_t)i : at[c];
        }
    }
}

static void argmax_units(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_argmax_op *p = ctx->op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], blocks = ceil_div(size, SIDE), x_step = p->kept.stride[0][last];
    int32_t at[SIDE];
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * SIDE, columns = min64(SIDE, size - first);
        const int64_t from = w.offset[0] + first * x_step, step = p->kept.stride[1][last];
        const void *x = elements_at(pa_at(&p->src, ctx->bases), &p->src, from);
        int64_t *y = (int64_t *)pa_at(&p->dst, ctx->bases) + w.offset[1] + first * step;
        if (!p->columns) {
            argmax_along(p, columns, x, x_step, y, step);
            continue;
        }
        if (p->src.type == PA_F32)
            argmax_of_floats(p, columns, x, x_step, at);
        else
            argmax_of_ints(p, columns, x, x_step, at);
        for (int64_t c = 0; c < columns; c++) y[c * step] = at[c];
    }
}

void pa_argmax_plan(pa_argmax_op *p) {
    pa_kept_axes(&p->src, &p->dst, p->axis, &p->kept);
    p->columns = p->src.type != PA_F32 || p->src.stride[p->axis] != 1;
}

void pa_argmax_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_argmax_op *p = op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last];
    parallel_for(op, bases, scratch, team, argmax_units, positions(&p->kept, last) * ceil_div(size, SIDE),
        min64(size, SIDE) * p->src.size[p->axis]);
}
