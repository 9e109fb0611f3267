/* Convolution as n * n GEMMs over tiles (after Lavin and Gray, 2016, section 4.1).
 *
 * Tiles are taken in blocks, whose transformed input fits into the cache. First the team transforms a block's input
 * pixels to [group][part][point][tile][channel]. Then a chunk is some panels of output channels x some tiles of the
 * block: one GEMM for each point into the thread's scratch [point][tile][channel], and the output transform.
 *
 * Transformed weights are (n / r)^2 times as large as the taps. Where a layer has few tiles, reading them from memory
 * takes longer than the arithmetic on them; then a chunk transforms its panels' taps itself, from the weights as they
 * are packed for the GEMM, and nothing is kept twice.
 *
 * A convolution with a stride is one of stride 1 on phases: each s-th pixel of each s-th row. Where taps have gaps, a tile is of
 * pixels as far apart. They are read where they lie in the input, or, at its border, in a copy of what is under the tile with
 * zeros around it.
 *
 * Of halves all that is transformed, and the sums, are halves too. Their rows of 6 points are transformed in the registers of the
 * kernel that makes their sums, so that M is [row of points][pixel of a row of the tile][tile][channel]; rows of floats are
 * where sums are short, as in first layers, where a GEMM's tiles begin and end as long as they multiply.
 *
 * Integers become floats, and floats integers, a tile at a time, in the thread's scratch: beside them it stays in L1.
 */
#include "../simd/half.h"
#include "divide.h"
#include "gemm.h"
#include "winograd_input.h"

enum {
    KC = 256,      /* channels of a block of k at most: 256 x 16 floats = 16 KB of B beside the rows of A in L1 */
    ROWS_KC = 64,  /* of rows of halves on in-order cores, whose L1 has 32 KB: 6 x 64 x 16 halves of B are 12 */
    LAZY_KC = 64,  /* the same where weights are transformed in the frame: n * n such blocks in L2 */
    COLUMNS = 64,  /* of M at most: as wide as four cache lines; beside wider ones the block does not stay in L2 */
#ifdef __aarch64__ /* more than some L2 have: else weights are read more often, which takes longer */
    BLOCK_BYTES = 768 << 10, /* of a group's transformed input, per thread */
    SUMS_BYTES = 768 << 10,  /* of the GEMMs' results of a chunk, per thread */
#else
    BLOCK_BYTES = 512 << 10,
    SUMS_BYTES = 512 << 10,
#endif
    HALVES_BYTES = 1024 << 10, /* both, of halves, counted as floats */
    BLOCK_BYTES_LEAST = 96, /* of a channel of a block's points: 24 tiles of floats, what each read of the weights is for */
    INPUT_CHUNKS = 4,       /* of the input transform per thread, aimed at */
    INPUT_FLOATS = 1024,    /* channels of the tiles of such a chunk at most, unless a tile has more */
};

/* Rows of floats, whose weights are few. */
enum {
    ROWS_BYTES = 4 << 10, /* of a panel's row at most, 16 channels of 8 points: with more channels a GEMM, which uses what it loads
                             more often, is as fast on a Cortex-A76 and faster on an A73 */
    ROWS_COLUMNS = 32,
    ROWS_BLOCK_BYTES = 512 << 10,
    ROWS_SUMS_BYTES = 512 << 10,
    ROWS_SUMS_IN_ORDER = 64 << 10, /* these stay in an L2 of 256 KB that a cluster shares */
    ROWS_A_BYTES = 8 << 10,        /* of rows of tiles that stay in L1 */
    ROWS_B_BYTES = 16 << 10,       /* while those of panels pass by, which stay there, too */
};

/* ---- the step ---- */

/* The taps of one panel and part, transformed: [point][channel][NR], points out_stride apart. */
static void transform_taps(const pa_winograd_op *op, int64_t panel, int64_t part, float *out, int64_t out_stride) {
    const pa_conv_op *p = &op->conv;
    const int64_t channels = channels_of(op), first = part * op->kc;
    const int64_t next_panel = min64(panel + 1, p->groups * panels_of(op) - 1);
    const float *weight = p->weight, *taps = weight + (panel * p->kh * p->kw * channels + first) * p->kernel->nr;
    PA_FUNCTION(winograd_weight, f32, op->transform)(&(pa_winograd_weight_args){
        .n = op->n,
        .r = p->kh,
        .nr = p->kernel->nr,
        .rows = min64(op->kc, channels - first),
        .taps = taps,
        .next = part + 1 < op->k_blocks ? taps + op->kc * p->kernel->nr
                                     : weight + next_panel * p->kh * p->kw * channels * p->kernel->nr,
        .tap_stride = channels * p->kernel->nr,
        .out = out,
        .out_stride = out_stride,
    });
}

