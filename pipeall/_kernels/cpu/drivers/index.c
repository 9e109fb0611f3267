#include "index.h"

#include "parallel_for.h"

/* ---- indices ---- */

enum { BLOCK = 256 }; /* indices looked up at a time */

/* An index counts from the end where it is negative; one outside of the axis is of the nearest element. Hardly any is,
 * which makes the branch free, and two conditional moves less. */
PA_INLINE int64_t number_of(int64_t given, int64_t limit) {
    const int64_t number = given < 0 ? given + limit : given;
    if (__builtin_expect((uint64_t)number < (uint64_t)limit, 1)) return number;
    return number < 0 ? 0 : limit - 1;
}

/* Offsets in the data of n indices, `step` apart from number i on. */
PA_INLINE void look_up(const pa_indexing *by, const void *index, int64_t i, int64_t step, int64_t n, int64_t *offset) {
    if (by->depth == 0) memset(offset, 0, (size_t)n * sizeof *offset);
    for (int c = 0; c < by->depth; c++) {
        const int64_t limit = by->limit[c], data_step = by->step[c];
#define LOOK_UP(type)                                                                                              \
    const type *at = (const type *)index + i + c * by->component;                                                  \
    for (int64_t k = 0; k < n; k++) offset[k] = (c ? offset[k] : 0) + number_of(at[k * step], limit) * data_step;
        if (by->index.type == PA_S64) {
            LOOK_UP(int64_t)
        } else {
            LOOK_UP(int32_t)
        }
#undef LOOK_UP
    }
}

static int64_t nearest(const pa_indexing *by, const void *index, int64_t i) {
    int64_t offset;
    look_up(by, index, i, 0, 1, &offset);
    return offset;
}

/* ---- gather ---- */

enum { INDEX_WORK = 2 }; /* cycles to look up an index */

static double gather_work(const pa_axes *axes, int axis) {
    return axes_work(axes, axis) + (axes->stride[2][axis] ? INDEX_WORK : 0);
}

void pa_gather_plan(pa_gather_op *p) {
    p->by.walk.operands = 3;
    axes_join(&p->by.walk);
    axes_choose_run(&p->by.walk, gather_work);
}

/* dst[i * dst_step] = src[i * src_step + offset[i]] for i < n */
static void pick(int item_bytes, int64_t n, const void *src, int64_t src_step, const int64_t *offset, void *dst, int64_t dst_step) {
#define PICK(type)                                                                                                 \
    case sizeof(type): {                                                                                           \
        const type *from = src;                                                                                    \
        type *to = dst;                                                                                            \
        for (int64_t i = 0; i < n; i++) to[i * dst_step] = from[i * src_step + offset[i]];                         \
        break;                                                                                                     \
    }
    switch (item_bytes) {
        PICK(uint8_t)
        PICK(uint16_t)
        PICK(uint32_t)
        PICK(uint64_t)
    }
#undef PICK
}

/* The same by indices of one number each, without a table of offsets. */
static void pick_by(const pa_indexing *by, int item_bytes, int64_t n, const void *src, int64_t src_step, int64_t i,
                    const void *index, int64_t index_step, void *dst, int64_t dst_step) {
    const int64_t limit = by->limit[0], data_step = by->step[0];
    const int last = src_step == 0 && data_step == 1 && index_step == 1 && dst_step == 1; /* along the last axis */
#define PICK_BY(item, number)                                                                                      \
    {                                                                                                              \
        const item *from = src;                                                                                    \
        const number *at = (const number *)index + i;                                                              \
        item *to = dst;                                                                                            \
        for (int64_t k = 0; k < n && last; k++) to[k] = from[number_of(at[k], limit)];                             \
        for (int64_t k = 0; k < n && !last; k++)                                                                   \
            to[k * dst_step] = from[k * src_step + number_of(at[k * index_step], limit) * data_step];              \
        break;                                                                                                     \
    }
#define PICK(item)                                                                                                 \
    case sizeof(item):                                                                                             \
        if (by->index.type == PA_S64) PICK_BY(item, int64_t)                                                       \
        PICK_BY(item, int32_t)
    switch (item_bytes) {
        PICK(uint8_t)
        PICK(uint16_t)
        PICK(uint32_t)
        PICK(uint64_t)
    }
#undef PICK
#undef PICK_BY
}

/* The elements [begin, end), each by its index. */
static void gather_elements(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_gather_op *p = ctx->op;
    const pa_axes *w = &p->by.walk;
    const int item = p->dst.item_bytes, last = w->rank - 1;
    const char *src = pa_at(&p->src, ctx->bases);
    char *dst = pa_at(&p->dst, ctx->bases);
    const void *index = pa_at(&p->by.index, ctx->bases);
    const int64_t to_step = w->stride[0][last], from_step = w->stride[1][last], index_step = w->stride[2][last];
    const int single = p->by.depth == 1;
    int64_t offset[BLOCK];
    runs r = runs_over(w, begin, end);
    for (int64_t n; (n = next_run(&r, single ? INT64_MAX : BLOCK));) {
        const char *from = src + r.at[1] * item;
        char *to = dst + r.at[0] * item;
        if (single) {
            pick_by(&p->by, item, n, from, from_step, r.at[2], index, index_step, to, to_step);
            continue;
        }
        look_up(&p->by, index, r.at[2], index_step, n, offset);
        pick(item, n, from, from_step, offset, to, to_step);
    }
}

