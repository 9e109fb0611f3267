/* The place of a largest or smallest element, and running sums: along one axis, the others are kept. */
#include "blocks.h"
#include "chunks.h"
#include "reduce.h"

#include <string.h>

enum {
    SIDE = 1024, /* lines that are done side by side */
    LONG = 4096, /* floats of a part of a long line: they stay in L1 */
};

static void kept_axes(const pa_strided *first, const pa_strided *second, int axis, pa_axes *kept) {
    int32_t folded[PA_DIMS] = {0};
    pa_axes inner;
    folded[axis] = 1;
    pa_fold_axes(first, second, folded, kept, &inner, 0);
}

/* ---- the place of a maximum ---- */

/* Whether y, of a later part of a line, takes the place of x. */
static int takes(const pa_arg_op *p, float x, float y) {
    if (x != x || y != y) return y != y && (p->last || x == x);
    return (p->least ? y < x : y > x) || (p->last && y == x);
}

static int64_t place_in_long_line(const pa_arg_op *p, int64_t n, const float *x) {
    int64_t part = 0, at;
    float best = 0;
    for (int64_t i = 0; i < n; i += LONG) {
        const float next = pa_reduce_one(p->reduce, p->least ? PA_FOLD_MIN : PA_FOLD_MAX, min64(LONG, n - i), x + i, 0);
        if (i == 0 || takes(p, best, next)) best = next, part = i;
    }
    p->argmax_rows(p->least, p->last, 1, min64(LONG, n - part), x + part, 0, &at, 1);
    return part + at;
}

static void places_along(const pa_arg_op *p, int64_t lines, const float *x, int64_t stride, int64_t *y, int64_t step) {
    const int64_t n = p->src.size[p->axis];
    if (n <= LONG)
        p->argmax_rows(p->least, p->last, lines, n, x, stride, y, step);
    else
        for (int64_t c = 0; c < lines; c++) y[c * step] = place_in_long_line(p, n, x + c * stride);
}

static void places_of_reals(const pa_arg_op *p, int64_t columns, const float *x, int64_t step, int32_t *at) {
    const int64_t n = p->src.size[p->axis], by = p->src.stride[p->axis];
    float best[SIDE], next[SIDE], place[SIDE] = {0}; /* the bits of int32 0 */
    pa_load_reals(PA_F32, columns, x, step, best);
    if (step == 1 && n > 1) {
        p->argmax_columns(p->least, p->last, n - 1, columns, x + by, by, 1, best, place);
    } else {
        for (int64_t i = 1; i < n; i++) {
            pa_load_reals(PA_F32, columns, x + i * by, step, next);
            p->argmax_columns(p->least, p->last, 1, columns, next, 0, (int32_t)i, best, place);
        }
    }
    memcpy(at, place, (size_t)columns * sizeof *at);
}

static void places_of_wholes(const pa_arg_op *p, int64_t columns, const char *x, int64_t step, int32_t *at) {
    const int64_t n = p->src.size[p->axis], by = p->src.stride[p->axis] * p->src.item_bytes;
    int64_t best[SIDE], next[SIDE];
    for (int64_t c = 0; c < columns; c++) at[c] = 0;
    pa_load_wholes(p->src.type, columns, x, step, best);
    for (int64_t i = 1; i < n; i++) {
        pa_load_wholes(p->src.type, columns, x + i * by, step, next);
        for (int64_t c = 0; c < columns; c++) {
            const int beats = p->least ? next[c] < best[c] : next[c] > best[c];
            const int wins = beats | (p->last & (next[c] == best[c]));
            best[c] = wins ? next[c] : best[c];
            at[c] = wins ? (int32_t)i : at[c];
        }
    }
}

static void arg_units(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_arg_op *p = j->op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], blocks = ceil_div(size, SIDE), x_step = p->kept.stride[0][last];
    int32_t at[SIDE];
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * SIDE, columns = min64(SIDE, size - first);
        const int64_t from = w.offset[0] + first * x_step, step = p->kept.stride[1][last];
        const void *x = elements_at(pa_at(&p->src, j->bases), &p->src, from);
        int64_t *y = (int64_t *)pa_at(&p->dst, j->bases) + w.offset[1] + first * step;
        if (!p->columns) {
            places_along(p, columns, x, x_step, y, step);
            continue;
        }
        if (p->src.type == PA_F32)
            places_of_reals(p, columns, x, x_step, at);
        else
            places_of_wholes(p, columns, x, x_step, at);
        for (int64_t c = 0; c < columns; c++) y[c * step] = at[c];
    }
}

void pa_arg_plan(pa_arg_op *p) {
    kept_axes(&p->src, &p->dst, p->axis, &p->kept);
    p->columns = p->src.type != PA_F32 || p->src.stride[p->axis] != 1;
}

