/* GEMM micro-kernel, AVX2 + FMA, 6 x 16 floats (kernels.h: pa_gemm_fn).
 *
 * Per k: two loads of B, six broadcasts of A, twelve multiply-adds. Registers: 12 accumulators, 2 of B,
 * 1 of A, 1 spare. Bound: multiply-add (12 per 6 cycles on two units; 8 loads fit into the same 6 cycles).
 * Tile shape after the BLIS Haswell kernel (Van Zee and van de Geijn, 2015).
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels.h"

enum { MR = 6, NR = 16 };
#define TARGET __attribute__((target("avx2,fma")))

TARGET static inline __attribute__((always_inline)) void tile(const pa_gemm_args *g, const int m) {
    __m256 sum[MR][2];
    const float *b = g->b, *next = g->next;
    float border[NR];
    const int whole = g->n == NR;

    if (g->bias) {
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            sum[i][0] = _mm256_loadu_ps(g->bias);
            sum[i][1] = _mm256_loadu_ps(g->bias + 8);
        }
    } else {
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            const float *c = g->c + i * g->c_stride;
            if (!whole) c = memcpy(border, c, (size_t)g->n * sizeof(float));
            sum[i][0] = _mm256_loadu_ps(c);
            sum[i][1] = _mm256_loadu_ps(c + 8);
        }
    }
    for (int t = 0; t < g->taps; t++) {
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = g->a[t * MR + i] + g->a_offset;
        for (int64_t k = 0; k < g->k;) {
            const int64_t end = k + 8 < g->k ? k + 8 : g->k;
            __builtin_prefetch(next);
            next += NR;
#pragma GCC unroll 2
            for (; k < end; k++, b += NR) {
                const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
                PA_UNROLL
                for (int i = 0; i < m; i++) {
                    const __m256 ai = _mm256_broadcast_ss(a[i] + k);
                    sum[i][0] = _mm256_fmadd_ps(ai, b0, sum[i][0]);
                    sum[i][1] = _mm256_fmadd_ps(ai, b1, sum[i][1]);
                }
            }
        }
    }
    const __m256 lo = _mm256_set1_ps(g->lo), hi = _mm256_set1_ps(g->hi);
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        float *c = g->c + i * g->c_stride;
        if (g->r) {
            const float *r = g->r + i * g->r_stride;
            if (!whole) r = memcpy(border, r, (size_t)g->n * sizeof(float));
            sum[i][0] = _mm256_add_ps(sum[i][0], _mm256_loadu_ps(r));
            sum[i][1] = _mm256_add_ps(sum[i][1], _mm256_loadu_ps(r + 8));
        }
        float *out = whole ? c : border;
        _mm256_storeu_ps(out, _mm256_min_ps(hi, _mm256_max_ps(lo, sum[i][0])));
        _mm256_storeu_ps(out + 8, _mm256_min_ps(hi, _mm256_max_ps(lo, sum[i][1])));
        if (!whole) memcpy(c, border, (size_t)g->n * sizeof(float));
    }
}

TARGET void pa_gemm_f32_avx2_6x16(const pa_gemm_args *g) {
    switch (g->m) {
    case 1: tile(g, 1); break;
    case 2: tile(g, 2); break;
    case 3: tile(g, 3); break;
    case 4: tile(g, 4); break;
    case 5: tile(g, 5); break;
    default: tile(g, 6);
    }
}
#endif
