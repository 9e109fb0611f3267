/* A copy is a loop over a matrix of runs: a run is contiguous in src and in dst, down the rows src steps least, along the
 * columns dst does. The matrix moves in tiles, so small that the lines of both stay in the first cache, however far apart. */
#include "copy.h"

#include "parallel_for.h"

enum { DST, SRC };
enum { TILE = CHUNK, SIDE = 64, SIDE_MAX = 1024 }; /* runs: of a tile about, of a side of it at least and at most */
enum { LONG_BYTES = 256, PART_BYTES = 4 * CHUNK }; /* of a run that fills lines by itself; of what is copied at once */

/* ---- plan ---- */

static pa_axes taken(pa_axes *axes, int at) {
    pa_axes one = {.rank = 1, .operands = 2};
    axes_set(&one, 0, axes, at);
    axes->rank--;
    for (int d = at; d < axes->rank; d++) axes_set(axes, d, axes, d + 1);
    return one;
}

/* The axis of the smallest step in src; those along which it stays come last. */
static int least_step(const pa_axes *axes) {
    int least = axes->rank - 1;
    for (int d = least - 1; d >= 0; d--)
        if ((uint64_t)axes->stride[SRC][d] - 1 < (uint64_t)axes->stride[SRC][least] - 1) least = d;
    return least;
}

/* Takes the axis that continues a side of the matrix, where there is one: its step is where the side ends. */
static int take_on(pa_axes *side, pa_axes *axes, int operand) {
    for (int d = 0; d < axes->rank; d++) {
        if (axes->stride[operand][d] != side->stride[operand][0] * side->size[0]) continue;
        const pa_axes inner = *side;
        *side = taken(axes, d);
        for (int k = 0; k < inner.rank; k++) axes_set(side, side->rank++, &inner, k);
        return 1;
    }
    return 0;
}

static int64_t extent(const pa_axes *side) { return positions(side, side->rank); }

/* The shorter side grows first. */
static void grow(pa_axes *rows, pa_axes *columns, pa_axes *axes) {
    for (int grown = 1; grown;)
        if (extent(rows) < extent(columns))
            grown = take_on(rows, axes, SRC) || take_on(columns, axes, DST);
        else
            grown = take_on(columns, axes, DST) || take_on(rows, axes, SRC);
}

static void in_bytes(pa_axes *axes, int64_t item_bytes) {
    for (int d = 0; d < axes->rank; d++) axes->stride[DST][d] *= item_bytes, axes->stride[SRC][d] *= item_bytes;
}

/* The columns, if they are 2 to 4 that make lines of dst; as a negative number the rows, if they make lines of src; else 0. */
static int few_of(const pa_axes *rows, const pa_axes *columns, int64_t run) {
    const int64_t r = extent(rows), c = extent(columns);
    if (rows->rank > 1 || columns->rank > 1 || rows->stride[SRC][0] != run || columns->stride[DST][0] != run) return 0;
    if (c > 1 && c <= 4 && rows->stride[DST][0] == c * run && columns->stride[SRC][0] % run == 0) return (int)c;
    if (r > 1 && r <= 4 && columns->stride[SRC][0] == r * run && rows->stride[DST][0] % run == 0) return -(int)r;
    return 0;
}

/* Of whole vectors, longer where the other side is short. */
static int64_t tile_side(int64_t size, int64_t other) {
    return min64(size, min64(SIDE_MAX, max64(SIDE, TILE / other / PA_LANES_MAX * PA_LANES_MAX)));
}

void pa_copy_plan(pa_copy_op *p) {
    pa_axes *axes = &p->axes;
    const pa_axes single = {.rank = 1, .operands = 2, .size = {1}};
    axes->operands = 2;
    axes_merge(axes);
    in_bytes(axes, p->item_bytes);
    p->run = p->item_bytes, p->rows = p->columns = single;
    const int last = axes->rank - 1;
    if (axes->stride[DST][last] == p->run && axes->stride[SRC][last] == p->run) p->run *= taken(axes, last).size[0];
    if (p->run < LONG_BYTES) {
        if (axes->rank) p->columns = taken(axes, axes->rank - 1);
        if (axes->rank) p->rows = taken(axes, least_step(axes));
        grow(&p->rows, &p->columns, axes);
    }
    p->few = p->run & (p->run - 1) || p->run > 8 ? 0 : few_of(&p->rows, &p->columns, p->run);
    p->tile_rows = tile_side(extent(&p->rows), extent(&p->columns));
    p->tile_columns = tile_side(extent(&p->columns), p->tile_rows);
}

