/* Parts of rows go through the kernels of floats and of runs of integers: a few thousand elements that stay in L1, so that
 * memory sees bytes only. Integers less their zero point are exact in floats; so are their sums where an image grows by 2, 4 or
 * 8 on the same levels.
 * Measured, one Zen 5 core, elements written per ns, AVX-512 and AVX2: 64 channels of 80x80, twice as large, 8.8, 5.9; 128 of
 * 20x20 8.9, 6.5; 21 of 65x65 to 513x513 8.5, 7.5. As floats between two passes over memory 5.9, 4.5; 6.3, 4.6; 2.4, 2.6. */

#include "resize.h"

#include <string.h>

#include "../../intmath.h"

enum { ROWS_MIN = 16, ROWS = 8192 }; /* rows of single elements side by side that are summed together; floats of them */

/* Pixels [x0, x0 + pixels) of rows, which are sums of pixels [first, first + window) of src. */
typedef struct part {
    const pa_resize_op *op;
    int64_t x0, pixels, first, window;
    float *ring, *wide, *made;             /* sums across; a row of src; sums down */
    int8_t *bytes;                         /* of a row whose pixels do not follow one another */
    int32_t *index;                        /* of taps across, from `first` on */
    int32_t *held, *slot, *missing;        /* cache_rows */
} part;

static void *taken(char *scratch, int64_t *used, int64_t bytes) {
    const int64_t at = *used;
    *used += round_up(bytes, 64);
    return scratch ? scratch + at : NULL;
}

/* ---- planes: rows of single elements, some at a time, go through resize_planar.c ---- */

typedef struct planes {
    float *src, *dst;
    int32_t *index; /* of taps down, from the first of the rows on */
    float *scratch; /* of pa_resize_planar_rows */
} planes;

static int64_t rows_together(const pa_resize_op *p) { return max64(ROWS_MIN, ROWS / p->x.size); }

/* The rows of src that rows [begin, end) need: the first, and how many. */
static int64_t find_rows(const pa_resize_op *p, int64_t begin, int64_t end, int64_t *count) {
    const int64_t taps = p->y.taps;
    *count = end - begin;
    if (taps == 0) return begin;
    int32_t least = p->y.index[begin * taps], most = least;
    for (int64_t i = begin * taps; i < end * taps; i++) {
        least = p->y.index[i] < least ? p->y.index[i] : least;
        most = p->y.index[i] > most ? p->y.index[i] : most;
    }
    *count = most - least + 1;
    return least;
}

static int64_t divide_planes(const pa_resize_op *p, planes *s, int64_t planes_bytes, char *scratch) {
    enum { FLOAT = sizeof(float), INDEX = sizeof(int32_t) };
    int64_t used = 0;
    s->src = taken(scratch, &used, p->s8.window * p->width * FLOAT);
    s->dst = taken(scratch, &used, rows_together(p) * p->x.size * FLOAT);
    s->index = taken(scratch, &used, rows_together(p) * p->y.taps * INDEX);
    s->scratch = taken(scratch, &used, planes_bytes);
    return used;
}

static void plan_planes(pa_resize_op *p) {
    const int64_t rows = rows_together(p);
    planes s;
    p->s8.window = 0;
    for (int64_t band = 0; band < p->y.size; band += p->band)
        for (int64_t y = band, end = min64(band + p->band, p->y.size), count; y < end; y += rows) {
            find_rows(p, y, min64(y + rows, end), &count);
            p->s8.window = max64(p->s8.window, count);
        }
    p->scratch_bytes = divide_planes(p, &s, p->scratch_bytes, NULL);
}

