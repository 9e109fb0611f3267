/* Where the axes that are folded hold the contiguous one, every output folds runs; where a kept axis is contiguous, up to
 * PA_FOLD_COLUMNS outputs are folded side by side; else elements are gathered in blocks.
 *
 * At most ROWS rows or RUN elements are summed in float32, whose sums are added in double precision: the error is that of
 * such a block, whatever the size. Few outputs of many elements are folded in pieces that depend on the sizes alone. */
#include "reduce.h"

#include <math.h>

#include "convert.h"
#include "parallel_for.h"

enum {
    ROWS = 128,
    RUN = 4096,
    PIECE = 65536, /* elements of a piece at least */
    MOST_PIECES = 32
};

static const float ZEROS[PA_FOLD_COLUMNS];

/* Folds so far of outputs side by side: of e^(x - shift) for PA_FINISH_LOG_SHIFTED. */
typedef struct partials {
    double value[PA_FOLD_COLUMNS], shift[PA_FOLD_COLUMNS];
} partials;

void pa_fold_axes(const pa_strided *src, const pa_strided *dst, const int32_t *folded, pa_axes *kept, pa_axes *inner,
                  int both) {
    *kept = (pa_axes){.operands = 2}, *inner = (pa_axes){.operands = 1 + both};
    for (int d = 0; d < src->rank; d++) {
        pa_axes *axes = folded[d] ? inner : kept;
        const int at = axes->rank++;
        axes->size[at] = src->size[d], axes->stride[0][at] = src->stride[d], axes->stride[1][at] = dst->stride[d];
    }
    axes_merge(kept);
    axes_merge(inner);
}

void pa_kept_axes(const pa_strided *first, const pa_strided *second, int axis, pa_axes *kept) {
    int32_t folded[PA_DIMS] = {0};
    pa_axes inner;
    folded[axis] = 1;
    pa_fold_axes(first, second, folded, kept, &inner, 0);
}

const pa_reduction pa_reductions[] = {
#define PA_REDUCTION(name, fold, finish) {#name, PA_FOLD_##fold, PA_FINISH_##finish},
#include "../reductions.inc"
};
const int pa_reduction_count = sizeof pa_reductions / sizeof pa_reductions[0];

static double start_of(int fold) {
    return fold == PA_FOLD_MAX ? -INFINITY : fold == PA_FOLD_MIN ? INFINITY : fold == PA_FOLD_PROD ? 1 : 0;
}

static inline double both(int fold, double a, double b) {
    switch (fold) {
    case PA_FOLD_MAX: return a != a || a > b ? a : b;
    case PA_FOLD_MIN: return a != a || a < b ? a : b;
    case PA_FOLD_PROD: return a * b;
    default: return a + b;
    }
}

