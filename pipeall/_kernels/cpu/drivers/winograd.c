/* Convolution as n * n GEMMs over tiles (after Lavin and Gray, 2016, section 4.1).
 *
 * Tiles are taken in blocks, whose transformed input fits into the cache. First the team transforms a block's input
 * pixels to [group][part][point][tile][channel]. Then a chunk is some panels of output channels x some tiles of the
 * block: one GEMM for each point into the thread's scratch [point][tile][channel], and the output transform.
 *
 * Transformed weights are (n / r)^2 times as large as the taps. Where a layer has few tiles, reading them from memory
 * takes longer than the arithmetic on them; then a chunk transforms its panels' taps itself, from the weights as they
 * are packed for the GEMM, and nothing is kept twice.
 */
#include "winograd.h"

#include "../../sizes.h"
#include "gemm.h"

enum {
    PART = 256,             /* channels of a part at most: 256 x 16 floats = 16 KB of B beside the rows of A in L1 */
    LAZY_PART = 64,         /* the same where weights are transformed in the frame: n * n such blocks in L2 */
    BLOCK_BYTES = 512 << 10, /* of a group's transformed input, per thread */
    BLOCK_TILES = 24,       /* tiles of a block at least: what each read of the weights is used for */
    PANELS = 4,             /* of a chunk at most */
    COLUMNS = 64,           /* of M: as wide as four cache lines; beside wider ones the block does not stay in L2 */
    CHUNKS = 3,             /* per thread, aimed at */
    INPUT_FLOATS = 1024,    /* channels of the tiles that a chunk of the input transform has, at least */
    PAD = 16,               /* floats between points, whose distance would else often be a multiple of 4 KB */
};

typedef struct frame {
    const pa_winograd_op *op;
    const float *src, *residual;
    float *dst, *transformed, *scratch;
    int64_t tile0, tiles; /* of the block */
    int64_t input_tiles;  /* of a chunk of the input transform */
    int64_t panels, panel_blocks, splits;
} frame;

static int points_of(const pa_winograd_op *op) { return op->n * op->n; }
static int64_t channels_of(const pa_winograd_op *op) { return op->conv.src.c / op->conv.groups; }
static int64_t panels_of(const pa_winograd_op *op) { return ceil_div(op->conv.dst.c / op->conv.groups, op->conv.nr); }
static int64_t tiles_of(const pa_winograd_op *op) { return (int64_t)op->tiles_y * op->tiles_x; }

/* Floats between points of the transformed input, of transformed taps in scratch, and of the GEMMs' results. */
static int64_t input_stride(const pa_winograd_op *op) { return op->block * op->part + PAD; }
static int64_t lazy_stride(const pa_winograd_op *op) { return op->part * op->conv.nr + PAD; }
static int64_t m_stride(const pa_winograd_op *op) { return op->split * op->panel_block * op->conv.nr + PAD; }

static int64_t input_floats(const pa_winograd_op *op) {
    return round_up(op->conv.groups * op->parts * points_of(op) * input_stride(op), 16);
}

/* A thread's own scratch: M, taps, and a pointer for each row of a GEMM. */
static int64_t m_floats(const pa_winograd_op *op) { return points_of(op) * m_stride(op); }
static int64_t taps_floats(const pa_winograd_op *op) {
    return op->points ? 0 : op->panel_block * points_of(op) * lazy_stride(op);
}
static int64_t own_floats(const pa_winograd_op *op) {
    const int64_t pointers = round_up(op->split, op->conv.mr) * (int64_t)sizeof(float *) / (int64_t)sizeof(float);
    return round_up(m_floats(op) + taps_floats(op) + pointers, 16);
}

static void input_chunk(const void *context, int64_t chunk, int thread) {
    (void)thread;
    const frame *f = context;
    const pa_winograd_op *op = f->op;
    const pa_conv_op *p = &op->conv;
    const int64_t end = min64(f->tiles, (chunk + 1) * f->input_tiles), channels = channels_of(op);
    for (int64_t t = chunk * f->input_tiles; t < end; t++) {
        const int64_t y0 = (f->tile0 + t) / op->tiles_x * op->m - p->pad_top;
        const int64_t x0 = (f->tile0 + t) % op->tiles_x * op->m - p->pad_left;
        const float *pixels[8 * 8];
        for (int i = 0; i < op->n; i++) {
            for (int j = 0; j < op->n; j++) {
                const int64_t y = y0 + i, x = x0 + j;
                const int inside = y >= 0 && y < p->src.h && x >= 0 && x < p->src.w;
                pixels[i * op->n + j] = inside ? f->src + (y * p->src.w + x) * p->src.stride : p->zero;
            }
        }
        for (int64_t part = 0; part < (int64_t)p->groups * op->parts; part++) {
            const int64_t first = part % op->parts * op->part;
            op->input(&(pa_winograd_input_args){
                .n = op->n,
                .channel0 = (int32_t)(part / op->parts * channels + first),
                .channels = (int32_t)min64(op->part, channels - first),
                .pixels = pixels,
                .out = f->transformed + part * points_of(op) * input_stride(op) + t * op->part,
                .out_stride = input_stride(op),
            });
        }
    }
}

