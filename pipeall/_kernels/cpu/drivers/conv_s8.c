/* Convolutions of 8-bit integers by pointers to what is under the taps of the kernel, as conv.c has them.
 *
 * Sums are whole in registers, so nothing is blocked along k: four times as many weights fit a cache as floats. A chunk is
 * row_block pixels x panel_block panels of NR channels of one group; of a depthwise convolution a panel is a vector.
 */
#include "conv_s8.h"

#include <string.h>

#include "../../intmath.h"

enum {
    MC = 104,          /* of a chunk at most */
    POINTERS = 8192,   /* of a chunk at most, unless a pixel has more */
    CHUNKS = 4,        /* per thread aimed at */
    CHUNK_WORK = 1 << 15, /* products of a chunk at least */
    FEW_IN_WINDOW = 8, /* channels, fewer than this: all rows of the kernel may be gathered to one tap */
#ifdef __aarch64__ /* whose kernels have small tiles: the set-up of a tap is soon as long as its products */
    FEW = 96,        /* channels, as in conv.c; of bytes, four times as many */
    GATHERED = 24,
    L1_A = 20 << 10, /* bytes of tiles that stay in L1 while panels pass by, beside a panel and lines of C (gemm.c) */
    TILES = 6,       /* of them at most: lines of C, often a power of two apart, share few sets of the cache */
    L2_B = 64 << 10, /* of panels that stay in L2 meanwhile */
#else
    FEW = 24,
    GATHERED = 12,
    L1_A = 1 << 30,
    TILES = 1 << 30,
    L2_B = 1 << 30,
#endif
};

typedef struct context {
    const pa_conv_s8_op *args;
    const int8_t *src, *residual;
    char *dst;
    char *scratch;
    int64_t panel_blocks, panels;
} context;

#define OP pa_conv_s8_op
#define ELEMENT int8_t
#include "indirection.inc"

/* The k of a row with what its last load reads beyond them. */
static int64_t depth_of(const pa_conv_s8_op *p) { return round_up(k_of(p), min64(p->kr, 8)); }
/* Of an element of the result. */
static int64_t item_bytes(const pa_conv_s8_op *p) { return p->float_dst ? (int64_t)sizeof(float) : 1; }
static int64_t panel_bytes(const pa_conv_s8_op *p) {
    return taps_of(p) * (p->gemm ? depth_of(p) : (int64_t)sizeof(int16_t)) * p->nr;
}

/* All panels of a chunk, for some tiles that stay in L1 and then the next. */
static void multiply(const pa_conv_s8_op *p, const pa_gemm_s8_args *all, int64_t columns) {
    const int64_t bytes = panel_bytes(p), count = ceil_div(columns, p->nr);
    const int64_t panels = max64(L2_B / bytes, 1), tile_bytes = all->taps * all->k * p->mr;
    const int64_t tiles = max64(min64(L1_A / tile_bytes, TILES), 1);
    for (int64_t panel0 = 0; panel0 < count; panel0 += panels) {
        for (int64_t tile = 0; tile < all->tiling.tiles; tile += tiles) {
            pa_gemm_s8_args g = *all;
            g.tiling = pa_tiling_part(&all->tiling, tile, tiles);
            g.a += tile * g.a_step;
            char *c = (char *)all->c + pa_rows_before(&all->tiling, tile) * all->c_stride * item_bytes(p);
            for (int64_t panel = panel0; panel < min64(panel0 + panels, count); panel++) {
                const int64_t column = panel * p->nr;
                g.n = (int32_t)min64(p->nr, columns - column);
                g.b = all->b + panel * bytes;
                g.bias = all->bias + column;
                g.sums = all->sums + column;
                g.scale = all->scale + column;
                g.c = c + column * item_bytes(p);
                p->gemm(&g);
            }
        }
    }
}

void pa_epilogue_s8_run(const pa_epilogue_s8 *epilogue, int64_t pixels, int64_t n, int8_t *c, int64_t c_stride,
                        const int8_t *r) {
    if (n == c_stride && (!epilogue->add || n == epilogue->residual.stride)) n *= pixels, pixels = 1;
    if (epilogue->by_table) epilogue->by_table(pixels, n, c_stride, c, c, epilogue->table);
    if (!epilogue->add) return;
    for (; pixels > 0; pixels--, c += c_stride, r += epilogue->residual.stride) epilogue->add(n, c, r, 1, c, &epilogue->sum);
}