/* The results of n folds, `step` apart. */
static void finish(const pa_reduce_op *p, int64_t n, const double *value, const double *shift, float *y, int64_t step) {
    const double part = 1 / (double)positions(&p->inner, p->inner.rank);
    switch (p->finish) {
    case PA_FINISH_MEAN:
        for (int64_t i = 0; i < n; i++) y[i * step] = (float)(value[i] * part);
        break;
    case PA_FINISH_ROOT:
        for (int64_t i = 0; i < n; i++) y[i * step] = (float)sqrt(value[i]);
        break;
    case PA_FINISH_LOG:
        for (int64_t i = 0; i < n; i++) y[i * step] = (float)log(value[i]);
        break;
    case PA_FINISH_LOG_SHIFTED:
        for (int64_t i = 0; i < n; i++)
            y[i * step] = (float)(isfinite(shift[i]) ? shift[i] + log(value[i]) : shift[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) y[i * step] = (float)value[i];
    }
}

/* Whether such results can be folded in place. */
static int folds_are_results(const pa_reduce_op *p, int64_t step) {
    return step == 1 && p->finish == PA_FINISH_NONE;
}

/* The results of n folds in float32, which it may change. */
static void finish_floats(const pa_reduce_op *p, int64_t n, float *restrict value, float *restrict y, int64_t step) {
    const float count = (float)positions(&p->inner, p->inner.rank);
    if (p->finish == PA_FINISH_ROOT) PA_FUNCTION(unary, f32, p->unary)(PA_UNARY_sqrt, n, value, value, 0, 0);
    switch (p->finish) {
    case PA_FINISH_MEAN:
        for (int64_t i = 0; i < n; i++) y[i * step] = value[i] / count;
        break;
    case PA_FINISH_LOG:
        for (int64_t i = 0; i < n; i++) y[i * step] = (float)log(value[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) y[i * step] = value[i];
    }
}

/* total[i] = fold of total[i] and x[i] */
#define ADD_UP(name, element)                                                                     \
    static void name(int fold, int64_t n, double *total, const element *x) {                      \
        if (fold == PA_FOLD_MAX || fold == PA_FOLD_MIN || fold == PA_FOLD_PROD)                   \
            for (int64_t i = 0; i < n; i++) total[i] = both(fold, total[i], (double)x[i]);        \
        else                                                                                      \
            for (int64_t i = 0; i < n; i++) total[i] += (double)x[i];                             \
    }
ADD_UP(add_floats, float)
ADD_UP(add_doubles, double)

/* ---- floats ---- */

double pa_fold_elements(const pa_reduce_op *p, int fold, const float *x, int64_t begin, int64_t end, float shift) {
    const int64_t stride = p->inner.stride[0][p->inner.rank - 1], most = stride == 1 ? RUN : BLOCK;
    double total = start_of(fold);
    float block[BLOCK];
    runs r = runs_over(&p->inner, begin, end);
    for (int64_t n = next_run(&r, most); n; n = next_run(&r, most)) {
        const float *run = x + r.at[0];
        if (stride != 1) {
            for (int64_t i = 0; i < n; i++) block[i] = run[i * stride];
            run = block;
        }
        total = both(fold, total, pa_reduce_one(p->reduce, fold, n, run, shift));
    }
    return total;
}

/* Folds elements [begin, end) of the output whose first is at x. */
static void fold_one(const pa_reduce_op *p, const float *x, int64_t begin, int64_t end, partials *to) {
    if (p->finish != PA_FINISH_LOG_SHIFTED) {
        to->value[0] = pa_fold_elements(p, p->fold, x, begin, end, 0);
        return;
    }
    const double most = pa_fold_elements(p, PA_FOLD_MAX, x, begin, end, 0);
    to->shift[0] = most;
    to->value[0] = isfinite(most) ? pa_fold_elements(p, PA_FOLD_EXP, x, begin, end, (float)most) : 0;
}

void pa_fold_columns(const pa_reduce_op *p, int fold, const float *x, int64_t columns, int64_t begin, int64_t end,
                     const float *shift, double *totals) {
    const double start = start_of(fold);
    float acc[PA_FOLD_COLUMNS];
    int64_t folded = 0;
    for (int64_t j = 0; j < columns; j++) totals[j] = start, acc[j] = (float)start;
    runs r = runs_over(&p->inner, begin, end);
    for (int64_t n = next_run(&r, ROWS); n; n = next_run(&r, ROWS)) {
        PA_FUNCTION(reduce_columns, f32, p->reduce_columns)(fold, n, columns, x + r.at[0], p->inner.stride[0][r.last],
            shift, acc);
        folded += n;
        if (folded < ROWS && r.left) continue;
        add_floats(fold, columns, totals, acc);
        for (int64_t j = 0; j < columns; j++) acc[j] = (float)start;
        folded = 0;
    }
}

void pa_moments_columns(const pa_reduce_op *p, const float *x, int64_t columns, double *mean, double *squares) {
    float sum[PA_FOLD_COLUMNS], shift[PA_FOLD_COLUMNS], square[PA_FOLD_COLUMNS];
    double seen = 0;
    for (int64_t j = 0; j < columns; j++) mean[j] = squares[j] = 0;
    runs r = runs_over(&p->inner, 0, positions(&p->inner, p->inner.rank));
    for (int64_t n = next_run(&r, ROWS); n; n = next_run(&r, ROWS)) {
        const float *rows = x + r.at[0];
        const int64_t stride = p->inner.stride[0][r.last];
        for (int64_t j = 0; j < columns; j++) sum[j] = square[j] = 0;
        PA_FUNCTION(reduce_columns, f32, p->reduce_columns)(PA_FOLD_SUM, n, columns, rows, stride, ZEROS, sum);
        for (int64_t j = 0; j < columns; j++) shift[j] = sum[j] / (float)n;
        PA_FUNCTION(reduce_columns, f32, p->reduce_columns)(PA_FOLD_SQUARES, n, columns, rows, stride, shift, square);
        const double count = (double)n, part = count / (seen + count);
        for (int64_t j = 0; j < columns; j++) {
            const double here = sum[j] / count, off = here - shift[j], apart = here - mean[j];
            squares[j] += square[j] - count * off * off + apart * apart * seen * part;
            mean[j] += apart * part;
        }
        seen += count;
    }
}

static void fold_side_by_side(const pa_reduce_op *p, const float *x, int64_t columns, int64_t begin, int64_t end,
                              partials *to) {
    if (p->finish != PA_FINISH_LOG_SHIFTED) {
        pa_fold_columns(p, p->fold, x, columns, begin, end, ZEROS, to->value);
        return;
    }
    float shift[PA_FOLD_COLUMNS];
    pa_fold_columns(p, PA_FOLD_MAX, x, columns, begin, end, ZEROS, to->shift);
    for (int64_t j = 0; j < columns; j++) shift[j] = isfinite(to->shift[j]) ? (float)to->shift[j] : 0;
    pa_fold_columns(p, PA_FOLD_EXP, x, columns, begin, end, shift, to->value);
}

/* Adds the folds of another piece of the same n outputs. */
static void join(const pa_reduce_op *p, int64_t n, partials *total, const partials *next) {
    if (p->finish != PA_FINISH_LOG_SHIFTED) {
        add_doubles(p->fold, n, total->value, next->value);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double most = both(PA_FOLD_MAX, total->shift[i], next->shift[i]);
        const double a = isfinite(total->shift[i]) ? total->value[i] * exp(total->shift[i] - most) : 0;
        const double b = isfinite(next->shift[i]) ? next->value[i] * exp(next->shift[i] - most) : 0;
        total->value[i] = a + b, total->shift[i] = most;
    }
}

/* Outputs whose elements are one short run each, along the last kept axis: without the walk over runs. */
static void reduce_runs(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_reduce_op *p = ctx->op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], x_step = p->kept.stride[0][last], y_step = p->kept.stride[1][last];
    const int direct = folds_are_results(p, y_step);
    float folds[BLOCK];
    for (int64_t i = begin, n; i < end; i += n) {
        const walk w = walk_from(&p->kept, last + 1, i);
        float *y = (float *)pa_at(&p->dst, ctx->bases) + w.offset[1], *to = direct ? y : folds;
        n = min64(min64(direct ? size : BLOCK, size - i % size), end - i);
        PA_FUNCTION(reduce, f32, p->reduce)(p->fold, n, p->inner.size[0], (const float *)pa_at(&p->src,
            ctx->bases) + w.offset[0], x_step, 0,
                  to);
        if (!direct) finish_floats(p, n, folds, y, y_step);
    }
}

/* Outputs of a unit: where the first lies in src and dst, how many and how far apart in dst. */
typedef struct outputs {
    const float *x;
    float *y;
    int64_t columns, step;
} outputs;

static outputs outputs_of(const pa_reduce_op *p, void *const *bases, int64_t unit) {
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], blocks = p->columns ? ceil_div(size, PA_FOLD_COLUMNS) : 1;
    const walk w = walk_from(&p->kept, p->columns ? last : last + 1, unit / blocks);
    const int64_t first = unit % blocks * PA_FOLD_COLUMNS;
    return (outputs){(const float *)pa_at(&p->src, bases) + w.offset[0] + first,
                     (float *)pa_at(&p->dst, bases) + w.offset[1] + first * p->kept.stride[1][last],
                     p->columns ? min64(PA_FOLD_COLUMNS, size - first) : 1, p->kept.stride[1][last]};
}

