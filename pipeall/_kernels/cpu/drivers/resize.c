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

/* ---- sums of one axis or two ---- */

/* Pixels [x0, x0 + pixels) of rows, or of all that they need from one row below the other. Floats are read and written where
 * they lie. Integers are floats in between, a few thousand that stay in L1, so that memory sees bytes only. Less their zero
 * point they are exact in floats; so are their sums where an image grows by 2, 4 or 8 with the same scales.
 * Measured, one Zen 5 core, elements written per ns, AVX-512 and AVX2: 64 channels of 80x80, twice as large, 8.8, 5.9; 128 of
 * 20x20 8.9, 6.5; 21 of 65x65 to 513x513 8.5, 7.5. As floats between two passes over memory 5.9, 4.5; 6.3, 4.6; 2.4, 2.6. */
typedef struct stretch {
    const pa_resize_op *op;
    int64_t x0, pixels;
    const int32_t *index; /* of taps across */
    float *ring;
    int32_t *held, *slot, *missing; /* cache_rows */
    /* of integers */
    int64_t first, window; /* pixels [first, first + window) of src are needed */
    float *wide, *made;    /* these of a row; its sums */
    int8_t *bytes;         /* of a row whose pixels do not follow one another */
    int32_t *shifted;      /* index, from `first` on */
} stretch;

/* Rows that sums down read from the ring, at most. */
static int64_t ring_rows(const pa_resize_op *p) { return p->s8.quantize || p->x.taps ? p->y.taps : 0; }

/* Divides the scratch, if it is there; returns how much of it is needed. */
static int64_t divide(const pa_resize_op *p, stretch *s, char *scratch) {
    enum { FLOAT = sizeof(float), INDEX = sizeof(int32_t) };
    const int64_t row = p->part * p->run, window = p->s8.window * p->run, rows = ring_rows(p);
    int64_t used = 0;
    s->ring = pa_resize_taken(scratch, &used, rows * row * FLOAT);
    s->held = pa_resize_taken(scratch, &used, 3 * rows * INDEX);
    s->slot = s->held + rows, s->missing = s->slot + rows;
    if (!p->s8.quantize) return used;
    s->wide = pa_resize_taken(scratch, &used, window * FLOAT);
    s->made = pa_resize_taken(scratch, &used, row * FLOAT);
    s->bytes = pa_resize_taken(scratch, &used, max64(row, window));
    s->shifted = pa_resize_taken(scratch, &used, p->part * p->x.taps * INDEX);
    return used;
}

/* The part of a row from x0 on. */
static void begin_part(stretch *s) {
    const pa_resize_op *p = s->op;
    const int64_t taps = p->x.taps;
    s->pixels = min64(p->part, p->x.size - s->x0);
    s->index = p->x.index + s->x0 * taps;
    s->first = s->x0, s->window = s->pixels;
    if (taps && p->s8.quantize) s->first = pa_resize_reach(s->index, s->pixels * taps, &s->window);
}

static void plan_parts(pa_resize_op *p) {
    stretch s = {.op = p};
    p->part = p->x.size;
    if (p->s8.quantize || ring_rows(p)) p->part = max64(1, min64(p->part, RING / (max64(p->y.taps, 1) * p->run)));
    for (p->s8.window = 0; s.x0 < p->x.size; s.x0 += p->part) {
        begin_part(&s);
        p->s8.window = max64(p->s8.window, s.window);
    }
    p->scratch_bytes = divide(p, &s, NULL);
}

/* The needed pixels of a row of integers, as floats. */
static void load(const stretch *s, const int8_t *row, float *to) {
    const pa_resize_op *p = s->op;
    const int64_t run = p->run, step = p->x.src;
    const int8_t *from = row + s->first * step;
    if (step != run && s->window > 1) {
        for (int64_t i = 0; i < s->window; i++) memcpy(s->bytes + i * run, from + i * step, (size_t)run);
        from = s->bytes;
    }
    PA_FUNCTION(dequantize, s8, p->s8.dequantize)(s->window * run, from, to, 1, p->s8.src_zero);
}

static void store(const stretch *s, int8_t *to) {
    const pa_resize_op *p = s->op;
    const int64_t run = p->run, step = p->x.dst;
    const int apart = step != run && s->pixels > 1;
    PA_FUNCTION(quantize, s8, p->s8.quantize)(s->pixels * run, s->made, apart ? s->bytes : to, 1, p->s8.dst_zero);
    for (int64_t i = 0; apart && i < s->pixels; i++) memcpy(to + i * step, s->bytes + i * run, (size_t)run);
}

