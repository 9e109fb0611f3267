/* Loops over an index space of any rank, with an offset into each of up to three strided operands. */
#ifndef PIPEALL_WALK_H
#define PIPEALL_WALK_H

#include "../kernels.h"

enum { PA_WALK_OPERANDS = 3 };

/* Dimensions outermost first, sizes at least 1; steps in elements of the operand. */
typedef struct pa_walk {
    int32_t rank, operands;
    int64_t size[PA_DIMS];
    int64_t step[PA_WALK_OPERANDS][PA_DIMS];
} pa_walk;

typedef struct walker {
    int64_t at[PA_DIMS], offset[PA_WALK_OPERANDS];
} walker;

/* Dimensions of one position are left out, those that lie one behind the other for all operands become one. */
static inline void walk_merge(pa_walk *w) {
    int rank = 0;
    for (int d = 0; d < w->rank; d++) {
        if (w->size[d] == 1) continue;
        int joins = rank > 0;
        for (int o = 0; o < w->operands && joins; o++) joins = w->step[o][rank - 1] == w->step[o][d] * w->size[d];
        if (joins)
            w->size[rank - 1] *= w->size[d];
        else
            w->size[rank++] = w->size[d];
        for (int o = 0; o < w->operands; o++) w->step[o][rank - 1] = w->step[o][d];
    }
    w->rank = rank;
}

/* Positions of the first `rank` dimensions. */
static inline int64_t walk_count(const pa_walk *w, int rank) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= w->size[d];
    return count;
}

static inline walker walk_from(const pa_walk *w, int rank, int64_t position) {
    walker found = {{0}, {0}};
    for (int d = rank - 1; d >= 0; d--) {
        found.at[d] = position % w->size[d];
        position /= w->size[d];
        for (int o = 0; o < w->operands; o++) found.offset[o] += found.at[d] * w->step[o][d];
    }
    return found;
}

static inline void walk_on(const pa_walk *w, int rank, walker *to) {
    for (int d = rank - 1; d >= 0; d--) {
        for (int o = 0; o < w->operands; o++) to->offset[o] += w->step[o][d];
        if (++to->at[d] < w->size[d]) return;
        for (int o = 0; o < w->operands; o++) to->offset[o] -= w->size[d] * w->step[o][d];
        to->at[d] = 0;
    }
}

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
#define MOVE_RUN(type)                                                                                            \
    case sizeof(type): {                                                                                          \
        const type *from = src;                                                                                   \
        type *to = dst;                                                                                           \
        for (int64_t i = 0; i < n; i++) to[i * dst_step] = from[i * src_step];                                    \
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

#endif
