/* Running sums along one axis; the others are kept. */
#include "convert.h"
#include "parallel_for.h"
#include "reduce.h"

enum { SIDE = 1024 }; /* lines that are done side by side */

/* One line: blocks along the axis. */
static void line_sums(const pa_cumsum_op *p, int64_t n, const char *x, int64_t x_step, char *y, int64_t y_step) {
    const int real = p->src.type == PA_F32;
    double sum = 0;
    uint64_t whole = 0;
    float floats[BLOCK];
    int64_t ints[BLOCK];
    for (int64_t k = 0; k < n; k += BLOCK) {
        const int64_t count = min64(BLOCK, n - k);
        const char *from = x + k * x_step * p->src.item_bytes;
        char *to = y + k * y_step * p->dst.item_bytes;
        if (real) {
            pa_load_f32(p->src.type, count, from, x_step, floats);
            for (int64_t i = 0; i < count; i++) {
                const double before = sum;
                sum += floats[i];
                floats[i] = (float)(p->exclusive ? before : sum);
            }
            pa_store_f32(p->dst.type, count, floats, to, y_step);
        } else {
            pa_load_s64(p->src.type, count, from, x_step, ints);
            for (int64_t i = 0; i < count; i++) {
                const uint64_t before = whole;
                whole += (uint64_t)ints[i];
                ints[i] = (int64_t)(p->exclusive ? before : whole);
            }
            pa_store_s64(p->dst.type, count, ints, to, y_step);
        }
    }
}

/* Lines side by side, row after row. */
static void column_sums(const pa_cumsum_op *p, int64_t n, int64_t columns, const char *x, int64_t x_row, int64_t x_step,
                        char *y, int64_t y_row, int64_t y_step) {
    double sum[SIDE] = {0};
    uint64_t whole[SIDE] = {0};
    float floats[SIDE];
    int64_t ints[SIDE];
    for (int64_t i = 0; i < n; i++, x += x_row * p->src.item_bytes, y += y_row * p->dst.item_bytes) {
        if (p->src.type == PA_F32) {
            pa_load_f32(p->src.type, columns, x, x_step, floats);
            for (int64_t c = 0; c < columns; c++) {
                const double before = sum[c];
                sum[c] += floats[c];
                floats[c] = (float)(p->exclusive ? before : sum[c]);
            }
            pa_store_f32(p->dst.type, columns, floats, y, y_step);
        } else {
            pa_load_s64(p->src.type, columns, x, x_step, ints);
            for (int64_t c = 0; c < columns; c++) {
                const uint64_t before = whole[c];
                whole[c] += (uint64_t)ints[c];
                ints[c] = (int64_t)(p->exclusive ? before : whole[c]);
            }
            pa_store_s64(p->dst.type, columns, ints, y, y_step);
        }
    }
}

static void cumsum_units(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const pa_cumsum_op *p = ctx->op;
    const int last = p->kept.rank - 1;
    const int64_t n = p->src.size[p->axis], size = p->kept.size[last], blocks = ceil_div(size, SIDE);
    const int64_t y_step = p->kept.stride[0][last], x_step = p->kept.stride[1][last];
    const int64_t direction = p->reverse ? -1 : 1, start = p->reverse ? n - 1 : 0;
    const int64_t x_row = p->src.stride[p->axis] * direction, y_row = p->dst.stride[p->axis] * direction;
    for (int64_t unit = begin; unit < end; unit++) {
        const walk w = walk_from(&p->kept, last, unit / blocks);
        const int64_t first = unit % blocks * SIDE, columns = min64(SIDE, size - first);
        const int64_t from = w.offset[1] + first * x_step + start * p->src.stride[p->axis];
        const int64_t to = w.offset[0] + first * y_step + start * p->dst.stride[p->axis];
        const char *x = elements_at(pa_at(&p->src, ctx->bases), &p->src, from);
        char *y = (char *)pa_at(&p->dst, ctx->bases) + to * p->dst.item_bytes;
        if (columns == 1 || x_row == 1 || x_row == -1) {
            for (int64_t c = 0; c < columns; c++)
                line_sums(p, n, x + c * x_step * p->src.item_bytes, x_row, y + c * y_step * p->dst.item_bytes, y_row);
        } else {
            column_sums(p, n, columns, x, x_row, x_step, y, y_row, y_step);
        }
    }
}

void pa_cumsum_plan(pa_cumsum_op *p) { pa_kept_axes(&p->dst, &p->src, p->axis, &p->kept); }

void pa_cumsum_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_cumsum_op *p = op;
    const int last = p->kept.rank - 1;
    const int64_t size = p->kept.size[last];
    parallel_for(op, bases, scratch, team, cumsum_units, positions(&p->kept, last) * ceil_div(size, SIDE),
        min64(size, SIDE) * p->src.size[p->axis]);
}