/* Adds a part's products to M: for each point a GEMM of the chunk's tiles with each of its panels. */
static void multiply(const context *ctx, int64_t group, int64_t part, int64_t panel0, int64_t panels, int64_t tile0,
                     const pa_tiling *tiling, float *m, const void *pointers) {
    const pa_winograd_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const int64_t nr = p->kernel->nr, mr = p->kernel->mr, wide = op->panel_block * nr, bytes = real_bytes(op);
    const int64_t k = min64(op->kc, channels_of(op) - part * op->kc), panel = group * panels_of(op) + panel0;
    const int64_t b_stride = !op->lazy ? k * nr : lazy_stride(op);
    const int64_t b_step = !op->lazy ? channels_of(op) * points_of(op) * nr : points_of(op) * lazy_stride(op);
    float *taps = m + m_floats(op);
    const char *b = (const char *)taps;
    if (!op->lazy)
        b = (const char *)op->transformed + (panel * b_step + part * op->kc * points_of(op) * nr) * bytes;
    else
        for (int64_t j = 0; j < panels; j++) transform_taps(op, panel + j, part, taps + j * b_step, lazy_stride(op));
    const pa_panels all = {.kernel = p->kernel, .columns = panels * nr, .b_step = b_step, .kc = 0};
    for (int point = 0; point < points_of(op); point++, b += b_stride * bytes) {
        const int64_t at = ((group * op->k_blocks + part) * points_of(op) + point) * input_stride(op) + tile0 * op->kc;
        if (is_f16(op))
            pa_gemm_f16_panels(&all, &(pa_gemm_f16_args){
                .taps = 1,
                .first = part == 0,
                .tiling = *tiling,
                .k = k,
                .a_offset = at,
                .a_step = mr,
                .a = pointers,
                .b = (const uint16_t *)b,
                .next = (const void *)(b + b_stride * bytes),
                .c = (uint16_t *)m, /* not read, nor written */
                .sums = (uint16_t *)m + point * m_stride(op),
                .sums_stride = wide,
            });
        else
            pa_gemm_f32_panels(&all, &(pa_gemm_args){
                .taps = 1,
                .tiling = *tiling,
                .k = k,
                .a_offset = at,
                .a_step = mr,
                .a = pointers,
                .b = (const float *)b,
                .bias = part == 0 ? p->zero : NULL,
                .next = (const void *)(b + b_stride * bytes),
                .c = m + point * m_stride(op),
                .c_stride = wide,
                .lo = -__builtin_inff(),
                .hi = __builtin_inff(),
            });
    }
}

/* The same by rows of points: a row of B of a panel stays in L1. */
static void multiply_by_rows(const context *ctx, int64_t group, int64_t part, int64_t panel0, int64_t panels, int64_t tile0,
                             int64_t tiles, char *m) {
    const pa_winograd_op *op = ctx->op;
    const int64_t nr = op->conv.kernel->nr, k = min64(op->kc, channels_of(op) - part * op->kc), bytes = real_bytes(op);
    const int64_t b_step = channels_of(op) * points_of(op) * nr * bytes, b_row = op->n * k * nr * bytes;
    const int64_t a_row = op->n * input_stride(op) * bytes, first = (group * op->k_blocks + part) * points_of(op);
    const char *b = (const char *)op->transformed + (group * panels_of(op) + panel0) * b_step + part * op->kc * points_of(op) * nr * bytes;
    const char *a = ctx->input + (first * input_stride(op) + tile0 * op->kc) * bytes;
    const int64_t threes = max64(ROWS_A_BYTES / (op->n * k * bytes) / PA_WINOGRAD_ROW_TILES, 1);
    const int64_t some = !is_f16(op) && panels * b_row <= ROWS_B_BYTES ? threes * PA_WINOGRAD_ROW_TILES : tiles;
    for (int row = 0; row < op->n; row++, a += a_row, b += b_row, m += op->m * m_stride(op) * bytes) {
        for (int64_t t = 0; t < tiles; t += some)
            for (int64_t panel = 0; panel < panels; panel++)
                PA_FUNCTION(winograd_products, f32, op->products)(&(pa_winograd_products_args){
                    .n = op->n,
                    .m = op->m,
                    .first = part == 0,
                    .tiles = min64(some, tiles - t),
                    .k = k,
                    .a = a + t * op->kc * bytes,
                    .a_tile = op->kc,
                    .a_point = input_stride(op),
                    .b = b + panel * b_step,
                    .next = panel + 1 < panels ? b + (panel + 1) * b_step : row + 1 < op->n ? b + b_row : b,
                    .out = m + (t * op->panel_block + panel) * nr * bytes,
                    .out_stride = m_stride(op),
                    .out_tile = op->panel_block * nr,
                });
    }
}