static void fold_piece(const pa_reduce_op *p, const outputs *o, int64_t piece, partials *to) {
    const int64_t total = positions(&p->inner, p->inner.rank);
    const int64_t begin = total * piece / p->pieces, end = total * (piece + 1) / p->pieces;
    if (p->columns)
        fold_side_by_side(p, o->x, o->columns, begin, end, to);
    else
        fold_one(p, o->x, begin, end, to);
}

static void reduce_floats(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_reduce_op *p = ctx->op;
    partials folds;
    for (int64_t unit = begin; unit < end; unit++) {
        const outputs o = outputs_of(p, ctx->bases, unit);
        fold_piece(p, &o, 0, &folds);
        finish(p, o.columns, folds.value, folds.shift, o.y, o.step);
    }
}

/* Columns so short that they are summed in float32. */
static void reduce_columns(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_reduce_op *p = ctx->op;
    const int fold = p->fold;
    float folds[PA_FOLD_COLUMNS];
    for (int64_t unit = begin; unit < end; unit++) {
        const outputs o = outputs_of(p, ctx->bases, unit);
        const int direct = folds_are_results(p, o.step);
        float *to = direct ? o.y : folds;
        for (int64_t i = 0; i < o.columns; i++) to[i] = (float)start_of(fold);
        runs r = runs_over(&p->inner, 0, positions(&p->inner, p->inner.rank));
        for (int64_t n = next_run(&r, ROWS); n; n = next_run(&r, ROWS))
            PA_FUNCTION(reduce_columns, f32, p->reduce_columns)(fold, n, o.columns, o.x + r.at[0],
                p->inner.stride[0][r.last], ZEROS, to);
        if (!direct) finish_floats(p, o.columns, folds, o.y, o.step);
    }
}

