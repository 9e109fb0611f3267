/* Convolution and fully connected layers of halves: the drivers above the GEMM micro-kernels of kernels_f16.h. */
#ifndef PIPEALL_CONV_F16_H
#define PIPEALL_CONV_F16_H

#include "../kernels_f16.h"

/* Members as in pa_conv_op. */
typedef struct pa_conv_f16_op {
    pa_view src, dst, residual;
    int32_t has_residual;
    int32_t kh, kw, stride_y, stride_x, pad_top, pad_left, dilation_y, dilation_x, groups;
    float lo, hi;
    const uint16_t *weight, *zero, *bias;
    pa_gemm_f16_fn gemm;
    int32_t mr, nr;
    int32_t tap_rows;
    int64_t row_block, panel_block, scratch_bytes; /* per thread */
} pa_conv_f16_op;

/* Fills tap_rows, row_block, panel_block and scratch_bytes from the rest, for a team of `threads`. */
void pa_conv_f16_plan(pa_conv_f16_op *op, int threads);
void pa_conv_f16_step(const void *op, void *const *bases, void *scratch, pa_team *team);

/* The panels of a GEMM: how they lie behind each other, `columns` in all. `sums`: as wide as PA_F16_PANELS panels, for all
 * rows; not read where taps * k are at most PA_F16_BLOCK. */
enum { PA_F16_PANELS = 4 };
typedef struct pa_panels_f16 {
    pa_gemm_f16_fn kernel;
    int32_t mr, nr;
    int64_t columns;
    uint16_t *sums;
} pa_panels_f16;

/* What the micro-kernel does for all panels. `all` is about the first of them, with taps and k of the whole sum; its n, sums,
 * first and last are not read. */
void pa_gemm_f16_panels(const pa_panels_f16 *p, const pa_gemm_f16_args *all);

#endif
