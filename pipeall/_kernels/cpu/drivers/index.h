/* Steps that find their elements by indices which other steps have computed: gathers, scatters, the largest elements, and
 * the suppression of boxes. No index reaches beyond its axis, whatever it is.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing.
 * Where there is a pa_<op>_plan, call it once, after all other fields are set. */
#ifndef PIPEALL_INDEX_H
#define PIPEALL_INDEX_H

#include "nd_loop.h"

/* Element i of an operand of int32 or int64. */
static inline int64_t integer_at(const pa_strided *s, const void *elements, int64_t i) {
    return s->type == PA_S64 ? ((const int64_t *)elements)[i] : ((const int32_t *)elements)[i];
}

/* dst[i * dst_step] = src[i * src_step] for i < n */
static inline void move_run(int item_bytes, int64_t n, const void *src, int64_t src_step, void *dst, int64_t dst_step) {
    if (n == 1 || (src_step == 1 && dst_step == 1)) {
        memcpy(dst, src, (size_t)(n * item_bytes));
        return;
    }
    const int half = src_step == 2 && dst_step == 1; /* constants, so that compilers find the shuffles */
#define MOVE_RUN(type)                                                                                            \
    case sizeof(type): {                                                                                          \
        const type *from = src;                                                                                   \
        type *to = dst;                                                                                           \
        for (int64_t i = 0; i < n && half; i++) to[i] = from[2 * i];                                              \
        for (int64_t i = 0; i < n && !half; i++) to[i * dst_step] = from[i * src_step];                           \
        break;                                                                                                    \
    }
    switch (item_bytes) {
        MOVE_RUN(uint8_t)
        MOVE_RUN(uint16_t)
        MOVE_RUN(uint32_t)
        MOVE_RUN(uint64_t)
    }
#undef MOVE_RUN
}

/* Elements by indices: an index is `depth` numbers, `component` elements apart, that say a position along so many axes of
 * the data, of these sizes and steps. The walk's operands: 0 has the walk's shape, 1 is the data at index 0, 2 the index.
 * Negative numbers count from the end; those beyond an axis become its nearest position. */
typedef struct pa_indexing {
    pa_strided index; /* int32 or int64 */
    int32_t depth;
    int64_t component, limit[PA_DIMS], step[PA_DIMS];
    pa_axes walk;
} pa_indexing;

/* dst (operand 0) = src (operand 1) by indices. */
typedef struct pa_gather_op {
    pa_strided src, dst;
    pa_indexing by;
} pa_gather_op;
void pa_gather_plan(pa_gather_op *op);
void pa_gather_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* dst = src, then dst (operand 1) = dst reduction updates (operand 0), in the order of the updates. */
typedef enum pa_scatter_how { PA_SCATTER_PUT, PA_SCATTER_ADD, PA_SCATTER_MUL, PA_SCATTER_MAX, PA_SCATTER_MIN } pa_scatter_how;
typedef struct pa_scatter_op {
    pa_strided src, updates, dst;
    int32_t reduction; /* PA_SCATTER_PUT: of any type; else of float32, int8, uint8, int32, int64 */
    pa_axes copy;      /* operands: dst, src */
    pa_indexing by;
} pa_scatter_op;
void pa_scatter_plan(pa_scatter_op *op);
void pa_scatter_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* The k first of n elements in falling order (rising unless `largest`), or their int64 places; of equal ones the first comes
 * first. NaN is above all numbers. */
typedef struct pa_topk_op {
    pa_strided src, dst;
    pa_axes walk; /* all other axes; operands: dst, src */
    int64_t n, k, src_step, dst_step;
    int32_t largest, places;
    int64_t scratch_bytes; /* set by plan: per thread */
} pa_topk_op;
void pa_topk_plan(pa_topk_op *op);
void pa_topk_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Rows (image, class, box) of the boxes (N, B, 4) that are kept, per image and class by falling score: those with a score
 * (N, C, B) above `score` that overlap none kept before by more than `iou` of their union, at most `most`. Rows of dst, of
 * which there are N * C * most, that are not used are -1. Boxes are two corners, in any order, or centre and size. */
typedef struct pa_nms_op {
    pa_strided boxes, scores, dst;
    int64_t most;
    float iou, score;
    int32_t center_box;
    int64_t scratch_bytes; /* set by plan: per thread */
} pa_nms_op;
void pa_nms_plan(pa_nms_op *op);
void pa_nms_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