static void reduce_pieces(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_reduce_op *p = ctx->op;
    for (int64_t i = begin; i < end; i++) {
        const outputs o = outputs_of(p, ctx->bases, i / p->pieces);
        fold_piece(p, &o, i % p->pieces, (partials *)ctx->scratch + i);
    }
}

static void join_pieces(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_reduce_op *p = ctx->op;
    for (int64_t unit = begin; unit < end; unit++) {
        const outputs o = outputs_of(p, ctx->bases, unit);
        partials *folds = (partials *)ctx->scratch + unit * p->pieces;
        for (int64_t i = 1; i < p->pieces; i++) join(p, o.columns, folds, folds + i);
        finish(p, o.columns, folds->value, folds->shift, o.y, o.step);
    }
}

/* ---- integers and truths ---- */

static inline int64_t whole_of(int fold, int64_t total, int64_t x) {
    switch (fold) {
    case PA_FOLD_MAX: return x > total ? x : total;
    case PA_FOLD_MIN: return x < total ? x : total;
    case PA_FOLD_PROD: return (int64_t)((uint64_t)total * (uint64_t)x);
    case PA_FOLD_ABS: return (int64_t)((uint64_t)total + (x < 0 ? -(uint64_t)x : (uint64_t)x));
    case PA_FOLD_SQUARES: return (int64_t)((uint64_t)total + (uint64_t)x * (uint64_t)x);
    default: return (int64_t)((uint64_t)total + (uint64_t)x);
    }
}

