#include "resize.h"

enum {
    LINES_MIN = 8,  /* rows that are summed across together: for these the taps of a vector are sorted once */
    ACROSS = 16384, /* floats of more: they stay in the second-level cache, and those that a row needs in the first */
    DOWN = 6144,    /* floats of rows that are summed down before they are across: they stay in L1 */
    ROWS_MIN = 16,  /* rows of integers that are summed together */
    ROWS = 8192,    /* floats of them */
};

/* Whether no index decreases, from tap to tap or from position to position. */
static int is_monotonic(const pa_resize_axis *axis) {
    const int64_t t = axis->taps;
    for (int64_t i = 0; i < axis->size * t; i++)
        if ((i % t && axis->index[i] < axis->index[i - 1]) || (i >= t && axis->index[i] < axis->index[i - t])) return 0;
    return 1;
}

static int64_t last_tap(const pa_resize_axis *axis, int64_t i) { return axis->index[(i + 1) * axis->taps - 1]; }

/* How many floats of a line its taps read, or 0 where this file is not for it: it is for contiguous single elements of 2 or 4
 * taps whose indices never decrease. */
static int64_t find_width(const pa_resize_op *p) {
    const pa_resize_axis *x = &p->x;
    if (p->moves || p->outer_taps || p->run > 1 || x->src != 1 || x->dst != 1 || (x->taps != 2 && x->taps != 4)) return 0;
    return is_monotonic(x) ? last_tap(x, x->size - 1) + 1 : 0;
}

/* Whether there are more rows than those that they are sums of, each of few neighbours, and scratch has room for enough of
 * them across. */
static int across_first(const pa_resize_op *p) {
    const pa_resize_axis *y = &p->y;
    if (y->taps == 0 || p->x.size > ACROSS / LINES_MIN) return 0;
    if (!is_monotonic(y) || y->size <= last_tap(y, y->size - 1) + 1) return 0;
    for (int64_t i = 0; i < y->size; i++)
        if (last_tap(y, i) - y->index[i * y->taps] >= LINES_MIN) return 0;
    return 1;
}

/* At the beginning of scratch: lines that grow. */
static int64_t line_floats(const pa_resize_op *p) { return p->factor ? 2 * PA_UPSAMPLE_LINE(p->width) : 0; }

/* From rows x_line apart to rows out_line apart. */
static void sum_across(const pa_resize_op *p, int64_t lines, const float *x, int64_t x_line, int64_t room, float *line,
                       float *out, int64_t out_line) {
    PA_FUNCTION(resample, f32, p->kernel)(&(pa_resample_args){
        .pixels = p->x.size,
        .channels = 1,
        .taps = p->x.taps,
        .index_pixel = p->x.taps,
        .weight_pixel = p->x.taps,
        .lines = lines,
        .room = room,
        .factor = p->factor,
        .phase_offset = p->phase_offset,
        .index = p->x.index,
        .weight = p->x.weight,
        .x = x,
        .x_step = 1,
        .x_line = x_line,
        .out = out,
        .line = line,
        .out_pixel = 1,
        .out_line = out_line,
    });
}

/* n rows from row y on, of so many floats, from the rows of x, x_line apart, that index tells. */
static void sum_down(const pa_resize_op *p, int64_t y, int64_t n, int64_t floats, const int32_t *index, const float *x,
                     int64_t x_line, float *out, int64_t out_line) {
    PA_FUNCTION(resample, f32, p->kernel)(&(pa_resample_args){
        .pixels = n,
        .channels = floats,
        .taps = p->y.taps,
        .index_pixel = p->y.taps,
        .weight_pixel = p->y.taps,
        .lines = 1,
        .index = index,
        .weight = p->y.weight + y * p->y.taps,
        .x = x,
        .x_step = x_line,
        .out = out,
        .out_pixel = out_line,
    });
}

