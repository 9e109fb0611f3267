#include "vector.h"

#include <string.h>

#include "sizes.h"

enum {
    BAND = 14,                           /* output rows of depthwise convolution in a unit: 28, 56, 112 are whole ones */
    CHUNK = 16384,                       /* elements a chunk visits, at least: some microseconds of work */
    TILE_ROWS = 16, TILE_COLUMNS = 1024, /* of a copy: what is written together, to 16 cache lines at a time */
};

/* ---- chunks: an op as a range of equal units (rows, pixels, elements, tiles) ---------------- */

typedef struct job job;
typedef void (*range_fn)(const job *, int64_t begin, int64_t end, int thread);
struct job {
    const void *op;
    float *const *bases;
    float *scratch;
    range_fn range; /* does units [begin, end) */
    int64_t units, chunk_units;
};

static void job_chunk(const void *context, int64_t chunk, int thread) {
    const job *j = context;
    const int64_t begin = chunk * j->chunk_units;
    j->range(j, begin, min64(begin + j->chunk_units, j->units), thread);
}

/* unit_work: elements one unit visits */
static void run(const void *op, float *const *bases, float *scratch, pa_team *team, range_fn range, int64_t units,
                int64_t unit_work) {
    const int64_t chunk_units = unit_work < CHUNK ? ceil_div(CHUNK, unit_work) : 1;
    const job j = {op, bases, scratch, range, units, chunk_units};
    pa_team_run(team, job_chunk, &j, ceil_div(units, chunk_units));
}

static int64_t pixels(const pa_view *v) { return (int64_t)v->h * v->w; }
static int dense(const pa_view *v) { return v->stride == v->c || pixels(v) == 1; }

/* ---- windows ------------------------------------------------------------------------------- */

/* The window over output row y; rows has window->kh entries. */
static pa_row_window row_window(const pa_window *p, const pa_view *src, const float *first, int out_w, int64_t y,
                                const float **rows) {
    for (int i = 0; i < p->kh; i++) {
        const int64_t iy = y * p->stride_y - p->pad_top + (int64_t)i * p->dilation_y;
        rows[i] = iy >= 0 && iy < src->h ? first + iy * src->w * src->stride : NULL;
    }
    return (pa_row_window){
        .out_w = out_w,
        .in_w = src->w,
        .kh = p->kh,
        .kw = p->kw,
        .stride_x = p->stride_x,
        .dilation_x = p->dilation_x,
        .pad_left = p->pad_left,
        .rows = rows,
        .in_stride = src->stride,
    };
}

static void depthwise_bands(const job *j, int64_t begin, int64_t end, int thread) {
    const pa_depthwise_op *p = j->op;
    const int64_t taps = p->window.kh * p->window.kw;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t blocks = ceil_div(p->dst.c, PA_DEPTHWISE_BLOCK), y = unit / blocks * p->band;
        const int64_t c = unit % blocks * PA_DEPTHWISE_BLOCK, pixel = y * p->dst.w;
        const pa_depthwise_args args = {
            .window = p->window,
            .in_h = p->src.h,
            .in_w = p->src.w,
            .out_w = p->dst.w,
            .y = (int32_t)y,
            .rows = (int32_t)min64(p->band, p->dst.h - y),
            .channels = (int32_t)min64(PA_DEPTHWISE_BLOCK, p->dst.c - c),
            .x = pa_at(&p->src, j->bases) + c,
            .in_stride = p->src.stride,
            .packed = p->packed + c * (1 + taps),
            .out = pa_at(&p->dst, j->bases) + pixel * p->dst.stride + c,
            .out_stride = p->dst.stride,
            .r = p->has_residual ? pa_at(&p->residual, j->bases) + pixel * p->residual.stride + c : NULL,
            .r_stride = p->residual.stride,
            .lo = p->lo,
            .hi = p->hi,
            .ring = j->scratch + thread * p->scratch_floats,
            .ring_rows = p->ring_rows,
            .columns = p->columns,
        };
        p->kernel(&args);
    }
}

void pa_depthwise_plan(pa_depthwise_op *p, int threads) {
    const pa_window *w = &p->window;
    /* A small image in halves: threads then read the rows that they wrote, as conv.c cuts it by rows too. */
    const int halves = threads > 1 && p->dst.h <= BAND && pixels(&p->dst) > BAND * BAND / 2;
    p->band = halves ? (p->dst.h + 1) / 2 : BAND;
    p->bands = (int32_t)ceil_div(p->dst.h, p->band);
    p->ring_rows = w->stride_y + (w->kh - 1) * w->dilation_y + 1;
    p->columns = (p->dst.w - 1) * w->stride_x + (w->kw - 1) * w->dilation_x + 1;
    p->scratch_floats = (int64_t)p->ring_rows * p->columns * PA_DEPTHWISE_BLOCK;
}

