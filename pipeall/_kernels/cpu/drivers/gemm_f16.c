/* Panels of a GEMM of halves in an order that suits the caches: as gemm.c has it, but for the sums of long layers, which lie
 * beside the output. They are of a few panels only, and stay in L1 or L2 until they are whole. */
#include "gemm_f16.h"

#include "../../intmath.h"

enum {
    LINE = 32,        /* halves of a cache line */
    L1_A = 16 << 10,  /* bytes of tiles that stay in L1 while panels pass by, beside one of B and lines of C */
};

/* So many panels, from `panel` on, of one block of the sum. */
static void add_block(const pa_panels_f16 *p, const pa_gemm_f16_args *block, int64_t panel, int64_t panels,
                      int64_t b_step) {
    const int64_t k = block->taps * block->k, wide = PA_F16_PANELS * p->kernel->nr;
    const int64_t tiles = max64(L1_A / (k * p->kernel->mr * (int64_t)sizeof(uint16_t)), 1);
    for (int64_t tile = 0; tile < block->tiling.tiles; tile += tiles) {
        const int64_t row = pa_rows_before(&block->tiling, tile);
        pa_gemm_f16_args g = *block;
        g.tiling = pa_tiling_part(&block->tiling, tile, tiles);
        g.a += tile * g.a_step;
        g.sums_stride = wide;
        for (int64_t i = 0; i < panels; i++) {
            const int64_t column = (panel + i) * p->kernel->nr;
            g.n = (int32_t)min64(p->kernel->nr, p->columns - column);
            g.b = block->b + (panel + i) * b_step;
            g.next = i + 1 < panels ? g.b + b_step : block->next;
            g.sums = p->sums + row * wide + i * p->kernel->nr;
            g.bias = block->bias + column;
            g.c = block->c + row * g.c_stride + column;
            if (block->r) g.r = block->r + row * g.r_stride + column;
            PA_FUNCTION(gemm, f16, p->kernel)(&g);
        }
    }
}

void pa_gemm_f16_panels(const pa_panels_f16 *p, const pa_gemm_f16_args *all) {
    const int64_t k = all->k, blocks = ceil_div(k, PA_F16_BLOCK), k_step = min64(round_up(ceil_div(k, blocks), LINE), k);
    const int64_t taps = all->taps, tap_step = k < PA_F16_BLOCK ? min64(PA_F16_BLOCK / k, taps) : 1;
    const int64_t count = ceil_div(p->columns, p->kernel->nr), b_step = taps * k * p->kernel->nr;
    for (int64_t panel = 0; panel < count; panel += PA_F16_PANELS) {
        const int64_t panels = min64(PA_F16_PANELS, count - panel);
        for (int64_t t = 0; t < taps; t += tap_step) {
            for (int64_t k0 = 0; k0 < k; k0 += k_step) {
                pa_gemm_f16_args block = *all;
                block.first = t == 0 && k0 == 0;
                block.last = t + tap_step >= taps && k0 + k_step >= k;
                block.taps = (int32_t)min64(tap_step, taps - t);
                block.k = min64(k_step, k - k0);
                block.a_offset += k0;
                block.a += t * p->kernel->mr;
                block.b += (t * k + k0) * p->kernel->nr;
                block.next = block.b + panel * b_step + block.taps * block.k * p->kernel->nr;
                add_block(p, &block, panel, panels, b_step);
            }
        }
    }
}
