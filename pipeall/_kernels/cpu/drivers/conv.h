/* Convolution and fully connected layers by indirect GEMM: the driver above the GEMM micro-kernels. */
#ifndef PIPEALL_CONV_H
#define PIPEALL_CONV_H

#include "../kernels.h"

typedef struct pa_conv_op {
    pa_view src, dst, residual;
    int32_t has_residual;
    int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups;
    float lo, hi;
    const float *weight; /* packed: [groups][panels][kh * kw * Cin / groups][NR], columns beyond Cout / groups are 0 */
    int32_t f16_weights;    /* 1: the packed weights are in half precision, two of them in the place of a float */
    const float *bias;   /* packed: [groups][panels][NR] */
    const float *zero;   /* max(kw * Cin, NR) zeros: what padding points to */
    pa_gemm_f32_fn gemm;
    int32_t mr, nr;
    int32_t one_block;       /* the sum is not cut into blocks of k, however long it is */
    int32_t tap_rows;            /* of the kernel that are a tap, one run of floats: 1 or kh; 0: a pixel is (pa_conv_plan) */
    int64_t row_block;       /* rows of a chunk */
    int64_t panel_block;     /* panels of a chunk */
    int64_t scratch_floats;  /* per thread */
} pa_conv_op;

/* Fills tap_rows, row_block, panel_block and scratch_floats from the rest, for a team of `threads`. */
void pa_conv_plan(pa_conv_op *args, int threads);
void pa_conv_step(const void *args, void *const *bases, void *scratch, pa_team *team);

/* weight: ONNX order [Cout][Cin / groups][kh][kw]; packed as pa_conv_op says, of floats or of halves. */
void pa_conv_pack(const void *weight, const void *bias, int64_t cout, int64_t cin_group, int64_t taps, int32_t groups,
                  int32_t nr, int32_t f16_weights, float *packed_weight, float *packed_bias);

#endif
