/* 1x1 convolution whose filters have zeros in common: eight filters, a panel, keep the input channels that one of them reads.
 *
 * Tiles of MR pixels are turned over, a block of channels at a time, so that those of a channel lie together: in the image
 * they are a multiple of a cache line apart, and a core that reads the same bank of its cache twice waits. A tile stays in L1
 * while all panels pass by, whose weights come from L2.
 */
#include "conv.h"

#include "../../intmath.h"

enum {
    CHUNK = 96, /* pixels at most */
    CHUNKS = 4, /* per thread aimed at, so that claiming them balances the team */
    MR_MAX = 12,
};

typedef struct context {
    const pa_sparse_op *op;
    const float *src, *residual;
    float *dst;
    char *scratch;
    int64_t panel_chunks;
} context;

static int64_t panels_of(const pa_sparse_op *op) { return ceil_div(op->conv.dst.c, op->conv.kernel->nr); }
static int64_t blocks_of(const pa_sparse_op *op) { return ceil_div(op->conv.src.c, PA_SPARSE_BLOCK); }

void pa_sparse_plan(pa_sparse_op *op, int threads) {
    const int64_t pixels = (int64_t)op->conv.dst.h * op->conv.dst.w, mr = op->conv.kernel->mr;
    const int64_t wanted = threads > 1 ? (int64_t)threads * CHUNKS : 1, block = min64(op->conv.src.c, PA_SPARSE_BLOCK);
    op->rows = min64(round_up(ceil_div(pixels, wanted), mr), round_up(CHUNK, mr));
    op->panels = ceil_div(panels_of(op), ceil_div(wanted, ceil_div(pixels, op->rows)));
    for (int64_t k = 0; k < block; k++) op->to[k] = k * mr * (int64_t)sizeof(float);
    op->scratch_bytes = round_up(block * mr * (int64_t)sizeof(float), 64);
}

/* A block of channels of `rows` pixels from `row` on, [channel][MR]. */
static void turn(const context *ctx, int64_t row, int64_t rows, int64_t block, float *tile) {
    const pa_sparse_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const int64_t first = block * PA_SPARSE_BLOCK, channels = min64(PA_SPARSE_BLOCK, p->src.c - first);
    int64_t from[MR_MAX];
    for (int64_t i = 0; i < rows; i++) {
        const int64_t y = (row + i) / p->dst.w * p->stride_y, x = (row + i) % p->dst.w * p->stride_x;
        from[i] = ((y * p->src.w + x) * p->src.stride + first) * (int64_t)sizeof(float);
    }
    PA_FUNCTION(transpose, f32, op->transpose)(1, channels, rows, ctx->src, from, tile, op->to);
}

/* A tile times one block of the panels [first, end). */
static void multiply(const context *ctx, int64_t row, int64_t rows, int64_t first, int64_t end, int64_t block,
                     const float *tile) {
    const pa_sparse_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const int64_t nr = p->kernel->nr;
    const int last = block + 1 == blocks_of(op);
    for (int64_t panel = first; panel < end; panel++) {
        const int64_t column = panel * nr;
        const int32_t *starts = op->starts + panel * blocks_of(op) + block;
        PA_FUNCTION(gemm_sparse, f32, p->kernel)(&(pa_gemm_sparse_args){
            .rows = rows,
            .n = min64(nr, p->dst.c - column),
            .count = starts[1] - starts[0],
            .a = tile,
            .k = op->k + starts[0],
            .b = op->values + starts[0] * nr,
            .bias = block ? NULL : (const float *)p->bias + column,
            .c = ctx->dst + row * p->dst.stride + column,
            .c_stride = p->dst.stride,
            .r = ctx->residual && last && !p->silu ? ctx->residual + row * p->residual.stride + column : NULL,
            .r_stride = p->residual.stride,
            .lo = last ? p->lo : -__builtin_inff(),
            .hi = last ? p->hi : __builtin_inff(),
        });
    }
}

static void run_chunk(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const pa_sparse_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const int64_t first = chunk % ctx->panel_chunks * op->panels, end = min64(first + op->panels, panels_of(op));
    const int64_t row0 = chunk / ctx->panel_chunks * op->rows, last = min64(row0 + op->rows, (int64_t)p->dst.h * p->dst.w);
    const pa_tiling tiling = pa_tiling_of(last - row0, p->kernel->mr);
    float *tile = (float *)(ctx->scratch + thread * op->scratch_bytes);
    for (int64_t i = 0, row = row0; i < tiling.tiles; row += pa_tile_rows(&tiling, i++))
        for (int64_t block = 0; block < blocks_of(op); block++) {
            turn(ctx, row, pa_tile_rows(&tiling, i), block, tile);
            multiply(ctx, row, pa_tile_rows(&tiling, i), first, end, block, tile);
        }
    if (p->silu) {
        const int64_t column = first * p->kernel->nr;
        PA_FUNCTION(silu, f32, p->silu)(last - row0, min64(end * p->kernel->nr, p->dst.c) - column,
                                        ctx->dst + row0 * p->dst.stride + column, p->dst.stride,
                                        ctx->residual ? ctx->residual + row0 * p->residual.stride + column : NULL,
                                        p->residual.stride);
    }
}

void pa_sparse_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_sparse_op *op = args;
    const pa_conv_op *p = &op->conv;
    const context ctx = {
        .op = op,
        .src = pa_f32_at(&p->src, bases),
        .residual = p->has_residual ? pa_f32_at(&p->residual, bases) : NULL,
        .dst = pa_f32_at(&p->dst, bases),
        .scratch = scratch,
        .panel_chunks = ceil_div(panels_of(op), op->panels),
    };
    const int64_t row_chunks = ceil_div((int64_t)p->dst.h * p->dst.w, op->rows);
    pa_team_run(team, run_chunk, &ctx, row_chunks * ctx.panel_chunks);
}
