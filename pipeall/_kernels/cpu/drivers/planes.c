#include "planes.h"

#include "../../sizes.h"

enum {
    LINES_MIN = 8,  /* rows that are summed across together: for these the taps of a vector are sorted once */
    ACROSS = 16384, /* floats of more: they stay in the second-level cache, and those that a row needs in the first */
    DOWN = 6144,    /* floats of rows that are summed down before they are across: they stay in L1 */
};

/* Whether no index falls, from tap to tap or from position to position. */
static int rises(const pa_resize_axis *axis) {
    const int64_t t = axis->taps;
    for (int64_t i = 0; i < axis->size * t; i++)
        if ((i % t && axis->index[i] < axis->index[i - 1]) || (i >= t && axis->index[i] < axis->index[i - t])) return 0;
    return 1;
}

static int64_t last_tap(const pa_resize_axis *axis, int64_t i) { return axis->index[(i + 1) * axis->taps - 1]; }

/* The floats of a line that its taps need from the first on, or 0: unless single ones that lie side by side are taken by few
 * taps that rise. */
static int64_t find_width(const pa_resize_op *p) {
    const pa_resize_axis *x = &p->x;
    if (p->moves || p->spread || p->run > 1 || x->src != 1 || x->dst != 1 || (x->taps != 2 && x->taps != 4)) return 0;
    return rises(x) ? last_tap(x, x->size - 1) + 1 : 0;
}

/* Whether there are more rows than those that they are sums of, each of few neighbours, and scratch has room for enough of
 * them across. */
static int across_first(const pa_resize_op *p) {
    const pa_resize_axis *y = &p->y;
    if (y->taps == 0 || p->x.size > ACROSS / LINES_MIN) return 0;
    if (!rises(y) || y->size <= last_tap(y, y->size - 1) + 1) return 0;
    for (int64_t i = 0; i < y->size; i++)
        if (last_tap(y, i) - y->index[i * y->taps] >= LINES_MIN) return 0;
    return 1;
}

/* Whether pixel i has the weights of the pixel `period` before it, and neighbours one further. */
static int repeats(const pa_resize_axis *x, int64_t i, int64_t period) {
    const int64_t n = x->taps;
    const int32_t *index = x->index + i * n, *like = index - period * n;
    const float *weight = x->weight + i * n;
    for (int64_t k = 0; k < n; k++)
        if (like[k] != like[0] + k || index[k] != like[k] + 1 || weight[k] != weight[k - period * n]) return 0;
    return 1;
}

/* Taps of most pixels of a row that grows 2 or 4 times repeat; those of its ends do not. What repeats begins where vectors
 * do. */
static void find_period(pa_resize_op *p) {
    const pa_resize_axis *x = &p->x;
    for (p->period = 4; p->period > 1; p->period /= 2) {
        int64_t begin = x->size / 2, end = begin;
        while (begin > p->period && repeats(x, begin - 1, p->period)) begin--;
        while (end >= p->period && end < x->size && repeats(x, end, p->period)) end++;
        p->first = round_up(max64(0, begin - p->period), PA_LANES_MAX);
        p->last = end - (end - p->first) % p->period;
        const int64_t ends = p->first + x->size - p->last;
        if (begin < end && ends <= 2 * PA_LANES_MAX && p->last - p->first >= PA_LANES_MAX * p->period) return;
    }
    p->period = 0;
}

void pa_planes_plan(pa_resize_op *p) {
    p->width = find_width(p);
    if (p->width == 0) return;
    p->across = across_first(p);
    find_period(p);
    const int64_t line = p->across ? p->x.size : p->width;
    p->lines = max64(LINES_MIN, min64(p->band, (p->across ? ACROSS : DOWN) / line));
    p->scratch_bytes = (p->lines * line + 2 * PA_LANES_MAX) * (int64_t)sizeof(float);
    if (p->across) p->scratch_bytes += p->band * p->y.taps * (int64_t)sizeof(int32_t);
    if (p->y.taps == 0) p->scratch_bytes = 0;
}

