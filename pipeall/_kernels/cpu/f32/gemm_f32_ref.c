/* Reference GEMM micro-kernel: the contract of kernels.h in plain C. */
#include <math.h>

#include "../kernels.h"

enum { MR = 4, NR = 8 };

void pa_gemm_f32_ref_4x8(const pa_gemm_args *g) {
    const float *const *rows = g->a;
    for (int64_t tile = 0, row = 0; tile < g->tiling.tiles; tile++, rows += g->a_step) {
        for (int i = 0; i < pa_tile_rows(&g->tiling, tile); i++, row++) {
            float *c = g->c + row * g->c_stride;
            for (int j = 0; j < g->n; j++) {
                const float *b = g->b + j;
                float sum = 0;
                for (int t = 0; t < g->taps; t++) {
                    const float *a = rows[t * MR + i] + g->a_offset;
                    for (int64_t k = 0; k < g->k; k++, b += NR) sum = fmaf(a[k], *b, sum);
                }
                sum += g->bias ? g->bias[j] : c[j];
                if (g->r) sum += g->r[row * g->r_stride + j];
                sum = sum < g->lo ? g->lo : sum;
                c[j] = sum > g->hi ? g->hi : sum;
            }
        }
    }
}
