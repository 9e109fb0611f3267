/* Convolution and fully connected layers of 8-bit integers: the drivers above the kernels of kernels_s8.h. */
#ifndef PIPEALL_CONV_S8_H
#define PIPEALL_CONV_S8_H

#include "../kernels_s8.h"
#include "conv.h"

enum { PA_S8_SPARE = 16 }; /* bytes behind a pixel that a GEMM may read: the rest of a depth */

/* What follows a convolution, on results that are in a cache still: they go through `table`, and are added to `residual`.
 * A kernel that is NULL does nothing. */
typedef struct pa_epilogue_s8 {
    pa_lut_s8_fn by_table;
    int8_t table[256];
    pa_add_s8_fn add;
    pa_view residual;
    pa_binary_s8_args sum;
} pa_epilogue_s8;

/* n channels of so many results that follow each other, c_stride apart; r: where the residual of the first lies. */
void pa_epilogue_s8_run(const pa_epilogue_s8 *epilogue, int64_t pixels, int64_t n, int8_t *c, int64_t c_stride,
                        const int8_t *r);

/* conv: its residual is the epilogue's; weights are packed [groups][panels] of what the kernel reads, its bias is of int32_t;
 * zero has PA_S8_SPARE bytes of the zero point more than kw * Cin. */
typedef struct pa_conv_s8_op {
    pa_conv_op conv;
    int32_t depthwise;     /* the kernel is one of depthwise convolutions, and groups is 1; else a GEMM */
    int32_t float_dst;     /* the result is of floats, as a GEMM makes them, and nothing follows */
    int32_t gather_window; /* whether windows of few channels are gathered to one tap; VNNI sets up taps sooner than that */
    pa_requantize to;
    const int32_t *sums;   /* of weights, packed like the bias, as are the scales */
    const float *scale;
    pa_epilogue_s8 epilogue;
} pa_conv_s8_op;

void pa_conv_s8_plan(pa_conv_s8_op *op, int threads);
void pa_conv_s8_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Bytes of the packed weights, after the plan. */
int64_t pa_conv_s8_packed_bytes(const pa_conv_s8_op *op);

/* weight: ONNX order [Cout][Cin / groups][kh][kw]; packed as the kernel reads it. */
void pa_conv_s8_pack(const pa_conv_s8_op *op, const int8_t *weight, void *packed);

#endif
