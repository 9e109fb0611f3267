#include "resize.h"

#include "parallel_for.h"

enum {
    BAND_MIN = 16,  /* rows of a chunk: its first ones are interpolated horizontally once more than need be */
    BAND_MAX = 64,
    RING = 4096,    /* floats of interpolated rows, in parts of that width: they stay in half of L1 */
    LONG_RUN = 256, /* a single axis that is resized is one of rows where what lies behind it is so long */
    SMALL = 16,     /* elements: below, a call of memcpy takes longer than the copy */
};

static const pa_resize_axis NO_AXIS = {.size = 1};

/* Takes axis d out of the outer loops. */
static pa_resize_axis taken(pa_resize_op *p, int d) {
    const pa_resize_axis axis = p->axis[d];
    p->rank--;
    for (; d < p->rank; d++) p->axis[d] = p->axis[d + 1];
    return axis;
}

static int last_resized(const pa_resize_op *p) {
    int d = p->rank - 1;
    while (d >= 0 && p->axis[d].taps == 0) d--;
    return d;
}

/* The number of times that moves repeat every element of a line, or 0. */
static int64_t find_repeats(const pa_resize_op *p) {
    const pa_resize_axis *x = &p->x;
    int64_t times = 0;
    if (!p->moves || p->run > 1 || x->taps != 1 || x->src != 1 || x->dst != 1) return 0;
    while (times < x->size && x->index[times] == 0) times++;
    for (int64_t i = 0; i < x->size; i++)
        if (times == 0 || x->index[i] != i / times) return 0;
    return x->size % times ? 0 : times;
}

void pa_resize_plan(pa_resize_op *p, int threads) {
    for (int d = p->rank - 1; d >= 0; d--)
        if (p->axis[d].size == 1 && p->axis[d].taps == 0) taken(p, d);
    for (int d = 1; d < p->rank; d++) { /* by falling step in dst */
        const pa_resize_axis axis = p->axis[d];
        int at = d;
        for (; at > 0 && p->axis[at - 1].dst < axis.dst; at--) p->axis[at] = p->axis[at - 1];
        p->axis[at] = axis;
    }
    p->run = 1;
    for (; p->rank > 0; p->run *= p->axis[p->rank].size) {
        const pa_resize_axis *last = &p->axis[p->rank - 1];
        if (last->taps || last->src != p->run || last->dst != p->run) break;
        p->rank--;
    }
    p->x = p->y = NO_AXIS;
    int d = last_resized(p);
    if (d >= 0) p->x = taken(p, d);
    d = last_resized(p);
    if (d >= 0) {
        p->y = taken(p, d);
    } else if (p->run >= LONG_RUN) {
        p->y = p->x;
        p->x = NO_AXIS;
    }
    if (p->s8.quantize && p->x.taps == 0) {
        p->x = (pa_resize_axis){.size = p->run, .src = 1, .dst = 1};
        p->run = 1;
    }
    p->outer_taps = 0;
    if (!p->moves && last_resized(p) >= 0) {
        p->outer_taps = max64(p->y.taps, 1) * max64(p->x.taps, 1);
        for (d = 0; d < p->rank; d++) p->outer_taps *= max64(p->axis[d].taps, 1);
    }
    p->repeats = find_repeats(p);
    int64_t rows = p->y.size;
    for (d = 0; d < p->rank; d++) rows *= p->axis[d].size;
    p->band = max64(BAND_MIN, min64(BAND_MAX, ceil_div(rows, 4 * threads)));
    p->part = max64(1, min64(p->x.size, RING / (max64(p->y.taps, 1) * p->run)));
    const int64_t tap = sizeof(float) + sizeof(int32_t);
    p->scratch_bytes = p->y.taps * (p->part * p->run * (int64_t)sizeof(float) + 3 * (int64_t)sizeof(int32_t));
    if (p->moves || p->x.taps == 0) p->scratch_bytes = 0;
    if (p->outer_taps) p->scratch_bytes = 2 * p->outer_taps * tap;
    pa_upsample_plan(p);
    if (p->s8.quantize)
        pa_resize_s8_plan(p);
    else
        pa_resize_planar_plan(p);
    p->scratch_bytes = round_up(p->scratch_bytes, 64);
}

/* ---- moves ---- */

#define REPEAT(count)                                                                                               \
    for (int64_t i = 0; i < n; i++)                                                                                 \
        for (int64_t k = 0; k < (count); k++) dst[i * (count) + k] = src[i]

