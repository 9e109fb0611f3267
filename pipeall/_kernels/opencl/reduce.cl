/* Kernels that go along axes of a strided tensor: reductions, softmax, normalization, running sums. Bound by memory.
 *
 * A row is what lies along those axes: `outer` times `inner` elements, the outer ones of shape over. LANES work items
 * share a row where that is more than 1: their group is LANES wide. Otherwise each has its own. */
#include "typed.cl"
#ifndef LANES
#define LANES 1 /* work items of a row: a power of two */
#endif
#ifndef LOCAL_ROWS
#define LOCAL_ROWS 64 /* rows of a group where LANES is 1 */
#endif
#ifndef HOW
#define HOW how_sum /* of reduce: one of those below */
#endif
#if LANES > 1
#define KERNEL __kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
#define LANE ((int)get_local_id(0))
#define ROW ((int)get_group_id(0))
#define SHARED __local NUMBER shared[LANES];
#else
#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL_ROWS, 1, 1)))
#define LANE 0
#define ROW ((int)get_global_id(0))
#define SHARED
#endif

/* v: an element; shift: the largest, of how_logsumexp */
#define how_sum_TERM v
#define how_sum_END total
#define how_mean_TERM v
#define how_mean_END total / count
#define how_prod_TERM v
#define how_prod_END total
#define how_max_TERM v
#define how_max_END total
#define how_min_TERM v
#define how_min_END total
#define how_l1_TERM (v < 0 ? -v : v)
#define how_l1_END total
#define how_l2_TERM v *v
#define how_l2_END sqrt(total)
#define how_sumsquare_TERM v *v
#define how_sumsquare_END total
#define how_logsum_TERM v
#define how_logsum_END log(total)
#define how_logsumexp_TERM exp(v - shift)
#define how_logsumexp_END log(total) + shift

static NUMBER added(NUMBER a, NUMBER b) {
    return a + b;
}
static NUMBER multiplied(NUMBER a, NUMBER b) {
    return a * b;
}
#ifndef MERGE
#define MERGE added /* of reduce: added, multiplied, larger or smaller */
#define START 0     /* what it leaves as it is */
#endif
#ifndef SHIFTED
#define SHIFTED 0 /* 1: the terms of HOW need the largest element */
#endif
#define BLOCK 64 /* elements that are summed by themselves: that keeps rounding small */

/* total = merge over all elements v of the row at x of term, known to every lane. */
#define FOLD(total, merge, start, term)                                                                              \
    NUMBER total = start;                                                                                            \
    for (int o = 0; o < outer; o++) {                                                                                \
        const int at_o = dot8(unravel(o, over), over_strides);                                                       \
        for (int i = LANE; i < inner;) {                                                                             \
            NUMBER part = start;                                                                                     \
            for (const int stop = min(inner, i + BLOCK * LANES); i < stop; i += LANES) {                             \
                const NUMBER v = get(x, at_o + i * inner_stride);                                                    \
                part = merge(part, term);                                                                            \
            }                                                                                                        \
            total = merge(total, part);                                                                              \
        }                                                                                                            \
    }                                                                                                                \
    MERGE_LANES(total, merge)
#if LANES > 1
#define MERGE_LANES(total, merge)                                                                                    \
    shared[LANE] = total;                                                                                            \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                    \
    for (int half_ = LANES / 2; half_; half_ /= 2) {                                                                 \
        if (LANE < half_)                                                                                            \
            shared[LANE] = merge(shared[LANE], shared[LANE + half_]);                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                \
    }                                                                                                                \
    total = shared[0];                                                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);
#else
#define MERGE_LANES(total, merge)
#endif

/* What all kernels are given of the tensor: rows of shape and x_strides; along a row outer times inner elements. */
#define ROWS_OF_X                                                                                                    \
    __global const X *x, int x_offset, int8 x_strides, int8 shape, int rows, int outer, int8 over, int8 over_strides,\
        int inner, int inner_stride
#define FIND_ROW                                                                                                     \
    SHARED                                                                                                           \
    const int row = ROW;                                                                                             \
    if (row >= rows)                                                                                                 \
        return;                                                                                                      \
    const int8 at_row = unravel(row, shape);                                                                         \
    x += x_offset + dot8(at_row, x_strides);

