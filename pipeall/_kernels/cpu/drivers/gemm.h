/* A GEMM of many panels, blocked for the caches: the drivers of convolution call it, it calls the micro-kernel. */
#ifndef PIPEALL_GEMM_H
#define PIPEALL_GEMM_H

#include "../dispatch.h"
#include "../kernels_f16.h"
#include "../kernels_s8.h"

/* The micro-kernel and how panels lie behind each other: `columns` in all, those of B and bias so many elements apart.
 * kc: k of a block of the sum at most; a block is whole taps while they fit, else a part of one tap. 0: there is one block. */
typedef struct pa_panels {
    const pa_kernel_row *kernel;
    int64_t columns, b_step, bias_step, kc;
} pa_panels;

/* What the micro-kernel does for all panels. `all` is about the first of them, without n; its `next` is read after all the
 * others. Results depend on kc, not on the rest of the blocking. */
void pa_gemm_f32_panels(const pa_panels *p, const pa_gemm_args *all);

/* The same of halves. kc is PA_F16_BLOCK at most. `sums` are as wide as PA_F16_PANELS panels, for all rows, and not read where
 * there is one block; first and last are not read. */
enum { PA_F16_PANELS = 4 };
void pa_gemm_f16_panels(const pa_panels *p, const pa_gemm_f16_args *all);

/* The same of integers. kc is 0. */
void pa_gemm_s8_panels(const pa_panels *p, const pa_gemm_s8_args *all);

#endif
