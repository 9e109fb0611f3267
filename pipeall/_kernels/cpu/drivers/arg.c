/* The place of a largest or smallest element, and running sums: along one axis, the others are kept. */
#include "blocks.h"
#include "chunks.h"
#include "reduce.h"

enum { SIDE = 256 }; /* lines that are done side by side */

static void kept_axes(const pa_strided *first, const pa_strided *second, int axis, pa_axes *kept) {
    int32_t folded[PA_DIMS] = {0};
    pa_axes inner;
    folded[axis] = 1;
    pa_fold_axes(first, second, folded, kept, &inner, 0);
}

/* ---- the place of a maximum ---- */

#define IS(x, best, nan) ((nan) ? (x) != (x) : (x) == (best))

/* Index of the first or last x[i] that is `best`; NaN is where x differs from itself. */
static int64_t place_of(int64_t n, const float *x, float best, int last) {
    const int nan = best != best;
    for (int64_t k = 0; k < n; k += BLOCK) {
        const int64_t end = last ? n - k : min64(n, k + BLOCK), begin = last ? max64(0, end - BLOCK) : k;
        int met = end - begin < BLOCK; /* a block is searched where its elements are few, or one of them is it */
        if (!met)
            for (int64_t i = begin; i < end; i++) met |= IS(x[i], best, nan);
        if (!met) continue;
        if (last) {
            for (int64_t i = end - 1; i >= begin; i--)
                if (IS(x[i], best, nan)) return i;
        } else {
            for (int64_t i = begin; i < end; i++)
                if (IS(x[i], best, nan)) return i;
        }
    }
    return 0;
}

/* A value takes the place of the best so far; NaN beats all others. */
#define TAKE(condition)                                                                                    \
    for (int64_t c = 0; c < columns; c++) {                                                                \
        const int nan = x[c] != x[c], kept = best[c] != best[c], takes = condition;                        \
        (void)kept;                                                                                        \
        best[c] = takes ? x[c] : best[c];                                                                  \
        at[c] = takes ? i : at[c];                                                                         \
    }
#define PLACES(name, element, before)                                                                      \
    static void name(int64_t columns, int32_t i, const element *x, int last, element *best, int32_t *at) { \
        if (last)                                                                                          \
            TAKE((x[c] before best[c]) | (x[c] == best[c]) | nan)                                          \
        else                                                                                               \
            TAKE((x[c] before best[c]) | (nan & !kept))                                                    \
    }
PLACES(larger_reals, float, >)
PLACES(smaller_reals, float, <)
PLACES(larger_wholes, int64_t, >)
PLACES(smaller_wholes, int64_t, <)

static void places(const pa_arg_op *p, int64_t columns, const char *x, int64_t step, int32_t *at) {
    const int64_t n = p->src.size[p->axis], by = p->src.stride[p->axis] * p->src.item_bytes;
    const int real = p->src.type == PA_F32;
    float best[SIDE], next[SIDE];
    int64_t best_whole[SIDE], next_whole[SIDE];
    for (int64_t c = 0; c < columns; c++) at[c] = 0;
    if (real)
        pa_load_reals(p->src.type, columns, x, step, best);
    else
        pa_load_wholes(p->src.type, columns, x, step, best_whole);
    for (int64_t i = 1; i < n; i++) {
        if (real) {
            const float *row = (const float *)(x + i * by);
            if (step != 1) {
                pa_load_reals(p->src.type, columns, row, step, next);
                row = next;
            }
            (p->least ? smaller_reals : larger_reals)(columns, (int32_t)i, row, p->last, best, at);
        } else {
            pa_load_wholes(p->src.type, columns, x + i * by, step, next_whole);
            (p->least ? smaller_wholes : larger_wholes)(columns, (int32_t)i, next_whole, p->last, best_whole, at);
        }
    }
}

static void arg_units(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_arg_op *p = j->op;
    const int last = p->kept.rank - 1;
    const int64_t n = p->src.size[p->axis], size = p->kept.size[last], blocks = ceil_div(size, SIDE);
    int32_t at[SIDE];
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * SIDE, columns = min64(SIDE, size - first);
        const int64_t from = w.offset[0] + first * p->kept.stride[0][last], step = p->kept.stride[1][last];
        const char *x = elements_at(pa_at(&p->src, j->bases), &p->src, from);
        int64_t *y = (int64_t *)pa_at(&p->dst, j->bases) + w.offset[1] + first * step;
        if (p->columns) {
            places(p, columns, x, p->kept.stride[0][last], at);
            for (int64_t c = 0; c < columns; c++) y[c * step] = at[c];
            continue;
        }
        const int64_t lines = p->kept.stride[0][last];
        float best[SIDE];
        p->reduce(p->least ? PA_FOLD_MIN : PA_FOLD_MAX, columns, n, (const float *)x, lines, 0, best);
        for (int64_t c = 0; c < columns; c++) y[c * step] = place_of(n, (const float *)x + c * lines, best[c], p->last);
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