static void plane_rows(const pa_resize_op *p, const int8_t *src, int8_t *dst, char *scratch, int64_t begin, int64_t end) {
    const int64_t taps = p->y.taps, size = p->x.size;
    pa_resize_op floats = *p;
    planes s;
    divide_planes(p, &s, 0, scratch);
    floats.y.src = p->width, floats.y.dst = size, floats.y.index = s.index;
    for (int64_t y = begin, n, count; y < end; y += n) {
        n = min64(rows_together(p), end - y);
        const int64_t first = find_rows(p, y, y + n, &count);
        const int64_t read = p->y.src == p->width ? count : 1, made = p->y.dst == size ? n : 1; /* rows in one go */
        for (int64_t i = 0; i < count; i += read)
            PA_FUNCTION(dequantize, s8, p->s8.dequantize)(read * p->width, src + (first + i) * p->y.src,
                s.src + i * p->width, 1, p->s8.src_zero);
        for (int64_t i = 0; i < n * taps; i++) s.index[i] = p->y.index[y * taps + i] - (int32_t)first;
        floats.y.weight = p->y.weight + y * taps;
        pa_resize_planar_rows(&floats, s.src, s.dst, s.scratch, 0, n);
        for (int64_t i = 0; i < n; i += made)
            PA_FUNCTION(quantize, s8, p->s8.quantize)(made * size, s.dst + i * size, dst + (y + i) * p->y.dst, 1,
                p->s8.dst_zero);
    }
}

/* ---- parts of rows ---- */

/* Whether no index falls from a tap or a pixel to the next. */
static int is_monotonic(const pa_resize_axis *axis) {
    for (int64_t i = 1; i < axis->size * axis->taps; i++)
        if (axis->index[i] < axis->index[i - 1]) return 0;
    return 1;
}

/* The pixels of src that those of a row need. */
static void find_window(const pa_resize_op *p, part *s) {
    s->first = s->x0, s->window = s->pixels;
    if (p->x.taps == 0) return;
    const int64_t count = s->pixels * p->x.taps;
    const int32_t *index = p->x.index + s->x0 * p->x.taps;
    int32_t least = index[0], most = index[count - 1];
    for (int64_t i = 0; i < count && !p->s8.is_monotonic; i++) {
        least = index[i] < least ? index[i] : least;
        most = index[i] > most ? index[i] : most;
    }
    s->first = least, s->window = most - least + 1;
}

/* Divides the scratch, if it is there; returns how much of it is needed. */
static int64_t divide(const pa_resize_op *p, part *s, char *scratch) {
    enum { FLOAT = sizeof(float), INDEX = sizeof(int32_t) };
    const int64_t row = p->part * p->run, window = p->s8.window * p->run, taps = p->y.taps;
    int64_t used = 0;
    s->ring = taken(scratch, &used, taps * row * FLOAT);
    s->wide = taken(scratch, &used, (window + 2 * PA_LANES_MAX) * FLOAT);
    s->made = taken(scratch, &used, row * FLOAT);
    s->bytes = taken(scratch, &used, max64(row, window));
    s->index = taken(scratch, &used, p->part * p->x.taps * INDEX);
    s->held = taken(scratch, &used, taps * INDEX);
    s->slot = taken(scratch, &used, taps * INDEX);
    s->missing = taken(scratch, &used, taps * INDEX);
    return used;
}

void pa_resize_s8_plan(pa_resize_op *p) {
    part s = {.op = p};
    pa_resize_planar_plan(p);
    if (p->width) {
        plan_planes(p);
        return;
    }
    p->s8.is_monotonic = is_monotonic(&p->x);
    p->s8.window = 0;
    for (; s.x0 < p->x.size; s.x0 += p->part) {
        s.pixels = min64(p->part, p->x.size - s.x0);
        find_window(p, &s);
        p->s8.window = max64(p->s8.window, s.window);
    }
    p->scratch_bytes = divide(p, &s, NULL);
}

