/* Convolution as an indirect GEMM (after Dukhan, "The Indirect Convolution Algorithm", 2019).
 *
 * A row of the GEMM is an output pixel, a column an output channel; its A operand is, for each tap of the
 * kernel, a pointer to the input pixel under that tap (or to zeros in the padding), so that no im2col buffer
 * exists. A 1x1 convolution and a fully connected layer are the case of one tap.
 *
 * A chunk is row_block pixels x panel_block panels of NR channels of one group. Inside it the sum is blocked
 * by KC so that a B block (KC x NR) stays in L1 while the chunk's A rows (row_block x KC) stay in L2.
 */
#include "conv.h"

#include <string.h>

enum {
    ROWS = 96,    /* rows per chunk: a multiple of every MR; 96 x KC floats fit into half of a 256 KB L2 */
    KC = 320,     /* 320 x 16 floats = 20 KB: B block in L1 beside six A rows */
    GATHER = 12,  /* fewer channels per tap than this: the set-up of a tap would outweigh its multiply-adds */
    CHUNKS = 4,   /* chunks per thread aimed at, so that claiming them balances the team */
};

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

typedef struct frame {
    const pa_conv_op *args;
    const float *src, *residual;
    float *dst, *scratch;
    int64_t row_blocks, panel_blocks, panels;
} frame;

/* The input pixel under a tap of output pixel (y, x), or NULL in the padding. */
static inline const float *under_tap(const pa_conv_op *p, const float *src, int64_t y, int64_t x, int i, int j) {
    int64_t iy = y * p->stride_y - p->pad_top + (int64_t)i * p->dilation_y;
    int64_t ix = x * p->stride_x - p->pad_left + (int64_t)j * p->dilation_x;
    if (iy < 0 || iy >= p->src.h || ix < 0 || ix >= p->src.w) return NULL;
    return src + (iy * p->src.w + ix) * p->src.stride;
}

/* Copies the taps of one output pixel into `to`, in the order of the packed weights. */
static void gather_row(const pa_conv_op *p, const float *src, int64_t y, int64_t x, int64_t channels, float *to) {
    for (int i = 0; i < p->kh; i++) {
        const float *first = under_tap(p, src, y, x, i, 0), *last = under_tap(p, src, y, x, i, p->kw - 1);
        if (first && last && p->dilation_x == 1 && p->src.stride == channels) {
            memcpy(to, first, (size_t)(p->kw * channels) * sizeof(float));
            to += p->kw * channels;
            continue;
        }
        for (int j = 0; j < p->kw; j++, to += channels) {
            const float *pixel = under_tap(p, src, y, x, i, j);
            if (pixel)
                memcpy(to, pixel, (size_t)channels * sizeof(float));
            else
                memset(to, 0, (size_t)channels * sizeof(float));
        }
    }
}

static void conv_chunk(const void *context, int64_t chunk, int thread) {
    const frame *f = context;
    const pa_conv_op *p = f->args;
    const int64_t row_block = chunk % f->row_blocks, rest = chunk / f->row_blocks;
    const int64_t panel_block = rest % f->panel_blocks, group = rest / f->panel_blocks;
    const int64_t channels = p->src.c / p->groups, columns = p->dst.c / p->groups;
    const int64_t row0 = row_block * p->row_block, rows = min64(p->row_block, (int64_t)p->dst.h * p->dst.w - row0);
    const int64_t panel0 = panel_block * p->panel_block, panel1 = min64(panel0 + p->panel_block, f->panels);
    const int taps = p->kh * p->kw, mr = p->mr, nr = p->nr;
    const float *src = f->src + group * channels;
    float *scratch = f->scratch + thread * p->scratch_floats;

    /* The row pointers, [tile][tap][MR]; after a gather a row is a single long tap. */
    const int gemm_taps = p->gather ? 1 : taps;
    const int64_t k = p->gather ? taps * channels : channels;
    const float **pointers = (const float **)scratch;
    float *gathered = scratch + ceil_div(p->row_block * gemm_taps * (int64_t)sizeof(float *), 64) * 16;
    for (int64_t r = 0; r < rows; r++) {
        const float **pointer = pointers + r / mr * gemm_taps * mr + r % mr;
        const int64_t y = (row0 + r) / p->dst.w, x = (row0 + r) % p->dst.w;
        if (p->gather) {
            gather_row(p, src, y, x, channels, gathered + r * k);
            *pointer = gathered + r * k;
            continue;
        }
        for (int t = 0; t < taps; t++) {
            const float *pixel = under_tap(p, src, y, x, t / p->kw, t % p->kw);
            pointer[t * mr] = pixel ? pixel : p->zero;
        }
    }

    /* Blocks of the sum: whole taps while they fit, else parts of one tap. A single tile reuses no B: one block. */
    const int64_t kc = rows <= mr ? gemm_taps * k : KC;
    const int64_t parts = ceil_div(k, kc), part = ceil_div(k, parts);
    const int64_t tap_step = k < kc ? min64(kc / k, gemm_taps) : 1;
    for (int64_t t = 0; t < gemm_taps; t += tap_step) {
        for (int64_t k0 = 0; k0 < k; k0 += part) {
            const int first = t == 0 && k0 == 0, last = t + tap_step >= gemm_taps && k0 + part >= k;
            for (int64_t panel = panel0; panel < panel1; panel++) {
                const int64_t column = panel * nr, channel = group * columns + column;
                const int64_t index = group * f->panels + panel;
                pa_gemm_args g = {
                    .n = (int32_t)min64(nr, columns - column),
                    .taps = (int32_t)min64(tap_step, gemm_taps - t),
                    .k = min64(part, k - k0),
                    .a_offset = k0,
                    .b = p->weight + (index * taps * channels + t * k + k0) * nr,
                    .bias = first ? p->bias + index * nr : NULL,
                    .c_stride = p->dst.stride,
                    .r_stride = p->residual.stride,
                    .lo = last ? p->lo : -__builtin_inff(),
                    .hi = last ? p->hi : __builtin_inff(),
                };
                for (int64_t r = 0; r < rows; r += mr) {
                    g.m = (int32_t)min64(mr, rows - r);
                    g.a = pointers + (r * gemm_taps + t * mr);
                    g.c = f->dst + (row0 + r) * p->dst.stride + channel;
                    if (last && p->has_residual) g.r = f->residual + (row0 + r) * p->residual.stride + channel;
                    p->gemm(&g);
                }
            }
        }
    }
}

