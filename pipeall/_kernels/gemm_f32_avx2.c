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
#define GEMM pa_gemm_f32_avx2_6x16

TARGET static inline __attribute__((always_inline)) void tile(const pa_gemm_args *g, const float *const *rows, float *c,
                                                               const float *r, const float *next, const int m) {
    const int64_t count = g->k, start = g->a_offset + count, c_stride = g->c_stride;
    const float *b = g->b;
    __m256 sum[MR][2];

    PA_UNROLL
    for (int i = 0; i < m; i++) {
        const float *from = g->bias ? g->bias : c + i * c_stride;
        sum[i][0] = _mm256_loadu_ps(from);
        sum[i][1] = _mm256_loadu_ps(from + 8);
    }
    for (int t = g->taps; t > 0; t--, rows += MR) {
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = rows[i] + start;
        next += 2 * count;
        for (int64_t k = -count; k < 0; k++, b += NR) {
            const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
            __builtin_prefetch(next + 2 * k);
            PA_UNROLL
            for (int i = 0; i < m; i++) {
                const __m256 ai = _mm256_broadcast_ss(a[i] + k);
                sum[i][0] = _mm256_fmadd_ps(ai, b0, sum[i][0]);
                sum[i][1] = _mm256_fmadd_ps(ai, b1, sum[i][1]);
            }
        }
    }
    if (r) {
        const int64_t r_stride = g->r_stride;
        PA_UNROLL
        for (int i = 0; i < m; i++, r += r_stride) {
            sum[i][0] = _mm256_add_ps(sum[i][0], _mm256_loadu_ps(r));
            sum[i][1] = _mm256_add_ps(sum[i][1], _mm256_loadu_ps(r + 8));
        }
    }
    const __m256 lo = _mm256_broadcast_ss(&g->lo), hi = _mm256_broadcast_ss(&g->hi);
    PA_UNROLL
    for (int i = 0; i < m; i++, c += c_stride) {
        _mm256_storeu_ps(c, _mm256_min_ps(hi, _mm256_max_ps(lo, sum[i][0])));
        _mm256_storeu_ps(c + 8, _mm256_min_ps(hi, _mm256_max_ps(lo, sum[i][1])));
    }
}

#include "gemm_f32.inc"
#endif