void pa_depthwise_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_depthwise_op *p = op;
    const int64_t taps = p->window.kh * p->window.kw, rows = min64(p->band, p->dst.h);
    /* four multiply-adds cost about as much as a load and a store */
    run(op, bases, scratch, team, depthwise_bands, p->bands * ceil_div(p->dst.c, PA_DEPTHWISE_BLOCK),
        ceil_div(rows * p->dst.w * PA_DEPTHWISE_BLOCK * taps, 4));
}

int64_t pa_depthwise_packed_floats(int64_t channels, int64_t kh, int64_t kw) {
    return round_up(channels, PA_LANES_MAX) * (1 + kh * kw);
}

void pa_depthwise_pack(const void *weight, const void *bias, int64_t channels, int64_t kh, int64_t kw,
                       float *packed) {
    for (int64_t c0 = 0; c0 < channels; c0 += PA_LANES_MAX) {
        for (int64_t t = -1; t < kh * kw; t++) { /* the bias, then the taps, column by column */
            for (int64_t c = c0; c < c0 + PA_LANES_MAX; c++, packed++) {
                if (c >= channels)
                    *packed = 0;
                else
                    *packed = t < 0 ? pa_unaligned(bias, c) : pa_unaligned(weight, (c * kh + t % kh) * kw + t / kh);
            }
        }
    }
}

/* Taps of the window at output position i that the divisor counts: from `before` pads to `after` pads around
 * `size` positions. */
static int counted(int i, int taps, int stride, int dilation, int pad, int before, int after, int size) {
    int count = 0;
    for (int k = 0; k < taps; k++) {
        const int position = i * stride - pad + k * dilation;
        count += position >= -before && position < size + after;
    }
    return count;
}

static void pool_rows(const job *j, int64_t begin, int64_t end, int thread) {
    const pa_pool_op *p = j->op;
    const pa_window *w = &p->window;
    const int top = p->count_pads ? w->pad_top : 0, bottom = p->count_pads ? p->pad_bottom : 0;
    const int left = p->count_pads ? w->pad_left : 0, right = p->count_pads ? p->pad_right : 0;
    const int64_t block = round_up(ceil_div(p->dst.c, p->channel_blocks), PA_LANES_MAX);
    float *inverse = p->average ? j->scratch + thread * p->scratch_floats : NULL;
    const float *rows[PA_KERNEL_ROWS_MAX];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t y = unit / p->channel_blocks, c = unit % p->channel_blocks * block;
        if (c >= p->dst.c) continue; /* the rounding left nothing for the last block */
        if (p->average) {
            const int in_y = counted((int)y, w->kh, w->stride_y, w->dilation_y, w->pad_top, top, bottom, p->src.h);
            for (int x = 0; x < p->dst.w; x++) {
                const int in_x = counted(x, w->kw, w->stride_x, w->dilation_x, w->pad_left, left, right, p->src.w);
                inverse[x] = in_x * in_y > 0 ? 1.0f / (float)(in_x * in_y) : 0;
            }
        }
        const pa_pool_args args = {
            .window = row_window(w, &p->src, pa_at(&p->src, j->bases) + c, p->dst.w, y, rows),
            .channels = (int32_t)min64(block, p->dst.c - c),
            .inverse_count = inverse,
            .out = pa_at(&p->dst, j->bases) + y * p->dst.w * p->dst.stride + c,
            .out_stride = p->dst.stride,
        };
        p->kernel(&args);
    }
}

static int64_t pool_row_work(const pa_pool_op *p) {
    return (int64_t)p->dst.w * p->dst.c * p->window.kh * p->window.kw;
}

void pa_pool_plan(pa_pool_op *p) {
    p->channel_blocks = 1;
    if (p->dst.h == 1) p->channel_blocks = (int32_t)min64(ceil_div(pool_row_work(p), CHUNK), ceil_div(p->dst.c, 64));
    p->scratch_floats = p->average ? round_up(p->dst.w, 16) : 0;
}

void pa_pool_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_pool_op *p = op;
    const int64_t units = (int64_t)p->dst.h * p->channel_blocks;
    run(op, bases, scratch, team, pool_rows, units, ceil_div(pool_row_work(p), p->channel_blocks));
}

/* ---- channels of a pixel ------------------------------------------------------------------- */

static void lrn_pixels(const job *j, int64_t begin, int64_t end, int thread) {
    const pa_lrn_op *p = j->op;
    const pa_lrn_args args = {
        .pixels = (int32_t)(end - begin),
        .channels = p->src.c,
        .size = p->size,
        .alpha = p->alpha,
        .beta = p->beta,
        .bias = p->bias,
        .x = pa_at(&p->src, j->bases) + begin * p->src.stride,
        .x_stride = p->src.stride,
        .out = pa_at(&p->dst, j->bases) + begin * p->dst.stride,
        .out_stride = p->dst.stride,
        .squares = j->scratch + thread * p->scratch_floats,
    };
    p->kernel(&args);
}