void pa_conv_plan(pa_conv_op *p, int threads) {
    const int64_t rows = (int64_t)p->dst.h * p->dst.w, k = (int64_t)p->kh * p->kw * (p->src.c / p->groups);
    const int64_t panels = ceil_div(p->dst.c / p->groups, p->nr), wanted = (int64_t)threads * CHUNKS;
    p->gather = p->kh * p->kw > 1 && p->src.c / p->groups < GATHER;
    p->row_block = min64(ROWS, ceil_div(rows, p->mr) * p->mr);
    p->panel_block = panels;
    if (threads > 1) {
        const int64_t row_blocks = ceil_div(rows, p->row_block) * p->groups;
        if (row_blocks < wanted) p->panel_block = ceil_div(panels, ceil_div(wanted, row_blocks));
    }
    const int64_t pointers = p->row_block * (p->gather ? 1 : p->kh * p->kw) * (int64_t)sizeof(float *);
    p->scratch_floats = ceil_div(pointers, 64) * 16 + (p->gather ? ceil_div(p->row_block * k, 16) * 16 : 0);
}

void pa_conv_step(const void *args, float *const *bases, float *scratch, pa_team *team) {
    const pa_conv_op *p = args;
    const int64_t rows = (int64_t)p->dst.h * p->dst.w, panels = ceil_div(p->dst.c / p->groups, p->nr);
    const frame f = {
        .args = p,
        .src = pa_at(&p->src, bases),
        .residual = p->has_residual ? pa_at(&p->residual, bases) : NULL,
        .dst = pa_at(&p->dst, bases),
        .scratch = scratch,
        .row_blocks = ceil_div(rows, p->row_block),
        .panel_blocks = ceil_div(panels, p->panel_block),
        .panels = panels,
    };
    pa_team_run(team, conv_chunk, &f, f.row_blocks * f.panel_blocks * p->groups);
}

void pa_conv_pack(const float *weight, const float *bias, int64_t cout, int64_t cin_group, int64_t taps, int32_t groups,
                  int32_t nr, float *packed_weight, float *packed_bias) {
    const int64_t columns = cout / groups, panels = ceil_div(columns, nr);
    for (int64_t group = 0; group < groups; group++) {
        for (int64_t panel = 0; panel < panels; panel++) {
            const int64_t column0 = group * columns + panel * nr, n = min64(nr, columns - panel * nr);
            const float *w = weight + column0 * cin_group * taps;
            for (int64_t t = 0; t < taps; t++)
                for (int64_t k = 0; k < cin_group; k++, packed_weight += nr)
                    for (int64_t j = 0; j < nr; j++)
                        packed_weight[j] = j < n ? w[(j * cin_group + k) * taps + t] : 0.0f;
            for (int64_t j = 0; j < nr; j++) *packed_bias++ = j < n ? bias[column0 + j] : 0.0f;
        }
    }
}
