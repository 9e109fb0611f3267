/* Runs along one axis go to the kernels as they lie; elements that do not follow one another, or are of a type that has no
 * kernel, go by blocks. */
#include "quantize.h"

#include "convert.h"
#include "parallel_for.h"

static inline int64_t inner(const pa_quantize_op *p, int operand) { return p->axes.stride[operand][p->axes.rank - 1]; }
static inline int operands(const pa_quantize_op *p) { return p->form == PA_INTEGERS ? 2 : 1; }

static void quantize(const pa_quantize_op *p, int64_t n, const float *x, void *out) {
    const int sign = p->dst.type == PA_U8 ? 128 : 0;
    int8_t *levels = out;
    PA_FUNCTION(quantize, s8, p->quantize)(n, x, levels, p->scale, p->zero - sign);
    for (int64_t i = 0; sign && i < n; i++) levels[i] ^= (int8_t)0x80;
}

static void dequantize(const pa_quantize_op *p, int64_t n, const void *x, float *out) {
    const float zero = (float)p->zero;
    int8_t levels[BLOCK];
    if (p->src[0].type == PA_S8) {
        PA_FUNCTION(dequantize, s8, p->dequantize)(n, x, out, p->scale, p->zero);
        return;
    }
    for (int64_t i = 0, count; i < n; i += count) {
        count = min64(BLOCK, n - i);
        if (p->src[0].type == PA_U8) {
            for (int64_t j = 0; j < count; j++) levels[j] = (int8_t)(((const uint8_t *)x)[i + j] ^ 0x80);
            PA_FUNCTION(dequantize, s8, p->dequantize)(count, levels, out + i, p->scale, p->zero - 128);
            continue;
        }
        pa_load_f32(p->src[0].type, count, (const int32_t *)x + i, 1, out + i);
        for (int64_t j = i; j < i + count; j++) out[j] = (out[j] - zero) * p->scale;
    }
}

static void compute(const pa_quantize_op *p, int64_t n, const void *const *src, int step, void *dst) {
    switch (p->form) {
    case PA_QUANTIZE: quantize(p, n, src[0], dst); break;
    case PA_DEQUANTIZE: dequantize(p, n, src[0], dst); break;
    case PA_TABLE: PA_FUNCTION(lut, s8, p->by_table)(1, n, n, src[0], dst, p->table); break;
    case PA_INTEGERS: PA_FUNCTION(add, s8, p->integers)(n, src[0], src[1], step, dst, &p->args); break;
    }
}

/* Elements `step` apart become `n` that follow each other, or the other way round. */
static void move(int bytes, int64_t n, const char *from, int64_t from_step, char *to, int64_t to_step) {
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step * bytes, from + i * from_step * bytes, (size_t)bytes);
}

static void by_blocks(const pa_quantize_op *p, int64_t n, const void *const *src, void *dst) {
    float buffers[3][BLOCK]; /* of elements of at most four bytes */
    for (int64_t i = 0, count; i < n; i += count) {
        count = min64(BLOCK, n - i);
        const void *at[2] = {buffers[0], buffers[1]};
        for (int k = 0; k < operands(p); k++)
            move(p->src[k].item_bytes, count, elements_at(src[k], &p->src[k], i * inner(p, k + 1)), inner(p, k + 1),
                 (char *)buffers[k], 1);
        compute(p, count, at, 1, buffers[2]);
        move(p->dst.item_bytes, count, (const char *)buffers[2], 1, (char *)dst + i * inner(p, 0) * p->dst.item_bytes,
             inner(p, 0));
    }
}

/* Whether rows are short, such as pixels of few channels by a gate: the last two axes are contiguous in the result and in
 * operand `full`, and operand `broadcast` has one row for all. A buffer then holds several copies of this row, and many rows
 * are one run. */
static int has_short_rows(const pa_quantize_op *p, int full, int broadcast) {
    const pa_axes *axes = &p->axes;
    const int last = axes->rank - 1;
    const int64_t row = axes->size[last];
    if (p->form != PA_INTEGERS || last == 0 || 2 * row > BLOCK) return 0;
    return axes->stride[0][last] == 1 && axes->stride[full][last] == 1 && axes->stride[broadcast][last] == 1 &&
           axes->stride[0][last - 1] == row && axes->stride[full][last - 1] == row && axes->stride[broadcast][last - 1] == 0;
}

