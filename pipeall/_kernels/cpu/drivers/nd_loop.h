/* The loops over several strided operands of one shape: few axes, the innermost last, and a walk over all but it. */
#ifndef PIPEALL_ND_LOOP_H
#define PIPEALL_ND_LOOP_H

#include "../kernels.h"

enum { AXES_OPERANDS = 4 };

/* Axes of `operands` strided operands; sizes are at least 1, strides in elements of each operand's own type. */
typedef struct pa_axes {
    int32_t rank, operands;
    int64_t size[PA_DIMS], stride[AXES_OPERANDS][PA_DIMS];
} pa_axes;

static inline void axes_set(pa_axes *axes, int to, const pa_axes *from, int at) {
    axes->size[to] = from->size[at];
    for (int k = 0; k < axes->operands; k++) axes->stride[k][to] = from->stride[k][at];
}

static inline int64_t axes_step(const pa_axes *axes, int axis) { /* of the operand that orders the axes, the first */
    const int64_t step = axes->stride[0][axis];
    return step < 0 ? -step : step;
}

/* By falling step in the first operand. */
static inline void axes_sort(pa_axes *axes) {
    const pa_axes given = *axes;
    for (int d = 0; d < given.rank; d++) {
        int at = d;
        for (; at > 0 && axes_step(axes, at - 1) < axes_step(&given, d); at--) axes_set(axes, at, axes, at - 1);
        axes_set(axes, at, &given, d);
    }
}

/* Makes one axis of those that lie one behind the other in all operands. Axes of one position vanish; at least one axis
 * remains. */
static inline void axes_join(pa_axes *axes) {
    int n = 0;
    for (int d = 0; d < axes->rank; d++) {
        if (axes->size[d] == 1) continue;
        int behind = n > 0;
        for (int k = 0; k < axes->operands && behind; k++)
            behind = axes->stride[k][n - 1] == axes->stride[k][d] * axes->size[d];
        const int64_t outer = behind ? axes->size[n - 1] : 1;
        const int to = behind ? n - 1 : n++;
        axes_set(axes, to, axes, d);
        axes->size[to] *= outer;
    }
    axes->rank = n;
    if (n == 0) { /* one element */
        axes->rank = 1, axes->size[0] = 1;
        for (int k = 0; k < axes->operands; k++) axes->stride[k][0] = 1;
    }
}

static inline void axes_merge(pa_axes *axes) {
    axes_sort(axes);
    axes_join(axes);
}

/* Cycles of an element in runs along an axis, as measured: a run is a call or two, and elements of an operand that do not
 * follow one another are loaded or stored one by one. */
static inline double axes_work(const pa_axes *axes, int axis) {
    enum { CALL = 40, ALONE = 1 };
    double work = CALL / (double)axes->size[axis];
    for (int k = 0; k < axes->operands; k++) work += (uint64_t)axes->stride[k][axis] <= 1 ? 0 : ALONE;
    return work;
}

/* Makes the axis of the least work the last. */
static inline void axes_choose_run(pa_axes *axes, double (*work)(const pa_axes *axes, int axis)) {
    const pa_axes given = *axes;
    int best = given.rank - 1;
    for (int d = best - 1; d >= 0; d--)
        if (work(&given, d) < work(&given, best)) best = d;
    for (int d = best; d < given.rank; d++) axes_set(axes, d, &given, d + 1 < given.rank ? d + 1 : best);
}

/* Where a walk over the first `rank` axes is, and each operand's offset there. */
typedef struct walk {
    const pa_axes *axes;
    int rank;
    int64_t at[PA_DIMS], offset[AXES_OPERANDS];
} walk;

static inline walk walk_from(const pa_axes *axes, int rank, int64_t index) {
    walk w = {.axes = axes, .rank = rank};
    for (int d = rank - 1; d >= 0; d--) {
        w.at[d] = index % axes->size[d];
        index /= axes->size[d];
        for (int k = 0; k < axes->operands; k++) w.offset[k] += w.at[d] * axes->stride[k][d];
    }
    return w;
}

static inline void walk_on(walk *w) {
    const pa_axes *axes = w->axes;
    for (int d = w->rank - 1; d >= 0; d--) {
        w->at[d]++;
        for (int k = 0; k < axes->operands; k++) w->offset[k] += axes->stride[k][d];
        if (w->at[d] < axes->size[d]) return;
        for (int k = 0; k < axes->operands; k++) w->offset[k] -= axes->size[d] * axes->stride[k][d];
        w->at[d] = 0;
    }
}

static inline int64_t positions(const pa_axes *axes, int rank) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= axes->size[d];
    return count;
}

/* A walk over elements of all axes in runs along the last of them. */
typedef struct runs {
    walk w;
    int last;
    int64_t from, left;        /* in the last axis; of all elements */
    int64_t at[AXES_OPERANDS]; /* where the run begins in each operand */
} runs;

static inline runs runs_over(const pa_axes *axes, int64_t begin, int64_t end) {
    const int last = axes->rank - 1;
    if (begin == 0) return (runs){walk_from(axes, last, 0), last, 0, end, {0}};
    return (runs){walk_from(axes, last, begin / axes->size[last]), last, begin % axes->size[last], end - begin, {0}};
}

/* The length of the next run, `most` at most; 0 at the end. */
static inline int64_t next_run(runs *r, int64_t most) {
    const pa_axes *axes = r->w.axes;
    const int64_t room = axes->size[r->last] - r->from, limit = room < most ? room : most;
    const int64_t n = limit < r->left ? limit : r->left;
    for (int k = 0; k < axes->operands; k++) r->at[k] = r->w.offset[k] + r->from * axes->stride[k][r->last];
    r->from += n, r->left -= n;
    if (r->from == axes->size[r->last]) {
        r->from = 0;
        walk_on(&r->w);
    }
    return n;
}

#endif