static void down_then_across(const pa_resize_op *p, const float *src, float *dst, float *line, int64_t begin, int64_t end) {
    float *rows = line + line_floats(p);
    for (int64_t y = begin, n; y < end; y += n) {
        n = min64(p->lines, end - y);
        sum_down(p, y, n, p->width, p->y.index + y * p->y.taps, src, p->y.src, rows, p->width);
        sum_across(p, n, rows, p->width, p->width + 2 * PA_LANES_MAX, line, dst + y * p->y.dst, p->y.dst);
    }
}

/* As many rows at a time as need at most p->lines of src: these across into scratch. */
static void across_then_down(const pa_resize_op *p, const float *src, float *dst, float *line, int64_t begin, int64_t end) {
    const int64_t taps = p->y.taps, size = p->x.size;
    float *rows = line + line_floats(p);
    int32_t *place = (int32_t *)(rows + p->lines * size); /* among these, of the row of each tap */
    for (int64_t y = begin, n; y < end; y += n) {
        const int32_t *index = p->y.index + y * taps, first = index[0];
        for (n = 0; y + n < end && last_tap(&p->y, y + n) - first < p->lines; n++)
            for (int64_t k = n * taps; k < (n + 1) * taps; k++) place[k] = index[k] - first;
        sum_across(p, place[n * taps - 1] + 1, src + first * p->y.src, p->y.src, p->width, line, rows, size);
        sum_down(p, y, n, size, place, rows, size, dst + y * p->y.dst, p->y.dst);
    }
}

static void float_rows(const pa_resize_op *p, const float *src, float *dst, float *scratch, int64_t begin, int64_t end) {
    const float *from = src + begin * p->y.src;
    if (p->y.taps == 0)
        sum_across(p, end - begin, from, p->y.src, p->width, scratch, dst + begin * p->y.dst, p->y.dst);
    else if (p->across)
        across_then_down(p, src, dst, scratch, begin, end);
    else
        down_then_across(p, src, dst, scratch, begin, end);
}

/* ---- integers: some rows at a time are floats in scratch ---- */

typedef struct planes {
    float *src, *dst;
    int32_t *index; /* of taps down, from the first of the rows on */
    float *scratch; /* of float_rows */
} planes;

static int64_t rows_together(const pa_resize_op *p) { return max64(ROWS_MIN, ROWS / p->x.size); }

/* The rows of src that rows [begin, end) need: the first, and how many. */
static int64_t find_rows(const pa_resize_op *p, int64_t begin, int64_t end, int64_t *count) {
    *count = end - begin;
    return p->y.taps ? pa_resize_reach(p->y.index + begin * p->y.taps, *count * p->y.taps, count) : begin;
}

static int64_t divide(const pa_resize_op *p, planes *s, int64_t planes_bytes, char *scratch) {
    enum { FLOAT = sizeof(float), INDEX = sizeof(int32_t) };
    int64_t used = 0;
    s->src = pa_resize_taken(scratch, &used, p->s8.window * p->width * FLOAT);
    s->dst = pa_resize_taken(scratch, &used, rows_together(p) * p->x.size * FLOAT);
    s->index = pa_resize_taken(scratch, &used, rows_together(p) * p->y.taps * INDEX);
    s->scratch = pa_resize_taken(scratch, &used, planes_bytes);
    return used;
}

static void plan_int8(pa_resize_op *p) {
    const int64_t rows = rows_together(p);
    planes s;
    p->s8.window = 0;
    for (int64_t band = 0; band < p->y.size; band += p->band)
        for (int64_t y = band, end = min64(band + p->band, p->y.size), count; y < end; y += rows) {
            find_rows(p, y, min64(y + rows, end), &count);
            p->s8.window = max64(p->s8.window, count);
        }
    p->scratch_bytes = divide(p, &s, p->scratch_bytes, NULL);
}

static void int8_rows(const pa_resize_op *p, const int8_t *src, int8_t *dst, char *scratch, int64_t begin, int64_t end) {
    const int64_t taps = p->y.taps, size = p->x.size;
    pa_resize_op floats = *p;
    planes s;
    divide(p, &s, 0, scratch);
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
        float_rows(&floats, s.src, s.dst, s.scratch, 0, n);
        for (int64_t i = 0; i < n; i += made)
            PA_FUNCTION(quantize, s8, p->s8.quantize)(made * size, s.dst + i * size, dst + (y + i) * p->y.dst, 1,
                p->s8.dst_zero);
    }
}