static void chunk_of(const void *arg, int64_t chunk, int thread) {
    const context *ctx = arg;
    const pa_conv_s8_op *p = ctx->args;
    const int64_t panel_block = chunk % ctx->panel_blocks, rest = chunk / ctx->panel_blocks;
    const int64_t group = rest % p->groups, row0 = rest / p->groups * p->row_block;
    const int64_t columns = p->dst.c / p->groups, column = panel_block * p->panel_block * p->nr;
    const int64_t width = min64(p->panel_block * p->nr, columns - column), channel = group * columns + column;
    const int64_t panel = group * ctx->panels + panel_block * p->panel_block;
    const pa_tiling tiling = pa_tiling_of(min64(p->row_block, (int64_t)p->dst.h * p->dst.w - row0), p->mr);
    char *scratch = ctx->scratch + thread * p->scratch_bytes;
    const int8_t **pointers = (const int8_t **)scratch;
    const int8_t *weight = (const int8_t *)p->weight + panel * panel_bytes(p);
    char *c = ctx->dst + (row0 * p->dst.stride + channel) * item_bytes(p);
    point(p, ctx->src + (p->gemm ? group * channels_of(p) : channel), row0, &tiling, pointers);
    const int32_t *bias = p->bias + panel * p->nr;
    const float *scale = p->scale + panel * p->nr;
    const int32_t taps = taps_of(p);
    const int64_t a_step = (int64_t)taps * p->mr;
    if (p->depthwise)
        p->depthwise(&(pa_depthwise_s8_args){(int32_t)width, taps, tiling, a_step, pointers, (const int16_t *)weight, bias,
                                             scale, p->to, (int8_t *)c, p->dst.stride});
    else
        multiply(p, &(pa_gemm_s8_args){0, taps, tiling, depth_of(p), a_step, pointers, weight, bias,
                                       p->sums + panel * p->nr, scale, p->to, c, p->dst.stride, p->float_dst}, width);
    const int64_t done = min64(p->row_block, (int64_t)p->dst.h * p->dst.w - row0);
    const int8_t *residual = p->epilogue.add ? ctx->residual + row0 * p->epilogue.residual.stride + channel : NULL;
    pa_epilogue_s8_run(&p->epilogue, done, width, (int8_t *)c, p->dst.stride, residual);
}

void pa_conv_s8_plan(pa_conv_s8_op *p, int threads) {
    const int64_t rows = (int64_t)p->dst.h * p->dst.w, wanted = (int64_t)threads * CHUNKS;
    const int64_t panels = ceil_div(p->dst.c / p->groups, p->nr);
    const int few = p->gemm && p->kw > 1 && channels_of(p) < (dense(p, channels_of(p)) ? FEW : GATHERED);
    p->tap_rows = !few ? 0 : p->gather_window && channels_of(p) < FEW_IN_WINDOW ? p->kh : 1;
    const int64_t most = max64(min64(MC, POINTERS / taps_of(p)), 1);
    p->row_block = chunk_pixels(p, most);
    p->panel_block = panels;
    if (threads > 1) {
        const int64_t work = p->dst.c / p->groups * taps_of(p) * (p->gemm ? k_of(p) : 1);
        const int64_t least = max64(ceil_div(CHUNK_WORK, work), 1);
        if (ceil_div(rows, p->row_block) * p->groups < wanted)
            p->row_block = min64(ceil_div(rows, ceil_div(rows, most)), max64(ceil_div(rows, wanted), least));
        const int64_t row_blocks = ceil_div(rows, p->row_block) * p->groups;
        if (row_blocks < threads) p->panel_block = ceil_div(panels, ceil_div(wanted, row_blocks));
    }
    const int64_t gathered = p->tap_rows ? gathered_elements(p) + PA_S8_SPARE : 0;
    p->scratch_bytes = round_up(pointer_elements(p) + gathered, 64);
}

void pa_conv_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_conv_s8_op *p = op;
    const int64_t rows = (int64_t)p->dst.h * p->dst.w, panels = ceil_div(p->dst.c / p->groups, p->nr);
    const context ctx = {
        .args = p,
        .src = pa_s8_at(&p->src, bases),
        .residual = p->epilogue.add ? pa_s8_at(&p->epilogue.residual, bases) : NULL,
        .dst = (char *)bases[p->dst.base] + p->dst.offset * item_bytes(p),
        .scratch = scratch,
        .panel_blocks = ceil_div(panels, p->panel_block),
        .panels = panels,
    };
    pa_team_run(team, chunk_of, &ctx, ceil_div(rows, p->row_block) * ctx.panel_blocks * p->groups);
}

int64_t pa_conv_s8_packed_bytes(const pa_conv_s8_op *p) {
    return p->groups * ceil_div(p->dst.c / p->groups, p->nr) * panel_bytes(p);
}

static void pack_depthwise(const pa_conv_s8_op *p, const int8_t *weight, int16_t *to) {
    const int64_t taps = taps_of(p);
    for (int64_t c = 0; c < p->dst.c; c++)
        for (int64_t t = 0; t < taps; t++)
            to[(c / p->nr * taps + t) * p->nr + c % p->nr] = weight[c * taps + t];
}

void pa_conv_s8_pack(const pa_conv_s8_op *p, const int8_t *weight, void *packed) {
    memset(packed, 0, (size_t)pa_conv_s8_packed_bytes(p));
    if (p->depthwise) {
        pack_depthwise(p, weight, packed);
        return;
    }
    const int64_t columns = p->dst.c / p->groups, panels = ceil_div(columns, p->nr), channels = channels_of(p);
    const int64_t taps = taps_of(p), k = k_of(p), depth = depth_of(p), all = (int64_t)p->kh * p->kw;
    int8_t *to = packed;
    for (int64_t index = 0; index < p->groups * panels; index++, to += panel_bytes(p)) {
        const int64_t first = index % panels * p->nr, n = min64(p->nr, columns - first);
        for (int64_t j = 0; j < n; j++) {
            const int8_t *filter = weight + (index / panels * columns + first + j) * channels * all;
            for (int64_t t = 0; t < taps; t++)
                for (int64_t i = 0; i < k; i++) {
                    const int64_t tap = p->tap_rows ? t * p->kw + i / channels : t, c = p->tap_rows ? i % channels : i;
                    const int64_t at = i / p->kr * p->kr, together = min64(p->kr, depth - at);
                    to[(t * depth + at) * p->nr + j * together + i - at] = filter[c * all + tap];
                }
        }
    }
}