/* out[row] = HOW over the row. MERGE and START are those of HOW's terms. */
KERNEL void reduce(ROWS_OF_X, __global Y *out, int out_offset, int8 out_strides) {
    FIND_ROW
    const int count = outer * inner;
#if !WHOLE
    NUMBER shift = 0;
    if (SHIFTED) {
        FOLD(largest, larger, LOWEST, v)
        shift = isinf(largest) ? 0 : largest;
    }
#endif
    FOLD(total, MERGE, START, JOIN(HOW, _TERM))
    if (LANE == 0)
        set(JOIN(HOW, _END), out, out_offset + dot8(at_row, out_strides));
}

/* out[row] = where the largest element of the row is (DIRECTION >) or the smallest (<); of equal ones the first, or the
 * last if `last`. A NaN counts as beyond all others. */
#ifndef DIRECTION
#define DIRECTION >
#endif
KERNEL void arg(ROWS_OF_X, __global long *out, int out_offset, int8 out_strides, int last) {
    FIND_ROW
    NUMBER best = get(x, 0);
    int place = 0;
    for (int i = 1; i < inner; i++) {
        const NUMBER v = get(x, i * inner_stride);
        const int as_good = v == best || (v != v && best != best);
        if ((v != v && best == best) || v DIRECTION best || (last && as_good)) {
            best = v;
            place = i;
        }
    }
    out[out_offset + dot8(at_row, out_strides)] = place;
}

/* out[row][i] = the sum of the elements up to i, or from i on if `reverse`; without i itself if `exclusive`. */
KERNEL void cumsum(ROWS_OF_X, __global Y *out, int out_offset, int8 out_strides, int out_stride, int exclusive,
                   int reverse) {
    FIND_ROW
    out += out_offset + dot8(at_row, out_strides);
    NUMBER sum = 0;
    for (int n = 0; n < inner; n++) {
        const int i = reverse ? inner - 1 - n : n;
        const NUMBER v = get(x, i * inner_stride), before = sum;
        sum += v;
        set(exclusive ? before : sum, out, i * out_stride);
    }
}

#if !WHOLE
/* out[row] = e^x / sum(e^x) along the row, or with LOGARITHM=1 the logarithm of that. The maximum is subtracted first, so
 * exp never overflows. */
#ifndef LOGARITHM
#define LOGARITHM 0
#endif
KERNEL void softmax(ROWS_OF_X, __global Y *out, int out_offset, int8 out_strides, int out_stride) {
    FIND_ROW
    out += out_offset + dot8(at_row, out_strides);
    FOLD(best, larger, LOWEST, v)
    FOLD(sum, added, 0, exp(v - best))
    const float logarithm = log(sum);
    for (int i = LANE; i < inner; i += LANES) {
        const float v = get(x, i * inner_stride) - best;
        set(LOGARITHM ? v - logarithm : exp(v) / sum, out, i * out_stride);
    }
}

/* out[row] = (x - mean) / sqrt(variance + epsilon), the variance being that of the differences from the mean; without
 * `center` x / sqrt(mean of squares + epsilon). */
KERNEL void layernorm(ROWS_OF_X, __global Y *out, int out_offset, int8 out_strides, int8 out_over_strides,
                      int out_stride, float epsilon, int center) {
    FIND_ROW
    const float count = (float)outer * inner;
    float mean = 0;
    if (center) {
        FOLD(sum, added, 0, v)
        mean = sum / count;
    }
    FOLD(squares, added, 0, (v - mean) * (v - mean))
    const float scale = 1 / sqrt(squares / count + epsilon);
    out += out_offset + dot8(at_row, out_strides);
    for (int o = 0; o < outer; o++) {
        const int8 at_o = unravel(o, over);
        const int from = dot8(at_o, over_strides), to = dot8(at_o, out_over_strides);
        for (int i = LANE; i < inner; i += LANES)
            set((get(x, from + i * inner_stride) - mean) * scale, out, to + i * out_stride);
    }
}
#endif
