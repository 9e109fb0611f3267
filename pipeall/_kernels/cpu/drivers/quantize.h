/* Steps on elements that lie on levels: integers of real numbers and back, tables, sums and products of integers. */
#ifndef PIPEALL_QUANTIZE_H
#define PIPEALL_QUANTIZE_H

#include "../kernels_s8.h"
#include "nd_loop.h"

enum { PA_QUANTIZE, PA_DEQUANTIZE, PA_TABLE, PA_INTEGERS };

/* form        src, dst            what an element becomes (kernels_s8.h)
 * QUANTIZE    f32, s8 or u8       its nearest integer by `scale` and `zero`
 * DEQUANTIZE  s8, u8 or s32, f32  (x - zero) * scale
 * TABLE       s8, s8              its entry of `table`
 * INTEGERS    two s8, s8          their sum or product */
typedef struct pa_quantize_op {
    pa_strided src[2], dst; /* of one shape */
    int32_t form;
    float scale;
    int32_t zero;
    int8_t table[256];
    pa_binary_s8_args args;
    const pa_kernel_row *quantize, *dequantize, *by_table, *integers;
    pa_axes axes;    /* set by plan, as is the next */
    int32_t in_rows; /* many rows of the last axis are one run, by copies of the second operand */
} pa_quantize_op;
void pa_quantize_plan(pa_quantize_op *op);
void pa_quantize_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
