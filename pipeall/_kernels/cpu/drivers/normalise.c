/* Rows that are contiguous go to the kernels of rows; where a kept axis is contiguous, columns are done side by side; other
 * rows are gathered in blocks. */
#include "normalise.h"

#include <math.h>

#include "blocks.h"
#include "chunks.h"

enum {
    ROW = 8192, /* floats that a kernel sums in one go */
    SIDE = 128, /* columns that are normalised side by side */
    GATHERED = 1024, /* floats of several rows that are gathered */
    SOFTMAX_BLOCK = 16384 /* floats whose softmax is a unit of work: they stay in the second-level cache */
};

/* ---- softmax ---- */

/* Of contiguous rows */
static void softmax_of(const pa_softmax_nd_op *p, int64_t rows, int64_t n, const float *x, int64_t x_stride, float *y,
                       int64_t y_stride) {
    if (!p->log) {
        p->softmax(rows, n, x, x_stride, y, y_stride);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += x_stride, y += y_stride) {
        const float most = pa_reduce_one(p->reduce, PA_FOLD_MAX, n, x, 0);
        const float logarithm = logf(pa_reduce_one(p->reduce, PA_FOLD_EXP, n, x, most));
        p->binary(PA_BINARY_sub, n, x, &most, 0, y, -INFINITY, INFINITY);
        p->binary(PA_BINARY_sub, n, y, &logarithm, 0, y, -INFINITY, INFINITY);
    }
}

/* Rows that are gathered at a time. */
static int64_t gathered(const pa_softmax_nd_op *p) { return max64(1, min64(PA_LANES_MAX, GATHERED / p->src.size[p->axis])); }

static void softmax_rows(const job *j, int64_t begin, int64_t end, int thread) {
    const pa_softmax_nd_op *p = j->op;
    const int64_t n = p->src.size[p->axis], x_step = p->src.stride[p->axis], y_step = p->dst.stride[p->axis];
    float *row = (float *)j->scratch + thread * p->scratch_floats;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], x_row = p->kept.stride[0][last], y_row = p->kept.stride[1][last];
    for (int64_t i = begin, rows; i < end; i += rows) {
        const walk w = walk_from(&p->kept, last + 1, i);
        const float *x = (const float *)pa_at(&p->src, j->bases) + w.offset[0];
        float *y = (float *)pa_at(&p->dst, j->bases) + w.offset[1];
        rows = min64(size - i % size, end - i);
        if (p->scratch_floats == 0) {
            softmax_of(p, rows, n, x, x_row, y, y_row);
            continue;
        }
        rows = min64(rows, gathered(p));
        for (int64_t r = 0; r < rows; r++) pa_load_reals(PA_F32, n, x + r * x_row, x_step, row + r * n);
        softmax_of(p, rows, n, row, n, row, n);
        for (int64_t r = 0; r < rows; r++) pa_store_reals(PA_F32, n, row + r * n, y + r * y_row, y_step);
    }
}

/* Columns of a unit: runs of memory as long as the rows allow. */
static int64_t softmax_side(const pa_softmax_nd_op *p) {
    return max64(64, min64(1024, SOFTMAX_BLOCK / p->src.size[p->axis] / 16 * 16));
}

static void softmax_columns(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_softmax_nd_op *p = j->op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last], side = softmax_side(p), blocks = ceil_div(size, side);
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * side;
        const float *x = (const float *)pa_at(&p->src, j->bases) + w.offset[0] + first;
        float *y = (float *)pa_at(&p->dst, j->bases) + w.offset[1] + first;
        p->columns(p->src.size[p->axis], min64(side, size - first), x, p->src.stride[p->axis], y,
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
        run(op, bases, scratch, team, softmax_columns, positions(&p->kept, last) * ceil_div(size, side),
            min64(size, side) * n);
    else
        run(op, bases, scratch, team, softmax_rows, positions(&p->kept, last + 1), n);
}

/* ---- layer normalisation ---- */

static float factor_of(const pa_layernorm_nd_op *p, double squares, int64_t n) {
    return (float)(1 / sqrt(squares / (double)n + p->epsilon));
}

