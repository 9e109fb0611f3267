/* GEMM micro-kernel, AVX-512F, 12 x 32 floats (kernels.h: pa_gemm_fn).
 *
 * Per k: two loads of B, 24 multiply-adds whose A operand is an embedded broadcast from memory.
 * Registers: 24 accumulators, 2 of B. Bound: multiply-add (24 per 12 cycles on two units, or on Zen 4's two
 * double-pumped halves; 26 loads fit into the same cycles at two or more a cycle).
 * Columns beyond n are masked.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels.h"

enum { MR = 12, NR = 32 };
#define TARGET __attribute__((target("avx512f")))

TARGET static inline __attribute__((always_inline)) void tile(const pa_gemm_args *g, const int m) {
    __m512 sum[MR][2];
    const float *b = g->b, *next = g->next;
    const __mmask16 mask0 = g->n >= 16 ? 0xffff : (__mmask16)((1u << g->n) - 1);
    const __mmask16 mask1 = g->n <= 16 ? 0 : (__mmask16)((1u << (g->n - 16)) - 1);

    PA_UNROLL
    for (int i = 0; i < m; i++) {
        const float *start = g->bias ? g->bias : g->c + i * g->c_stride;
        sum[i][0] = _mm512_maskz_loadu_ps(mask0, start);
        sum[i][1] = _mm512_maskz_loadu_ps(mask1, start + 16);
    }
    for (int t = 0; t < g->taps; t++) {
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = g->a[t * MR + i] + g->a_offset;
        for (int64_t k = 0; k < g->k;) {
            const int64_t end = k + 8 < g->k ? k + 8 : g->k;
            __builtin_prefetch(next);
            __builtin_prefetch(next + 16);
            next += NR;
            for (; k < end; k++, b += NR) {
                const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
                PA_UNROLL
                for (int i = 0; i < m; i++) {
                    const __m512 ai = _mm512_set1_ps(a[i][k]);
                    sum[i][0] = _mm512_fmadd_ps(ai, b0, sum[i][0]);
                    sum[i][1] = _mm512_fmadd_ps(ai, b1, sum[i][1]);
                }
            }
        }
    }
    const __m512 lo = _mm512_set1_ps(g->lo), hi = _mm512_set1_ps(g->hi);
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        float *c = g->c + i * g->c_stride;
        if (g->r) {
            const float *r = g->r + i * g->r_stride;
            sum[i][0] = _mm512_add_ps(sum[i][0], _mm512_maskz_loadu_ps(mask0, r));
            sum[i][1] = _mm512_add_ps(sum[i][1], _mm512_maskz_loadu_ps(mask1, r + 16));
        }
        _mm512_mask_storeu_ps(c, mask0, _mm512_min_ps(hi, _mm512_max_ps(lo, sum[i][0])));
        _mm512_mask_storeu_ps(c + 16, mask1, _mm512_min_ps(hi, _mm512_max_ps(lo, sum[i][1])));
    }
}

TARGET void pa_gemm_f32_avx512_12x32(const pa_gemm_args *g) {
    switch (g->m) {
    case 1: tile(g, 1); break;
    case 2: tile(g, 2); break;
    case 3: tile(g, 3); break;
    case 4: tile(g, 4); break;
    case 5: tile(g, 5); break;
    case 6: tile(g, 6); break;
    case 7: tile(g, 7); break;
    case 8: tile(g, 8); break;
    case 9: tile(g, 9); break;
    case 10: tile(g, 10); break;
    case 11: tile(g, 11); break;
    default: tile(g, 12);
    }
}
#endif
