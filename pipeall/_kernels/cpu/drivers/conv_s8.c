/* Convolutions of 8-bit integers by pointers to what is under the taps of the kernel, as conv.c has them.
 *
 * Sums are whole in registers, but long ones on Arm cores without dot products: those are made of parts (gemm.c). A chunk is
 * row_block pixels x panel_block panels of NR channels of one group; of a depthwise convolution a panel is a vector.
 */
#include "gemm.h"
#include "unsigned_input.h"

enum {
    MC = 104,          /* of a chunk at most */
    POINTERS = 8192,   /* of a chunk at most, unless a pixel has more */
    KC = 288,          /* k of a part of the sum: panels of so many, a line of C wide, take 18 KB of a first-level cache */
    MOST_APART = 512, MOST_APART_IN_ORDER = 1024, /* of a pixel whose sums are made at once */
    FEW_IN_WINDOW = 8, /* channels, fewer than this: all rows of the kernel may be gathered to one tap */
};

/* k as the kernel reads it, in whole loads: of KR bytes, and of 8 at the end where KR is 16 (kernels_s8.h). */
static int64_t depth_of(const pa_conv_op *p) { return round_up(k_of(p), min64(p->kernel->kr, 8)); }
/* Of an element of the result. */
static int64_t dst_bytes(const pa_conv_s8_op *p) { return p->float_dst ? (int64_t)sizeof(float) : 1; }
static int64_t panel_bytes(const pa_conv_s8_op *p) {
    const int64_t taps = taps_of(&p->conv), nr = p->conv.kernel->nr;
    if (!p->depthwise) return taps * depth_of(&p->conv) * nr;
    return p->conv.kernel->kr == 4 ? round_up(taps, 4) * nr : taps * nr * (int64_t)sizeof(int16_t);
}

/* Of a thread's scratch: pointers and gathered taps. */
static int64_t thread_pointers(const pa_conv_op *p) {
    return round_up(pointer_bytes(p) + (p->tap_rows ? gathered_bytes(p) + PA_S8_SPARE : 0), 64);
}

/* Bytes of the input under a pixel's window and not under that of the one before it; gathered windows share none. */
static int64_t apart(const pa_conv_op *p) {
    return p->tap_rows > 1 ? taps_of(p) * k_of(p) : p->kh * min64(p->kw, p->stride_x) * channels_of(p);
}

/* Of parts of a sum (gemm.h), 0 where it is made at once: enough tiles stay in L1 for each panel. A part takes a Cortex-A53 some
 * 50 cycles more, as long as six lines from L2, and an A73 25, as long as two. */
static int64_t kc_of(const pa_conv_op *p) {
    const int64_t most = strcmp(p->kernel->core, "in-order") == 0 ? MOST_APART_IN_ORDER : MOST_APART;
    return p->kernel->flags & PA_PARTS && apart(p) > most ? KC : 0;
}
static int64_t sums_bytes(const pa_conv_op *p) {
    return kc_of(p) ? p->row_block * PA_S8_LINE * (int64_t)sizeof(int32_t) : 0;
}

/* Pixels of a chunk that reads few lines for those that it computes: of whole rows, or of an equal part of one. */
static int64_t whole_rows(const pa_conv_op *p, int64_t most) {
    if (p->dst.w <= 2 * most) return p->dst.w * min64(2 * most / p->dst.w, p->dst.h);
    return ceil_div(p->dst.w, ceil_div(p->dst.w, most));
}

void pa_epilogue_s8_run(const pa_epilogue_s8 *p, int64_t pixels, int64_t n, int8_t *c, int64_t c_stride, const int8_t *r) {
    if (n == c_stride && (!p->add || n == p->residual.stride)) n *= pixels, pixels = 1;
    if (p->lut) PA_FUNCTION(lut, s8, p->lut)(pixels, n, c_stride, c, c, p->table);
    if (!p->add) return;
    for (; pixels > 0; pixels--, c += c_stride, r += p->residual.stride)
        PA_FUNCTION(add, s8, p->add)(n, c, r, 1, c, &p->sum);
}

static void conv_pieces(const void *arg, int64_t first, int64_t end, int thread) {
    const context *ctx = arg;
    const pa_conv_s8_op *op = ctx->op;
    const pa_conv_op *p = &op->conv;
    const chunk t = chunk_at(ctx, first, end);
    if (!t.columns) return;
    const pa_tiling tiling = pa_tiling_of(t.rows, p->kernel->mr);
    char *scratch = ctx->scratch + thread * p->scratch_bytes;
    const char **pointers = (const char **)(scratch + sums_bytes(p));
    const void *weight = (const char *)p->weight + t.panel * panel_bytes(op);
    const int64_t nr = p->kernel->nr, channel = t.panel * nr, a_step = (int64_t)taps_of(p) * p->kernel->mr;
    const int32_t taps = taps_of(p), *bias = (const int32_t *)p->bias + channel;
    char *c = ctx->dst + (t.row0 * p->dst.stride + t.channel) * dst_bytes(op);
    const char *src = ctx->src + (op->depthwise ? t.channel : t.group * channels_of(p));
    if (op->unsign)
        point_unsigned(p, op->unsign, src, op->src_stride, t.row0, &tiling, pointers, (char *)pointers + thread_pointers(p));
    else
        point(p, src, t.row0, &tiling, pointers);
    const int8_t *const *a = (const void *)pointers;
    const int8_t *residual = ctx->residual ? (const int8_t *)ctx->residual + t.row0 * p->residual.stride + t.channel : NULL;
    const int joins = p->kernel->flags & PA_JOINS && op->epilogue.add && !op->epilogue.lut;
    if (op->depthwise) {
        PA_FUNCTION(depthwise, s8, p->kernel)(&(pa_depthwise_s8_args){
            .n = (int32_t)t.columns, .taps = taps, .tiling = tiling, .a_step = a_step, .a = a, .b = weight, .bias = bias,
            .scale = op->scale + channel, .to = op->to, .c = (int8_t *)c, .c_stride = p->dst.stride});
    } else {
        const pa_panels panels = {.kernel = p->kernel, .columns = t.columns, .b_step = panel_bytes(op), .bias_step = nr,
                                  .a_tile = apart(p) * p->kernel->mr, .kc = kc_of(p),
                                  .first = t.panel % panels_of(p), .all = panels_of(p)};
        pa_gemm_s8_panels(&panels, &(pa_gemm_s8_args){
            .taps = taps, .tiling = tiling, .k = depth_of(p), .a_step = a_step, .a = a, .b = weight, .bias = bias,
            .scale = op->scale + channel, .to = op->to, .c = c, .c_stride = p->dst.stride, .float_dst = op->float_dst,
            .r = joins ? residual : NULL, .r_stride = joins ? p->residual.stride : 0, .sum = op->epilogue.sum,
            .small = op->small, .sums = kc_of(p) ? (int32_t *)scratch : NULL, .sums_step = t.rows * nr});
    }
    if (!joins) pa_epilogue_s8_run(&op->epilogue, t.rows, t.columns, (int8_t *)c, p->dst.stride, residual);
}

