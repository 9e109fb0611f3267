/* The elements of most value, kept in a heap: those of an axis (TopK), and boxes that do not overlap better ones. */
#include "index.h"

#include "parallel_for.h"

/* ---- the heap ---- */

typedef struct entry {
    int64_t key, place;
} entry;

static int before(entry a, entry b) { return a.key > b.key || (a.key == b.key && a.place < b.place); }

/* Entry i sinks until those under it come after it, or, with `reversed`, before it. */
static void sink(entry *heap, int64_t n, int64_t i, int reversed) {
    const entry moved = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(heap[child + 1], heap[child]) != reversed) child++;
        if (before(heap[child], moved) == reversed) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static void make_heap(entry *heap, int64_t n, int reversed) {
    for (int64_t i = n / 2 - 1; i >= 0; i--) sink(heap, n, i, reversed);
}

/* Whole numbers in the order of floats: -0 is 0, NaN above all. */
static int64_t float_key(uint32_t bits) {
    const int64_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return INT64_MAX;
    return bits >> 31 ? -size : size;
}

static int64_t half_key(uint16_t bits) {
    const int64_t size = bits & 0x7fff;
    if (size > 0x7c00) return INT64_MAX;
    return bits >> 15 ? -size : size;
}

static int64_t key_at(int type, const void *base, int64_t i) {
    switch (type) {
    case PA_F32: return float_key(((const uint32_t *)base)[i]);
    case PA_F16: return half_key(((const uint16_t *)base)[i]);
    case PA_S8: return ((const int8_t *)base)[i];
    case PA_S32: return ((const int32_t *)base)[i];
    case PA_S64: return ((const int64_t *)base)[i];
    default: return ((const uint8_t *)base)[i];
    }
}

/* ---- elements of an axis ---- */

void pa_topk_plan(pa_topk_op *p) {
    p->walk.operands = 2;
    p->scratch_bytes = round_up(p->k * (int64_t)sizeof(entry), 64);
}

static void topk_row(const pa_topk_op *p, const char *src, char *dst, entry *heap) {
    const int64_t flip = p->largest ? 0 : -1; /* ~key falls where the key rises */
    for (int64_t i = 0; i < p->n; i++) {
        const entry met = {key_at(p->src.type, src, i * p->src_step) ^ flip, i};
        if (i < p->k) {
            heap[i] = met;
            if (i + 1 == p->k) make_heap(heap, p->k, 1); /* the last of those kept is on top */
        } else if (before(met, heap[0])) {
            heap[0] = met;
            sink(heap, p->k, 0, 1);
        }
    }
    for (int64_t n = p->k - 1; n >= 0; n--) {
        const int64_t place = heap[0].place;
        if (p->places)
            ((int64_t *)dst)[n * p->dst_step] = place;
        else
            move_run(p->dst.item_bytes, 1, src + place * p->src_step * p->src.item_bytes, 1,
                     dst + n * p->dst_step * p->dst.item_bytes, 1);
        heap[0] = heap[n];
        sink(heap, n, 0, 1);
    }
}

static void topk_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_topk_op *p = ctx->op;
    const char *src = pa_at(&p->src, ctx->bases);
    char *dst = pa_at(&p->dst, ctx->bases);
    entry *heap = (entry *)((char *)ctx->scratch + thread * p->scratch_bytes);
    walk at = walk_from(&p->walk, p->walk.rank, begin);
    for (int64_t unit = begin; unit < end; unit++, walk_on(&at))
        topk_row(p, src + at.offset[1] * p->src.item_bytes, dst + at.offset[0] * p->dst.item_bytes, heap);
}

void pa_topk_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_topk_op *p = op;
    parallel_for(op, bases, scratch, team, topk_range, positions(&p->walk, p->walk.rank), p->n);
}

/* ---- boxes ---- */

typedef struct box {
    float y0, x0, y1, x1;
} box;