#define MOVE_PIXELS(type)                                                                                           \
    static void move_##type(const pa_resize_axis *x, int64_t run, const type *src, type *dst) {                     \
        for (int64_t i = 0; i < x->size; i++, dst += x->dst) {                                                      \
            const type *from = src + (x->taps ? x->index[i] : i) * x->src;                                          \
            if (run == 1)                                                                                           \
                *dst = *from;                                                                                       \
            else if (run < SMALL)                                                                                   \
                for (int64_t c = 0; c < run; c++) dst[c] = from[c];                                                 \
            else                                                                                                    \
                memcpy(dst, from, (size_t)run * sizeof(type));                                                      \
        }                                                                                                           \
    }                                                                                                               \
    static void repeat_##type(int64_t times, int64_t n, const type *restrict src, type *restrict dst) {              \
        switch (times) {                                                                                            \
        case 2: REPEAT(2); break;                                                                                   \
        case 4: REPEAT(4); break;                                                                                   \
        default: REPEAT(times);                                                                                     \
        }                                                                                                           \
    }                                                                                                               \
    static void move_row_##type(const pa_resize_op *p, const void *src, void *dst) {                                \
        if (p->repeats)                                                                                              \
            repeat_##type(p->repeats, p->x.size / p->repeats, src, dst);                                              \
        else                                                                                                        \
            move_##type(&p->x, p->run, src, dst);                                                                   \
    }
MOVE_PIXELS(uint8_t)
MOVE_PIXELS(uint16_t)
MOVE_PIXELS(uint32_t)
MOVE_PIXELS(uint64_t)

static void move_row(const pa_resize_op *p, const char *src, char *dst) {
    switch (p->dst.item_bytes) {
    case 1: move_row_uint8_t(p, src, dst); break;
    case 2: move_row_uint16_t(p, src, dst); break;
    case 4: move_row_uint32_t(p, src, dst); break;
    case 8: move_row_uint64_t(p, src, dst); break;
    }
}

/* src and dst: element 0 of a plane */
static void move_rows(const pa_resize_op *p, const char *src, char *dst, int64_t begin, int64_t end) {
    const int64_t item = p->dst.item_bytes, row_bytes = p->x.size * p->run * item;
    const int whole = p->x.dst == p->run || p->x.size == 1;
    int64_t last = -1;
    for (int64_t y = begin; y < end; y++) {
        const int64_t from = p->y.taps ? p->y.index[y] : y;
        char *row = dst + y * p->y.dst * item;
        if (whole && from == last && p->y.dst)
            memcpy(row, row - p->y.dst * item, (size_t)row_bytes);
        else
            move_row(p, src + from * p->y.src * item, row);
        last = from;
    }
}

/* ---- sums ---- */

/* Pixels [x0, x0 + pixels) of a row, or of all that they need from one row below the other. */
typedef struct stretch {
    const pa_resize_op *op;
    int64_t x0, pixels;
} stretch;

static void sum_across(const stretch *s, const float *row, float *out, int64_t out_pixel) {
    const pa_resize_op *p = s->op;
    const pa_resize_axis *x = &p->x;
    PA_FUNCTION(resample, f32, s->op->kernel)(&(pa_resample_args){
        .pixels = s->pixels,
        .lines = 1,
        .channels = s->op->run,
        .taps = x->taps,
        .index_pixel = x->taps,
        .weight_pixel = x->taps,
        .index = x->index + s->x0 * x->taps,
        .weight = x->weight + s->x0 * x->taps,
        .x = row,
        .x_step = x->src,
        .out = out,
        .out_pixel = out_pixel,
    });
}

/* n rows from row y on from the same rows, `step` floats apart, of pixels that lie one behind the other. */
static void sum_down(const stretch *s, int64_t y, int64_t n, const int32_t *rows, const float *x, int64_t step,
                     float *out) {
    const pa_resize_op *p = s->op;
    const int flat = s->pixels == 1 || p->x.dst == p->run;
    for (int64_t done = 0; done < n; done += flat ? n : 1)
        PA_FUNCTION(resample, f32, p->kernel)(&(pa_resample_args){
            .lines = 1,
            .pixels = flat ? n : s->pixels,
            .channels = flat ? p->run * s->pixels : p->run,
            .taps = p->y.taps,
            .weight_pixel = flat ? p->y.taps : 0,
            .index = rows,
            .weight = p->y.weight + (y + done) * p->y.taps,
            .x = x,
            .x_step = step,
            .x_pixel = flat ? 0 : p->run,
            .out = out + done * p->y.dst,
            .out_pixel = flat ? p->y.dst : p->x.dst,
        });
}

static void sum_rows(const pa_resize_op *p, const float *src, float *dst, char *scratch, int64_t begin, int64_t end) {
    const int64_t taps = p->y.taps;
    stretch s = {p, 0, p->x.size};
    if (taps == 0) {
        for (int64_t y = begin; y < end; y++) sum_across(&s, src + y * p->y.src, dst + y * p->y.dst, p->x.dst);
        return;
    }
    if (p->x.taps == 0) {
        for (int64_t y = begin, n; y < end; y += n) {
            n = pa_resize_alike(&p->y, y, end);
            sum_down(&s, y, n, p->y.index + y * taps, src, p->y.src, dst + y * p->y.dst);
        }
        return;
    }
    for (; s.x0 < p->x.size; s.x0 += p->part) {
        s.pixels = min64(p->part, p->x.size - s.x0);
        float *ring = (float *)scratch;
        int32_t *held = (int32_t *)(ring + taps * p->part * p->run), *slot = held + taps, *missing = slot + taps;
        const int64_t row = s.pixels * p->run;
        for (int64_t i = 0; i < taps; i++) held[i] = -1;
        for (int64_t y = begin, n; y < end; y += n) {
            n = pa_resize_alike(&p->y, y, end);
            const int64_t count = cache_rows(taps, p->y.index + y * taps, held, slot, missing);
            for (int64_t i = 0; i < count; i++)
                sum_across(&s, src + held[missing[i]] * p->y.src, ring + missing[i] * row, p->run);
            sum_down(&s, y, n, slot, ring, row, dst + y * p->y.dst + s.x0 * p->x.dst);
        }
    }
}