/* The taps of one panel and part, transformed: [point][channel][NR], points out_stride apart. */
static void transform_taps(const pa_winograd_op *op, int64_t panel, int64_t part, float *out, int64_t out_stride) {
    const pa_conv_op *p = &op->conv;
    const int64_t channels = channels_of(op), first = part * op->part;
    const int64_t next_panel = min64(panel + 1, p->groups * panels_of(op) - 1);
    const float *taps = p->weight + (panel * p->kh * p->kw * channels + first) * p->nr;
    op->transform(&(pa_winograd_weight_args){
        .n = op->n,
        .r = p->kh,
        .nr = p->nr,
        .rows = min64(op->part, channels - first),
        .taps = taps,
        .next = part + 1 < op->parts ? taps + op->part * p->nr
                                     : p->weight + next_panel * p->kh * p->kw * channels * p->nr,
        .tap_stride = channels * p->nr,
        .out = out,
        .out_stride = out_stride,
    });
}

/* Adds a part's products to M: for each point a GEMM of the chunk's tiles with each of its panels. */
static void multiply(const frame *f, int64_t group, int64_t part, int64_t panel0, int64_t panels, int64_t tile0,
                     const pa_tiling *tiling, float *m, const float **pointers, float *taps) {
    const pa_winograd_op *op = f->op;
    const pa_conv_op *p = &op->conv;
    const int64_t k = min64(op->part, channels_of(op) - part * op->part), wide = op->panel_block * p->nr;
    const int64_t b_stride = op->points ? k * p->nr : lazy_stride(op);
    const int64_t b_step = op->points ? channels_of(op) * points_of(op) * p->nr : points_of(op) * lazy_stride(op);
    const int64_t panel = group * f->panels + panel0;
    const float *b = taps;
    if (op->points)
        b = op->points + panel * b_step + part * op->part * points_of(op) * p->nr;
    else
        for (int64_t j = 0; j < panels; j++) transform_taps(op, panel + j, part, taps + j * b_step, lazy_stride(op));
    const pa_panels all = {
        .kernel = p->gemm, .mr = p->mr, .nr = p->nr, .columns = panels * p->nr, .b_step = b_step, .kc = k};
    for (int point = 0; point < points_of(op); point++, b += b_stride)
        pa_gemm_panels(&all, &(pa_gemm_args){
            .taps = 1,
            .tiling = *tiling,
            .k = k,
            .a_offset = ((group * op->parts + part) * points_of(op) + point) * input_stride(op) + tile0 * op->part,
            .a_step = p->mr,
            .a = pointers,
            .b = b,
            .bias = part == 0 ? p->zero : NULL,
            .next = b + b_stride,
            .c = m + point * m_stride(op),
            .c_stride = wide,
            .lo = -__builtin_inff(),
            .hi = __builtin_inff(),
        });
}

static void output_chunk(const void *context, int64_t chunk, int thread) {
    const frame *f = context;
    const pa_winograd_op *op = f->op;
    const pa_conv_op *p = &op->conv;
    const int64_t panel0 = chunk % f->panel_blocks * op->panel_block, rest = chunk / f->panel_blocks;
    const int64_t group = rest % p->groups, split = rest / p->groups;
    const int64_t panels = min64(op->panel_block, f->panels - panel0), columns = p->dst.c / p->groups;
    const int64_t tile0 = split * op->split, tiles = min64(op->split, f->tiles - tile0);
    const int64_t wide = op->panel_block * p->nr;

    float *m = f->scratch + thread * own_floats(op);
    float *taps = m + m_floats(op);
    const float **pointers = (const float **)(taps + taps_floats(op));
    const pa_tiling tiling = pa_tiling_of(tiles, p->mr);
    const float *from = f->transformed;
    for (int64_t i = 0; i < tiling.tiles; i++)
        for (int64_t r = 0; r < pa_tile_rows(&tiling, i); r++, from += op->part) pointers[i * p->mr + r] = from;
    for (int64_t part = 0; part < op->parts; part++)
        multiply(f, group, part, panel0, panels, tile0, &tiling, m, pointers, taps);

    const int64_t channel = group * columns + panel0 * p->nr;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t tile = f->tile0 + tile0 + t;
        const int64_t y = tile / op->tiles_x * op->m, x = tile % op->tiles_x * op->m, pixel = y * p->dst.w + x;
        op->output(&(pa_winograd_output_args){
            .n = op->n,
            .m = op->m,
            .height = (int32_t)min64(op->m, p->dst.h - y),
            .width = (int32_t)min64(op->m, p->dst.w - x),
            .channels = (int32_t)min64(panels * p->nr, columns - panel0 * p->nr),
            .in = m + t * wide,
            .in_stride = m_stride(op),
            .bias = p->bias + (group * f->panels + panel0) * p->nr,
            .out = f->dst + pixel * p->dst.stride + channel,
            .out_row = p->dst.w * p->dst.stride,
            .out_pixel = p->dst.stride,
            .r = p->has_residual ? f->residual + pixel * p->residual.stride + channel : NULL,
            .r_row = p->dst.w * p->residual.stride,
            .r_pixel = p->residual.stride,
            .lo = p->lo,
            .hi = p->hi,
        });
    }
}

