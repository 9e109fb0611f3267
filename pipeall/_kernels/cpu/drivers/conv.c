/* Convolution as an indirect GEMM (after Dukhan, "The Indirect Convolution Algorithm", 2019).
 *
 * A row of the GEMM is an output pixel, a column an output channel; its A operand is, for each tap of the
 * kernel, a pointer to the input pixel under that tap (or to zeros in the padding), so that no im2col buffer
 * exists. A 1x1 convolution and a fully connected layer are the case of one tap.
 *
 * Where the channels are few, a tap is more than a pixel. The pixels under a row of the kernel lie together, so that a
 * pointer does for them too; those that do not (at the left and right border, dilated, of a group) are gathered in
 * scratch. A window gathered whole would have one rest of k, not one in every row, but copying took longer than that: a
 * quarter of a 7x7 stem of 3 channels on a Cortex-A73, by modelled cycles.
 *
 * A chunk is row_block pixels x panel_block panels of NR channels of one group. gemm.c blocks it for the caches.
 */
#include "conv.h"

#include <string.h>

#include "../../sizes.h"
#include "gemm.h"

enum {
    ROWS = 104,   /* rows per chunk at most: 104 x GEMM_KC floats are about half of a 512 KB L2 */
    FEW = 24,     /* fewer channels than this: the set-up of a tap would outweigh its multiply-adds */
    GATHERED = 12, /* likewise where rows of the kernel would be gathered */
    PACK = 16,    /* channels packed at a time: a cache line of each filter */
    FAR = 1 << 20, /* an input of more floats, 4 MB, is not in a core's caches */
    CHUNKS = 4,   /* chunks per thread aimed at, so that claiming them balances the team */
};

typedef struct frame {
    const pa_conv_op *args;
    const float *src, *residual;
    float *dst, *scratch;
    int64_t panel_blocks, panels;
} frame;

static int64_t channels_of(const pa_conv_op *p) { return p->src.c / p->groups; }
/* What a GEMM row consists of: so many taps of so many floats. */
static int taps_of(const pa_conv_op *p) { return p->rows ? p->kh : p->kh * p->kw; }
static int64_t k_of(const pa_conv_op *p) { return p->kh * p->kw * channels_of(p) / taps_of(p); }
/* A chunk's scratch: the pointers to taps, those to lines, then the gathered taps. */
static int64_t tap_pointers(const pa_conv_op *p) { return round_up(p->row_block, p->mr) * taps_of(p); }
static int64_t pointer_floats(const pa_conv_op *p) {
    return (tap_pointers(p) + p->kh) * (int64_t)sizeof(float *) / (int64_t)sizeof(float);
}

/* The input rows under the rows of the kernel, from row y on, each at its first pixel; NULL in the padding. */
static void point_lines(const pa_conv_op *p, const float *src, int64_t y, const float **lines) {
    for (int i = 0; i < p->kh; i++, y += p->dilation_y)
        lines[i] = y >= 0 && y < p->src.h ? src + y * p->src.w * p->src.stride : NULL;
}

/* Pixel x of a line, zeros in the padding. */
static inline const float *pixel_at(const pa_conv_op *p, const float *line, int64_t x) {
    return line && x >= 0 && x < p->src.w ? line + x * p->src.stride : p->zero;
}

/* A call of memcpy would take longer than the copy. */
static inline void copy(float *to, const float *from, int64_t n) {
    if (n < 8) {
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
        return;
    }
    for (int64_t i = 0; i + 8 <= n; i += 8) memcpy(to + i, from + i, 8 * sizeof(float));
    memcpy(to + n - 8, from + n - 8, 8 * sizeof(float));
}

/* Whether the pixels under each row of the kernel lie together, but at the borders. */
static inline int dense(const pa_conv_op *p, int64_t channels) { return p->dilation_x == 1 && p->src.stride == channels; }

/* Copies the pixels under a row of the kernel, from x on, to `to`; returns the end of that. */
static float *gather(const pa_conv_op *p, const float *line, int64_t channels, int64_t x, float *to) {
    for (int j = 0; j < p->kw; j++, to += channels)
        copy(to, pixel_at(p, line, x + (int64_t)j * p->dilation_x), channels);
    return to;
}

/* Points at the taps of an output pixel whose window begins in column x, mr pointers apart. Rows of the kernel are
 * gathered; returns the end of that. */
