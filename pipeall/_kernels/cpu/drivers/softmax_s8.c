/* Some rows, or columns side by side, are floats while they are in a cache, so that memory sees bytes only; kernels of floats
 * compute them. Rows that are too short for these find powers in a table: an integer less the greatest is one of 256.
 * Bound: the exponentials. Measured, one Zen 5 core, elements per ns by AVX-512 and AVX2: columns of 80 3.5, 1.9; rows of 196
 * 2.6, 1.7; of 21 1.2 by the table, and 1.4 of 1000. By floats between two passes over memory columns of 80 3.0, 1.8; rows of
 * 196 2.3, 1.6; of 21 0.8.
 */
#include "softmax.h"

#include <string.h>

#include "parallel_for.h"
#include "reduce.h"

enum {
    ROWS = 2048,     /* floats of rows: they and their results stay in L1 */
    COLUMNS = 16384, /* of columns: in L2 */
    SIDE_MIN = 64,   /* columns side by side, at least and at most */
    SIDE_MAX = 1024,
    SHORT = 32, /* rows with a last vector that is not full */
};

/* One row by the table. */
static void row_by_table(const pa_softmax_s8_op *p, int64_t n, const int8_t *x, float *y) {
    int8_t most = x[0];
    float sum = 0;
    for (int64_t i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < n; i++) sum += y[i] = p->powers[most - x[i]];
    const float factor = 1 / sum;
    for (int64_t i = 0; i < n; i++) y[i] *= factor;
}

/* So many runs of n elements, which lie `stride` apart, `step` from one to the next: of src or dst. */
typedef struct part {
    int64_t runs, n, stride, step;
} part;

static int in_order(const part *s) { return s->step == 1 && s->stride == s->n; }

static void load(const pa_softmax_s8_op *p, const part *s, const int8_t *x, int8_t *bytes, float *y) {
    if (in_order(s) && !p->by_table) {
        PA_FUNCTION(dequantize, s8, p->dequantize)(s->runs * s->n, x, y, p->src_scale, p->src_zero);
        return;
    }
    for (int64_t r = 0; r < s->runs; r++, x += s->stride, y += s->n) {
        for (int64_t i = 0; i < s->n && s->step != 1; i++) bytes[i] = x[i * s->step];
        const int8_t *from = s->step == 1 ? x : bytes;
        if (p->by_table)
            row_by_table(p, s->n, from, y);
        else
            PA_FUNCTION(dequantize, s8, p->dequantize)(s->n, from, y, p->src_scale, p->src_zero);
    }
}

static void store(const pa_softmax_s8_op *p, const part *s, const float *x, int8_t *bytes, int8_t *y) {
    if (in_order(s)) {
        PA_FUNCTION(quantize, s8, p->quantize)(s->runs * s->n, x, y, p->dst_scale, p->dst_zero);
        return;
    }
    for (int64_t r = 0; r < s->runs; r++, x += s->n, y += s->stride) {
        PA_FUNCTION(quantize, s8, p->quantize)(s->n, x, s->step == 1 ? y : bytes, p->dst_scale, p->dst_zero);
        for (int64_t i = 0; i < s->n && s->step != 1; i++) y[i * s->step] = bytes[i];
    }
}

/* Whether results lie apart: in place a row would wait until the part of a vector that ends the row before is in the cache. */
static int rows_apart(const pa_softmax_s8_op *p) { return !p->side_by_side && !p->by_table; }

/* Units are blocks of the last kept axis. */
static void softmax_blocks(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_softmax_s8_op *p = ctx->op;
    const int last = p->kept.rank - 1;
    const int64_t n = p->src.size[p->axis], size = p->kept.size[last], blocks = ceil_div(size, p->block);
    const int64_t along[] = {p->src.stride[p->axis], p->dst.stride[p->axis]}; /* from one element of a row to the next */
    const int64_t beside[] = {p->kept.stride[0][last], p->kept.stride[1][last]};
    float *reals = (float *)((char *)ctx->scratch + thread * p->scratch_bytes);
    float *made = reals + (rows_apart(p) ? p->block * n : 0);
    int8_t *bytes = (int8_t *)(made + p->block * n);
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * p->block, count = min64(p->block, size - first);
        const int8_t *x = (const int8_t *)pa_at(&p->src, ctx->bases) + w.offset[0] + first * beside[0];
        int8_t *y = (int8_t *)pa_at(&p->dst, ctx->bases) + w.offset[1] + first * beside[1];
        part of[2];
        for (int k = 0; k < 2; k++)
            of[k] = p->side_by_side ? (part){n, count, along[k], 1} : (part){count, n, beside[k], along[k]};
        load(p, &of[0], x, bytes, reals);
        if (p->side_by_side) PA_FUNCTION(softmax_columns, f32, p->columns)(n, count, reals, count, reals, count, 0);
        if (rows_apart(p)) PA_FUNCTION(softmax, f32, p->softmax)(count, n, reals, n, made, n);
        store(p, &of[1], made, bytes, y);
    }
}

void pa_softmax_s8_plan(pa_softmax_s8_op *p) {
    int32_t folded[PA_DIMS] = {0};
    pa_axes inner;
    folded[p->axis] = 1;
    pa_fold_axes(&p->src, &p->dst, folded, &p->kept, &inner, 1);
    const int last = p->kept.rank - 1, in_rows = p->src.stride[p->axis] == 1 && p->dst.stride[p->axis] == 1;
    const int beside = p->kept.stride[0][last] == 1 && p->kept.stride[1][last] == 1;
    const int64_t n = p->src.size[p->axis], size = p->kept.size[last];
    p->side_by_side = !in_rows && beside && size >= PA_FOLD_LEAST;
    p->by_table = !p->side_by_side && n < SHORT && n % PA_LANES_MAX != 0;
    const int64_t side = max64(SIDE_MIN, min64(SIDE_MAX, COLUMNS / n / 16 * 16));
    p->block = min64(p->side_by_side ? side : max64(1, ROWS / n), size);
    p->scratch_bytes = round_up((1 + rows_apart(p)) * p->block * n * (int64_t)sizeof(float) + n, 64);
}

void pa_softmax_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_softmax_s8_op *p = op;
    const int last = p->kept.rank - 1;
    const int64_t blocks = ceil_div(p->kept.size[last], p->block);
    parallel_for(op, bases, scratch, team, softmax_blocks, positions(&p->kept, last) * blocks, p->block * p->src.size[p->axis]);
}
