/* One pass over the rows of dst. Bound: memory, or a cache: each line is written once. */
#include "pad.h"

#include "index.h"
#include "parallel_for.h"

enum { PART = 4 * CHUNK }; /* elements of a row that are moved at once */

static int64_t parts_of(const pa_pad_op *p) { return ceil_div(p->inside, PART); }

/* Where the walk, over all axes of rows but the last, has come to in src. */
static int64_t place_of(const pa_pad_op *p, const walk *w) {
    int64_t place = 0;
    for (int d = 0; d < w->rank; d++) {
        if (p->from[d][w->at[d]] == PA_OUTSIDE) return PA_OUTSIDE;
        place += p->from[d][w->at[d]];
    }
    return place;
}

/* dst[i * step] = src[from[i]], or where `from` is NULL the value, for i < n */
PA_INLINE void surround(const int item, int64_t n, const void *src, const int64_t *from, uint64_t value, void *dst, int64_t step) {
#define SURROUND(type)                                                                                             \
    case sizeof(type): {                                                                                           \
        const type *given = src, element = (type)value;                                                            \
        type *to = dst;                                                                                            \
        if (from)                                                                                                  \
            for (int64_t i = 0; i < n; i++) to[i * step] = given[from[i]];                                         \
        else if (step == 1)                                                                                        \
            for (int64_t i = 0; i < n; i++) to[i] = element;                                                       \
        else                                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i * step] = element;                                                \
        break;                                                                                                     \
    }
    switch (item) {
        SURROUND(uint8_t)
        SURROUND(uint16_t)
        SURROUND(uint32_t)
        SURROUND(uint64_t)
    }
#undef SURROUND
}

/* A row of src in one of dst, from element `at` of it on: what lies before it goes with its first part, what lies behind
 * with its last. Item, the bytes of an element, is a constant. */
PA_INLINE void pad_part(const pa_pad_op *p, const int item, const char *row, int64_t at, char *to) {
    const int64_t n = min64(PART, p->inside - at), step = p->dst_step;
    char *inside = to + (p->before + at) * step * item, *behind = inside + n * step * item;
    if (at == 0) surround(item, p->before, row, p->margins, p->value, to, step);
    move_run(item, n, row + at * p->src_step * item, p->src_step, inside, step);
    if (at + n == p->inside)
        surround(item, p->after, row, p->margins ? p->margins + p->before : NULL, p->value, behind, step);
}

/* Parts [begin, end) of rows. */
PA_INLINE void pad_parts(const pa_pad_op *p, const int item, const char *src, char *dst, int64_t begin, int64_t end) {
    const pa_axes *rows = &p->rows;
    const int last = rows->rank - 1;
    const int64_t parts = parts_of(p), line = rows->size[last] * parts, whole = p->before + p->inside + p->after;
    walk w = walk_from(rows, last, begin / line);
    for (int64_t unit = begin, from = begin % line; unit < end; from = 0, walk_on(&w)) {
        const int64_t to = min64(line, from + end - unit), first = place_of(p, &w);
        for (int64_t k = from; k < to; k++) {
            const int64_t r = parts == 1 ? k : k / parts, part = parts == 1 ? 0 : k % parts, place = p->from[last][r];
            char *row = dst + (w.offset[0] + r * rows->stride[0][last]) * item;
            if (first != PA_OUTSIDE && place != PA_OUTSIDE)
                pad_part(p, item, src + (first + place) * item, part * PART, row);
            else if (part == 0)
                surround(item, whole, NULL, NULL, p->value, row, p->dst_step);
        }
        unit += to - from;
    }
}

static void pad_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_pad_op *p = ctx->op;
    const char *src = pa_at(&p->src, ctx->bases);
    char *dst = pa_at(&p->dst, ctx->bases);
    switch (p->dst.item_bytes) {
    case 1: pad_parts(p, 1, src, dst, begin, end); break;
    case 2: pad_parts(p, 2, src, dst, begin, end); break;
    case 4: pad_parts(p, 4, src, dst, begin, end); break;
    case 8: pad_parts(p, 8, src, dst, begin, end); break;
    }
}

void pa_pad_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_pad_op *p = op;
    const int64_t rows = positions(&p->rows, p->rows.rank), parts = parts_of(p);
    parallel_for(op, bases, scratch, team, pad_range, rows * parts, (p->before + p->inside + p->after) / parts);
}
