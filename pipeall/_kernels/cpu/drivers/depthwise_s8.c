/* Depthwise convolution of 8-bit integers by kernels that take whole rows, as depthwise.c has it. */
#include "conv.h"
#include "divide.h"
#include "parallel_for.h"

enum {
    LINE_CHANNELS = 64,    /* of a unit at most: a cache line of each pixel */
    LEAST_CHANNELS = 16,   /* or fewer, */
    RING_BYTES = 32 << 10, /* as many as leave the ring in L1 */
};

static int64_t panel_bytes(const pa_depthwise_s8_op *p) {
    const pa_quads quads = pa_quads_of(&p->window, p->dst.w);
    return (int64_t)p->window.kh * quads.groups * quads.taps * 4 * p->kernel->nr;
}

static int64_t panels_of(const pa_depthwise_s8_op *p) { return ceil_div(p->dst.c, p->kernel->nr); }
static int64_t blocks_of(const pa_depthwise_s8_op *p) { return ceil_div(panels_of(p), p->panels); }

static void bands(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_depthwise_s8_op *p = ctx->op;
    const pa_epilogue_s8 *behind = &p->epilogue;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t blocks = blocks_of(p), y = unit / blocks * p->band, pixel = y * p->dst.w;
        const int64_t panel = unit % blocks * p->panels, channel = panel * p->kernel->nr;
        int8_t *out = pa_s8_at(&p->dst, ctx->bases) + pixel * p->dst.stride + channel;
        const pa_depthwise_rows_s8_args args = {
            .window = p->window,
            .in_h = p->src.h,
            .in_w = p->src.w,
            .out_w = p->dst.w,
            .y = (int32_t)y,
            .rows = (int32_t)min64(p->band, p->dst.h - y),
            .n = (int32_t)min64(p->panels * p->kernel->nr, p->dst.c - channel),
            .x = pa_s8_at(&p->src, ctx->bases) + channel,
            .in_stride = p->src.stride,
            .b = (const int8_t *)p->packed + panel * panel_bytes(p),
            .bias = p->bias + channel,
            .scale = p->scale + channel,
            .to = p->to,
            .zero = p->zero,
            .out = out,
            .out_stride = p->dst.stride,
            .ring = (int8_t *)ctx->scratch + thread * p->scratch_bytes,
            .ring_rows = p->ring_rows,
            .small = p->small,
        };
        PA_FUNCTION(depthwise_rows, s8, p->kernel)(&args);
        const int8_t *residual =
            behind->add ? pa_s8_at(&behind->residual, ctx->bases) + pixel * behind->residual.stride + channel : NULL;
        pa_epilogue_s8_run(behind, (int64_t)args.rows * p->dst.w, args.n, out, p->dst.stride, residual);
    }
}

void pa_depthwise_s8_plan(pa_depthwise_s8_op *p, int threads) {
    const pa_window *w = &p->window;
    const int64_t nr = p->kernel->nr, row_bytes = pa_quads_of(w, p->dst.w).row_bytes;
    p->ring_rows = (w->kh - 1) * w->dilation_y + 1;
    p->panels = (int32_t)min64(LINE_CHANNELS / nr, panels_of(p));
    while (p->panels > LEAST_CHANNELS / nr && p->ring_rows * p->panels * row_bytes > RING_BYTES) p->panels = (p->panels + 1) / 2;
    p->scratch_bytes = round_up(p->ring_rows * p->panels * row_bytes, 64);
    const int64_t work = (int64_t)p->dst.w * p->panels * nr * w->kh * w->kw;
    p->band = pa_band_of(p->dst.h, blocks_of(p), work, threads);
}

void pa_depthwise_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_depthwise_s8_op *p = op;
    const int64_t rows = min64(p->band, p->dst.h);
    /* eight multiply-adds cost about as much as a load and a store */
    parallel_for(op, bases, scratch, team, bands, ceil_div(p->dst.h, p->band) * blocks_of(p),
        ceil_div(rows * p->dst.w * p->panels * p->kernel->nr * p->window.kh * p->window.kw, 8));
}

int64_t pa_depthwise_s8_packed_bytes(const pa_depthwise_s8_op *p) { return panels_of(p) * panel_bytes(p); }

void pa_depthwise_s8_pack(const pa_depthwise_s8_op *p, const int8_t *weight, void *packed) {
    const pa_window *w = &p->window;
    const pa_quads quads = pa_quads_of(w, p->dst.w);
    const int64_t nr = p->kernel->nr;
    memset(packed, 0, (size_t)pa_depthwise_s8_packed_bytes(p));
    for (int64_t c = 0; c < p->dst.c; c++) {
        for (int64_t ky = 0; ky < w->kh; ky++) {
            int8_t *to = (int8_t *)packed + c / nr * panel_bytes(p) + ky * quads.groups * quads.taps * 4 * nr + c % nr * 4;
            for (int64_t set = 0; set < quads.taps; set++) /* the next set is for windows that begin a pixel later */
                for (int64_t kx = 0, at = set; kx < w->kw; kx++, at++)
                    to[(at / 4 * quads.taps + set) * 4 * nr + at % 4] = weight[(c * w->kh + ky) * w->kw + kx];
        }
    }
}