static int64_t fold_wholes(const pa_reduce_op *p, int fold, const void *x, double most, double *exponentials) {
    int64_t total = fold == PA_FOLD_MAX ? INT64_MIN : fold == PA_FOLD_MIN ? INT64_MAX : fold == PA_FOLD_PROD;
    int64_t block[BLOCK];
    runs r = runs_over(&p->inner, 0, positions(&p->inner, p->inner.rank));
    for (int64_t n = next_run(&r, BLOCK); n; n = next_run(&r, BLOCK)) {
        pa_load_s64(p->src.type, n, elements_at(x, &p->src, r.at[0]), p->inner.stride[0][r.last], block);
        for (int64_t i = 0; i < n; i++) {
            if (exponentials)
                *exponentials += exp((double)block[i] - most);
            else
                total = whole_of(fold, total, block[i]);
        }
    }
    return total;
}

static void reduce_wholes(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_reduce_op *p = ctx->op;
    walk w = walk_from(&p->kept, p->kept.rank, begin);
    for (int64_t i = begin; i < end; i++, walk_on(&w)) {
        const void *x = elements_at(pa_at(&p->src, ctx->bases), &p->src, w.offset[0]);
        const int exponential = p->finish == PA_FINISH_LOG_SHIFTED;
        int64_t y = fold_wholes(p, exponential ? PA_FOLD_MAX : p->fold, x, 0, NULL);
        if (p->finish == PA_FINISH_MEAN) y /= positions(&p->inner, p->inner.rank);
        if (p->finish == PA_FINISH_ROOT) y = (int64_t)sqrt((double)y);
        if (p->finish == PA_FINISH_LOG) y = y > 0 ? (int64_t)log((double)y) : 0;
        if (exponential) {
            double sum = 0;
            fold_wholes(p, 0, x, (double)y, &sum);
            y = (int64_t)((double)y + log(sum));
        }
        pa_store_s64(p->dst.type, 1, &y, (char *)pa_at(&p->dst, ctx->bases) + w.offset[1] * p->dst.item_bytes, 1);
    }
}

/* ---- the step ---- */

void pa_reduce_plan(pa_reduce_op *p) {
    pa_fold_axes(&p->src, &p->dst, p->folded, &p->kept, &p->inner, 0);
    const int last = p->kept.rank - 1;
    const int64_t outputs = positions(&p->kept, p->kept.rank), size = p->kept.size[last];
    const int contiguous = p->inner.stride[0][p->inner.rank - 1] == 1;
    p->columns = p->src.type == PA_F32 && !contiguous && p->kept.stride[0][last] == 1 && size >= PA_FOLD_LEAST;
    p->units = p->columns ? outputs / size * ceil_div(size, PA_FOLD_COLUMNS) : outputs;
    const int64_t work = outputs * positions(&p->inner, p->inner.rank);
    p->pieces = p->src.type == PA_F32 ? max64(1, min64(work / PIECE, MOST_PIECES / p->units)) : 1;
    p->pieces = min64(p->pieces, positions(&p->inner, p->inner.rank));
    p->scratch_bytes = p->pieces > 1 ? p->units * p->pieces * (int64_t)sizeof(partials) : 0;
}

void pa_reduce_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_reduce_op *p = op;
    const int64_t work = positions(&p->kept, p->kept.rank) * positions(&p->inner, p->inner.rank);
    if (p->src.type != PA_F32) {
        parallel_for(op, bases, scratch, team, reduce_wholes, p->units, max64(1, work / p->units));
    } else if (p->pieces == 1) {
        const int short_run = p->inner.rank == 1 && p->inner.stride[0][0] == 1 && p->inner.size[0] <= RUN;
        const int short_columns = p->columns && positions(&p->inner, p->inner.rank) <= ROWS;
        const range_fn range = p->finish == PA_FINISH_LOG_SHIFTED ? reduce_floats
                               : short_columns        ? reduce_columns
                               : short_run            ? reduce_runs
                                                      : reduce_floats;
        parallel_for(op, bases, scratch, team, range, p->units, max64(1, work / p->units));
    } else {
        parallel_for(op, bases, scratch, team, reduce_pieces, p->units * p->pieces, max64(1, work / p->units / p->pieces));
        parallel_for(op, bases, scratch, team, join_pieces, p->units, PA_FOLD_COLUMNS * p->pieces);
    }
}
