/* A GEMM of many panels, blocked for the caches: the drivers of convolution call it, it calls the micro-kernel. */
#ifndef PIPEALL_GEMM_H
#define PIPEALL_GEMM_H

#include "../dispatch.h"
#include "../kernels.h"

enum {
#ifdef __aarch64__
    GEMM_KC = 192, /* 192 x 8 floats = 6 KB of B beside three tiles of A, 18 KB, in an L1 of 32 KB */
#else
    GEMM_KC = 640, /* 640 x 16 floats = 40 KB of B, from L2: half would fit L1, but C is read and written per part */
#endif
};

/* The micro-kernel and how panels lie behind each other: `columns` in all, those of B and bias so many floats apart.
 * kc: k of a part of the sum at most; a part is whole taps while they fit, else a part of one tap. */
typedef struct pa_panels {
    const pa_kernel_row *kernel;
    int64_t columns, b_step, bias_step, kc;
} pa_panels;

/* What the micro-kernel does (pa_gemm_f32_fn) for all panels. `all` is about the first of them, without n; its `next` is
 * read after all the others. Results depend on kc, not on the rest of the blocking. */
void pa_gemm_panels(const pa_panels *p, const pa_gemm_args *all);

#endif
