/* GEMM micro-kernel, AVX-512F, 12 x 32 floats (kernels.h: pa_gemm_fn).
 *
 * Per k: two loads of B, 24 multiply-adds whose A operand is an embedded broadcast from memory.
 * Registers: 24 accumulators, 2 of B. Bound: multiply-add (24 per 12 cycles on two units, or on Zen 4's two
 * double-pumped halves; 26 loads fit into the same cycles at two or more a cycle).
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels.h"

enum { MR = 12, NR = 32 };
#define TARGET __attribute__((target("avx512f")))

#define GEMM pa_gemm_f32_avx512_12x32

TARGET static inline __attribute__((always_inline)) void tile(const pa_gemm_args *g, const float *const *rows, float *c,
                                                               const float *r, const float *next, const int m) {
    const __m512 lo = _mm512_set1_ps(g->lo), hi = _mm512_set1_ps(g->hi);
    const int64_t c_stride = g->c_stride, r_stride = g->r_stride, start_stride = g->bias ? 0 : c_stride, count = g->k;
    const float *start = g->bias ? g->bias : c, *b = g->b;
    __m512 sum[MR][2];

    PA_UNROLL
    for (int i = 0; i < m; i++) {
        sum[i][0] = _mm512_loadu_ps(start + i * start_stride);
        sum[i][1] = _mm512_loadu_ps(start + i * start_stride + 16);
    }
    for (int64_t t = g->taps; t > 0; t--, rows += MR) {
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = rows[i] + g->a_offset + count;
        next += 4 * count;
        for (int64_t k = -count; k < 0; k++, b += NR) {
            const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
            __builtin_prefetch(next + 4 * k);
            PA_UNROLL
            for (int i = 0; i < m; i++) {
                const __m512 ai = _mm512_set1_ps(a[i][k]);
                sum[i][0] = _mm512_fmadd_ps(ai, b0, sum[i][0]);
                sum[i][1] = _mm512_fmadd_ps(ai, b1, sum[i][1]);
            }
        }
    }
    if (r) {
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_loadu_ps(r + i * r_stride));
            sum[i][1] = _mm512_add_ps(sum[i][1], _mm512_loadu_ps(r + i * r_stride + 16));
        }
    }
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        _mm512_storeu_ps(c + i * c_stride, _mm512_min_ps(hi, _mm512_max_ps(lo, sum[i][0])));
        _mm512_storeu_ps(c + i * c_stride + 16, _mm512_min_ps(hi, _mm512_max_ps(lo, sum[i][1])));
    }
}

#include "gemm_f32.inc"
#endif
