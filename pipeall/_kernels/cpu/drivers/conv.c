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

#include <string.h>

#include "../../intmath.h"
#include "../simd/half.h"
#include "gemm.h"

enum {
    MC = 104,      /* rows per chunk at most: 104 rows of KC floats are about half of a 512 KB L2 */
    FEW = 24,     /* fewer channels than this: the set-up of a tap would outweigh its multiply-adds */
    GATHERED = 12, /* likewise where rows of the kernel would be gathered */
    PACK = 16,    /* channels packed at a time: a cache line of each filter */
    FAR = 1 << 20, /* an input of more floats, 4 MB, is not in a core's caches */
    CHUNKS = 4,   /* chunks per thread aimed at, so that claiming them balances the team */
};

#define ELEMENT float
#include "indirection.inc"

static void conv_chunk(const void *arg, int64_t index, int thread) {
    const context *ctx = arg;
    const pa_conv_op *p = ctx->conv;
    const chunk t = chunk_at(ctx, index);
    const int64_t taps = taps_of(p), k = k_of(p), nr = p->kernel->nr;
    const pa_tiling tiling = pa_tiling_of(t.rows, p->kernel->mr);
    const float **pointers = (const float **)(ctx->scratch + thread * p->scratch_bytes);
    const int64_t b_step = taps * k * nr >> p->f16_weights;
    const float *b = (const float *)p->weight + t.panel * b_step;
    point(p, ctx->src + t.group * channels_of(p), t.row0, &tiling, pointers);

    const pa_panels panels = {
        .kernel = p->kernel,
        .columns = t.columns,
        .b_step = b_step,
        .bias_step = nr,
        .kc = p->kc,
    };
    pa_gemm_f32_panels(&panels, &(pa_gemm_args){
        .taps = (int32_t)taps,
        .far = !p->tap_rows && taps == 1 && (int64_t)p->src.h * p->src.w * p->src.stride > FAR,
        .tiling = tiling,
        .k = k,
        .a_step = taps * p->kernel->mr,
        .a = pointers,
        .b = b,
        .bias = (const float *)p->bias + t.panel * nr,
        .next = b,
        .c = (float *)ctx->dst + t.row0 * p->dst.stride + t.channel,
        .c_stride = p->dst.stride,
        .r = ctx->residual ? ctx->residual + t.row0 * p->residual.stride + t.channel : NULL,
        .r_stride = p->residual.stride,
        .lo = p->lo,
        .hi = p->hi,
    });
}

void pa_conv_plan(pa_conv_op *p, int threads) {
    cut(p, MC, threads > 1 ? (int64_t)threads * CHUNKS : 0);
    p->scratch_bytes = round_up((pointer_elements(p) + gathered_elements(p)) * (int64_t)sizeof(float), 64);
}

void pa_conv_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    run_chunks(op, op, sizeof(float), bases, scratch, team, conv_chunk);
}

static inline __attribute__((always_inline)) void pack(const void *weight, int64_t first, int64_t n, int64_t channels,
                                                       int64_t taps, int32_t nr, void *packed, const int f16_weights) {
    /* PACK channels of each filter at a time: they lie together, the filters often a multiple of 4 KB apart. */
    for (int64_t k0 = 0; k0 < channels; k0 += PACK) {
        const int64_t k1 = min64(k0 + PACK, channels);
        for (int64_t j = 0; j < nr; j++)
            for (int64_t k = k0; k < k1; k++)
                for (int64_t t = 0; t < taps; t++) {
                    const int64_t to = (t * channels + k) * nr + j;
                    const float value = j < n ? pa_unaligned(weight, first + (j * channels + k) * taps + t) : 0.0f;
                    if (f16_weights)
                        ((uint16_t *)packed)[to] = float_to_half(value);
                    else
                        ((float *)packed)[to] = value;
                }
    }
}

void pa_conv_pack(const void *weight, const void *bias, int64_t cout, int64_t cin_group, int64_t taps, int32_t groups,
                  int32_t nr, int32_t f16_weights, float *packed_weight, float *packed_bias) {
    const int64_t columns = cout / groups, panels = ceil_div(columns, nr);
    for (int64_t index = 0; index < groups * panels; index++) {
        const int64_t column = index % panels * nr, column0 = index / panels * columns + column;
        const int64_t n = min64(nr, columns - column);
        const int64_t first = column0 * cin_group * taps;
        if (f16_weights)
            pack(weight, first, n, cin_group, taps, nr, packed_weight, 1);
        else
            pack(weight, first, n, cin_group, taps, nr, packed_weight, 0);
        packed_weight += taps * cin_group * nr >> f16_weights;
        for (int64_t j = 0; j < nr; j++) *packed_bias++ = j < n ? pa_unaligned(bias, column0 + j) : 0.0f;
    }
}
