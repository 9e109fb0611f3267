#include "elementwise.h"

#include <string.h>

#include "parallel_for.h"

/* Units are elements where all operands are flat (one run of elements), else pixels. */
static void run_elements(const void *op, void *const *bases, void *scratch, pa_team *team, range_fn range,
                         const pa_view *dst, int flat) {
    parallel_for(op, bases, scratch, team, range, flat ? pixels(dst) * dst->c : pixels(dst), flat ? 1 : dst->c);
}

static void unary_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_unary_op *p = ctx->op;
    const float *src = pa_f32_at(&p->src, ctx->bases);
    float *dst = pa_f32_at(&p->dst, ctx->bases);
    if (dense(&p->src) && dense(&p->dst)) {
        PA_FUNCTION(unary, f32, p->kernel)(p->op, end - begin, src + begin, dst + begin, p->p0, p->p1);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        PA_FUNCTION(unary, f32, p->kernel)(p->op, p->dst.c, src + i * p->src.stride, dst + i * p->dst.stride, p->p0, p->p1);
}

void pa_unary_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_unary_op *p = op;
    run_elements(op, bases, scratch, team, unary_range, &p->dst, dense(&p->src) && dense(&p->dst));
}

/* All three operands are one run of floats, or b is one number. */
static int binary_is_flat(const pa_binary_op *p) {
    const int same = pixels(&p->b) == pixels(&p->dst) && p->b.c == p->dst.c && dense(&p->b);
    return dense(&p->a) && dense(&p->dst) && (same || pixels(&p->b) * p->b.c == 1);
}

enum { REPEATED = 512 };

/* Whether b is a row of few channels, the same for all pixels, which lie one behind the other. */
static int binary_repeats(const pa_binary_op *p) {
    return dense(&p->a) && dense(&p->dst) && pixels(&p->b) == 1 && p->b.c == p->dst.c && p->b.c <= REPEATED / 2;
}

/* Pixels [begin, end) by calls for several at once, with b as often as it has pixels: a call for each would take longer
 * than its channels. */
static void binary_repeated(const pa_binary_op *p, const float *a, const float *b, float *dst, int64_t begin,
                            int64_t end) {
    float rows[REPEATED];
    const int64_t c = p->dst.c, times = min64(REPEATED / c, end - begin);
    for (int64_t t = 0; t < times; t++) memcpy(rows + t * c, b, (size_t)c * sizeof *b);
    for (int64_t i = begin; i < end; i += times)
        PA_FUNCTION(binary, f32, p->kernel)(p->op, min64(times, end - i) * c, a + i * c, rows, 1, dst + i * c, p->lo,
            p->hi);
}

static void binary_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_binary_op *p = ctx->op;
    const float *a = pa_f32_at(&p->a, ctx->bases), *b = p->constant ? p->constant : pa_f32_at(&p->b, ctx->bases);
    float *dst = pa_f32_at(&p->dst, ctx->bases);
    if (binary_is_flat(p)) {
        const int step = pixels(&p->b) * p->b.c > 1;
        PA_FUNCTION(binary, f32, p->kernel)(p->op, end - begin, a + begin, b + begin * step, step, dst + begin, p->lo,
            p->hi);
        return;
    }
    if (binary_repeats(p)) {
        binary_repeated(p, a, b, dst, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t y = p->b.h == 1 ? 0 : i / p->dst.w, x = p->b.w == 1 ? 0 : i % p->dst.w;
        PA_FUNCTION(binary, f32, p->kernel)(p->op, p->dst.c, a + i * p->a.stride, b + (y * p->b.w + x) * p->b.stride,
            p->b.c > 1,
                  dst + i * p->dst.stride, p->lo, p->hi);
    }
}

void pa_binary_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_binary_op *p = op;
    run_elements(op, bases, scratch, team, binary_range, &p->dst, binary_is_flat(p));
}

#define FILL(type)                                                                                                   \
    static void fill_##type(const pa_fill_op *p, type *dst, int64_t begin, int64_t end) {                            \
        type value;                                                                                                  \
        memcpy(&value, p->element, sizeof value);                                                                    \
        if (dense(&p->dst)) {                                                                                        \
            for (int64_t i = begin; i < end; i++) dst[i] = value;                                                    \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t i = begin; i < end; i++)                                                                        \
            for (int64_t c = 0; c < p->dst.c; c++) dst[i * p->dst.stride + c] = value;                               \
    }
FILL(uint8_t)
FILL(uint16_t)
FILL(uint32_t)
FILL(uint64_t)

static void fill_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_fill_op *p = ctx->op;
    void *dst = (char *)ctx->bases[p->dst.base] + p->dst.offset * p->item_bytes;
    switch (p->item_bytes) {
    case 1: fill_uint8_t(p, dst, begin, end); break;
    case 2: fill_uint16_t(p, dst, begin, end); break;
    case 4: fill_uint32_t(p, dst, begin, end); break;
    case 8: fill_uint64_t(p, dst, begin, end); break;
    }
}

void pa_fill_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_fill_op *p = op;
    run_elements(op, bases, scratch, team, fill_range, &p->dst, dense(&p->dst));
}
