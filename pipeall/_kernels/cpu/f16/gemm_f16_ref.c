/* Reference GEMM micro-kernel of halves: the contract of kernels_f16.h in plain C, the sum of a block in float. */
#include <math.h>

#include "../simd/half.h"
#include "../kernels_f16.h"

enum { MR = 4, NR = 8 };

void pa_gemm_f16_ref_4x8(const pa_gemm_f16_args *g) {
    const uint16_t *const *rows = g->a;
    for (int64_t tile = 0, row = 0; tile < g->tiling.tiles; tile++, rows += g->a_step) {
        for (int i = 0; i < pa_tile_rows(&g->tiling, tile); i++, row++) {
            for (int j = 0; j < NR; j++) {
                const uint16_t *b = g->b + j;
                float sum = 0;
                for (int t = 0; t < g->taps; t++) {
                    const uint16_t *a = rows[t * MR + i] + g->a_offset;
                    for (int64_t k = 0; k < g->k; k++, b += NR) sum = fmaf(half_to_float(a[k]), half_to_float(*b), sum);
                }
                if (!g->first) sum += half_to_float(g->sums[row * g->sums_stride + j]);
                if (!g->last) {
                    g->sums[row * g->sums_stride + j] = float_to_half(sum);
                } else if (j < g->n) {
                    sum += half_to_float(g->bias[j]);
                    if (g->r) sum += half_to_float(g->r[row * g->r_stride + j]);
                    sum = sum < g->lo ? g->lo : sum;
                    g->c[row * g->c_stride + j] = float_to_half(sum > g->hi ? g->hi : sum);
                }
            }
        }
    }
}
