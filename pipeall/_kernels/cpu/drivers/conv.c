/* Convolution as an indirect GEMM (after Dukhan, "The Indirect Convolution Algorithm", 2019).
 *
 * A row of the GEMM is an output pixel, a column an output channel; its A operand is, for each tap of the
 * kernel, a pointer to the input pixel under that tap (or to zeros in the padding), so that no im2col buffer
 * exists. A 1x1 convolution and a fully connected layer are the case of one tap.
 *
 * Where the channels are few, a tap is more than a pixel. The pixels under a row of the kernel lie together, so that a
 * pointer does for them too. Those of a group, or of a slice of wider pixels, are staged for a chunk: copied together, each
 * once. What is left (at the left and right border, dilated) is gathered in scratch, row by row of the kernel. A window
 * gathered whole would have one rest of k, not one in every row, but copying took longer than that: a quarter of a 7x7
 * stem of 3 channels on a Cortex-A73, by modelled cycles.
 *
 * A chunk is row_block pixels x panel_block panels of NR channels of one group. gemm.c blocks it for the caches.
 */
#include "conv.h"

#include "../simd/half.h"
#include "gemm.h"
#include "indirection.h"
#include "regions.h"

enum {
    MC = 104,      /* rows per chunk at most: 104 rows of KC floats are about half of a 512 KB L2 */
    PACK = 16,     /* channels packed at a time: a cache line of each filter */
    FAR = 1 << 20, /* an input of more floats, 4 MB, is not in a core's caches, */
    C_FAR = 2 << 20, /* an output of more floats not in the last cache */
};

/* k of a tap as it is packed. */
static int64_t depth_of(const pa_conv_op *p) { return round_up(k_of(p), p->kernel->kr); }

/* Of a packed weight. */
static int64_t weight_bytes(const pa_conv_op *p) { return p->weight_type == PA_WEIGHTS_F32 ? sizeof(float) : sizeof(uint16_t); }

static int is_f16(const pa_conv_op *p) { return p->item_bytes == sizeof(uint16_t); }

/* A chunk's scratch: of halves the sums of long layers, then what indirection.h has. */
static int64_t sums_bytes(const pa_conv_op *p) {
    if (!is_f16(p) || taps_of(p) * k_of(p) <= PA_F16_BLOCK) return 0;
    return round_up(p->row_block, p->kernel->mr) * PA_F16_PANELS * p->kernel->nr * p->item_bytes;
}

/* What comes from memory, as pa_gemm_args says. */
static int far_of(const pa_conv_op *p) {
    const int64_t a = (int64_t)p->src.h * p->src.w * p->src.stride, c = (int64_t)p->dst.h * p->dst.w * p->dst.stride;
    return (!p->tap_rows && taps_of(p) == 1 && a > FAR ? PA_FAR_A : 0) | (c > C_FAR ? PA_FAR_C : 0);
}

static void multiply_f32(const context *ctx, const chunk *t, const pa_tiling *tiling, const float *const *pointers) {
    const pa_conv_op *p = ctx->conv;
    const int64_t taps = taps_of(p), k = k_of(p), nr = p->kernel->nr, b_step = taps * depth_of(p) * nr;
    const int64_t skipped = t->panel * b_step + p->tap * depth_of(p) * nr;
    const float *b = (const float *)((const char *)p->weight + skipped * weight_bytes(p));
    const float *r = p->silu ? NULL : (const float *)ctx->residual;
    const pa_panels panels = {p->kernel, t->columns, b_step, nr, p->kc, 0, 0, 0};
    (p->weight_type == PA_WEIGHTS_F32 ? pa_gemm_f32_panels : pa_gemm_f32_w16_panels)(&panels, &(pa_gemm_args){
        .taps = (int32_t)(p->live_taps ? p->live_taps : taps),
        .far = far_of(p),
        .tiling = *tiling,
        .k = k,
        .a_step = taps * p->kernel->mr,
        .a = pointers + p->tap * p->kernel->mr,
        .b = b,
        .bias = (const float *)p->bias + t->panel * nr,
        .next = b,
        .c = (float *)ctx->dst + t->row0 * p->dst.stride + t->channel,
        .c_stride = p->dst.stride,
        .r = r ? r + t->row0 * p->residual.stride + t->channel : NULL,
        .r_stride = p->residual.stride,
        .lo = p->lo,
        .hi = p->hi,
    });
}

static void multiply_f16(const context *ctx, const chunk *t, const pa_tiling *tiling, const uint16_t *const *pointers,
                         uint16_t *sums) {
    const pa_conv_op *p = ctx->conv;
    const int64_t taps = taps_of(p), k = k_of(p), nr = p->kernel->nr, b_step = taps * k * nr;
    const uint16_t *b = (const uint16_t *)p->weight + t->panel * b_step + p->tap * k * nr, *r = p->silu ? NULL : (const uint16_t *)ctx->residual;
    const pa_panels panels = {p->kernel, t->columns, b_step, nr, p->kc, 0, 0, 0};
    pa_gemm_f16_panels(&panels, &(pa_gemm_f16_args){
        .taps = (int32_t)(p->live_taps ? p->live_taps : taps),
        .first = 1,
        .last = 1,
        .tiling = *tiling,
        .k = k,
        .a_step = taps * p->kernel->mr,
        .a = pointers + p->tap * p->kernel->mr,
        .b = b,
        .next = b,
        .sums = sums,
        .sums_stride = PA_F16_PANELS * nr,
        .bias = (const uint16_t *)p->bias + t->panel * nr,
        .c = (uint16_t *)ctx->dst + t->row0 * p->dst.stride + t->channel,
        .c_stride = p->dst.stride,
        .r = r ? r + t->row0 * p->residual.stride + t->channel : NULL,
        .r_stride = p->residual.stride,
        .lo = p->lo,
        .hi = p->hi,
    });
}