static float *point_taps(const pa_conv_op *p, const float *const *lines, int64_t channels, int64_t x,
                         const float **pointers, float *gathered) {
    for (int i = 0; i < p->kh; i++) {
        if (p->rows) {
            *pointers = lines[i] ? gathered : p->zero;
            pointers += p->mr;
            if (lines[i]) gathered = gather(p, lines[i], channels, x, gathered);
            continue;
        }
        for (int j = 0; j < p->kw; j++, pointers += p->mr)
            *pointers = pixel_at(p, lines[i], x + (int64_t)j * p->dilation_x);
    }
    return gathered;
}

/* The same for m pixels of a row with no tap to the left or right of the input: those of each are stride_x pixels from
 * those of the one before. */
static inline void point_inside(const pa_conv_op *p, const float *const *lines, int64_t x, int64_t m,
                                const float **pointers) {
    const int64_t step = p->stride_x * p->src.stride;
    const int across = p->rows ? 1 : p->kw;
    for (int i = 0; i < p->kh; i++) {
        for (int j = 0; j < across; j++, pointers += p->mr) {
            const float *pixel = pixel_at(p, lines[i], x + (int64_t)j * p->dilation_x);
            const int64_t apart = lines[i] ? step : 0;
            for (int64_t r = 0; r < m; r++, pixel += apart) pointers[r] = pixel;
        }
    }
}

/* Whether output pixel i is computed from input pixel i alone. */
static int pointwise(const pa_conv_op *p) {
    return p->kh * p->kw * p->stride_y * p->stride_x == 1 && p->pad_top == 0 && p->pad_left == 0 &&
           p->dst.h == p->src.h && p->dst.w == p->src.w;
}

/* The output pixels of a row with no tap to the left or right of the input, and whose taps are as they lie there. */
typedef struct span {
    int64_t begin, end;
} span;

static span inside(const pa_conv_op *p) {
    const int64_t room = p->src.w + p->pad_left - (int64_t)(p->kw - 1) * p->dilation_x - 1;
    const int lying = !p->rows || dense(p, channels_of(p));
    return lying && room >= 0 ? (span){ceil_div(p->pad_left, p->stride_x), room / p->stride_x + 1} : (span){0, 0};
}

/* pointers: [tile][tap][MR] */
static void point(const pa_conv_op *p, const float *src, int64_t row0, const pa_tiling *tiling, const float **pointers) {
    const float **lines = pointers + tap_pointers(p);
    float *gathered = (float *)pointers + pointer_floats(p);
    const int64_t step = (int64_t)taps_of(p) * p->mr, channels = channels_of(p);
    if (pointwise(p)) { /* as the loop below would, which took 3 % of a layer of 72 channels (Zen 5) */
        const float *pixel = src + row0 * p->src.stride;
        for (int64_t tile = 0; tile < tiling->tiles; tile++, pointers += p->mr) {
            const int64_t m = pa_tile_rows(tiling, tile);
            for (int64_t r = 0; r < m; r++, pixel += p->src.stride) pointers[r] = pixel;
        }
        return;
    }
    const span whole = inside(p);
    int64_t y = row0 / p->dst.w, x = row0 % p->dst.w;
    point_lines(p, src, y * p->stride_y - p->pad_top, lines);
    for (int64_t tile = 0; tile < tiling->tiles; tile++, pointers += step) {
        const int64_t m = pa_tile_rows(tiling, tile);
        for (int64_t r = 0, run; r < m; r += run) {
            const int64_t column = x * p->stride_x - p->pad_left;
            if (x >= whole.begin && x < whole.end) {
                run = min64(m - r, min64(whole.end, p->dst.w) - x);
                point_inside(p, lines, column, run, pointers + r);
            } else {
                gathered = point_taps(p, lines, channels, column, pointers + r, gathered);
                run = 1;
            }
            if ((x += run) == p->dst.w) {
                x = 0;
                point_lines(p, src, ++y * p->stride_y - p->pad_top, lines);
            }
        }
    }
}