void pa_conv_s8_plan(pa_conv_s8_op *op, int threads) {
    pa_conv_op *p = &op->conv;
    op->src_stride = p->src.stride;
    if (op->unsign) p->src.stride = channels_of(p);
    const int gathers_rows = !op->depthwise && few_channels(p);
    p->tap_rows = !gathers_rows ? 0 : op->gather_window && channels_of(p) < FEW_IN_WINDOW ? p->kh : 1;
    const int64_t few = max64(min64(MC, POINTERS / taps_of(p)), 1), k = taps_of(p) * (op->depthwise ? 1 : k_of(p));
    const int64_t most = op->unsign && !pointwise(p) ? whole_rows(p, few) : few;
    divide(p, most, k, panel_bytes(op), dst_bytes(op), threads);
    p->scratch_bytes = sums_bytes(p) + thread_pointers(p);
    if (op->unsign) p->scratch_bytes += round_up(region_pixels(p) * channels_of(p) + PA_S8_SPARE, 64);
}

void pa_conv_s8_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_conv_s8_op *op = args;
    const context ctx = context_of(op, &op->conv, dst_bytes(op), bases, scratch);
    run_chunks(&ctx, team, conv_pieces);
}

int64_t pa_conv_s8_packed_bytes(const pa_conv_s8_op *op) {
    return op->conv.groups * panels_of(&op->conv) * panel_bytes(op);
}

static void pack_depthwise(const pa_conv_op *p, const int8_t *weight, void *packed) {
    const int64_t taps = taps_of(p), nr = p->kernel->nr, fours = ceil_div(taps, 4);
    for (int64_t c = 0; c < p->dst.c; c++) {
        const int64_t panel = c / nr, place = pa_depthwise_s8_place(c % nr, nr);
        for (int64_t t = 0; t < taps; t++)
            if (p->kernel->kr == 4)
                ((int8_t *)packed)[((panel * fours + t / 4) * nr + place) * 4 + t % 4] = weight[c * taps + t];
            else
                ((int16_t *)packed)[(panel * taps + t) * nr + c % nr] = weight[c * taps + t];
    }
}

/* [k / KR][NR][KR] of a tap from k to `end`, of the panel of columns from the given one on; returns what is behind. */
static int8_t *pack_tap(const pa_conv_op *p, const int8_t *weight, int64_t column, int64_t tap, int64_t k, int64_t end,
                        int8_t *to) {
    const int64_t channels = channels_of(p), all = (int64_t)p->kh * p->kw, pixel = tap * (all / taps_of(p));
    const int64_t n = min64(p->kernel->nr, p->dst.c / p->groups - column);
    for (int64_t together; k < end; k += together, to += p->kernel->nr * together) {
        together = min64(p->kernel->kr, end - k); /* the last 8 of a KR of 16, too */
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = k; i < min64(k + together, k_of(p)); i++) /* a channel of one of the pixels that are a tap */
                to[j * together + i - k] = weight[((column + j) * channels + i % channels) * all + pixel + i / channels];
    }
    return to;
}

void pa_conv_s8_pack(const pa_conv_s8_op *op, const int8_t *weight, void *packed) {
    const pa_conv_op *p = &op->conv;
    const int64_t nr = p->kernel->nr;
    memset(packed, 0, (size_t)pa_conv_s8_packed_bytes(op));
    if (op->depthwise) {
        pack_depthwise(p, weight, packed);
        return;
    }
    const int64_t columns = p->dst.c / p->groups, panels = panels_of(p), channels = channels_of(p), depth = depth_of(p);
    const int64_t taps = taps_of(p), together = kc_of(p) ? pa_s8_panels(p->kernel) : panels;
    const pa_blocks of = pa_blocks_of(taps, depth, kc_of(p), PA_S8_K);
    int8_t *to = packed;
    for (int64_t group = 0; group < p->groups; group++, weight += columns * channels * p->kh * p->kw)
        for (int64_t panel0 = 0; panel0 < panels; panel0 += together)
            for (int64_t tap0 = 0; tap0 < taps; tap0 += of.taps)
                for (int64_t k0 = 0; k0 < depth; k0 += of.k)
                    for (int64_t panel = panel0; panel < min64(panel0 + together, panels); panel++)
                        for (int64_t t = tap0; t < min64(tap0 + of.taps, taps); t++)
                            to = pack_tap(p, weight, panel * nr, t, k0, min64(k0 + of.k, depth), to);
}
