/* Depthwise convolution and convolution of narrow groups: the driver above their kernel. */
#ifndef PIPEALL_DEPTHWISE_H
#define PIPEALL_DEPTHWISE_H

#include "../kernels.h"

/* dst = clamp(conv(src) + residual, lo, hi), of floats or halves. The struct owns nothing; pa_depthwise_step takes it as `args`. */
typedef struct pa_depthwise_op {
    pa_view src, dst, residual;
    int32_t has_residual, groups;
    pa_window window;
    float lo, hi;
    const void *packed; /* pa_depthwise_pack; 64-byte aligned */
    pa_depthwise_f32_fn kernel;
    int32_t item_bytes, nr; /* of the kernel: of an element, lanes of a vector */
    /* set by plan: */
    pa_grouping grouping;
    int32_t slices, vectors, band, bands, ring_rows, columns; /* vectors and output rows of a unit */
    int32_t lanes[PA_LANES_MAX];
    int64_t scratch_bytes; /* per thread, the ring */
} pa_depthwise_op;

/* Call it once, after all other fields but `packed` are set. */
void pa_depthwise_plan(pa_depthwise_op *op, int threads);
void pa_depthwise_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* Bytes of `packed`, and how to fill it from ONNX order: weight [Cout][Cin / groups][kh][kw], bias [Cout]. */
int64_t pa_depthwise_packed_bytes(const pa_depthwise_op *op);
void pa_depthwise_pack(const pa_depthwise_op *op, const void *weight, const void *bias, void *packed);

#endif