/* One group of elements, the first of which is at x and y. */
static void normalise_one(const pa_layernorm_nd_op *p, const float *x, float *y) {
    const pa_axes *inner = &p->sums.inner;
    const int last = inner->rank - 1;
    const int64_t n = positions(inner, inner->rank), x_step = inner->stride[0][last], y_step = inner->stride[1][last];
    if (p->center && last == 0 && x_step == 1 && y_step == 1 && n <= ROW) {
        p->layernorm(n, x, y, p->epsilon);
        return;
    }
    const float mean = p->center ? (float)(pa_fold_elements(&p->sums, PA_FOLD_SUM, x, 0, n, 0) / (double)n) : 0;
    const float factor = factor_of(p, pa_fold_elements(&p->sums, PA_FOLD_SQUARES, x, 0, n, mean), n);
    float block[BLOCK];
    runs r = runs_over(inner, 0, n);
    for (int64_t count = next_run(&r, BLOCK); count; count = next_run(&r, BLOCK)) {
        const float *from = x + r.at[0];
        float *to = y_step == 1 ? y + r.at[1] : block;
        if (x_step != 1) {
            pa_load_reals(PA_F32, count, from, x_step, block);
            from = block;
        }
        if (p->center) {
            p->binary(PA_BINARY_sub, count, from, &mean, 0, to, -INFINITY, INFINITY);
            from = to;
        }
        p->binary(PA_BINARY_mul, count, from, &factor, 0, to, -INFINITY, INFINITY);
        if (y_step != 1) pa_store_reals(PA_F32, count, block, y + r.at[1], y_step);
    }
}

static void normalise_groups(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_layernorm_nd_op *p = j->op;
    walk w = walk_from(&p->sums.kept, p->sums.kept.rank, begin);
    for (int64_t i = begin; i < end; i++, walk_on(&w))
        normalise_one(p, (const float *)pa_at(&p->sums.src, j->bases) + w.offset[0],
                      (float *)pa_at(&p->sums.dst, j->bases) + w.offset[1]);
}

static void normalise_columns(const pa_layernorm_nd_op *p, int64_t columns, const float *x, float *y) {
    const pa_axes *inner = &p->sums.inner;
    const int last = inner->rank - 1;
    const int64_t n = positions(inner, inner->rank);
    double means[SIDE], squares[SIDE];
    float mean[SIDE] = {0}, factor[SIDE];
    if (p->center) {
        pa_moments_columns(&p->sums, x, columns, means, squares);
        for (int64_t c = 0; c < columns; c++) mean[c] = (float)means[c];
    } else {
        pa_fold_columns(&p->sums, PA_FOLD_SQUARES, x, columns, 0, n, mean, squares);
    }
    for (int64_t c = 0; c < columns; c++) factor[c] = factor_of(p, squares[c], n);
    runs r = runs_over(inner, 0, n);
    for (int64_t rows = next_run(&r, n); rows; rows = next_run(&r, n))
        p->normalize(rows, columns, x + r.at[0], inner->stride[0][last], mean, factor, y + r.at[1],
                   inner->stride[1][last]);
}

static void normalise_blocks(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_layernorm_nd_op *p = j->op;
    const pa_axes *kept = &p->sums.kept;
    const int last = kept->rank - 1;
    const int64_t size = kept->size[last], blocks = ceil_div(size, SIDE);
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(kept, last, unit / blocks);
        const int64_t first = unit % blocks * SIDE;
        normalise_columns(p, min64(SIDE, size - first),
                          (const float *)pa_at(&p->sums.src, j->bases) + w.offset[0] + first,
                          (float *)pa_at(&p->sums.dst, j->bases) + w.offset[1] + first);
    }
}

void pa_layernorm_nd_plan(pa_layernorm_nd_op *p) {
    pa_reduce_op *sums = &p->sums;
    pa_fold_axes(&sums->src, &sums->dst, sums->folded, &sums->kept, &sums->inner, 1);
    const int last = sums->kept.rank - 1, inner = sums->inner.rank - 1;
    const int row = sums->inner.stride[0][inner] == 1 && sums->inner.stride[1][inner] == 1;
    const int beside = sums->kept.stride[0][last] == 1 && sums->kept.stride[1][last] == 1;
    sums->columns = !row && beside && sums->kept.size[last] >= PA_FOLD_LEAST;
}

void pa_layernorm_nd_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_layernorm_nd_op *p = op;
    const pa_axes *kept = &p->sums.kept;
    const int last = kept->rank - 1;
    const int64_t n = positions(&p->sums.inner, p->sums.inner.rank), size = kept->size[last];
    if (p->sums.columns)
        run(op, bases, scratch, team, normalise_blocks, positions(kept, last) * ceil_div(size, SIDE),
            min64(size, SIDE) * n);
    else
        run(op, bases, scratch, team, normalise_groups, positions(kept, last + 1), n);
}
