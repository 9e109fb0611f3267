/* A GEMM of many panels of halves, blocked for the caches, as gemm.h has it of floats. */
#ifndef PIPEALL_GEMM_F16_H
#define PIPEALL_GEMM_F16_H

#include "../dispatch.h"
#include "../kernels_f16.h"

/* The panels of a GEMM: how they lie behind each other, `columns` in all. `sums`: as wide as PA_F16_PANELS panels, for all
 * rows; not read where taps * k are at most PA_F16_BLOCK. */
enum { PA_F16_PANELS = 4 };
typedef struct pa_panels_f16 {
    const pa_kernel_row *kernel;
    int64_t columns;
    uint16_t *sums;
} pa_panels_f16;

/* What the micro-kernel does for all panels. `all` is about the first of them, with taps and k of the whole sum; its n, sums,
 * first and last are not read. */
void pa_gemm_f16_panels(const pa_panels_f16 *p, const pa_gemm_f16_args *all);

#endif