/* ---- more than two axes with taps: every pixel from the product of its taps ---- */

typedef struct taps {
    int64_t count;
    int32_t *offset; /* elements of src */
    float *weight;
} taps;

/* to = from x the taps of position i; `to` may be `from`: what is still to be read lies before what is written */
static void multiply(const taps *from, const pa_resize_axis *axis, int64_t i, taps *to) {
    const int64_t n = max64(axis->taps, 1);
    for (int64_t t = from->count - 1; t >= 0; t--) {
        const int32_t offset = from->offset[t];
        const float weight = from->weight[t];
        for (int64_t k = n - 1; k >= 0; k--) {
            const int64_t at = axis->taps ? axis->index[i * n + k] : i;
            to->offset[t * n + k] = offset + (int32_t)(at * axis->src);
            to->weight[t * n + k] = axis->taps ? weight * axis->weight[i * n + k] : weight;
        }
    }
    to->count = from->count * n;
}

static void spread_row(const pa_resize_op *p, const taps *row, taps *pixel, const float *src, float *dst) {
    for (int64_t i = 0; i < p->x.size; i++) {
        multiply(row, &p->x, i, pixel);
        PA_FUNCTION(resample, f32, p->kernel)(&(pa_resample_args){
            .pixels = 1,
            .lines = 1,
            .channels = p->run,
            .taps = pixel->count,
            .index = pixel->offset,
            .weight = pixel->weight,
            .x = src,
            .x_step = 1,
            .out = dst + i * p->x.dst,
        });
    }
}

static void spread_rows(const pa_resize_op *p, const float *src, float *dst, char *scratch, int64_t outer, int64_t begin,
                        int64_t end) {
    taps row = {1, (int32_t *)scratch, (float *)scratch + p->outer_taps};
    taps pixel = {1, row.offset + 2 * p->outer_taps, row.weight + 2 * p->outer_taps};
    for (int64_t y = begin; y < end; y++) {
        row.count = 1, row.offset[0] = 0, row.weight[0] = 1;
        for (int64_t d = p->rank - 1, rest = outer; d >= 0; rest /= p->axis[d].size, d--)
            multiply(&row, &p->axis[d], rest % p->axis[d].size, &row);
        multiply(&row, &p->y, y, &row);
        spread_row(p, &row, &pixel, src, dst + y * p->y.dst);
    }
}

/* ---- the step ---- */

/* Units are bands of rows of all planes. */
static void resize_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_resize_op *p = ctx->op;
    char *scratch = (char *)ctx->scratch + thread * p->scratch_bytes;
    const int64_t bands = ceil_div(p->y.size, p->band), item = p->dst.item_bytes;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t outer = unit / bands, y0 = unit % bands * p->band, y1 = min64(y0 + p->band, p->y.size);
        int64_t from = 0, to = 0;
        for (int64_t d = p->rank - 1, rest = outer; d >= 0; d--) {
            const pa_resize_axis *axis = &p->axis[d];
            const int64_t i = rest % axis->size;
            rest /= axis->size;
            to += i * axis->dst;
            if (!p->outer_taps) from += (axis->taps ? axis->index[i] : i) * axis->src;
        }
        const char *src = (char *)pa_at(&p->src, ctx->bases) + from * item;
        char *dst = (char *)pa_at(&p->dst, ctx->bases) + to * item;
        if (p->moves)
            move_rows(p, src, dst, y0, y1);
        else if (p->s8.quantize)
            pa_resize_s8_rows(p, (const int8_t *)src, (int8_t *)dst, scratch, y0, y1);
        else if (p->outer_taps)
            spread_rows(p, (const float *)src, (float *)dst, scratch, outer, y0, y1);
        else if (pa_upsample_whole(p))
            pa_upsample_rows(p, (const float *)src, (float *)dst, y0, y1);
        else if (p->width)
            pa_resize_planar_rows(p, (const float *)src, (float *)dst, (float *)scratch, y0, y1);
        else
            sum_rows(p, (const float *)src, (float *)dst, scratch, y0, y1);
    }
}

void pa_resize_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_resize_op *p = op;
    int64_t units = ceil_div(p->y.size, p->band);
    for (int d = 0; d < p->rank; d++) units *= p->axis[d].size;
    const int64_t taps = p->outer_taps ? p->outer_taps : max64(p->y.taps, 1);
    parallel_for(op, bases, scratch, team, resize_range, units, min64(p->y.size, p->band) * p->x.size * p->run * taps);
}
