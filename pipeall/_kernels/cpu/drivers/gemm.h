/* A GEMM of many panels, blocked for the caches: the drivers of convolution call it, it calls the micro-kernel. */
#ifndef PIPEALL_GEMM_H
#define PIPEALL_GEMM_H

#include "../../intmath.h"
#include "../dispatch.h"
#include "../kernels_f16.h"
#include "../kernels_s8.h"

/* Rows of A as the micro-kernels want them, MR pointers a tile: so many bytes from each to the next. */
static inline void pa_point_rows(void *pointers, const pa_tiling *tiling, int mr, const void *row, int64_t bytes) {
    const char *at = row, **to = pointers;
    for (int64_t tile = 0; tile < tiling->tiles; tile++, to += mr)
        for (int64_t i = 0; i < pa_tile_rows(tiling, tile); i++, at += bytes) to[i] = at;
}

/* The micro-kernel and how panels lie behind each other: `columns` in all, those of B and bias so many elements apart.
 * kc: k of a block of the sum at most; a block is whole taps while they fit, else a part of one tap. 0: there is one block.
 * a_tile: elements of A that a tile reads and the one before it does not; 0: all of its own. */
typedef struct pa_panels {
    const pa_kernel_row *kernel;
    int64_t columns, b_step, bias_step, kc, a_tile;
    int64_t first, all; /* of pa_gemm_s8_panels: the first one here, of so many that B has */
} pa_panels;

/* Blocks of a sum: of so many taps, and of so many k of each. */
typedef struct pa_blocks {
    int64_t taps, k;
} pa_blocks;

/* line: k of a block are a multiple of it; of a kc of 0 there is one block. */
static inline pa_blocks pa_blocks_of(int64_t taps, int64_t k, int64_t kc, int64_t line) {
    if (!kc) return (pa_blocks){taps, k};
    return (pa_blocks){k < kc ? min64(kc / k, taps) : 1, min64(round_up(ceil_div(k, ceil_div(k, kc)), line), k)};
}

/* What the micro-kernel does for all panels. `all` is about the first of them, without n; its `next` is read after all the
 * others. Results depend on kc, not on the rest of the blocking. */
void pa_gemm_f32_panels(const pa_panels *p, const pa_gemm_args *all);

/* The same of weights of two bytes each, which b_step counts. */
void pa_gemm_f32_w16_panels(const pa_panels *p, const pa_gemm_args *all);

/* The same of halves. kc is PA_F16_BLOCK at most. `sums` are as wide as PA_F16_PANELS panels, for all rows. Unless `last` the
 * sums of all blocks stay there, of so many panels at most; unless `first` they go on. */
enum { PA_F16_PANELS = 4 };
void pa_gemm_f16_panels(const pa_panels *p, const pa_gemm_f16_args *all);

/* The same of integers. kc is 0 for kernels without PA_PARTS. With it PA_S8_LINE columns at a time are made whole, in `sums`,
 * which are as wide, and what a block reads of their panels lies together: B is [PA_S8_LINE columns][block][panel][tap][k]. */
enum { PA_S8_LINE = 64 /* columns: a cache line of C */, PA_S8_K = 16 /* of a block a multiple */ };
static inline int64_t pa_s8_panels(const pa_kernel_row *kernel) { return PA_S8_LINE / kernel->nr; }
void pa_gemm_s8_panels(const pa_panels *p, const pa_gemm_s8_args *all);

#endif