/* ---- the rows ---- */

void pa_resize_planar_plan(pa_resize_op *p) {
    p->width = find_width(p);
    if (p->width == 0) return;
    p->across = across_first(p);
    const int64_t line = p->across ? p->x.size : p->width;
    p->lines = max64(LINES_MIN, min64(p->band, (p->across ? ACROSS : DOWN) / line));
    p->scratch_bytes = (p->lines * line + 2 * PA_LANES_MAX) * (int64_t)sizeof(float);
    if (p->across) p->scratch_bytes += p->band * p->y.taps * (int64_t)sizeof(int32_t);
    if (p->y.taps == 0) p->scratch_bytes = 0;
    p->scratch_bytes += line_floats(p) * (int64_t)sizeof(float);
    if (p->s8.quantize) plan_int8(p);
}

void pa_resize_planar_rows(const pa_resize_op *p, const void *src, void *dst, char *scratch, int64_t begin, int64_t end) {
    if (p->s8.quantize)
        int8_rows(p, src, dst, scratch, begin, end);
    else
        float_rows(p, src, dst, (float *)scratch, begin, end);
}

/* ---- upsampling ---- */

/* Whether pixel i has the weights of its phase, and the taps that kernels_resize.h says. */
static int fits(const pa_resize_op *p, int64_t i) {
    const pa_resize_axis *x = &p->x;
    const int64_t n = x->taps, last = x->size / p->factor - 1, phase = i % p->factor;
    const int64_t first = i / p->factor + 1 - n / 2 - (phase < p->factor / 2 ? p->phase_offset : 0);
    for (int64_t k = 0; k < n; k++) {
        if (x->index[i * n + k] != max64(0, min64(first + k, last))) return 0;
        if (x->weight[i * n + k] != x->weight[phase * n + k]) return 0;
    }
    return 1;
}

void pa_upsample_plan(pa_resize_op *p) {
    const pa_resize_axis *x = &p->x;
    const int64_t least = p->run == 1 ? PA_LANES_MAX : 1;
    p->factor = 0;
    if (p->moves || p->outer_taps || (x->taps != 2 && x->taps != 4)) return;
    for (p->factor = 4; p->factor > 1; p->factor /= 2)
        for (p->phase_offset = 0; p->phase_offset <= 1; p->phase_offset++) {
            int good = x->size % p->factor == 0 && x->size / p->factor >= least;
            for (int64_t i = 0; i < x->size && good; i++) good = fits(p, i);
            if (good) return;
        }
    p->factor = 0;
}

int pa_upsample_whole(const pa_resize_op *p) {
    return p->factor && !p->s8.quantize && p->run >= PA_LANES_MAX && p->y.taps == p->x.taps;
}

void pa_upsample_rows(const pa_resize_op *p, const float *src, float *dst, int64_t begin, int64_t end) {
    const int64_t taps = p->y.taps;
    pa_upsample_args g = {
        .channels = p->run,
        .size = p->x.size / p->factor,
        .taps = taps,
        .factor = p->factor,
        .phase_offset = p->phase_offset,
        .weight = p->x.weight,
        .x_step = p->x.src,
        .out_pixel = p->x.dst,
    };
    for (int64_t y = begin, last; y < end; y = last + 1) {
        last = y + min64(2, pa_resize_alike(&p->y, y, end)) - 1;
        for (int64_t k = 0; k < taps; k++) g.row[k] = src + p->y.index[y * taps + k] * p->y.src;
        g.down[0] = p->y.weight + y * taps, g.down[1] = p->y.weight + last * taps;
        g.out[0] = dst + y * p->y.dst, g.out[1] = dst + last * p->y.dst;
        PA_FUNCTION(upsample, f32, p->upsample)(&g);
    }
}