/* The tile at `pixel` of the output, as integers with what follows the convolution. */
static void store_integers(const context *ctx, const pa_winograd_output_args *tile, int64_t pixel, int64_t channel) {
    const pa_conv_op *p = &ctx->op->conv;
    const pa_winograd_s8 *s8 = &ctx->op->s8;
    pa_epilogue_s8 epilogue = s8->epilogue;
    pa_view *residual = &epilogue.residual;
    const int8_t *r = epilogue.add ? pa_s8_at(residual, ctx->bases) + pixel * residual->stride + channel : NULL;
    int8_t *c = pa_s8_at(&p->dst, ctx->bases) + pixel * p->dst.stride + channel;
    const int64_t c_pixel = p->dilation_x * p->dst.stride;
    const float *float_tile = tile->out;
    residual->stride *= p->dilation_x;
    for (int y = 0; y < tile->height; y++, c += p->dst.w * c_pixel, float_tile += tile->out_row) {
        for (int x = 0; x < tile->width; x++)
            PA_FUNCTION(quantize, s8, s8->quantize)(tile->channels, float_tile + x * tile->out_pixel, c + x * c_pixel, 1,
                                                    s8->dst_zero);
        pa_epilogue_s8_run(&epilogue, tile->width, tile->channels, c, c_pixel, r);
        if (r) r += p->dst.w * residual->stride;
    }
}

