/* Normalization. Rows that are contiguous go to the kernels of rows; where a kept axis is contiguous, columns are done side by
 * side; other rows are gathered in blocks. */
#include "normalize.h"

#include <math.h>

#include "convert.h"
#include "parallel_for.h"

enum {
    ROW = 8192, /* floats that a kernel sums in one go */
    SIDE = 128, /* columns that are normalized side by side */
    FLOATS = 2048, /* that stand for halves or integers: they stay in L1 */
};

/* ---- over the channels of each pixel ---- */

static int64_t squares_floats(const pa_lrn_op *p) {
    return round_up(2 * ((int64_t)p->src.c + p->size + 2 * PA_LANES_MAX), 16);
}

/* Integers become numbers of quanta of the result, which then are rounded without a division. */
static void load_run(const pa_lrn_op *p, int64_t n, const char *x, float *out) {
    if (p->type == PA_S8)
        PA_FUNCTION(dequantize, s8, p->dequantize)(n, (const int8_t *)x, out, p->src_scale / p->dst_scale, p->src_zero);
    else
        pa_load_f32(p->type, n, x, 1, out);
}

static void store_run(const pa_lrn_op *p, int64_t n, const float *x, char *out) {
    if (p->type == PA_S8)
        PA_FUNCTION(quantize, s8, p->quantize)(n, x, (int8_t *)out, 1, p->dst_zero);
    else
        pa_store_f32(p->type, n, x, out, 1);
}

static void lrn_pixels(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_lrn_op *p = ctx->op;
    const int64_t item_bytes = p->type == PA_S8 ? 1 : p->type == PA_F16 ? 2 : 4;
    float *squares = (float *)ctx->scratch + thread * p->scratch_floats;
    pa_lrn_args args = {
        .pixels = (int32_t)(end - begin),
        .channels = p->src.c,
        .size = p->size,
        .alpha = p->alpha,
        .beta = p->beta,
        .bias = p->bias,
        .x = pa_f32_at(&p->src, ctx->bases) + begin * p->src.stride,
        .x_stride = p->src.stride,
        .out = pa_f32_at(&p->dst, ctx->bases) + begin * p->dst.stride,
        .out_stride = p->dst.stride,
        .squares = squares,
    };
    if (p->type == PA_F32) {
        PA_FUNCTION(lrn, f32, p->kernel)(&args);
        return;
    }
    if (p->type == PA_S8) args.alpha *= p->dst_scale * p->dst_scale;
    const int at_once = dense(&p->src) && dense(&p->dst);
    args.x = args.out = squares + squares_floats(p);
    args.x_stride = args.out_stride = p->src.c;
    for (int64_t i = begin; i < end; i += args.pixels) {
        args.pixels = (int32_t)min64(p->block, end - i);
        const int64_t runs = at_once ? 1 : args.pixels, n = at_once ? (int64_t)args.pixels * p->src.c : p->src.c;
        const char *x = pa_view_at(&p->src, ctx->bases, item_bytes) + i * p->src.stride * item_bytes;
        char *out = pa_view_at(&p->dst, ctx->bases, item_bytes) + i * p->dst.stride * item_bytes;
        for (int64_t r = 0; r < runs; r++) load_run(p, n, x + r * p->src.stride * item_bytes, args.out + r * n);
        PA_FUNCTION(lrn, f32, p->kernel)(&args);
        for (int64_t r = 0; r < runs; r++) store_run(p, n, args.out + r * n, out + r * p->dst.stride * item_bytes);
    }
}

void pa_lrn_plan(pa_lrn_op *p) {
    p->block = max64(1, FLOATS / p->src.c);
    p->scratch_floats = squares_floats(p) + (p->type == PA_F32 ? 0 : round_up(p->block * p->src.c, 16));
}

void pa_lrn_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_lrn_op *p = op;
    parallel_for(op, bases, scratch, team, lrn_pixels, pixels(&p->src), p->src.c);
}

static void layernorm_pixels(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_layernorm_op *p = ctx->op;
    const float *src = pa_f32_at(&p->src, ctx->bases);
    float *dst = pa_f32_at(&p->dst, ctx->bases);
    for (int64_t i = begin; i < end; i++)
        PA_FUNCTION(layernorm, f32, p->kernel)(p->src.c, src + i * p->src.stride, dst + i * p->dst.stride, p->epsilon);
}

void pa_layernorm_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_layernorm_op *p = op;
    parallel_for(op, bases, scratch, team, layernorm_pixels, pixels(&p->src), p->src.c);
}

/* ---- along any axes ---- */

static float factor_of(const pa_layernorm_nd_op *p, double squares, int64_t n) {
    return (float)(1 / sqrt(squares / (double)n + p->epsilon));
}

/* One group of elements, the first of which is at x and y. */
static void normalize_one(const pa_layernorm_nd_op *p, const float *x, float *y) {
    const pa_axes *inner = &p->sums.inner;
    const int last = inner->rank - 1;
    const int64_t n = positions(inner, inner->rank), x_step = inner->stride[0][last], y_step = inner->stride[1][last];
    if (p->center && last == 0 && x_step == 1 && y_step == 1 && n <= ROW) {
        PA_FUNCTION(layernorm, f32, p->layernorm)(n, x, y, p->epsilon);
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
            pa_load_f32(PA_F32, count, from, x_step, block);
            from = block;
        }
        if (p->center) {
            PA_FUNCTION(binary, f32, p->binary)(PA_BINARY_sub, count, from, &mean, 0, to, -INFINITY, INFINITY);
            from = to;
        }
        PA_FUNCTION(binary, f32, p->binary)(PA_BINARY_mul, count, from, &factor, 0, to, -INFINITY, INFINITY);
        if (y_step != 1) pa_store_f32(PA_F32, count, block, y + r.at[1], y_step);
    }
}

static void normalize_groups(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_layernorm_nd_op *p = ctx->op;
    walk w = walk_from(&p->sums.kept, p->sums.kept.rank, begin);
    for (int64_t i = begin; i < end; i++, walk_on(&w))
        normalize_one(p, (const float *)pa_at(&p->sums.src, ctx->bases) + w.offset[0],
                      (float *)pa_at(&p->sums.dst, ctx->bases) + w.offset[1]);
}

static void normalize_columns(const pa_layernorm_nd_op *p, int64_t columns, const float *x, float *y) {
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
        PA_FUNCTION(normalize, f32, p->normalize)(rows, columns, x + r.at[0], inner->stride[0][last], mean, factor,
            y + r.at[1],
                   inner->stride[1][last]);
}

static void normalize_blocks(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_layernorm_nd_op *p = ctx->op;
    const pa_axes *kept = &p->sums.kept;
    const int last = kept->rank - 1;
    const int64_t size = kept->size[last], blocks = ceil_div(size, SIDE);
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(kept, last, unit / blocks);
        const int64_t first = unit % blocks * SIDE;
        normalize_columns(p, min64(SIDE, size - first),
                          (const float *)pa_at(&p->sums.src, ctx->bases) + w.offset[0] + first,
                          (float *)pa_at(&p->sums.dst, ctx->bases) + w.offset[1] + first);
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
        parallel_for(op, bases, scratch, team, normalize_blocks, positions(kept, last) * ceil_div(size, SIDE),
            min64(size, SIDE) * n);
    else
        parallel_for(op, bases, scratch, team, normalize_groups, positions(kept, last + 1), n);
}