/* The runs [begin, end) along the last axis, each of which has one index. */
static void gather_runs(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_gather_op *p = ctx->op;
    const pa_axes *w = &p->by.walk;
    const int item = p->dst.item_bytes, last = w->rank - 1;
    const int64_t n = w->size[last], to_step = w->stride[0][last], from_step = w->stride[1][last];
    const char *src = pa_at(&p->src, ctx->bases);
    char *dst = pa_at(&p->dst, ctx->bases);
    const void *index = pa_at(&p->by.index, ctx->bases);
    walk at = walk_from(w, last, begin);
    for (int64_t unit = begin; unit < end; unit++, walk_on(&at)) {
        const int64_t from = at.offset[1] + nearest(&p->by, index, at.offset[2]);
        move_run(item, n, src + from * item, from_step, dst + at.offset[0] * item, to_step);
    }
}

void pa_gather_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_axes *w = &((const pa_gather_op *)op)->by.walk;
    const int last = w->rank - 1;
    if (w->stride[2][last])
        parallel_for(op, bases, scratch, team, gather_elements, positions(w, w->rank), 1);
    else
        parallel_for(op, bases, scratch, team, gather_runs, positions(w, last), w->size[last]);
}

/* ---- scatter ---- */

void pa_scatter_plan(pa_scatter_op *p) {
    p->copy.operands = 2;
    p->by.walk.operands = 3;
    axes_join(&p->copy);
    axes_join(&p->by.walk);
}

static void copy_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_scatter_op *p = ctx->op;
    const pa_axes *w = &p->copy;
    const int item = p->dst.item_bytes, loops = w->rank - 1;
    const char *src = pa_at(&p->src, ctx->bases);
    char *dst = pa_at(&p->dst, ctx->bases);
    const int64_t n = w->size[loops];
    walk at = walk_from(w, loops, begin);
    for (int64_t unit = begin; unit < end; unit++, walk_on(&at))
        move_run(item, n, src + at.offset[1] * item, w->stride[1][loops], dst + at.offset[0] * item, w->stride[0][loops]);
}

/* wide: unsigned where an int may overflow, which wraps */
#define REDUCE(type, wide)                                                                                          \
    static void reduce_##type(int reduction, type *to, type from) {                                                 \
        switch (reduction) {                                                                                        \
        case PA_SCATTER_ADD: *to = (type)((wide)*to + (wide)from); break;                                                   \
        case PA_SCATTER_MUL: *to = (type)((wide)*to * (wide)from); break;                                                   \
        case PA_SCATTER_MAX: *to = from > *to || from != from ? from : *to; break;                                          \
        case PA_SCATTER_MIN: *to = from < *to || from != from ? from : *to; break;                                          \
        }                                                                                                           \
    }
REDUCE(float, float)
REDUCE(int8_t, uint32_t)
REDUCE(uint8_t, uint32_t)
REDUCE(int32_t, uint32_t)
REDUCE(int64_t, uint64_t)

static void reduce(const pa_scatter_op *p, const void *from, void *to) {
    switch (p->dst.type) {
    case PA_F32: reduce_float(p->reduction, to, *(const float *)from); break;
    case PA_S8: reduce_int8_t(p->reduction, to, *(const int8_t *)from); break;
    case PA_U8: reduce_uint8_t(p->reduction, to, *(const uint8_t *)from); break;
    case PA_S32: reduce_int32_t(p->reduction, to, *(const int32_t *)from); break;
    case PA_S64: reduce_int64_t(p->reduction, to, *(const int64_t *)from); break;
    }
}

/* dst[i * dst_step + offset[i]] = src[i * src_step] for i < n */
static void put(int item_bytes, int64_t n, const void *src, int64_t src_step, const int64_t *offset, void *dst, int64_t dst_step) {
#define PUT(type)                                                                                                  \
    case sizeof(type): {                                                                                           \
        const type *from = src;                                                                                    \
        type *to = dst;                                                                                            \
        for (int64_t i = 0; i < n; i++) to[i * dst_step + offset[i]] = from[i * src_step];                         \
        break;                                                                                                     \
    }
    switch (item_bytes) {
        PUT(uint8_t)
        PUT(uint16_t)
        PUT(uint32_t)
        PUT(uint64_t)
    }
#undef PUT
}

/* One unit: later updates may be of the same element as earlier ones. */
static void scatter_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)begin, (void)end, (void)thread;
    const pa_scatter_op *p = ctx->op;
    const pa_axes *w = &p->by.walk;
    const int item = p->dst.item_bytes, last = w->rank - 1, replaces = p->reduction == PA_SCATTER_PUT;
    const int64_t from_step = w->stride[0][last], to_step = w->stride[1][last], index_step = w->stride[2][last];
    const char *updates = pa_at(&p->updates, ctx->bases);
    char *dst = pa_at(&p->dst, ctx->bases);
    const void *index = pa_at(&p->by.index, ctx->bases);
    int64_t offset[BLOCK];
    runs r = runs_over(w, 0, positions(w, w->rank));
    for (int64_t n; (n = next_run(&r, index_step || !replaces ? BLOCK : INT64_MAX));) {
        const char *from = updates + r.at[0] * item;
        char *to = dst + r.at[1] * item;
        if (!index_step && replaces) {
            move_run(item, n, from, from_step, to + nearest(&p->by, index, r.at[2]) * item, to_step);
            continue;
        }
        look_up(&p->by, index, r.at[2], index_step, n, offset);
        if (replaces)
            put(item, n, from, from_step, offset, to, to_step);
        else
            for (int64_t i = 0; i < n; i++) reduce(p, from + i * from_step * item, to + (i * to_step + offset[i]) * item);
    }
}

void pa_scatter_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_scatter_op *p = op;
    const int64_t units = positions(&p->copy, p->copy.rank - 1);
    parallel_for(op, bases, scratch, team, copy_range, units, positions(&p->copy, p->copy.rank) / units);
    parallel_for(op, bases, scratch, team, scatter_range, 1, 1);
}