void pa_lrn_plan(pa_lrn_op *p) {
    p->scratch_floats = round_up(2 * ((int64_t)p->src.c + p->size + 2 * PA_LANES_MAX), 16);
}

void pa_lrn_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_lrn_op *p = op;
    run(op, bases, scratch, team, lrn_pixels, pixels(&p->src), p->src.c);
}

static void softmax_pixels(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_softmax_op *p = j->op;
    const float *src = pa_at(&p->src, j->bases);
    float *dst = pa_at(&p->dst, j->bases);
    for (int64_t i = begin; i < end; i++) p->kernel(p->src.c, src + i * p->src.stride, dst + i * p->dst.stride);
}

void pa_softmax_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_softmax_op *p = op;
    run(op, bases, scratch, team, softmax_pixels, pixels(&p->src), p->src.c);
}

static void layernorm_pixels(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_layernorm_op *p = j->op;
    const float *src = pa_at(&p->src, j->bases);
    float *dst = pa_at(&p->dst, j->bases);
    for (int64_t i = begin; i < end; i++)
        p->kernel(p->src.c, src + i * p->src.stride, dst + i * p->dst.stride, p->epsilon);
}

void pa_layernorm_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_layernorm_op *p = op;
    run(op, bases, scratch, team, layernorm_pixels, pixels(&p->src), p->src.c);
}

/* ---- elementwise: units are elements where all operands are flat (one run of floats), else pixels ---- */

static void run_elements(const void *op, float *const *bases, float *scratch, pa_team *team, range_fn range,
                         const pa_view *dst, int flat) {
    run(op, bases, scratch, team, range, flat ? pixels(dst) * dst->c : pixels(dst), flat ? 1 : dst->c);
}

static void unary_range(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_unary_op *p = j->op;
    const float *src = pa_at(&p->src, j->bases);
    float *dst = pa_at(&p->dst, j->bases);
    if (dense(&p->src) && dense(&p->dst)) {
        p->kernel(p->op, end - begin, src + begin, dst + begin, p->p0, p->p1);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        p->kernel(p->op, p->dst.c, src + i * p->src.stride, dst + i * p->dst.stride, p->p0, p->p1);
}

void pa_unary_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_unary_op *p = op;
    run_elements(op, bases, scratch, team, unary_range, &p->dst, dense(&p->src) && dense(&p->dst));
}

/* All three operands are one run of floats, or b is one number. */
static int binary_is_flat(const pa_binary_op *p) {
    const int same = pixels(&p->b) == pixels(&p->dst) && p->b.c == p->dst.c && dense(&p->b);
    return dense(&p->a) && dense(&p->dst) && (same || pixels(&p->b) * p->b.c == 1);
}

static void binary_range(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_binary_op *p = j->op;
    const float *a = pa_at(&p->a, j->bases), *b = p->constant ? p->constant : pa_at(&p->b, j->bases);
    float *dst = pa_at(&p->dst, j->bases);
    if (binary_is_flat(p)) {
        const int step = pixels(&p->b) * p->b.c > 1;
        p->kernel(p->op, end - begin, a + begin, b + begin * step, step, dst + begin, p->lo, p->hi);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t y = p->b.h == 1 ? 0 : i / p->dst.w, x = p->b.w == 1 ? 0 : i % p->dst.w;
        p->kernel(p->op, p->dst.c, a + i * p->a.stride, b + (y * p->b.w + x) * p->b.stride, p->b.c > 1,
                  dst + i * p->dst.stride, p->lo, p->hi);
    }
}

void pa_binary_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_binary_op *p = op;
    run_elements(op, bases, scratch, team, binary_range, &p->dst, binary_is_flat(p));
}

static void fill_range(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_fill_op *p = j->op;
    const float value = p->value;
    float *dst = pa_at(&p->dst, j->bases);
    if (dense(&p->dst)) {
        for (int64_t i = begin; i < end; i++) dst[i] = value;
        return;
    }
    for (int64_t i = begin; i < end; i++)
        for (int64_t c = 0; c < p->dst.c; c++) dst[i * p->dst.stride + c] = value;
}

void pa_fill_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_fill_op *p = op;
    run_elements(op, bases, scratch, team, fill_range, &p->dst, dense(&p->dst));
}

/* ---- copy ---------------------------------------------------------------------------------- */

/* A planned copy has PA_COPY_DIMS dimensions, the last two of which are a plane of ROWS x COLUMNS: columns are
 * the dimension of the smallest step in dst, rows (unless both sides step by 1 along the columns) that of the
 * smallest step in src. Dimensions that lie one behind the other in both are one. */