static void conv_pieces(const void *arg, int64_t first, int64_t end, int thread) {
    const context *ctx = arg;
    const pa_conv_op *p = ctx->conv;
    const chunk t = chunk_at(ctx, first, end);
    if (!t.columns) return;
    const pa_tiling tiling = pa_tiling_of(t.rows, p->kernel->mr);
    char *scratch = ctx->scratch + thread * p->thread_bytes;
    const void *pointers = scratch + sums_bytes(p);
    point(p, ctx->src + t.group * channel_bytes(p), t.row0, &tiling, (const char **)pointers);
    if (is_f16(p))
        multiply_f16(ctx, &t, &tiling, pointers, (uint16_t *)scratch);
    else
        multiply_f32(ctx, &t, &tiling, pointers);
    if (p->silu) {
        const char *r = ctx->residual;
        PA_FUNCTION(silu, f32, p->silu)(
            t.rows, t.columns, ctx->dst + (t.row0 * p->dst.stride + t.channel) * p->item_bytes, p->dst.stride,
            r ? r + (t.row0 * p->residual.stride + t.channel) * p->item_bytes : NULL, p->residual.stride);
    }
}

void pa_conv_plan(pa_conv_op *p, int threads) {
    p->tap_rows = few_channels(p);
    const int64_t depth = taps_of(p) * depth_of(p);
    divide(p, MC, taps_of(p) * k_of(p), depth * p->kernel->nr * weight_bytes(p), p->item_bytes, threads);
    p->thread_bytes = round_up(sums_bytes(p) + pointer_bytes(p) + gathered_bytes(p), 64);
    p->beside_bytes = region_bytes(p);
    p->scratch_bytes = p->thread_bytes + round_up(ceil_div(max64(p->beside_bytes, 0), threads), 64);
}

void pa_conv_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_conv_op *p = op;
    context ctx = context_of(p, p, p->item_bytes, bases, scratch);
    if (p->beside_bytes < 0) {
        run_chunks(&ctx, team, conv_pieces);
        return;
    }
    ctx.scratch += p->beside_bytes;
    run_regions(p, &ctx, scratch, team, conv_pieces);
}

PA_INLINE void store(void *to, int64_t at, float value, const pa_weight_type type) {
    if (type == PA_WEIGHTS_F32)
        ((float *)to)[at] = value;
    else
        ((uint16_t *)to)[at] = type == PA_WEIGHTS_F16 ? float_to_half(value) : float_to_bfloat(value);
}

/* Element k of a column, in the order of the model's taps, in a panel of KR = 1: NR apart. Else KR of a tap lie together. */
PA_INLINE int64_t packed_at(const pa_conv_op *p, int64_t k, int64_t column, const int64_t kr) {
    const int64_t nr = p->kernel->nr;
    if (kr == 1) return k * nr + column;
    const int64_t tap = k / k_of(p), i = k % k_of(p);
    return (tap * depth_of(p) + i / kr * kr) * nr + column * kr + i % kr;
}

/* PACK channels of each of n filters at a time: they lie together, the filters often a multiple of 4 KB apart. */
PA_INLINE void pack(const pa_conv_op *p, const void *weight, int64_t first, int64_t n, int64_t channels, int64_t taps,
                    void *packed, int64_t panel_at, const int64_t kr, const pa_weight_type type) {
    for (int64_t k0 = 0; k0 < channels; k0 += PACK)
        for (int64_t j = 0; j < p->kernel->nr; j++)
            for (int64_t k = k0; k < min64(k0 + PACK, channels); k++)
                for (int64_t t = 0; t < taps; t++) {
                    const float value = j < n ? pa_unaligned(weight, first + (j * channels + k) * taps + t) : 0.0f;
                    store(packed, panel_at + packed_at(p, t * channels + k, j, kr), value, type);
                }
}

static int64_t panel_elements(const pa_conv_op *p, int64_t channels) {
    return p->kernel->nr * (p->kernel->kr == 1 ? p->kh * p->kw * channels : taps_of(p) * depth_of(p));
}

int64_t pa_conv_packed_elements(const pa_conv_op *p, int64_t channels) {
    return p->groups * panels_of(p) * panel_elements(p, channels);
}

void pa_conv_pack(const pa_conv_op *p, int64_t channels, const void *weight, const void *bias, void *packed_weight,
                  void *packed_bias) {
    const int64_t columns = p->dst.c / p->groups, panels = panels_of(p), nr = p->kernel->nr, taps = (int64_t)p->kh * p->kw;
    for (int64_t index = 0; index < p->groups * panels; index++) {
        const int64_t column = index % panels * nr, column0 = index / panels * columns + column;
        const int64_t n = min64(nr, columns - column), first = column0 * channels * taps, at = index * panel_elements(p, channels);
        if (p->weight_type == PA_WEIGHTS_F32)
            pack(p, weight, first, n, channels, taps, packed_weight, at, 1, PA_WEIGHTS_F32);
        else if (p->weight_type == PA_WEIGHTS_F16)
            pack(p, weight, first, n, channels, taps, packed_weight, at, 1, PA_WEIGHTS_F16);
        else
            pack(p, weight, first, n, channels, taps, packed_weight, at, p->kernel->kr, PA_WEIGHTS_BF16);
        for (int64_t j = 0; j < nr; j++)
            store(packed_bias, index * nr + j, j < n ? pa_unaligned(bias, column0 + j) : 0.0f,
                  is_f16(p) ? PA_WEIGHTS_F16 : PA_WEIGHTS_F32);
    }
}