static void output_pieces(const void *arg, int64_t first, int64_t end, int thread) {
    const context *ctx = arg;
    const pa_winograd_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const pa_chunk_place at = pa_place_of(first, ceil_div(ctx->tiles, op->split), ctx->panel_blocks, p->groups, op->panel_block,
                                          op->by_panels);
    const int64_t group = at.group, panel0 = at.panel, columns = p->dst.c / p->groups;
    const int64_t panels = min64(end - first, panels_of(op) - panel0);
    if (panels <= 0) return; /* the last chunk of a group may have fewer */
    const int64_t tile0 = at.row_block * op->split, tiles = min64(op->split, ctx->tiles - tile0);
    const int64_t wide = op->panel_block * p->kernel->nr, bytes = real_bytes(op);

    float *m = ctx->scratch + thread * own_floats(op);
    float *float_tile = op->s8.dequantize ? m + staged_at(op) : NULL;
    const int with_silu = op->by_rows && is_f16(op); /* the columns make it */
    char *dst = pa_view_at(&p->dst, ctx->bases, bytes), *r = pa_view_at(&p->residual, ctx->bases, bytes);
    void *pointers = m + staged_at(op) + round_up(staged_floats(op), 2);
    const pa_tiling tiling = pa_tiling_of(tiles, p->kernel->mr);
    if (!op->by_rows) pa_point_rows(pointers, &tiling, p->kernel->mr, ctx->input, op->kc * bytes);
    for (int64_t part = 0; part < op->k_blocks; part++) {
        if (op->by_rows)
            multiply_by_rows(ctx, group, part, panel0, panels, tile0, tiles, (char *)m);
        else
            multiply(ctx, group, part, panel0, panels, tile0, &tiling, m, pointers);
    }

    const int64_t nr = p->kernel->nr, channel = group * columns + panel0 * nr, first_bias = (group * panels_of(op) + panel0) * nr;
    place tile = place_of_tile(op, ctx->tile0 + tile0);
    for (int64_t t = 0; t < tiles; t++, next_tile(op, &tile)) {
        const int64_t y = first_of_tile(op, tile.row, op->tiles_y), x = first_of_tile(op, tile.column, op->tiles_x);
        if (y >= p->dst.h || x >= p->dst.w) continue; /* remainders behind the last pixel */
        const int64_t pixel = y * p->dst.w + x, apart = p->dilation_y;
        const pa_winograd_output_args args = {
            .n = op->n,
            .m = op->m,
            .height = pixels_of_tile(op, p->dst.h - y),
            .width = pixels_of_tile(op, p->dst.w - x),
            .channels = (int32_t)min64(panels * nr, columns - panel0 * nr),
            .in = (const char *)m + t * wide * bytes,
            .in_stride = m_stride(op),
            .bias = (const char *)p->bias + first_bias * bytes,
            .out = float_tile ? (void *)float_tile : dst + (pixel * p->dst.stride + channel) * bytes,
            .out_row = float_tile ? op->m * wide : apart * p->dst.w * p->dst.stride,
            .out_pixel = float_tile ? wide : apart * p->dst.stride,
            .silu = with_silu && p->silu,
            .r = p->has_residual && (with_silu || !p->silu) ? r + (pixel * p->residual.stride + channel) * bytes : NULL,
            .r_row = apart * p->dst.w * p->residual.stride,
            .r_pixel = apart * p->residual.stride,
            .lo = p->lo,
            .hi = p->hi,
        };
        PA_FUNCTION(winograd_output, f32, op->by_rows ? op->columns : op->output)(&args);
        if (float_tile) store_integers(ctx, &args, pixel, channel);
        if (with_silu) continue;
        for (int64_t i = 0, at = pixel; p->silu && i < args.height; i++, at += apart * p->dst.w)
            PA_FUNCTION(silu, f32, p->silu)(args.width, args.channels, dst + (at * p->dst.stride + channel) * bytes,
                apart * p->dst.stride, p->has_residual ? r + (at * p->residual.stride + channel) * bytes : NULL, args.r_pixel);
    }
}