/* Pixels [begin, end) from rows x_line apart to rows out_line apart. */
static void sum_pixels(const pa_resize_op *p, int64_t begin, int64_t end, int64_t period, int64_t lines, const float *x,
                       int64_t x_line, int64_t room, float *out, int64_t out_line) {
    p->kernel(&(pa_resample_args){
        .pixels = end - begin,
        .channels = 1,
        .taps = p->x.taps,
        .index_pixel = p->x.taps,
        .weight_pixel = p->x.taps,
        .lines = lines,
        .room = room,
        .period = period,
        .index = p->x.index + begin * p->x.taps,
        .weight = p->x.weight + begin * p->x.taps,
        .x = x,
        .x_step = 1,
        .x_line = x_line,
        .out = out + begin,
        .out_pixel = 1,
        .out_line = out_line,
    });
}

static void sum_across(const pa_resize_op *p, int64_t lines, const float *x, int64_t x_line, int64_t room, float *out,
                       int64_t out_line) {
    const int64_t size = p->x.size;
    if (p->period == 0) {
        sum_pixels(p, 0, size, 0, lines, x, x_line, room, out, out_line);
        return;
    }
    if (p->first > 0) sum_pixels(p, 0, p->first, 0, lines, x, x_line, room, out, out_line);
    sum_pixels(p, p->first, p->last, p->period, lines, x, x_line, 0, out, out_line);
    if (p->last < size) sum_pixels(p, p->last, size, 0, lines, x, x_line, 0, out, out_line); /* few: one by one */
}

/* n rows from row y on, of so many floats, from the rows of x, x_line apart, that index tells. */
static void sum_down(const pa_resize_op *p, int64_t y, int64_t n, int64_t floats, const int32_t *index, const float *x,
                     int64_t x_line, float *out, int64_t out_line) {
    p->kernel(&(pa_resample_args){
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

static void down_then_across(const pa_resize_op *p, const float *src, float *dst, float *scratch, int64_t begin,
                             int64_t end) {
    for (int64_t y = begin, n; y < end; y += n) {
        n = min64(p->lines, end - y);
        sum_down(p, y, n, p->width, p->y.index + y * p->y.taps, src, p->y.src, scratch, p->width);
        sum_across(p, n, scratch, p->width, p->width + 2 * PA_LANES_MAX, dst + y * p->y.dst, p->y.dst);
    }
}

/* As many rows at a time as need at most p->lines of src: these across into scratch. */
static void across_then_down(const pa_resize_op *p, const float *src, float *dst, float *scratch, int64_t begin,
                             int64_t end) {
    const int64_t taps = p->y.taps, line = p->x.size;
    int32_t *place = (int32_t *)(scratch + p->lines * line); /* in scratch, of the row of each tap */
    for (int64_t y = begin, n; y < end; y += n) {
        const int32_t *index = p->y.index + y * taps, first = index[0];
        for (n = 0; y + n < end && last_tap(&p->y, y + n) - first < p->lines; n++)
            for (int64_t k = n * taps; k < (n + 1) * taps; k++) place[k] = index[k] - first;
        sum_across(p, place[n * taps - 1] + 1, src + first * p->y.src, p->y.src, p->width, scratch, line);
        sum_down(p, y, n, line, place, scratch, line, dst + y * p->y.dst, p->y.dst);
    }
}

void pa_planes_rows(const pa_resize_op *p, const float *src, float *dst, float *scratch, int64_t begin, int64_t end) {
    if (p->y.taps == 0)
        sum_across(p, end - begin, src + begin * p->y.src, p->y.src, p->width, dst + begin * p->y.dst, p->y.dst);
    else if (p->across)
        across_then_down(p, src, dst, scratch, begin, end);
    else
        down_then_across(p, src, dst, scratch, begin, end);
}
