/* Convolutions of halves as an indirect GEMM, as conv.c has them. A chunk is row_block pixels x panel_block panels of NR
 * channels of one group. */
#include "conv_f16.h"

#include <string.h>

#include "../../intmath.h"

enum {
    MC = 104,    /* rows per chunk at most: with the sums of their panels about 30 KB */
    FEW = 48,      /* channels, as in conv.c; of halves, twice as many */
    GATHERED = 24,
    CHUNKS = 4,    /* chunks per thread aimed at */
    ALIGNED = 64,
};

typedef struct context {
    const pa_conv_f16_op *args;
    const uint16_t *src, *residual;
    uint16_t *dst;
    char *scratch;
    int64_t panel_blocks, panels;
} context;

#define OP pa_conv_f16_op
#define ELEMENT uint16_t
#include "indirection.inc"

/* A chunk's scratch: the sums of long layers, then what indirection.inc has. */
static int64_t sums_bytes(const pa_conv_f16_op *p) {
    if (taps_of(p) * k_of(p) <= PA_F16_BLOCK) return 0;
    return round_up(p->row_block, p->mr) * PA_F16_PANELS * p->nr * (int64_t)sizeof(uint16_t);
}

static void chunk_of(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const pa_conv_f16_op *p = ctx->args;
    const int64_t panel_block = chunk % ctx->panel_blocks, rest = chunk / ctx->panel_blocks;
    const int64_t group = rest % p->groups, row0 = rest / p->groups * p->row_block;
    const int64_t columns = p->dst.c / p->groups, column = panel_block * p->panel_block * p->nr;
    const int64_t taps = taps_of(p), k = k_of(p), panel = group * ctx->panels + panel_block * p->panel_block;
    const int64_t channel = group * columns + column;
    const pa_tiling tiling = pa_tiling_of(min64(p->row_block, (int64_t)p->dst.h * p->dst.w - row0), p->mr);
    char *scratch = ctx->scratch + thread * p->scratch_bytes;
    const uint16_t **pointers = (const uint16_t **)(scratch + sums_bytes(p)), *b = p->weight + panel * taps * k * p->nr;
    point(p, ctx->src + group * channels_of(p), row0, &tiling, pointers);
    const pa_panels_f16 panels = {
        .kernel = p->gemm,
        .mr = p->mr,
        .nr = p->nr,
        .columns = min64(p->panel_block * p->nr, columns - column),
        .sums = (uint16_t *)scratch,
    };
    pa_gemm_f16_panels(&panels, &(pa_gemm_f16_args){
        .taps = (int32_t)taps,
        .tiling = tiling,
        .k = k,
        .a_step = taps * p->mr,
        .a = pointers,
        .b = b,
        .bias = p->bias + panel * p->nr,
        .c = ctx->dst + row0 * p->dst.stride + channel,
        .c_stride = p->dst.stride,
        .r = p->has_residual ? ctx->residual + row0 * p->residual.stride + channel : NULL,
        .r_stride = p->residual.stride,
        .lo = p->lo,
        .hi = p->hi,
    });
}

void pa_conv_f16_plan(pa_conv_f16_op *p, int threads) {
    const int64_t rows = (int64_t)p->dst.h * p->dst.w, wanted = (int64_t)threads * CHUNKS;
    const int64_t panels = ceil_div(p->dst.c / p->groups, p->nr);
    p->tap_rows = p->kw > 1 && channels_of(p) < (dense(p, channels_of(p)) ? FEW : GATHERED);
    p->row_block = chunk_pixels(p, MC);
    p->panel_block = panels;
    const int64_t row_blocks = ceil_div(rows, p->row_block) * p->groups;
    if (threads > 1 && row_blocks < wanted) {
        p->row_block = ceil_div(rows, ceil_div(rows, MC));
        p->panel_block = ceil_div(panels, ceil_div(wanted, row_blocks));
    }
    const int64_t halves = (pointer_elements(p) + gathered_elements(p)) * (int64_t)sizeof(uint16_t);
    p->scratch_bytes = round_up(sums_bytes(p) + halves, ALIGNED);
}

void pa_conv_f16_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_conv_f16_op *p = op;
    const int64_t rows = (int64_t)p->dst.h * p->dst.w, panels = ceil_div(p->dst.c / p->groups, p->nr);
    const context ctx = {
        .args = p,
        .src = pa_f16_at(&p->src, bases),
        .residual = p->has_residual ? pa_f16_at(&p->residual, bases) : NULL,
        .dst = pa_f16_at(&p->dst, bases),
        .scratch = scratch,
        .panel_blocks = ceil_div(panels, p->panel_block),
        .panels = panels,
    };
    pa_team_run(team, chunk_of, &ctx, ceil_div(rows, p->row_block) * ctx.panel_blocks * p->groups);
}
