#include "sample.h"

#include <math.h>

#include "parallel_for.h"

/* ---- along a grid ---- */

enum { GRID_TAPS = 4 };
static const double FARTHEST = 1e9; /* elements from the image; what a grid asks for beyond is as far */

typedef struct grid_taps {
    int64_t offset[GRID_TAPS];
    float weight[GRID_TAPS];
} grid_taps;

/* Keys' cubic with coefficient -3/4 */
static double cubic(double d) {
    const double a = -0.75;
    d = fabs(d);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int64_t mirrored(int64_t i, int64_t size, int align_corners) {
    const int64_t period = align_corners ? max64(2 * (size - 1), 1) : 2 * size;
    i %= period;
    if (i < 0) i += period;
    return min64(i, align_corners ? period - i : period - 1 - i);
}

/* What a coordinate reads along an axis of `size` elements; weights of elements outside are 0 with zeros as padding. */
static void grid_axis(const pa_grid_op *p, double at, int64_t size, int64_t stride, grid_taps *taps) {
    double place = p->align_corners ? (at + 1) / 2 * (double)(size - 1) : ((at + 1) * (double)size - 1) / 2;
    if (!(place > -FARTHEST)) place = -FARTHEST; /* NaN too */
    if (place > FARTHEST) place = FARTHEST;
    const int64_t first = (int64_t)(p->taps == 1 ? rint(place) : floor(place)) - (p->taps == 4);
    for (int k = 0; k < p->taps; k++) {
        int64_t i = first + k;
        const double d = (double)i - place;
        double weight = p->taps == 1 ? 1 : p->taps == 2 ? fmax(1 - fabs(d), 0) : cubic(d);
        if (p->padding == PA_ZEROS && (i < 0 || i >= size)) weight = 0;
        if (p->padding == PA_REFLECTION) i = mirrored(i, size, p->align_corners);
        taps->offset[k] = min64(max64(i, 0), size - 1) * stride;
        taps->weight[k] = (float)weight;
    }
}

/* Units are rows of dst. */
static void grid_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_grid_op *p = ctx->op;
    const int64_t *ss = p->src.stride, *gs = p->grid.stride, *ds = p->dst.stride, taps = p->taps;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t n = unit / p->dst.size[2], y = unit % p->dst.size[2];
        const float *src = (const float *)pa_at(&p->src, ctx->bases) + n * ss[0];
        const float *grid = (const float *)pa_at(&p->grid, ctx->bases) + n * gs[0] + y * gs[1];
        float *dst = (float *)pa_at(&p->dst, ctx->bases) + n * ds[0] + y * ds[2];
        for (int64_t x = 0; x < p->dst.size[3]; x++) {
            grid_taps rows, columns;
            grid_axis(p, grid[x * gs[2]], p->src.size[3], ss[3], &columns);
            grid_axis(p, grid[x * gs[2] + gs[3]], p->src.size[2], ss[2], &rows);
            for (int64_t c = 0; c < p->dst.size[1]; c++) {
                const float *channel = src + c * ss[1];
                float sum = 0;
                for (int i = 0; i < taps; i++)
                    for (int k = 0; k < taps; k++)
                        sum += rows.weight[i] * columns.weight[k] * channel[rows.offset[i] + columns.offset[k]];
                dst[x * ds[3] + c * ds[1]] = sum;
            }
        }
    }
}

void pa_grid_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_grid_op *p = op;
    const int64_t *size = p->dst.size;
    parallel_for(op, bases, scratch, team, grid_range, size[0] * size[2], size[1] * size[3] * p->taps * p->taps);
}

/* ---- regions ---- */

typedef struct side {
    double start, step;
    int64_t samples;
} side;

typedef struct sample {
    int64_t low, high; /* elements */
    float low_weight, high_weight;
} sample;

static side side_of(const pa_roi_op *p, double from, double to, int64_t bins, int64_t size) {
    const double half = p->half_pixel ? 0.5 : 0, start = from * p->scale - half;
    double extent = to * p->scale - half - start;
    if (!p->half_pixel && !(extent > 1)) extent = extent != extent ? extent : 1;
    const double step = extent / (double)bins, every = ceil(step);
    int64_t samples = p->ratio;
    if (samples == 0 && every > 0) samples = every < (double)size ? (int64_t)every : size;
    return (side){start, step, samples};
}