static void rows_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_quantize_op *p = ctx->op;
    const int64_t row = p->axes.size[p->axes.rank - 1], most = BLOCK / row;
    int8_t repeated[BLOCK];
    const void *repeats = NULL; /* what `repeated` has copies of */
    pa_axes rows = p->axes;
    rows.rank--;
    runs r = runs_over(&rows, begin, end);
    (void)thread;
    for (int64_t n; (n = next_run(&r, most)) != 0;) {
        const void *first = elements_at(pa_at(&p->src[0], ctx->bases), &p->src[0], r.at[1]);
        const void *second = elements_at(pa_at(&p->src[1], ctx->bases), &p->src[1], r.at[2]);
        for (int64_t k = 0; second != repeats && k < most; k++) memcpy(repeated + k * row, second, (size_t)row);
        repeats = second;
        PA_FUNCTION(add, s8, p->integers)(n * row, first, repeated, 1, (int8_t *)pa_at(&p->dst, ctx->bases) + r.at[0],
            &p->args);
    }
}

static void quantize_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_quantize_op *p = ctx->op;
    const int step = (int)inner(p, operands(p));
    int direct = inner(p, 0) == 1 && inner(p, 1) == 1;
    if (p->form == PA_INTEGERS) direct &= step == 0 || step == 1;
    runs r = runs_over(&p->axes, begin, end);
    (void)thread;
    for (int64_t n; (n = next_run(&r, CHUNK)) != 0;) {
        const void *src[2] = {NULL, NULL};
        for (int k = 0; k < operands(p); k++) src[k] = elements_at(pa_at(&p->src[k], ctx->bases), &p->src[k], r.at[k + 1]);
        void *dst = (char *)pa_at(&p->dst, ctx->bases) + r.at[0] * p->dst.item_bytes;
        if (direct)
            compute(p, n, src, step, dst);
        else
            by_blocks(p, n, src, dst);
    }
}

/* Exchanges the operands: kernels take one that broadcasts as the second. */
static void exchange(pa_quantize_op *p) {
    const pa_strided first = p->src[0];
    const pa_binary_s8_args given = p->args;
    p->src[0] = p->src[1], p->src[1] = first;
    p->args.a_zero = given.b_zero, p->args.b_zero = given.a_zero;
    p->args.a_factor = given.b_factor, p->args.b_factor = given.a_factor;
    for (int d = 0; d < p->axes.rank; d++) {
        const int64_t stride = p->axes.stride[1][d];
        p->axes.stride[1][d] = p->axes.stride[2][d];
        p->axes.stride[2][d] = stride;
    }
}

void pa_quantize_plan(pa_quantize_op *p) {
    const pa_strided *all[] = {&p->dst, &p->src[0], &p->src[1]};
    p->axes.rank = p->dst.rank, p->axes.operands = 1 + operands(p);
    for (int k = 0; k < p->axes.operands; k++)
        for (int d = 0; d < p->dst.rank; d++) {
            p->axes.size[d] = p->dst.size[d];
            p->axes.stride[k][d] = all[k]->stride[d];
        }
    axes_merge(&p->axes);
    if (has_short_rows(p, 2, 1)) exchange(p);
    p->in_rows = has_short_rows(p, 1, 2);
    if (p->in_rows) return;
    axes_choose_run(&p->axes, axes_work);
    if (p->form == PA_INTEGERS && inner(p, 1) == 0 && inner(p, 2) != 0) exchange(p);
}

void pa_quantize_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_quantize_op *p = op;
    const int rank = p->axes.rank;
    if (p->in_rows)
        parallel_for(op, bases, scratch, team, rows_range, positions(&p->axes, rank - 1), p->axes.size[rank - 1]);
    else
        parallel_for(op, bases, scratch, team, quantize_range, positions(&p->axes, rank), 1);
}
