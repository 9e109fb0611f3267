/* Reference GEMM micro-kernel: the contract of kernels_s8.h in plain C. */
#include "requantize.h"

enum { MR = 4, NR = 8, DEPTH = 4 };

void pa_gemm_s8_ref_4x8(const pa_gemm_s8_args *g) {
    const int8_t *const *rows = g->a;
    for (int64_t tile = 0, row = 0; tile < g->tiling.tiles; tile++, rows += g->a_step) {
        for (int i = 0; i < pa_tile_rows(&g->tiling, tile); i++, row++) {
            for (int j = 0; j < g->n; j++) {
                const int8_t *b = g->b + j * DEPTH;
                int32_t sum = g->bias[j];
                for (int t = 0; t < g->taps; t++) {
                    const int8_t *a = rows[t * MR + i];
                    for (int64_t k = 0; k < g->k; k += DEPTH, b += NR * DEPTH)
                        for (int d = 0; d < DEPTH; d++) sum += a[k + d] * b[d];
                }
                const int64_t at = row * g->c_stride + j;
                if (g->float_dst)
                    ((float *)g->c)[at] = pa_real(sum, g->scale[j], &g->to);
                else
                    ((int8_t *)g->c)[at] = pa_requantized(sum, g->scale[j], &g->to);
            }
        }
    }
}