/* The needed pixels of a row of src, as floats. */
static void load(const part *s, const int8_t *row, float *to) {
    const pa_resize_op *p = s->op;
    const int64_t run = p->run, step = p->x.src;
    const int8_t *from = row + s->first * step;
    if (step != run && s->window > 1) {
        for (int64_t i = 0; i < s->window; i++) memcpy(s->bytes + i * run, from + i * step, (size_t)run);
        from = s->bytes;
    }
    PA_FUNCTION(dequantize, s8, p->s8.dequantize)(s->window * run, from, to, 1, p->s8.src_zero);
}

static void store(const part *s, const float *made, int8_t *row) {
    const pa_resize_op *p = s->op;
    const int64_t run = p->run, step = p->x.dst;
    int8_t *to = row + s->x0 * step;
    if (step == run || s->pixels == 1) {
        PA_FUNCTION(quantize, s8, p->s8.quantize)(s->pixels * run, made, to, 1, p->s8.dst_zero);
        return;
    }
    PA_FUNCTION(quantize, s8, p->s8.quantize)(s->pixels * run, made, s->bytes, 1, p->s8.dst_zero);
    for (int64_t i = 0; i < s->pixels; i++) memcpy(to + i * step, s->bytes + i * run, (size_t)run);
}

static void sum_across(const part *s, const int8_t *row, float *out) {
    const pa_resize_op *p = s->op;
    if (p->x.taps == 0) {
        load(s, row, out);
        return;
    }
    load(s, row, s->wide);
    PA_FUNCTION(resample, f32, p->kernel)(&(pa_resample_args){
        .pixels = s->pixels,
        .lines = 1,
        .room = p->run == 1 && p->s8.is_monotonic ? s->window + 2 * PA_LANES_MAX : 0,
        .channels = p->run,
        .taps = p->x.taps,
        .index_pixel = p->x.taps,
        .weight_pixel = p->x.taps,
        .index = s->index,
        .weight = p->x.weight + s->x0 * p->x.taps,
        .x = s->wide,
        .x_step = p->run,
        .out = out,
        .out_pixel = p->run,
    });
}

static void sum_down(const part *s, int64_t y) {
    const pa_resize_op *p = s->op;
    const int64_t row = s->pixels * p->run;
    PA_FUNCTION(resample, f32, p->kernel)(&(pa_resample_args){
        .pixels = 1,
        .lines = 1,
        .channels = row,
        .taps = p->y.taps,
        .index = s->slot,
        .weight = p->y.weight + y * p->y.taps,
        .x = s->ring,
        .x_step = row,
        .out = s->made,
    });
}

static void part_rows(const part *s, const int8_t *src, int8_t *dst, int64_t begin, int64_t end) {
    const pa_resize_op *p = s->op;
    const int64_t taps = p->y.taps, row = s->pixels * p->run;
    for (int64_t i = 0; i < taps; i++) s->held[i] = -1;
    for (int64_t y = begin; y < end; y++) {
        if (taps == 0) {
            sum_across(s, src + y * p->y.src, s->made);
        } else {
            const int64_t count = cache_rows(taps, p->y.index + y * taps, s->held, s->slot, s->missing);
            for (int64_t i = 0; i < count; i++) {
                const int64_t to = s->missing[i];
                sum_across(s, src + s->held[to] * p->y.src, s->ring + to * row);
            }
            sum_down(s, y);
        }
        store(s, s->made, dst + y * p->y.dst);
    }
}

void pa_resize_s8_rows(const pa_resize_op *p, const int8_t *src, int8_t *dst, char *scratch, int64_t begin, int64_t end) {
    if (p->width) {
        plane_rows(p, src, dst, scratch, begin, end);
        return;
    }
    part s = {.op = p};
    divide(p, &s, scratch);
    for (; s.x0 < p->x.size; s.x0 += p->part) {
        s.pixels = min64(p->part, p->x.size - s.x0);
        find_window(p, &s);
        const int32_t *index = p->x.index + s.x0 * p->x.taps;
        for (int64_t i = 0; i < s.pixels * p->x.taps; i++) s.index[i] = index[i] - (int32_t)s.first;
        part_rows(&s, src, dst, begin, end);
    }
}
