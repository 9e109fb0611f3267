/* Reference GEMM micro-kernel of bfloat16 with floats as sums: the contract of kernels_f16.h in plain C. */
#include "../kernels_f16.h"
#include "../simd/half.h"

enum { MR = 4, NR = 8, KR = 4 };

void pa_gemm_f32_bf16w_ref_4x8(const pa_gemm_args *g) {
    const float *const *rows = g->a;
    const int64_t depth = (g->k + KR - 1) / KR * KR;
    for (int64_t tile = 0, row = 0; tile < g->tiling.tiles; tile++, rows += g->a_step) {
        for (int i = 0; i < pa_tile_rows(&g->tiling, tile); i++, row++) {
            float *c = g->c + row * g->c_stride, sums[NR] = {0};
            const uint16_t *b = (const uint16_t *)g->b;
            for (int t = 0; t < g->taps; t++, b += depth * NR) {
                const float *a = rows[t * MR + i] + g->a_offset;
                for (int64_t k = 0; k < g->k; k++) {
                    const float x = bfloat_to_float(float_to_bfloat(a[k]));
                    const uint16_t *weight = b + k / KR * KR * NR + k % KR;
                    for (int j = 0; j < NR; j++) sums[j] += x * bfloat_to_float(weight[j * KR]);
                }
            }
            for (int j = 0; j < g->n; j++) {
                float sum = sums[j] + (g->bias ? g->bias[j] : c[j]);
                if (g->r) sum += g->r[row * g->r_stride + j];
                sum = sum < g->lo ? g->lo : sum;
                c[j] = sum > g->hi ? g->hi : sum;
            }
        }
    }
}