static void sum_across(const stretch *s, const void *src, int64_t y, float *out, int64_t out_pixel) {
    const pa_resize_op *p = s->op;
    const float *row = (const float *)src + y * p->y.src;
    if (p->s8.quantize) {
        load(s, (const int8_t *)src + y * p->y.src, p->x.taps ? s->wide : out);
        row = s->wide;
    }
    if (p->x.taps == 0) return;
    PA_FUNCTION(resample, f32, p->kernel)(&(pa_resample_args){
        .pixels = s->pixels,
        .lines = 1,
        .channels = p->run,
        .taps = p->x.taps,
        .index_pixel = p->x.taps,
        .weight_pixel = p->x.taps,
        .index = s->index,
        .weight = p->x.weight + s->x0 * p->x.taps,
        .x = row,
        .x_step = p->s8.quantize ? p->run : p->x.src,
        .out = out,
        .out_pixel = out_pixel,
    });
}

/* n rows from row y on, which are sums of the same rows, `step` floats apart, of pixels that lie one behind the other. */
static void sum_down(const stretch *s, int64_t y, int64_t n, const int32_t *rows, const float *x, int64_t step, float *out,
                     int64_t out_pixel) {
    const pa_resize_op *p = s->op;
    const int flat = s->pixels == 1 || out_pixel == p->run;
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
            .out_pixel = flat ? p->y.dst : out_pixel,
        });
}

/* A part of rows [begin, end). */
static void sum_part(const stretch *s, const void *src, char *dst, int64_t begin, int64_t end) {
    const pa_resize_op *p = s->op;
    const int64_t taps = p->y.taps, row = s->pixels * p->run, out_pixel = p->s8.quantize ? p->run : p->x.dst;
    for (int64_t i = 0; i < ring_rows(p); i++) s->held[i] = -1;
    for (int64_t y = begin, n; y < end; y += n) {
        char *to = dst + (y * p->y.dst + s->x0 * p->x.dst) * p->dst.item_bytes;
        float *out = p->s8.quantize ? s->made : (float *)to;
        n = p->s8.quantize || taps == 0 ? 1 : pa_resize_alike(&p->y, y, end);
        if (taps == 0) {
            sum_across(s, src, y, out, out_pixel);
        } else if (ring_rows(p) == 0) {
            sum_down(s, y, n, p->y.index + y * taps, src, p->y.src, out, out_pixel);
        } else {
            const int64_t count = cache_rows(taps, p->y.index + y * taps, s->held, s->slot, s->missing);
            for (int64_t i = 0; i < count; i++)
                sum_across(s, src, s->held[s->missing[i]], s->ring + s->missing[i] * row, p->run);
            sum_down(s, y, n, s->slot, s->ring, row, out, out_pixel);
        }
        if (p->s8.quantize) store(s, (int8_t *)to);
    }
}

static void sum_rows(const pa_resize_op *p, const void *src, char *dst, char *scratch, int64_t begin, int64_t end) {
    stretch s = {.op = p};
    divide(p, &s, scratch);
    for (; s.x0 < p->x.size; s.x0 += p->part) {
        begin_part(&s);
        if (p->s8.quantize) {
            for (int64_t i = 0; i < s.pixels * p->x.taps; i++) s.shifted[i] = s.index[i] - (int32_t)s.first;
            s.index = s.shifted;
        }
        sum_part(&s, src, dst, begin, end);
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
    p->scratch_bytes = p->outer_taps * 2 * (int64_t)(sizeof(float) + sizeof(int32_t));
    pa_upsample_plan(p);
    pa_resize_planar_plan(p);
    if (!p->moves && !p->outer_taps && !p->width && !pa_upsample_whole(p)) plan_parts(p);
    p->scratch_bytes = round_up(p->scratch_bytes, 64);
}

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
        else if (p->outer_taps)
            spread_rows(p, (const float *)src, (float *)dst, scratch, outer, y0, y1);
        else if (pa_upsample_whole(p))
            pa_upsample_rows(p, (const float *)src, (float *)dst, y0, y1);
        else if (p->width)
            pa_resize_planar_rows(p, src, dst, scratch, y0, y1);
        else
            sum_rows(p, src, dst, scratch, y0, y1);
    }
}

void pa_resize_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_resize_op *p = op;
    int64_t units = ceil_div(p->y.size, p->band);
    for (int d = 0; d < p->rank; d++) units *= p->axis[d].size;
    const int64_t taps = p->outer_taps ? p->outer_taps : max64(p->y.taps, 1);
    parallel_for(op, bases, scratch, team, resize_range, units, min64(p->y.size, p->band) * p->x.size * p->run * taps);
}
