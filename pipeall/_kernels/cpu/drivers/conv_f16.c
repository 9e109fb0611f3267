/* Convolutions of halves as an indirect GEMM, as conv.c has them. A chunk is row_block pixels x panel_block panels of NR
 * channels of one group. */
#include "conv.h"

#include <string.h>

#include "../../intmath.h"
#include "gemm.h"

enum {
    MC = 104,    /* rows per chunk at most: with the sums of their panels about 30 KB */
    FEW = 48,      /* channels, as in conv.c; of halves, twice as many */
    GATHERED = 24,
    CHUNKS = 4,    /* chunks per thread aimed at */
};

#define ELEMENT uint16_t
#include "indirection.inc"

/* A chunk's scratch: the sums of long layers, then what indirection.inc has. */
static int64_t sums_bytes(const pa_conv_op *p) {
    if (taps_of(p) * k_of(p) <= PA_F16_BLOCK) return 0;
    return round_up(p->row_block, p->kernel->mr) * PA_F16_PANELS * p->kernel->nr * (int64_t)sizeof(uint16_t);
}

static void conv_chunk(const void *arg, int64_t index, int thread) {
    const context *ctx = arg;
    const pa_conv_op *p = ctx->conv;
    const chunk t = chunk_at(ctx, index);
    const int64_t taps = taps_of(p), k = k_of(p), nr = p->kernel->nr;
    const pa_tiling tiling = pa_tiling_of(t.rows, p->kernel->mr);
    char *scratch = ctx->scratch + thread * p->scratch_bytes;
    const uint16_t **pointers = (const uint16_t **)(scratch + sums_bytes(p));
    point(p, ctx->src + t.group * channels_of(p), t.row0, &tiling, pointers);
    const uint16_t *b = (const uint16_t *)p->weight + t.panel * taps * k * nr;
    const pa_panels panels = {p->kernel, .columns = t.columns, .b_step = taps * k * nr, .bias_step = nr, .kc = p->kc};
    pa_gemm_f16_panels(&panels, &(pa_gemm_f16_args){
        .taps = (int32_t)taps,
        .tiling = tiling,
        .k = k,
        .a_step = taps * p->kernel->mr,
        .a = pointers,
        .b = b,
        .next = b,
        .sums = (uint16_t *)scratch,
        .sums_stride = PA_F16_PANELS * nr,
        .bias = (const uint16_t *)p->bias + t.panel * nr,
        .c = (uint16_t *)ctx->dst + t.row0 * p->dst.stride + t.channel,
        .c_stride = p->dst.stride,
        .r = ctx->residual ? ctx->residual + t.row0 * p->residual.stride + t.channel : NULL,
        .r_stride = p->residual.stride,
        .lo = p->lo,
        .hi = p->hi,
    });
}

void pa_conv_f16_plan(pa_conv_op *p, int threads) {
    cut(p, MC, threads > 1 ? (int64_t)threads * CHUNKS : 0);
    const int64_t halves = (pointer_elements(p) + gathered_elements(p)) * (int64_t)sizeof(uint16_t);
    p->scratch_bytes = round_up(sums_bytes(p) + halves, 64);
}

void pa_conv_f16_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    run_chunks(op, op, sizeof(uint16_t), bases, scratch, team, conv_chunk);
}