static sample sample_at(const side *s, int64_t bin, int64_t k, int64_t size) {
    const double place = s->start + ((double)bin + ((double)k + 0.5) / (double)s->samples) * s->step;
    if (!(place >= -1 && place <= (double)size)) return (sample){0, 0, 0, 0}; /* NaN too */
    const double inside = fmin(fmax(place, 0), (double)(size - 1));
    const int64_t low = (int64_t)inside;
    const double upper = inside - (double)low;
    return (sample){low, min64(low + 1, size - 1), (float)(1 - upper), (float)upper};
}

static float larger(float a, float b) { return b > a || b != b ? b : a; }

static void roi_bin(const pa_roi_op *p, const float *src, const side *rows, const side *columns, int64_t y, int64_t x,
                    float *dst) {
    const int64_t *ss = p->src.stride, channels = p->dst.size[1], step = p->dst.stride[1];
    const int64_t count = rows->samples * columns->samples;
    for (int64_t c = 0; c < channels; c++) dst[c * step] = p->maximum && count > 0 ? -INFINITY : 0;
    for (int64_t i = 0; i < rows->samples; i++) {
        const sample row = sample_at(rows, y, i, p->src.size[2]);
        for (int64_t k = 0; k < columns->samples; k++) {
            const sample column = sample_at(columns, x, k, p->src.size[3]);
            const float weight[4] = {row.low_weight * column.low_weight, row.low_weight * column.high_weight,
                                     row.high_weight * column.low_weight, row.high_weight * column.high_weight};
            const float *at[4] = {src + row.low * ss[2] + column.low * ss[3], src + row.low * ss[2] + column.high * ss[3],
                                  src + row.high * ss[2] + column.low * ss[3],
                                  src + row.high * ss[2] + column.high * ss[3]};
            for (int64_t c = 0; c < channels; c++) {
                float part[4], *to = dst + c * step;
                for (int q = 0; q < 4; q++) part[q] = weight[q] * at[q][c * ss[1]];
                if (p->maximum)
                    *to = larger(*to, larger(larger(part[0], part[1]), larger(part[2], part[3])));
                else
                    *to += (part[0] + part[1]) + (part[2] + part[3]);
            }
        }
    }
    if (!p->maximum && count > 0)
        for (int64_t c = 0; c < channels; c++) dst[c * step] /= (float)count;
}

/* Units are rows of bins. */
static void roi_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_roi_op *p = ctx->op;
    const int64_t height = p->dst.size[2], width = p->dst.size[3], *rs = p->rois.stride, *ds = p->dst.stride;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t r = unit / height, y = unit % height;
        const float *roi = (const float *)pa_at(&p->rois, ctx->bases) + r * rs[0];
        const void *batch = pa_at(&p->batch, ctx->bases);
        int64_t n = integer_at(&p->batch, batch, r * p->batch.stride[0]);
        if (n < 0) n += p->src.size[0];
        n = min64(max64(n, 0), p->src.size[0] - 1);
        const float *src = (const float *)pa_at(&p->src, ctx->bases) + n * p->src.stride[0];
        float *dst = (float *)pa_at(&p->dst, ctx->bases) + r * ds[0] + y * ds[2];
        const side columns = side_of(p, roi[0], roi[2 * rs[1]], width, p->src.size[3]);
        const side rows = side_of(p, roi[rs[1]], roi[3 * rs[1]], height, p->src.size[2]);
        for (int64_t x = 0; x < width; x++) roi_bin(p, src, &rows, &columns, y, x, dst + x * ds[3]);
    }
}

void pa_roi_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_roi_op *p = op;
    const int64_t *size = p->dst.size;
    parallel_for(op, bases, scratch, team, roi_range, size[0] * size[2], size[1] * size[3] * 16);
}

/* ---- places of maxima ---- */

static int64_t place_of(const pa_places_op *p, const float *src, int64_t y, int64_t x) {
    const pa_window *w = &p->window;
    const int64_t height = p->src.size[2], width = p->src.size[3];
    int64_t place = -1;
    float best = 0;
    for (int64_t ky = 0; ky < w->kh; ky++) {
        const int64_t i = y * w->stride_y - w->pad_top + ky * w->dilation_y;
        for (int64_t kx = 0; kx < w->kw; kx++) {
            const int64_t k = x * w->stride_x - w->pad_left + kx * w->dilation_x;
            if (i < 0 || i >= height || k < 0 || k >= width) continue;
            const float value = src[i * p->src.stride[2] + k * p->src.stride[3]];
            if (place >= 0 && !(value > best)) continue;
            best = value;
            place = p->column_major ? k * height + i : i * width + k;
        }
    }
    return place;
}