/* ---- tiles ---- */

typedef struct tile {
    const char *src;
    char *dst;
    int64_t rows, columns, row_step, column_step; /* steps of rows in src, of columns in dst */
    int64_t from[SIDE_MAX], to[SIDE_MAX];         /* of each column in src, of each row in dst */
} tile;

static void offsets(const pa_axes *side, int operand, int64_t begin, int64_t end, int64_t *out) {
    runs r = runs_over(side, begin, end);
    const int64_t step = side->stride[operand][side->rank - 1];
    for (int64_t n; (n = next_run(&r, SIDE_MAX)); out += n)
        for (int64_t i = 0; i < n; i++) out[i] = r.at[operand] + i * step;
}

/* A line of runs; where a table does not say where they are, they are so far apart. */
static inline void move_line(const size_t run, int64_t n, const char *src, const int64_t *from, int64_t src_step, char *dst,
                             const int64_t *to, int64_t dst_step) {
    if (from)
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_step, src + from[i], run);
    else if (to)
        for (int64_t i = 0; i < n; i++) memcpy(dst + to[i], src + i * src_step, run);
    else
        for (int64_t i = 0; i < n; i++) memcpy(dst + i * dst_step, src + i * src_step, run);
}

/* Lines along which src steps less than down the rows, else the longer ones, are walked in parts, so that what the others
 * touch again is still near. */
static inline void move_each(const size_t run, const pa_copy_op *p, const tile *t) {
    const int64_t *from = p->columns.rank > 1 ? t->from : NULL, *to = p->rows.rank > 1 ? t->to : NULL;
    const int64_t columns_src = p->columns.stride[SRC][p->columns.rank - 1];
    if (columns_src <= t->row_step || t->rows < t->columns) {
        const int64_t part = t->rows < PA_LANES_MAX ? t->columns : PA_LANES_MAX;
        for (int64_t c = 0; c < t->columns; c += part)
            for (int64_t r = 0; r < t->rows; r++)
                move_line(run, min64(part, t->columns - c), t->src + r * t->row_step + (from ? 0 : t->from[c]),
                          from ? from + c : NULL, columns_src, t->dst + t->to[r] + c * t->column_step, NULL, t->column_step);
    } else {
        const int64_t part = t->columns < PA_LANES_MAX ? t->rows : PA_LANES_MAX;
        for (int64_t r = 0; r < t->rows; r += part)
            for (int64_t c = 0; c < t->columns; c++)
                move_line(run, min64(part, t->rows - r), t->src + t->from[c] + r * t->row_step, NULL, t->row_step,
                          t->dst + c * t->column_step + (to ? 0 : t->to[r]), to ? to + r : NULL, p->rows.stride[DST][0]);
    }
}

/* 2 to 4 columns that make one line of dst, or rows one line of src, the others being `apart`: constants, so that compilers find
 * the shuffles. */
#define FEW(type)                                                                                                    \
    typedef type any_##type __attribute__((aligned(1), may_alias));                                                  \
    static inline void join_##type(const int few, int64_t n, const any_##type *restrict src, int64_t apart,          \
                                   any_##type *restrict dst) {                                                       \
        for (int64_t i = 0; i < n; i++)                                                                              \
            for (int k = 0; k < few; k++) dst[i * few + k] = src[k * apart + i];                                     \
    }                                                                                                                \
    static inline void part_##type(const int few, int64_t n, const any_##type *restrict src, int64_t apart,          \
                                   any_##type *restrict dst) {                                                       \
        for (int64_t i = 0; i < n; i++)                                                                              \
            for (int k = 0; k < few; k++) dst[k * apart + i] = src[i * few + k];                                     \
    }                                                                                                                \
    static void few_##type(int few, int64_t n, const void *src, int64_t apart, void *dst) {                          \
        switch (few) {                                                                                               \
        case 2: join_##type(2, n, src, apart, dst); break;                                                           \
        case 3: join_##type(3, n, src, apart, dst); break;                                                           \
        case 4: join_##type(4, n, src, apart, dst); break;                                                           \
        case -2: part_##type(2, n, src, apart, dst); break;                                                          \
        case -3: part_##type(3, n, src, apart, dst); break;                                                          \
        case -4: part_##type(4, n, src, apart, dst); break;                                                          \
        }                                                                                                            \
    }
FEW(uint8_t)
FEW(uint16_t)
FEW(uint32_t)
FEW(uint64_t)

