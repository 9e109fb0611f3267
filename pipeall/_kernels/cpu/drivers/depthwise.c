#include "conv.h"

#include <math.h>

#include "../simd/half.h"
#include "divide.h"
#include "parallel_for.h"

enum {
    RING_BYTES = 32 << 10, /* the ring shares L1 with taps and outputs: a larger one is made of half a block */
};

static int64_t taps_of(const pa_depthwise_op *p) { return (int64_t)p->window.kh * p->window.kw * p->grouping.in; }

/* Bytes of a vector's packed bias and taps. */
static int64_t packed_step(const pa_depthwise_op *p) {
    return ((int64_t)sizeof(float) + taps_of(p) * p->item_bytes) * p->kernel->nr;
}

static char *at(const pa_depthwise_op *p, const pa_view *v, void *const *bases, int64_t pixel) {
    return pa_view_at(v, bases, p->item_bytes) + pixel * v->stride * p->item_bytes;
}

static int64_t blocks_of(const pa_depthwise_op *p) { return ceil_div(pa_vectors_of(&p->grouping), p->vectors); }

/* The channels of so many vectors, of so many pixels. */
static void finish(const pa_depthwise_op *p, void *const *bases, int64_t vector, int64_t vectors, int64_t pixel, int64_t rows) {
    const pa_channels first = pa_channels_of(&p->grouping, vector), last = pa_channels_of(&p->grouping, vector + vectors - 1);
    const int64_t channel = first.out * p->item_bytes;
    PA_FUNCTION(silu, f32, p->silu)(
        rows, last.out + last.out_count - first.out, at(p, &p->dst, bases, pixel) + channel, p->dst.stride,
        p->has_residual ? at(p, &p->residual, bases, pixel) + channel : NULL, p->residual.stride);
}

static void depthwise_bands(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_depthwise_op *p = ctx->op;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t blocks = blocks_of(p), y = unit / blocks * p->band, pixel = y * p->dst.w;
        const int64_t vector = unit % blocks * p->vectors;
        const pa_depthwise_args args = {
            .window = p->window,
            .in_h = p->src.h,
            .in_w = p->src.w,
            .out_w = p->dst.w,
            .y = (int32_t)y,
            .rows = (int32_t)min64(p->band, p->dst.h - y),
            .grouping = &p->grouping,
            .vector = vector,
            .vectors = (int32_t)min64(p->vectors, pa_vectors_of(&p->grouping) - vector),
            .depth = p->grouping.in,
            .slices = p->slices,
            .lanes = p->grouping.in == 1 && p->grouping.out == 1 ? NULL : p->lanes,
            .x = at(p, &p->src, ctx->bases, 0),
            .in_stride = p->src.stride,
            .packed = (const char *)p->packed + vector * packed_step(p),
            .out = at(p, &p->dst, ctx->bases, pixel),
            .out_stride = p->dst.stride,
            .r = p->has_residual && !p->silu ? at(p, &p->residual, ctx->bases, pixel) : NULL,
            .r_stride = p->residual.stride,
            .lo = p->lo,
            .hi = p->hi,
            .ring = (char *)ctx->scratch + thread * p->scratch_bytes,
            .ring_rows = p->ring_rows,
            .columns = p->columns,
        };
        PA_FUNCTION(depthwise, f32, p->kernel)(&args);
        if (p->silu) finish(p, ctx->bases, vector, args.vectors, pixel, (int64_t)args.rows * p->dst.w);
    }
}

void pa_depthwise_plan(pa_depthwise_op *p, int threads) {
    const pa_window *w = &p->window;
    p->grouping = pa_grouping_of(p->groups, p->src.c / p->groups, p->dst.c / p->groups, p->kernel->nr);
    p->slices = (int32_t)ceil_div(p->grouping.together * p->grouping.in, p->kernel->nr);
    for (int i = 0; i < p->kernel->nr; i++) p->lanes[i] = i / p->grouping.out * p->grouping.in;
    p->ring_rows = (w->kh - 1) * w->dilation_y + 1;
    p->columns = (p->dst.w - 1) * w->stride_x + (w->kw - 1) * w->dilation_x + 1;
    const int64_t vector_bytes = (int64_t)p->ring_rows * p->columns * p->slices * p->kernel->nr * p->item_bytes;
    p->vectors = (int32_t)max64(1, PA_DEPTHWISE_BLOCK / (p->slices * p->kernel->nr));
    if (p->vectors * vector_bytes > RING_BYTES) p->vectors = (p->vectors + 1) / 2;
    p->scratch_bytes = round_up(p->vectors * vector_bytes, 64);
    const int64_t work = (int64_t)p->dst.w * p->vectors * p->kernel->nr * taps_of(p);
    p->band = pa_band_of(p->dst.h, blocks_of(p), work, threads);
    p->bands = (int32_t)ceil_div(p->dst.h, p->band);
}

void pa_depthwise_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_depthwise_op *p = op;
    const int64_t rows = min64(p->band, p->dst.h);
    /* four multiply-adds cost about as much as a load and a store */
    parallel_for(op, bases, scratch, team, depthwise_bands, p->bands * blocks_of(p),
        ceil_div(rows * p->dst.w * p->vectors * p->kernel->nr * taps_of(p), 4));
}

int64_t pa_depthwise_packed_bytes(const pa_depthwise_op *p) { return pa_vectors_of(&p->grouping) * packed_step(p); }

/* One element, at element `to` of those that are packed. */
static void pack(const pa_depthwise_op *p, void *packed, int64_t to, float value) {
    if (p->item_bytes == sizeof(float))
        ((float *)packed)[to] = value;
    else
        ((uint16_t *)packed)[to] = float_to_half(value);
}

/* What a half leaves of a bias that it can hold. */
static float rest(float bias) {
    const float rounded = half_to_float(float_to_half(bias));
    return isfinite(rounded) ? bias - rounded : 0;
}

void pa_depthwise_pack(const pa_depthwise_op *p, const void *weight, const void *bias, void *packed) {
    const int64_t taps = taps_of(p), first = -(int64_t)sizeof(float) / p->item_bytes;
    int64_t to = 0;
    for (int64_t vector = 0; vector < pa_vectors_of(&p->grouping); vector++) {
        const pa_channels of = pa_channels_of(&p->grouping, vector);
        for (int64_t t = first; t < taps; t++) { /* the bias, what a half leaves of it, then the taps */
            for (int64_t i = 0; i < p->kernel->nr; i++, to++) {
                const int64_t c = of.out + i;
                if (i >= of.out_count)
                    pack(p, packed, to, 0);
                else if (t >= 0)
                    pack(p, packed, to, pa_unaligned(weight, c * taps + t));
                else
                    pack(p, packed, to, t == first ? pa_unaligned(bias, c) : rest(pa_unaligned(bias, c)));
            }
        }
    }
}