/* Units are rows of dst. */
static void places_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_places_op *p = ctx->op;
    const int64_t *size = p->dst.size, *ds = p->dst.stride;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t y = unit % size[2], c = unit / size[2] % size[1], n = unit / size[2] / size[1];
        const float *src = (const float *)pa_at(&p->src, ctx->bases) + n * p->src.stride[0] + c * p->src.stride[1];
        int64_t *dst = (int64_t *)pa_at(&p->dst, ctx->bases) + n * ds[0] + c * ds[1] + y * ds[2];
        for (int64_t x = 0; x < size[3]; x++) {
            const int64_t place = place_of(p, src, y, x);
            dst[x * ds[3]] = place < 0 ? -1 : place + (n * size[1] + c) * p->src.size[2] * p->src.size[3];
        }
    }
}

void pa_places_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_places_op *p = op;
    const int64_t *size = p->dst.size;
    parallel_for(op, bases, scratch, team, places_range, size[0] * size[1] * size[2], size[3] * p->window.kh * p->window.kw);
}

/* ---- back from places ---- */

/* One unit: later elements may have the index of earlier ones. */
static void unpool_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)begin, (void)end, (void)thread;
    const pa_unpool_op *p = ctx->op;
    const int item = p->dst.item_bytes;
    const char *src = pa_at(&p->src, ctx->bases);
    char *dst = pa_at(&p->dst, ctx->bases);
    const void *index = pa_at(&p->index, ctx->bases);
    const int64_t room = positions(&p->zeros, p->zeros.rank), count = positions(&p->walk, p->walk.rank);
    walk to = walk_from(&p->zeros, p->zeros.rank, 0), at = walk_from(&p->walk, p->walk.rank, 0);
    for (int64_t i = 0; i < room; i++, walk_on(&to)) memset(dst + to.offset[0] * item, 0, item);
    for (int64_t i = 0; i < count; i++, walk_on(&at)) {
        int64_t place = integer_at(&p->index, index, at.offset[1]);
        if (place < 0) place += room;
        to = walk_from(&p->zeros, p->zeros.rank, min64(max64(place, 0), room - 1));
        memcpy(dst + to.offset[0] * item, src + at.offset[0] * item, item);
    }
}

void pa_unpool_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    parallel_for(op, bases, scratch, team, unpool_range, 1, 1);
}

/* ---- back from blocks ---- */

/* Adds element `tap` of every block of one channel where it lies; x: its positions, rising by `step`. */
static void add_tap(const pa_col2im_op *p, const int64_t *tap, const float *x, int64_t step, float *dst) {
    int64_t at[PA_DIMS] = {0}, positions = 1;
    for (int d = 0; d < p->rank; d++) positions *= p->count[d];
    for (int64_t i = 0; i < positions; i++) {
        int64_t offset = 0;
        int inside = 1;
        for (int d = 0; d < p->rank; d++) {
            const int64_t place = at[d] * p->stride[d] + tap[d] * p->dilation[d] - p->pad[d];
            inside &= place >= 0 && place < p->dst.size[2 + d];
            offset += place * p->dst.stride[2 + d];
        }
        if (inside) dst[offset] += x[i * step];
        for (int d = p->rank - 1; d >= 0 && ++at[d] == p->count[d]; d--) at[d] = 0;
    }
}

/* Units are channels. */
static void col2im_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_col2im_op *p = ctx->op;
    const int64_t channels = p->dst.size[1], *ss = p->src.stride;
    pa_axes image = {.rank = p->rank, .operands = 1};
    int64_t taps = 1;
    for (int d = 0; d < p->rank; d++)
        image.size[d] = p->dst.size[2 + d], image.stride[0][d] = p->dst.stride[2 + d], taps *= p->block[d];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t n = unit / channels, c = unit % channels;
        const float *src = (const float *)pa_at(&p->src, ctx->bases) + n * ss[0] + c * taps * ss[1];
        float *dst = (float *)pa_at(&p->dst, ctx->bases) + n * p->dst.stride[0] + c * p->dst.stride[1];
        walk to = walk_from(&image, p->rank, 0);
        for (int64_t i = positions(&image, p->rank); i > 0; i--, walk_on(&to)) dst[to.offset[0]] = 0;
        int64_t tap[PA_DIMS] = {0};
        for (int64_t t = 0; t < taps; t++) {
            add_tap(p, tap, src + t * ss[1], ss[2], dst);
            for (int d = p->rank - 1; d >= 0 && ++tap[d] == p->block[d]; d--) tap[d] = 0;
        }
    }
}

void pa_col2im_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_col2im_op *p = op;
    parallel_for(op, bases, scratch, team, col2im_range, p->dst.size[0] * p->dst.size[1],
        p->src.size[1] / p->dst.size[1] * p->src.size[2]);
}