static void move_few(const pa_copy_op *p, const tile *t) {
    const int64_t n = p->few > 0 ? t->rows : t->columns;
    const int64_t apart = (p->few > 0 ? p->columns.stride[SRC][0] : p->rows.stride[DST][0]) / p->run;
    const char *src = t->src + t->from[0];
    char *dst = t->dst + t->to[0];
    switch (p->run) {
    case 1: few_uint8_t(p->few, n, src, apart, dst); break;
    case 2: few_uint16_t(p->few, n, src, apart, dst); break;
    case 4: few_uint32_t(p->few, n, src, apart, dst); break;
    case 8: few_uint64_t(p->few, n, src, apart, dst); break;
    }
}

static void move_tile(const pa_copy_op *p, const tile *t) {
    const int words = (int)p->run / 4;
    if (p->few)
        move_few(p, t);
    else if ((p->run == 4 || p->run == 8) && t->row_step == p->run && t->column_step == p->run)
        PA_FUNCTION(transpose, f32, p->transpose)(words, t->rows, t->columns, t->src, t->from, t->dst, t->to);
    else
        switch (p->run) {
        case 1: move_each(1, p, t); break;
        case 2: move_each(2, p, t); break;
        case 4: move_each(4, p, t); break;
        case 8: move_each(8, p, t); break;
        case 12: move_each(12, p, t); break;
        case 16: move_each(16, p, t); break;
        case 32: move_each(32, p, t); break;
        case 64: move_each(64, p, t); break;
        default: move_each((size_t)p->run, p, t);
        }
}

static inline int64_t tiles(const pa_axes *side, int64_t size) { return ceil_div(extent(side), size); }

static void copy_tiles(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_copy_op *p = ctx->op;
    const char *src = (char *)ctx->bases[p->src.base] + p->src.offset * p->item_bytes;
    char *dst = (char *)ctx->bases[p->dst.base] + p->dst.offset * p->item_bytes;
    const int64_t rows = extent(&p->rows), columns = extent(&p->columns);
    const int64_t across = tiles(&p->columns, p->tile_columns), parts = tiles(&p->rows, p->tile_rows) * across;
    tile t = {.row_step = p->rows.stride[SRC][p->rows.rank - 1], .column_step = p->columns.stride[DST][p->columns.rank - 1]};
    walk w = walk_from(&p->axes, p->axes.rank, begin / parts);
    for (int64_t unit = begin, part = begin % parts; unit < end; unit++) {
        const int64_t row = part / across * p->tile_rows, column = part % across * p->tile_columns;
        if (parts > 1 || unit == begin) {
            t.rows = min64(p->tile_rows, rows - row), t.columns = min64(p->tile_columns, columns - column);
            offsets(&p->rows, DST, row, row + (p->few ? 1 : t.rows), t.to);
            offsets(&p->columns, SRC, column, column + (p->few ? 1 : t.columns), t.from);
        }
        t.src = src + w.offset[SRC] + row * t.row_step, t.dst = dst + w.offset[DST] + column * t.column_step;
        move_tile(p, &t);
        if (++part == parts) {
            part = 0;
            walk_on(&w);
        }
    }
}

static void copy_runs(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_copy_op *p = ctx->op;
    const char *src = (char *)ctx->bases[p->src.base] + p->src.offset * p->item_bytes;
    char *dst = (char *)ctx->bases[p->dst.base] + p->dst.offset * p->item_bytes;
    const int64_t parts = ceil_div(p->run, PART_BYTES);
    walk w = walk_from(&p->axes, p->axes.rank, begin / parts);
    for (int64_t unit = begin, part = begin % parts; unit < end; unit++) {
        const int64_t at = part * PART_BYTES;
        memcpy(dst + w.offset[DST] + at, src + w.offset[SRC] + at, (size_t)min64(PART_BYTES, p->run - at));
        if (++part == parts) {
            part = 0;
            walk_on(&w);
        }
    }
}

void pa_copy_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_copy_op *p = op;
    const int64_t outer = positions(&p->axes, p->axes.rank), run_items = p->run / p->item_bytes;
    if (p->run >= LONG_BYTES) {
        const int64_t parts = ceil_div(p->run, PART_BYTES);
        parallel_for(op, bases, scratch, team, copy_runs, outer * parts, run_items / parts);
    } else {
        const int64_t parts = tiles(&p->rows, p->tile_rows) * tiles(&p->columns, p->tile_columns);
        parallel_for(op, bases, scratch, team, copy_tiles, outer * parts, p->tile_rows * p->tile_columns * run_items);
    }
}
