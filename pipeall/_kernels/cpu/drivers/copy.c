#include "copy.h"

#include <string.h>

#include "chunks.h"

enum { TILE_ROWS = 16, TILE_COLUMNS = 1024 }; /* what is written together, to 16 cache lines at a time */

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
#define COPY_TILE(type)                                                                                              \
    static void interleave3_##type(const type *restrict src, int64_t plane, type *restrict dst, int64_t pixels) {    \
        for (int64_t i = 0; i < pixels; i++) {                                                                       \
            dst[3 * i] = src[i];                                                                                     \
            dst[3 * i + 1] = src[plane + i];                                                                         \
            dst[3 * i + 2] = src[2 * plane + i];                                                                     \
        }                                                                                                            \
    }                                                                                                                \
                                                                                                                     \
    static void copy_tile_##type(const pa_copy_op *p, const type *src, type *dst, int64_t rows, int64_t columns) {   \
        const int64_t sr = p->src_stride[ROWS], sc = p->src_stride[COLUMNS];                                         \
        const int64_t dr = p->dst_stride[ROWS], dc = p->dst_stride[COLUMNS];                                         \
        if (sc == 1 && dc == 1) {                                                                                    \
            for (int64_t r = 0; r < rows; r++) memcpy(dst + r * dr, src + r * sr, (size_t)columns * sizeof(type));   \
            return;                                                                                                  \
        }                                                                                                            \
        if (columns == 3 && dc == 1 && dr == 3 && sr == 1) { /* a picture */                                         \
            interleave3_##type(src, sc, dst, rows);                                                                  \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t c = 0; c < columns; c++)                                                                        \
            for (int64_t r = 0; r < rows; r++) dst[r * dr + c * dc] = src[r * sr + c * sc];                          \
    }
COPY_TILE(uint8_t)
COPY_TILE(uint16_t)
COPY_TILE(uint32_t)
COPY_TILE(uint64_t)

/* src and dst: element 0; from and to: where the tile begins, in elements. */
static void copy_tile(const pa_copy_op *p, const char *src, int64_t from, char *dst, int64_t to, int64_t rows,
                      int64_t columns) {
    const void *begin = src + from * p->item_bytes;
    void *end = dst + to * p->item_bytes;
    switch (p->item_bytes) {
    case 1: copy_tile_uint8_t(p, begin, end, rows, columns); break;
    case 2: copy_tile_uint16_t(p, begin, end, rows, columns); break;
    case 4: copy_tile_uint32_t(p, begin, end, rows, columns); break;
    case 8: copy_tile_uint64_t(p, begin, end, rows, columns); break;
    }
}

static void copy_tiles(const job *j, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_copy_op *p = j->op;
    const char *src = (char *)j->bases[p->src.base] + p->src.offset * p->item_bytes;
    char *dst = (char *)j->bases[p->dst.base] + p->dst.offset * p->item_bytes;
    int64_t step[PA_COPY_DIMS] = {1, 1, 1, 1, tile_rows(p), TILE_COLUMNS}, at[PA_COPY_DIMS];
    for (int64_t d = COLUMNS, rest = begin; d >= 0; d--) {
        const int64_t tiles = ceil_div(p->size[d], step[d]);
        at[d] = rest % tiles * step[d];
        rest /= tiles;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t from = 0, to = 0;
        for (int d = 0; d < PA_COPY_DIMS; d++) from += at[d] * p->src_stride[d], to += at[d] * p->dst_stride[d];
        copy_tile(p, src, from, dst, to, min64(step[ROWS], p->size[ROWS] - at[ROWS]),
                  min64(step[COLUMNS], p->size[COLUMNS] - at[COLUMNS]));
        for (int d = COLUMNS; d >= 0; d--) {
            at[d] += step[d];
            if (at[d] < p->size[d]) break;
            at[d] = 0;
        }
    }
}

void pa_copy_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_copy_op *p = op;
    const int64_t rows = tile_rows(p);
    int64_t units = ceil_div(p->size[ROWS], rows) * ceil_div(p->size[COLUMNS], TILE_COLUMNS);
    for (int d = 0; d < ROWS; d++) units *= p->size[d];
    run(op, bases, scratch, team, copy_tiles, units,
        min64(rows, p->size[ROWS]) * min64(TILE_COLUMNS, p->size[COLUMNS]));
}