static box box_at(const pa_nms_op *p, const float *boxes, int64_t n, int64_t b) {
    const float *at = boxes + n * p->boxes.stride[0] + b * p->boxes.stride[1];
    const int64_t step = p->boxes.stride[2];
    const float v[4] = {at[0], at[step], at[2 * step], at[3 * step]};
    if (p->center_box) return (box){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
    return (box){v[0] < v[2] ? v[0] : v[2], v[1] < v[3] ? v[1] : v[3], v[0] < v[2] ? v[2] : v[0], v[1] < v[3] ? v[3] : v[1]};
}

static int overlap(box a, box b, float iou) {
    const float y0 = a.y0 > b.y0 ? a.y0 : b.y0, x0 = a.x0 > b.x0 ? a.x0 : b.x0;
    const float y1 = a.y1 < b.y1 ? a.y1 : b.y1, x1 = a.x1 < b.x1 ? a.x1 : b.x1;
    const float both = y1 > y0 && x1 > x0 ? (y1 - y0) * (x1 - x0) : 0;
    const float area_a = (a.y1 - a.y0) * (a.x1 - a.x0), area_b = (b.y1 - b.y0) * (b.x1 - b.x0);
    if (!(both > 0) || !(area_a > 0) || !(area_b > 0)) return 0;
    return both / (area_a + area_b - both) > iou;
}

void pa_nms_plan(pa_nms_op *p) {
    p->scratch_bytes = round_up(p->scores.size[2] * (int64_t)sizeof(entry) + p->most * (int64_t)sizeof(box), 64);
}

static void write_row(const pa_nms_op *p, int64_t *dst, int64_t row, int64_t n, int64_t c, int64_t b) {
    int64_t *to = dst + row * p->dst.stride[0];
    to[0] = n, to[p->dst.stride[1]] = c, to[2 * p->dst.stride[1]] = b;
}

/* Units are pairs (image, class); each fills `most` rows of its own. */
static void nms_range(const context *ctx, int64_t begin, int64_t end, int thread) {
    const pa_nms_op *p = ctx->op;
    const float *boxes = pa_at(&p->boxes, ctx->bases), *scores = pa_at(&p->scores, ctx->bases);
    int64_t *dst = pa_at(&p->dst, ctx->bases);
    const int64_t count = p->scores.size[2];
    entry *heap = (entry *)((char *)ctx->scratch + thread * p->scratch_bytes);
    box *kept = (box *)(heap + count);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t n = unit / p->scores.size[1], c = unit % p->scores.size[1];
        const float *score = scores + n * p->scores.stride[0] + c * p->scores.stride[1];
        int64_t left = 0, taken = 0;
        for (int64_t b = 0; b < count; b++) {
            const float value = score[b * p->scores.stride[2]];
            if (value > p->score) heap[left++] = (entry){key_at(PA_F32, &value, 0), b};
        }
        make_heap(heap, left, 0);
        while (left > 0 && taken < p->most) {
            const int64_t b = heap[0].place;
            heap[0] = heap[--left];
            if (left > 0) sink(heap, left, 0, 0);
            const box met = box_at(p, boxes, n, b);
            int64_t k = 0;
            while (k < taken && !overlap(met, kept[k], p->iou)) k++;
            if (k < taken) continue;
            write_row(p, dst, unit * p->most + taken, n, c, b);
            kept[taken++] = met;
        }
        for (; taken < p->most; taken++) write_row(p, dst, unit * p->most + taken, -1, -1, -1);
    }
}

/* Rows that are used move up, in their order. */
static void close_gaps(const context *ctx, int64_t begin, int64_t end, int thread) {
    (void)begin, (void)end, (void)thread;
    const pa_nms_op *p = ctx->op;
    int64_t *dst = pa_at(&p->dst, ctx->bases), used = 0;
    const int64_t step = p->dst.stride[1];
    for (int64_t row = 0; row < p->dst.size[0]; row++) {
        const int64_t *at = dst + row * p->dst.stride[0];
        const int64_t n = at[0], c = at[step], b = at[2 * step];
        if (n < 0) continue;
        if (used < row) {
            write_row(p, dst, row, -1, -1, -1);
            write_row(p, dst, used, n, c, b);
        }
        used++;
    }
}

void pa_nms_step(const void *op, void *const *bases, void *scratch, pa_team *team) {
    const pa_nms_op *p = op;
    parallel_for(op, bases, scratch, team, nms_range, p->scores.size[0] * p->scores.size[1], p->scores.size[2]);
    parallel_for(op, bases, scratch, team, close_gaps, 1, 1);
}