void pa_arg_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_arg_op *p = op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last];
    run(op, bases, scratch, team, arg_units, positions(&p->kept, last) * ceil_div(size, SIDE),
        min64(size, SIDE) * p->src.size[p->axis]);
}

/* ---- running sums ---- */

/* One line: blocks along the axis. */
static void line_sums(const pa_cumsum_op *p, int64_t n, const char *x, int64_t x_step, char *y, int64_t y_step) {
    const int real = p->src.type == PA_F32;
    double sum = 0;
    uint64_t whole = 0;
    float reals[BLOCK];
    int64_t wholes[BLOCK];
    for (int64_t k = 0; k < n; k += BLOCK) {
        const int64_t count = min64(BLOCK, n - k);
        const char *from = x + k * x_step * p->src.item_bytes;
        char *to = y + k * y_step * p->dst.item_bytes;
        if (real) {
            pa_load_reals(p->src.type, count, from, x_step, reals);
            for (int64_t i = 0; i < count; i++) {
                const double before = sum;
                sum += reals[i];
                reals[i] = (float)(p->exclusive ? before : sum);
            }
            pa_store_reals(p->dst.type, count, reals, to, y_step);
        } else {
            pa_load_wholes(p->src.type, count, from, x_step, wholes);
            for (int64_t i = 0; i < count; i++) {
                const uint64_t before = whole;
                whole += (uint64_t)wholes[i];
                wholes[i] = (int64_t)(p->exclusive ? before : whole);
            }
            pa_store_wholes(p->dst.type, count, wholes, to, y_step);
        }
    }
}

/* Lines side by side, row after row. */
static void column_sums(const pa_cumsum_op *p, int64_t n, int64_t columns, const char *x, int64_t x_row, int64_t x_step,
                        char *y, int64_t y_row, int64_t y_step) {
    double sum[SIDE] = {0};
    uint64_t whole[SIDE] = {0};
    float reals[SIDE];
    int64_t wholes[SIDE];
    for (int64_t i = 0; i < n; i++, x += x_row * p->src.item_bytes, y += y_row * p->dst.item_bytes) {
        if (p->src.type == PA_F32) {
            pa_load_reals(p->src.type, columns, x, x_step, reals);
            for (int64_t c = 0; c < columns; c++) {
                const double before = sum[c];
                sum[c] += reals[c];
                reals[c] = (float)(p->exclusive ? before : sum[c]);
            }
            pa_store_reals(p->dst.type, columns, reals, y, y_step);
        } else {
            pa_load_wholes(p->src.type, columns, x, x_step, wholes);
            for (int64_t c = 0; c < columns; c++) {
                const uint64_t before = whole[c];
                whole[c] += (uint64_t)wholes[c];
                wholes[c] = (int64_t)(p->exclusive ? before : whole[c]);
            }
            pa_store_wholes(p->dst.type, columns, wholes, y, y_step);
        }
    }
}

static void cumsum_units(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_cumsum_op *p = j->op;
    const int last = p->kept.rank - 1;
    const int64_t n = p->src.size[p->axis], size = p->kept.size[last], blocks = ceil_div(size, SIDE);
    const int64_t y_step = p->kept.stride[0][last], x_step = p->kept.stride[1][last];
    const int64_t direction = p->reverse ? -1 : 1, start = p->reverse ? n - 1 : 0;
    const int64_t x_row = p->src.stride[p->axis] * direction, y_row = p->dst.stride[p->axis] * direction;
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * SIDE, columns = min64(SIDE, size - first);
        const int64_t from = w.offset[1] + first * x_step + start * p->src.stride[p->axis];
        const int64_t to = w.offset[0] + first * y_step + start * p->dst.stride[p->axis];
        const char *x = elements_at(pa_at(&p->src, j->bases), &p->src, from);
        char *y = (char *)pa_at(&p->dst, j->bases) + to * p->dst.item_bytes;
        if (columns == 1 || x_row == 1 || x_row == -1) {
            for (int64_t c = 0; c < columns; c++)
                line_sums(p, n, x + c * x_step * p->src.item_bytes, x_row, y + c * y_step * p->dst.item_bytes, y_row);
        } else {
            column_sums(p, n, columns, x, x_row, x_step, y, y_row, y_step);
        }
    }
}

void pa_cumsum_plan(pa_cumsum_op *p) { kept_axes(&p->dst, &p->src, p->axis, &p->kept); }

void pa_cumsum_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_cumsum_op *p = op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last];
    run(op, bases, scratch, team, cumsum_units, positions(&p->kept, last) * ceil_div(size, SIDE),
        min64(size, SIDE) * p->src.size[p->axis]);
}