void pa_winograd_plan(pa_winograd_op *op, int threads) {
    const pa_conv_op *p = &op->conv;
    op->tiles_y = (int32_t)ceil_div(p->dst.h, op->m);
    op->tiles_x = (int32_t)ceil_div(p->dst.w, op->m);
    op->parts = (int32_t)ceil_div(channels_of(op), op->points ? PART : LAZY_PART);
    op->part = round_up(ceil_div(channels_of(op), op->parts), PA_LANES_MAX);
    op->parts = (int32_t)ceil_div(channels_of(op), op->part);

    const int64_t tiles = tiles_of(op), tile_bytes = points_of(op) * channels_of(op) * (int64_t)sizeof(float);
    int64_t fitting = max64((int64_t)threads * BLOCK_BYTES / tile_bytes, BLOCK_TILES);
    if (!op->points) fitting = tiles; /* each block would transform the weights again */
    op->block = ceil_div(tiles, ceil_div(tiles, fitting));
    op->block = min64(round_up(op->block, p->mr), tiles);

    op->panel_block = op->points ? min64(min64(PANELS, max64(1, COLUMNS / p->nr)), panels_of(op)) : 1;
    op->split = op->block;
    if (threads > 1) {
        const int64_t wanted = (int64_t)threads * CHUNKS, blocks = panels_of(op) * p->groups;
        while (op->panel_block > 1 && ceil_div(panels_of(op), op->panel_block) * p->groups < wanted) op->panel_block--;
        if (op->points && blocks < wanted) op->split = ceil_div(op->block, ceil_div(wanted, blocks));
        op->split = min64(round_up(op->split, p->mr), op->block);
    }
    op->scratch_floats = round_up(ceil_div(input_floats(op), threads), 16) + own_floats(op);
}

int64_t pa_winograd_points_floats(const pa_winograd_op *op) {
    return op->conv.groups * panels_of(op) * channels_of(op) * points_of(op) * op->conv.nr;
}

void pa_winograd_points(const pa_winograd_op *op, float *points) {
    for (int64_t panel = 0; panel < op->conv.groups * panels_of(op); panel++) {
        for (int64_t part = 0; part < op->parts; part++) {
            const int64_t k = min64(op->part, channels_of(op) - part * op->part);
            transform_taps(op, panel, part, points, k * op->conv.nr);
            points += k * points_of(op) * op->conv.nr;
        }
    }
}

void pa_winograd_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_winograd_op *op = args;
    const pa_conv_op *p = &op->conv;
    const int64_t tiles = tiles_of(op);
    frame f = {
        .op = op,
        .src = pa_f32_at(&p->src, bases),
        .residual = p->has_residual ? pa_f32_at(&p->residual, bases) : NULL,
        .dst = pa_f32_at(&p->dst, bases),
        .transformed = scratch,
        .scratch = (float *)scratch + input_floats(op),
        .input_tiles = ceil_div(INPUT_FLOATS, p->src.c),
        .panels = panels_of(op),
        .panel_blocks = ceil_div(panels_of(op), op->panel_block),
    };
    for (f.tile0 = 0; f.tile0 < tiles; f.tile0 += op->block) {
        f.tiles = min64(op->block, tiles - f.tile0);
        f.splits = ceil_div(f.tiles, op->split);
        pa_team_run(team, input_chunk, &f, ceil_div(f.tiles, f.input_tiles));
        pa_team_run(team, output_chunk, &f, f.splits * f.panel_blocks * p->groups);
    }
}
