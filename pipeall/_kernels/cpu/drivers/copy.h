/* Copies of strided elements: transposes, slices, pads, changes of layout.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing.
 * Where there is a pa_<op>_plan, call it once, after all other fields are set. */
#ifndef PIPEALL_COPY_H
#define PIPEALL_COPY_H

#include "../kernels.h"

enum { PA_COPY_DIMS = 6 };

/* dst[sum i_d * dst_stride[d]] = src[sum i_d * src_stride[d]] for 0 <= i_d < size[d]; of the views only base and
 * offset count. src and dst do not overlap. */
typedef struct pa_copy_op {
    pa_view src, dst;
    int32_t item_bytes;          /* 1, 2, 4 or 8: of an element */
    int32_t rank;                /* <= PA_COPY_DIMS; plan brings size and strides into the order it works in */
    int64_t size[PA_COPY_DIMS];  /* all >= 1 */
    int64_t src_stride[PA_COPY_DIMS], dst_stride[PA_COPY_DIMS];
} pa_copy_op;
void pa_copy_plan(pa_copy_op *op);
void pa_copy_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