enum { ROWS = PA_COPY_DIMS - 2, COLUMNS = PA_COPY_DIMS - 1 };

typedef struct axis {
    int64_t size, src, dst;
} axis;

void pa_copy_plan(pa_copy_op *p) {
    axis axes[PA_COPY_DIMS] = {{1, 1, 1}};
    int n = 0;
    for (int d = 0; d < p->rank; d++) { /* sorted by falling step in dst, without axes of one position */
        if (p->size[d] == 1) continue;
        int at = n++;
        for (; at > 0 && axes[at - 1].dst < p->dst_stride[d]; at--) axes[at] = axes[at - 1];
        axes[at] = (axis){p->size[d], p->src_stride[d], p->dst_stride[d]};
    }
    int last = 0;
    for (int d = 1; d < n; d++) {
        axis *outer = &axes[last];
        const axis inner = axes[d];
        if (outer->src == inner.src * inner.size && outer->dst == inner.dst * inner.size)
            *outer = (axis){outer->size * inner.size, inner.src, inner.dst};
        else
            axes[++last] = inner;
    }
    if (last > 0 && axes[last].src != 1) {
        int row = last - 1;
        for (int d = last - 2; d >= 0; d--) row = axes[d].src < axes[row].src ? d : row;
        const axis rows = axes[row];
        for (; row < last - 1; row++) axes[row] = axes[row + 1];
        axes[last - 1] = rows;
    }
    for (int d = COLUMNS; d >= 0; d--, last--) {
        const axis a = last >= 0 ? axes[last] : (axis){1, 0, 0};
        p->size[d] = a.size, p->src_stride[d] = a.src, p->dst_stride[d] = a.dst;
    }
    p->rank = PA_COPY_DIMS;
}

/* Rows of a tile: TILE_ROWS, more where the plane has few columns. */
static int64_t tile_rows(const pa_copy_op *p) {
    return p->size[COLUMNS] * TILE_ROWS < TILE_COLUMNS ? TILE_COLUMNS / p->size[COLUMNS] : TILE_ROWS;
}

/* Three planes to pixels, with constants, so that compilers find the shuffles. */
static void interleave3(const float *restrict src, int64_t plane, float *restrict dst, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++) {
        dst[3 * i] = src[i];
        dst[3 * i + 1] = src[plane + i];
        dst[3 * i + 2] = src[2 * plane + i];
    }
}

static void copy_tile(const pa_copy_op *p, const float *src, float *dst, int64_t rows, int64_t columns) {
    const int64_t sr = p->src_stride[ROWS], sc = p->src_stride[COLUMNS];
    const int64_t dr = p->dst_stride[ROWS], dc = p->dst_stride[COLUMNS];
    if (sc == 1 && dc == 1) {
        for (int64_t r = 0; r < rows; r++) memcpy(dst + r * dr, src + r * sr, (size_t)columns * sizeof(float));
        return;
    }
    if (columns == 3 && dc == 1 && dr == 3 && sr == 1) { /* a picture */
        interleave3(src, sc, dst, rows);
        return;
    }
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) dst[r * dr + c * dc] = src[r * sr + c * sc];
}

static void copy_tiles(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_copy_op *p = j->op;
    const float *src = pa_at(&p->src, j->bases);
    float *dst = pa_at(&p->dst, j->bases);
    int64_t step[PA_COPY_DIMS] = {1, 1, 1, 1, tile_rows(p), TILE_COLUMNS}, at[PA_COPY_DIMS];
    for (int64_t d = COLUMNS, rest = begin; d >= 0; d--) {
        const int64_t tiles = ceil_div(p->size[d], step[d]);
        at[d] = rest % tiles * step[d];
        rest /= tiles;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t from = 0, to = 0;
        for (int d = 0; d < PA_COPY_DIMS; d++) from += at[d] * p->src_stride[d], to += at[d] * p->dst_stride[d];
        copy_tile(p, src + from, dst + to, min64(step[ROWS], p->size[ROWS] - at[ROWS]),
                  min64(step[COLUMNS], p->size[COLUMNS] - at[COLUMNS]));
        for (int d = COLUMNS; d >= 0; d--) {
            at[d] += step[d];
            if (at[d] < p->size[d]) break;
            at[d] = 0;
        }
    }
}

void pa_copy_step(const void *op, float *const *bases, float *scratch, pa_team *team) {
    const pa_copy_op *p = op;
    const int64_t rows = tile_rows(p);
    int64_t units = ceil_div(p->size[ROWS], rows) * ceil_div(p->size[COLUMNS], TILE_COLUMNS);
    for (int d = 0; d < ROWS; d++) units *= p->size[d];
    run(op, bases, scratch, team, copy_tiles, units,
        min64(rows, p->size[ROWS]) * min64(TILE_COLUMNS, p->size[COLUMNS]));
}
