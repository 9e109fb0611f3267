/* Resizing of any axes of a strided tensor: every output position is a weighted sum of input positions, axis by axis.
 * The op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_RESIZE_H
#define PIPEALL_RESIZE_H

#include "../../intmath.h"
#include "../kernels_resize.h"
#include "../kernels_s8.h"

/* One dimension of the output. Position i is the sum over k < taps of weight[i * taps + k] times position
 * index[i * taps + k] of the input, which whoever builds the step has checked; taps 0: position i is that of the input. */
typedef struct pa_resize_axis {
    int64_t size, src, dst; /* strides in elements */
    int64_t taps;
    const int32_t *index;
    const float *weight;
} pa_resize_axis;

/* Integers that stand for real numbers, which are floats while they are summed: the weights of one axis are those of real
 * numbers times src's scale over dst's, and at most two axes have taps. */
typedef struct pa_resize_s8 {
    const pa_kernel_row *dequantize;
    const pa_kernel_row *quantize; /* NULL: floats, or moves */
    int32_t src_zero, dst_zero;
    int64_t window; /* set by plan: pixels of src, or rows of planes, that scratch holds as floats */
} pa_resize_s8;

typedef struct pa_resize_op {
    pa_strided src, dst;
    int32_t moves; /* every axis has 0 or 1 taps and all weights are 1: elements of any type are moved */
    int32_t rank;
    pa_resize_axis axis[PA_DIMS]; /* those of dst in order; plan keeps those of the outer loops */
    const pa_kernel_row *kernel; /* unless it moves */
    const pa_kernel_row *upsample; /* likewise */
    pa_resize_s8 s8;

    /* Set by plan. A plane has y.size rows of x.size pixels; a pixel is `run` elements, contiguous in src and dst. An axis
     * that is missing has size 1 and no taps. Integers without taps along x have pixels of one element. */
    pa_resize_axis y, x;
    int64_t run;
    int64_t band, part; /* rows of a chunk; pixels of a part of a row: parts are computed in turn */
    int64_t factor, phase_offset; /* by which x is upsampled (kernels_resize.h), or 0 */
    int64_t width;  /* floats of a row that the taps of x read, where resize_planar.c computes; else 0 */
    int64_t lines;  /* with a width: rows that scratch holds */
    int32_t across; /* with a width: sums go across first, then down */
    int64_t repeats; /* moves that write each single element so many times in a row; 0: moves by the indices */
    int64_t outer_taps; /* taps of a pixel over all axes, where outer axes have some; else 0 */
    int64_t scratch_bytes; /* per thread, a multiple of 64 */
} pa_resize_op;

/* How many positions from i on, of those before `end`, are sums of the same ones. */
static inline int64_t pa_resize_alike(const pa_resize_axis *axis, int64_t i, int64_t end) {
    const int64_t taps = axis->taps, first = i * taps;
    int64_t at = first + taps;
    while (at < end * taps && axis->index[at] == axis->index[at - taps]) at++;
    return at / taps - i;
}

/* The least of some indices, and how many positions there are from it to the largest. */
static inline int64_t pa_resize_reach(const int32_t *index, int64_t n, int64_t *count) {
    int32_t least = index[0], most = least;
    for (int64_t i = 1; i < n; i++) {
        least = index[i] < least ? index[i] : least;
        most = index[i] > most ? index[i] : most;
    }
    *count = most - least + 1;
    return least;
}

/* A part of the scratch of a thread, `used` bytes of which are taken; scratch NULL: the bytes are counted. */
static inline void *pa_resize_taken(char *scratch, int64_t *used, int64_t bytes) {
    const int64_t at = *used;
    *used += round_up(bytes, 64);
    return scratch ? scratch + at : NULL;
}

/* Once, after the fields before are set, for a team of `threads`. */
void pa_resize_plan(pa_resize_op *op, int threads);
void pa_resize_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* ---- Planes, whose elements lie side by side along x: some rows at a time (resize_planar.c). ---- */

/* Sets width, lines, across and, where there is a width, scratch_bytes; after y, x, run, band and outer_taps. */
void pa_resize_planar_plan(pa_resize_op *op);
/* Rows [begin, end) of one plane of floats or integers, from element 0 of src to element 0 of dst; op has a width. */
void pa_resize_planar_rows(const pa_resize_op *op, const void *src, void *dst, char *scratch, int64_t begin, int64_t end);

/* ---- Images that grow 2 or 4 times along x (resize_planar.c). ---- */

/* Sets factor and phase_offset, or factor to 0 where x does not grow so; after x, run and outer_taps. */
void pa_upsample_plan(pa_resize_op *op);
/* Whether vectors of channels of floats grow, down by as many taps: then pa_upsample_rows computes them, without scratch. */
int pa_upsample_whole(const pa_resize_op *op);
/* Rows [begin, end) from element 0 of src to element 0 of dst. */
void pa_upsample_rows(const pa_resize_op *op, const float *src, float *dst, int64_t begin, int64_t end);

/* A ring holds rows that are sums across, as the sums down need them, so that each is made once. Slot slot[k] holds row
 * needed[k], that of tap k. Rows that no tap needs are given up for those that are missing: returns how many these are,
 * missing[i] being the slot of each; held[slot] says which row it has to be. All arrays have `taps` elements, held -1 for
 * none. */
static inline int64_t cache_rows(int64_t taps, const int32_t *needed, int32_t *held, int32_t *slot, int32_t *missing) {
    int64_t count = 0;
    for (int64_t k = 0; k < taps; k++) {
        slot[k] = -1;
        for (int64_t i = 0; i < taps && slot[k] < 0; i++)
            if (held[i] == needed[k]) slot[k] = (int32_t)i;
    }
    for (int64_t k = 0; k < taps; k++) {
        int64_t i = 0;
        while (i < taps && held[i] != needed[k]) i++; /* an earlier tap may miss it too */
        if (i == taps) {
            int used = 1;
            for (i = -1; used;) {
                i++;
                used = 0;
                for (int64_t other = 0; other < taps; other++) used |= slot[other] == i;
            }
            missing[count++] = (int32_t)i;
            held[i] = needed[k];
        }
        slot[k] = (int32_t)i;
    }
    return count;
}

#endif