static void conv_chunk(const void *context, int64_t chunk, int thread) {
    const frame *f = context;
    const pa_conv_op *p = f->args;
    const int64_t panel_block = chunk % f->panel_blocks, rest = chunk / f->panel_blocks;
    const int64_t group = rest % p->groups, row_block = rest / p->groups;
    const int64_t columns = p->dst.c / p->groups, column = panel_block * p->panel_block * p->nr;
    const int64_t pixels = (int64_t)p->dst.h * p->dst.w, row0 = row_block * p->row_block;
    const int64_t taps = taps_of(p), k = k_of(p), panel = group * f->panels + panel_block * p->panel_block;
    const int64_t channel = group * columns + column;
    const pa_tiling tiling = pa_tiling_of(min64(p->row_block, pixels - row0), p->mr);
    const float **pointers = (const float **)(f->scratch + thread * p->scratch_floats);
    const float *b = p->weight + panel * taps * k * p->nr;
    point(p, f->src + group * channels_of(p), row0, &tiling, pointers);

    const pa_panels panels = {
        .kernel = p->gemm,
        .mr = p->mr,
        .nr = p->nr,
        .columns = min64(p->panel_block * p->nr, columns - column),
        .b_step = taps * k * p->nr,
        .bias_step = p->nr,
        .kc = p->one_block || pixels <= p->mr ? taps * k : GEMM_KC, /* a single tile reuses no B */
    };
    pa_gemm_panels(&panels, &(pa_gemm_args){
        .taps = (int32_t)taps,
        .far = !p->rows && taps == 1 && (int64_t)p->src.h * p->src.w * p->src.stride > FAR,
        .tiling = tiling,
        .k = k,
        .a_step = taps * p->mr,
        .a = pointers,
        .b = b,
        .bias = p->bias + panel * p->nr,
        .next = b,
        .c = f->dst + row0 * p->dst.stride + channel,
        .c_stride = p->dst.stride,
        .r = p->has_residual ? f->residual + row0 * p->residual.stride + channel : NULL,
        .r_stride = p->residual.stride,
        .lo = p->lo,
        .hi = p->hi,
    });
}

void pa_conv_plan(pa_conv_op *p, int threads) {
    const int64_t rows = (int64_t)p->dst.h * p->dst.w;
    const int64_t panels = ceil_div(p->dst.c / p->groups, p->nr), wanted = (int64_t)threads * CHUNKS;
    p->rows = p->kw > 1 && channels_of(p) < (dense(p, channels_of(p)) ? FEW : GATHERED);
    p->row_block = round_up(ceil_div(rows, ceil_div(rows, ROWS)), p->mr);
    p->panel_block = panels;
    if (threads > 1) {
        const int64_t row_blocks = ceil_div(rows, p->row_block) * p->groups;
        if (row_blocks < wanted) { /* few chunks: all alike, 196 rows being 98 and 98 and not 108 and 88 */
            p->row_block = ceil_div(rows, ceil_div(rows, ROWS));
            p->panel_block = ceil_div(panels, ceil_div(wanted, row_blocks));
        }
    }
    p->scratch_floats = round_up(pointer_floats(p) + (p->rows ? p->row_block * taps_of(p) * k_of(p) : 0), 16);
}

void pa_conv_step(const void *args, void *const *bases, void *scratch, pa_team *team) {
    const pa_conv_op *p = args;
    const int64_t rows = (int64_t)p->dst.h * p->dst.w, panels = ceil_div(p->dst.c / p->groups, p->nr);
    const frame f = {
        .args = p,
        .src = pa_f32_at(&p->src, bases),
        .residual = p->has_residual ? pa_f32_at(&p->residual, bases) : NULL,
        .dst = pa_f32_at(&p->dst, bases),
        .scratch = scratch,
        .panel_blocks = ceil_div(panels, p->panel_block),
        .panels = panels,
    };
    pa_team_run(team, conv_chunk, &f, ceil_div(rows, p->row_block) * f.panel_blocks * p->groups);
}

void pa_conv_pack(const void *weight, const void *bias, int64_t cout, int64_t cin_group, int64_t taps, int32_t groups,
                  int32_t nr, float *packed_weight, float *packed_bias) {
    const int64_t columns = cout / groups, panels = ceil_div(columns, nr);
    for (int64_t index = 0; index < groups * panels; index++) {
        const int64_t column = index % panels * nr, column0 = index / panels * columns + column;
        const int64_t n = min64(nr, columns - column);
        const int64_t first = column0 * cin_group * taps;
        /* PACK channels of each filter at a time: they lie together, the filters often a multiple of 4 KB apart. */
        for (int64_t k0 = 0; k0 < cin_group; k0 += PACK) {
            const int64_t k1 = min64(k0 + PACK, cin_group);
            for (int64_t j = 0; j < nr; j++)
                for (int64_t k = k0; k < k1; k++)
                    for (int64_t t = 0; t < taps; t++)
                        packed_weight[(t * cin_group + k) * nr + j] =
                            j < n ? pa_unaligned(weight, first + (j * cin_group + k) * taps + t) : 0.0f;
        }
        packed_weight += taps * cin_group * nr;
        for (int64_t j = 0; j < nr; j++) *packed_bias++ = j < n ? pa_unaligned(bias, column0 + j) : 0.0f;
    }
}
