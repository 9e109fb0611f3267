/* Steps that fold axes of a strided operand: reductions, the place of a maximum, running sums.
 * Each op is a struct that its step function takes as `args`; the struct owns nothing. Call pa_<op>_plan once, after all
 * other fields are set. src and dst have one rank; dst's size is 1 along the axes that are folded. */
#ifndef PIPEALL_REDUCE_H
#define PIPEALL_REDUCE_H

#include "../kernels.h"
#include "nd_loop.h"

/* What becomes of the fold of all elements. LOG_SHIFTED: the logarithm of the sum of e^(x - shift), plus shift, which is the
 * largest element. */
enum { PA_FINISH_NONE, PA_FINISH_MEAN, PA_FINISH_ROOT, PA_FINISH_LOG, PA_FINISH_LOG_SHIFTED };

typedef struct pa_reduction {
    const char *name;
    int fold, finish;
} pa_reduction;
extern const pa_reduction pa_reductions[]; /* the lines of reductions.inc */
extern const int pa_reduction_count;

/* dst is of src's type: float32, or an integer or bool, which are folded in 64 bits and lose what their type lacks. */
typedef struct pa_reduce_op {
    pa_strided src, dst;
    int32_t fold, finish; /* pa_reduction */
    int32_t folded[PA_DIMS]; /* whether along an axis */
    const pa_kernel_row *reduce, *reduce_columns, *unary;
    /* set by plan */
    pa_axes kept, inner; /* of src, dst; of src */
    int32_t columns;     /* whether the last kept axis is folded side by side */
    int64_t units, pieces, scratch_bytes;
} pa_reduce_op;
void pa_reduce_plan(pa_reduce_op *op);
void pa_reduce_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* dst, int64: the index along an axis of its largest or smallest element, a NaN being both; the first or the last of
 * equals. */
typedef struct pa_argmax_op {
    pa_strided src, dst;
    int32_t axis, least, last;
    const pa_kernel_row *reduce, *argmax_rows, *argmax_columns;
    pa_axes kept; /* set by plan: of src, dst */
    int32_t columns;
} pa_argmax_op;
void pa_argmax_plan(pa_argmax_op *op);
void pa_argmax_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* dst, of src's shape and type: sums along an axis up to each element, that one left out where exclusive; from the end
 * where reverse. Floats are summed in double precision. */
typedef struct pa_cumsum_op {
    pa_strided src, dst;
    int32_t axis, exclusive, reverse;
    pa_axes kept; /* set by plan: of dst, src */
} pa_cumsum_op;
void pa_cumsum_plan(pa_cumsum_op *op);
void pa_cumsum_step(const void *op, void *const *bases, void *scratch, pa_team *team);

static inline float pa_reduce_one(const pa_kernel_row *reduce, int how, int64_t n, const float *x, float shift) {
    float out;
    PA_FUNCTION(reduce, f32, reduce)(how, 1, n, x, 0, shift, &out);
    return out;
}

/* The axes of two operands of one shape but that one. */
void pa_kept_axes(const pa_strided *first, const pa_strided *second, int axis, pa_axes *kept);

/* The axes of src and dst but those folded, and those of src, and of dst if `both`, that are. */
void pa_fold_axes(const pa_strided *src, const pa_strided *dst, const int32_t *folded, pa_axes *kept, pa_axes *inner,
                  int both);

/* Folds (PA_FOLD_...) of elements [begin, end) of the inner axes of p, of which `inner` and the kernels are read: of one
 * output, the first of whose elements is at x, or of up to PA_FOLD_COLUMNS side by side. PA_FOLD_LEAST are worth that. */
enum { PA_FOLD_COLUMNS = 1024, PA_FOLD_LEAST = 4 };
double pa_fold_elements(const pa_reduce_op *p, int fold, const float *x, int64_t begin, int64_t end, float shift);
void pa_fold_columns(const pa_reduce_op *p, int fold, const float *x, int64_t columns, int64_t begin, int64_t end,
                     const float *shift, double *totals);
/* The means of all elements of the inner axes and the sums of the squares of what they differ from them, of up to
 * PA_FOLD_COLUMNS outputs side by side: memory is read once. */
void pa_moments_columns(const pa_reduce_op *p, const float *x, int64_t columns, double *mean, double *squares);

#endif
