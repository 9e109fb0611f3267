/* Convolution and fully connected layers by indirect GEMM: the drivers above the GEMM micro-kernels, of floats and of halves. */
#ifndef PIPEALL_CONV_H
#define PIPEALL_CONV_H

#include "../dispatch.h"
#include "../kernels.h"

/* dst (H, W, Cout) = clamp(conv(src (Hin, Win, Cin)) + residual (H, W, Cout), lo, hi). Elements, packed weights, bias and
 * zeros are of float32 or float16; 8-bit integers are in conv_s8.h. */
typedef struct pa_conv_op {
    pa_view src, dst, residual;
    int32_t has_residual;
    int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups;
    float lo, hi;
    int32_t item_bytes; /* of an element of src: its type */
    const pa_kernel_row *kernel;
    const void *weight;  /* packed: [groups][panels][kh * kw * Cin / groups][NR], columns beyond Cout / groups are 0 */
    int32_t f16_weights; /* whether these are in half precision */
    const void *bias;    /* packed: [groups][panels][NR] */
    const void *zero;    /* what padding points to: max(kw * Cin, NR) zeros */
    int64_t kc;          /* products of a block of the sum at most; 0: the sum is one block, however long it is */
    /* set by plan */
    int32_t tap_rows; /* A tap is one contiguous run of the input. 1: a row of the kernel; kh: the whole window; 0: a pixel */
    int64_t row_block, panel_block; /* of a chunk */
    int64_t scratch_bytes;          /* per thread */
} pa_conv_op;

/* Fills the last members from the rest, for a team of `threads`. */
void pa_conv_plan(pa_conv_op *op, int threads);
void pa_conv_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* weight: ONNX order [Cout][Cin / groups][kh][kw], of so many channels a group; packed as pa_conv_op says. */
void pa_conv_pack(const pa_conv_op *op, int64_t channels, const void *weight, const void *bias, void *packed_weight,
                  void *packed_bias);

#endif