void pa_winograd_plan(pa_winograd_op *op, int threads) {
    const pa_conv_op *p = &op->conv;
    op->tiles_y = p->dilation_y * (int32_t)ceil_div(ceil_div(p->dst.h, p->dilation_y), op->m);
    op->tiles_x = p->dilation_x * (int32_t)ceil_div(ceil_div(p->dst.w, p->dilation_x), op->m);
    const int in_order = op->products && strcmp(op->products->core, "in-order") == 0;
    const int64_t most = !is_f16(op) ? (op->lazy ? LAZY_KC : KC) : in_order ? ROWS_KC : PA_F16_BLOCK;
    op->k_blocks = (int32_t)ceil_div(channels_of(op), most);
    op->kc = round_up(ceil_div(channels_of(op), op->k_blocks), PA_LANES_MAX);
    op->k_blocks = (int32_t)ceil_div(channels_of(op), op->kc);
    if (op->stride > 1 && op->k_blocks == 1) {
        op->kc = round_up(channels_of(op) - phase_channels(op) + phase_width(op), PA_LANES_MAX);
    } else if (op->stride > 1) { /* a row of phases, a multiple of PA_LANES_MAX, is whole parts (space_to_depth.py) */
        int64_t parts = ceil_div(phase_channels(op), most);
        while (phase_channels(op) % (parts * PA_LANES_MAX)) parts++;
        op->kc = phase_channels(op) / parts;
        op->k_blocks = (int32_t)(channels_of(op) / op->kc);
    }

    const int64_t last = channels_of(op) - (op->k_blocks - 1) * op->kc;
    const int64_t row_bytes = op->n * op->kc * p->kernel->nr * (int64_t)sizeof(float);
    const int short_sums = is_f16(op) || row_bytes <= ROWS_BYTES;
    op->by_rows = op->products && !op->lazy && last % 4 == 0 && last >= 8 && short_sums;
    const int float_rows = op->by_rows && !is_f16(op);
    const int64_t unit = float_rows ? PA_WINOGRAD_ROW_TILES : p->kernel->mr;

    const int64_t tiles = tiles_of(op), tile_bytes = points_of(op) * channels_of(op) * (int64_t)sizeof(float);
    /* lazy: each block would transform the weights again, and each split */
    const int64_t block_bytes = is_f16(op) ? HALVES_BYTES : float_rows ? ROWS_BLOCK_BYTES : BLOCK_BYTES;
    const int64_t fitting = op->lazy ? tiles : max64((int64_t)threads * block_bytes / tile_bytes, BLOCK_BYTES_LEAST / real_bytes(op));
    op->block = ceil_div(tiles, ceil_div(tiles, fitting));
    op->block = min64(round_up(op->block, unit), tiles);

    const int64_t columns = float_rows ? ROWS_COLUMNS : COLUMNS;
    const int64_t panels = min64(max64(1, columns / p->kernel->nr), is_f16(op) ? PA_F16_PANELS : columns);
    op->panel_block = !op->lazy ? min64(panels, panels_of(op)) : 1;
    const int64_t sums = float_rows ? op->n * op->m : points_of(op);
    const int64_t rows_bytes = in_order ? ROWS_SUMS_IN_ORDER : ROWS_SUMS_BYTES;
    const int64_t most_bytes = is_f16(op) ? HALVES_BYTES : float_rows ? rows_bytes : SUMS_BYTES;
    const int64_t sums_bytes = sums * op->panel_block * p->kernel->nr * (int64_t)sizeof(float); /* of a tile */
    const int64_t chunks = ceil_div(op->block, max64(1, most_bytes / sums_bytes));
    op->split = op->lazy ? op->block : min64(op->block, round_up(ceil_div(op->block, chunks), unit));
    if (threads > 1) {
        const pa_product product = {
            .rows = op->lazy ? 1 : op->block,
            .panels = panels_of(op),
            .groups = p->groups,
            .unit = unit,
            .most = op->split,
            .line = max64(1, LINE_BYTES / (p->kernel->nr * real_bytes(op))),
            .widest = op->panel_block,
            .work = points_of(op) * channels_of(op) * p->kernel->nr,
        };
        const pa_chunk_size size = pa_divide(&product, threads);
        op->panel_block = size.panels;
        if (!op->lazy) op->split = size.rows;
    }
    op->by_panels = pa_winograd_transformed_floats(op) > op->block * points_of(op) * channels_of(op) * p->groups;
    op->scratch_floats = round_up(ceil_div(input_floats(op), threads), 16) + own_floats(op);
}

int64_t pa_winograd_transformed_floats(const pa_winograd_op *op) {
    return op->conv.groups * panels_of(op) * channels_of(op) * points_of(op) * op->conv.kernel->nr;
}

void pa_winograd_transform(const pa_winograd_op *op, float *transformed, uint16_t *halves) {
    float *to = transformed;
    for (int64_t panel = 0; panel < op->conv.groups * panels_of(op); panel++) {
        for (int64_t part = 0; part < op->k_blocks; part++) {
            const int64_t k = min64(op->kc, channels_of(op) - part * op->kc);
            transform_taps(op, panel, part, to, k * op->conv.kernel->nr);
            to += k * points_of(op) * op->conv.kernel->nr;
        }
    }
    for (int64_t i = 0; halves && i < pa_winograd_transformed_floats(op); i++)
        halves[i] = float_to_half(transformed[i] / PA_F16_WINOGRAD(op->n));
}

void pa_winograd_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_winograd_op *op = args;
    const int64_t tiles = tiles_of(op), groups = op->conv.groups;
    context ctx = {
        .op = op,
        .bases = bases,
        .input = scratch,
        .scratch = (float *)scratch + input_floats(op),
        .input_tiles = min64(ceil_div(INPUT_FLOATS, channels_of(op) * groups),
                             ceil_div(op->block, INPUT_CHUNKS * pa_team_size(team))),
        .panel_blocks = ceil_div(panels_of(op), op->panel_block),
    };
    for (ctx.tile0 = 0; ctx.tile0 < tiles; ctx.tile0 += op->block) {
        ctx.tiles = min64(op->block, tiles - ctx.tile0);
        pa_team_run(team, input_chunk, &ctx, ceil_div(ctx.tiles, ctx.input_tiles));
        pa_team_run_pieces(team, output_pieces, &ctx, ceil_div(ctx.tiles, op->split) * ctx.panel_blocks * groups, op->panel_block);
    }
}
