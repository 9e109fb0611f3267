/* Convolution by Winograd's minimal filtering, with strides by their phases: the driver above its transforms and the GEMM
 * micro-kernels. */
#ifndef PIPEALL_WINOGRAD_H
#define PIPEALL_WINOGRAD_H

#include "conv.h"
#include "conv_s8.h"
#include "../kernels_f16.h"
#include "space_to_depth.h"

/* Where src and dst are integers: what is computed are the real numbers over the scale of the output, so that weights, bias
 * and bounds are those of the model by the scale of the input and over that of the output. dequantize is NULL elsewhere. */
typedef struct pa_winograd_s8 {
    pa_dequantize_s8_fn dequantize;
    pa_quantize_s8_fn quantize;
    int32_t src_zero, dst_zero;
    pa_epilogue_s8 epilogue;
} pa_winograd_s8;

/* Where src and dst are halves, as are transformed weights, bias and zeros: the op's own input and output are not read. NULL
 * elsewhere. */
typedef struct pa_winograd_f16 {
    pa_winograd_input_f16_fn input;
    pa_winograd_output_f16_fn output;
} pa_winograd_f16;

typedef struct pa_winograd_op {
    pa_conv_op conv; /* geometry, operands, bias, zero (all channels), GEMM kernel; weight as packed for the GEMM */
    int32_t n, m;    /* tiles of n x n points give m x m pixels; n = m + kh - 1 is 4, 6 or 8, kh = kw 3 to 5 */
    pa_space_to_depth phases; /* of strides above 1: of them kh and kw are taps, and conv.src is what they are phases of */
    pa_winograd_input_f32_fn input;
    pa_winograd_weight_f32_fn transform;
    pa_winograd_output_f32_fn output;
    pa_winograd_s8 s8;
    pa_winograd_f16 f16;
    int32_t lazy;            /* weights are transformed anew in every frame */
    const void *transformed; /* else what pa_winograd_transform made of them */

    int32_t tiles_y, tiles_x;
    int32_t k_blocks;      /* of the channels of a group: the blocks of the GEMMs' sums */
    int64_t kc;           /* channels of a block */
    int64_t block, split; /* tiles transformed at a time; of them, tiles of a chunk */
    int64_t panel_block;  /* panels of a chunk */
    int64_t scratch_floats; /* per thread */
} pa_winograd_op;

/* Fills what follows transformed, and rows and columns of phases, for a team of `threads`; the rest of phases, conv, n, m and
 * lazy are set. */
void pa_winograd_plan(pa_winograd_op *op, int threads);
int64_t pa_winograd_transformed_floats(const pa_winograd_op *op);
/* Transforms conv.weight into `transformed`, after the plan. */
void pa_winograd_transform(const pa_winograd_op *op, float *transformed);
/* The same into halves; `room`, floats, is for them all on the way. */
void pa_winograd_transform_f16(const pa_winograd_op *op, float *room, uint16_t *halves);
void pa_winograd_step(const void *op, void *const *bases, void *scratch, pa_team *team);

#endif
