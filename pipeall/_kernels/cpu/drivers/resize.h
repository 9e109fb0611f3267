/* Resizing of any axes of a strided tensor: every output position is a weighted sum of input positions, axis by axis.
 * The op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_RESIZE_H
#define PIPEALL_RESIZE_H

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

/* Where integers are summed, as floats (resize_s8.h). */
typedef struct pa_resize_s8 {
    const pa_kernel_row *dequantize;
    const pa_kernel_row *quantize; /* NULL: floats, or moves */
    int32_t src_zero, dst_zero;
    /* set by plan: pixels, of planes rows, of src that are floats together; whether no index of x falls */
    int64_t window;
    int32_t is_monotonic;
} pa_resize_s8;

typedef struct pa_resize_op {
    pa_strided src, dst;
    int32_t moves; /* every axis has 0 or 1 taps and all weights are 1: elements of any type are moved */
    int32_t rank;
    pa_resize_axis axis[PA_DIMS]; /* those of dst in order; plan keeps those of the outer loops */
    const pa_kernel_row *kernel; /* unless it moves */
    const pa_kernel_row *upsample; /* likewise */
    pa_resize_s8 s8;

    /* set by plan: rows y of x.size pixels of `run` elements that lie one behind the other on both sides; an axis that is
     * not there has size 1 and no taps, or, for integers, has the elements of the run as pixels of one */
    pa_resize_axis y, x;
    int64_t run;
    int64_t band, part; /* rows of a chunk; pixels of the parts of rows that are computed one after the other */
    int64_t factor, phase_offset; /* upsample.h */
    /* planes: floats of a row that taps of x need, single and rising ones, or 0; rows of scratch; whether they are summed
     * across first, then down */
    int64_t width, lines;
    int32_t across;
    int64_t repeats; /* moves of single elements that lie side by side: each so many times; 0: as the indices say */
    int64_t outer_taps; /* product of the taps of all axes, if outer axes have some: then pixels are computed one by one */
    int64_t scratch_bytes; /* per thread, a multiple of 64 */
} pa_resize_op;

/* How many positions from i on, of those before `end`, are sums of the same ones. */
static inline int64_t pa_resize_alike(const pa_resize_axis *axis, int64_t i, int64_t end) {
    const int64_t taps = axis->taps, first = i * taps;
    int64_t at = first + taps;
    while (at < end * taps && axis->index[at] == axis->index[at - taps]) at++;
    return at / taps - i;
}

/* Once, after the fields before are set, for a team of `threads`. */
void pa_resize_plan(pa_resize_op *op, int threads);
void pa_resize_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
