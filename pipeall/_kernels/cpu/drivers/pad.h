/* Padding: a constant around a tensor, or its own elements once more.
 * The op is a struct that its step function takes as `args`; the struct owns nothing. */
#ifndef PIPEALL_PAD_H
#define PIPEALL_PAD_H

#include "nd_loop.h"

#define PA_OUTSIDE INT64_MIN /* a position that no element of src has */

/* A row of dst: `before` elements, `inside` ones as they lie in a row of src, and `after`. Where a row of src lies is the sum
 * of what the tables say of each axis of `rows`; a row that is outside along one of them is `value` all over. */
typedef struct pa_pad_op {
    pa_strided src, dst;
    pa_axes rows;                   /* operand: dst; one axis at least */
    const int64_t *from[PA_DIMS];   /* of each axis of rows: where its positions lie in src, or PA_OUTSIDE */
    int64_t before, inside, after;
    int64_t src_step, dst_step;     /* along a row */
    const int64_t *margins;         /* where those before and after lie in a row of src; NULL: they are `value` */
    uint64_t value;                 /* the bits of an element */
} pa_pad_op;
void pa_pad_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
