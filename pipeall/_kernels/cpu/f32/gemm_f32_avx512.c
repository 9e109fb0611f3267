/* GEMM micro-kernel, AVX-512F, 12 x 32 floats (kernels.h: pa_gemm_f32_fn).
 *
 * Per k: two loads of B, twelve broadcasts of A, 24 multiply-adds. Registers: 24 accumulators, 2 of B, 1 of A.
 * Bound: multiply-add (24 per 12 cycles on two units, 24 cycles on Zen 4's, which take half a register at a time; 14
 * loads fit into the same cycles). Four k at a time, with two prefetches of a cache line and no copies of sums: GCC
 * 12 makes it 41 instructions per k, and 55 of the same code where it may choose the registers of the sums.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "../kernels.h"
#include "../../intmath.h"

enum { MR = 12, NR = 32, VL = 16, PART = VL, MOST = 2, STEP = 4, FETCHES = 1 };
enum { AHEAD = 4 }; /* 5 tiles, 49 rows, fetch all of the next block */
#define TARGET __attribute__((target("avx512f")))

#define GEMM pa_gemm_f32_avx512_12x32
#define MASKED 1

/* sum += a * b, in the register that it has: compilers let sums wander, and copy them back every few steps. */
TARGET static inline __attribute__((always_inline)) void accumulate(__m512 *sum, __m512 a, __m512 b) {
#ifdef PA_EMULATED_AVX512 /* tests/avx512 */
    *sum = _mm512_fmadd_ps(a, b, *sum);
#else
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#endif
}

/* sum += the k-th of each row of A x row k of B, w vectors of it */
TARGET static inline __attribute__((always_inline)) void multiply(const float *const *a, int64_t k, const float *b,
                                                                  __m512 (*sum)[2], const int m, const int w) {
    const __m512 b0 = _mm512_load_ps(b), b1 = w > 1 ? _mm512_load_ps(b + VL) : b0;
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        const __m512 ai = _mm512_set1_ps(a[i][k]);
        accumulate(&sum[i][0], ai, b0);
        if (w > 1) accumulate(&sum[i][1], ai, b1);
    }
}

/* A quarter of the rows of the next tile, at the cache line of each that has its k-th float: four calls take all. */
static inline __attribute__((always_inline)) void fetch(const float *const *rows, int64_t last, int64_t offset, int64_t k) {
    for (int64_t i = 0, row = k % 16 / STEP * (MR / 4); i < MR / 4; i++, row++)
        __builtin_prefetch(rows[min64(row, last)] + offset + k);
}

/* sum += w vectors, `part` of the last */
TARGET static inline __attribute__((always_inline)) void add(__m512 *sum, const float *row, __mmask16 part, const int w) {
    if (w > 1) sum[0] = _mm512_add_ps(sum[0], _mm512_loadu_ps(row));
    sum[w - 1] = _mm512_add_ps(sum[w - 1], _mm512_maskz_loadu_ps(part, row + (w - 1) * VL));
}

/* m rows of w vectors, the last of which may go beyond the panel's columns. */
TARGET static inline __attribute__((always_inline)) void tile(const pa_gemm_args *g, const float *const *rows, float *c,
                                                               const float *r, const float *next,
                                                               const float *const *later, int64_t last, const int m,
                                                               const int w) {
    const __m512 lo = _mm512_set1_ps(g->lo), hi = _mm512_set1_ps(g->hi);
    const __mmask16 part = (__mmask16)(0xffffu >> (w * VL - g->n));
    const int64_t c_stride = g->c_stride, r_stride = g->r_stride, count = g->k;
    const float *b = g->b;
    __m512 sum[MR][2];

    float *row = c;
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
        if (!later) continue; /* what lies in a cache is not fetched: layers of few channels would take 1.02 of the time */
        __builtin_prefetch(row, 1); /* the stores at the end would wait for it */
        if (w > 1) __builtin_prefetch(row + VL, 1);
        row += c_stride;
        PA_OPAQUE(row);
    }
    for (int64_t t = g->taps; t > 0; t--, rows += MR) {
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = rows[i] + g->a_offset + count;
        int64_t k = -count;
        for (; k <= -STEP; k += STEP, b += STEP * NR, next += STEP * NR / AHEAD) {
            __asm__("" : "+r"(k)); /* one count for all rows: compilers would make a pointer of each, for every tile */
            __builtin_prefetch(next);
            __builtin_prefetch(next + VL);
            if (later) fetch(later, last, g->a_offset, count + k);
            PA_UNROLL
            for (int i = 0; i < STEP; i++) multiply(a, k + i, b + i * NR, sum, m, w);
        }
        for (; k < 0; k++, b += NR) {
            __asm__("" : "+r"(k));
            multiply(a, k, b, sum, m, w);
        }
    }
    if (g->bias) {
        const __m512 b0 = _mm512_loadu_ps(g->bias), b1 = w > 1 ? _mm512_loadu_ps(g->bias + VL) : b0;
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            sum[i][0] = _mm512_add_ps(sum[i][0], b0);
            if (w > 1) sum[i][1] = _mm512_add_ps(sum[i][1], b1);
        }
    } else {
        PA_UNROLL
        for (int i = 0; i < m; i++) add(sum[i], c + i * c_stride, part, w);
    }
    if (r) {
        PA_UNROLL
        for (int i = 0; i < m; i++) add(sum[i], r + i * r_stride, part, w);
    }
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        for (int v = 0; v < w; v++) {
            const __m512 bounded = _mm512_min_ps(hi, _mm512_max_ps(lo, sum[i][v]));
            if (v + 1 < w)
                _mm512_storeu_ps(c + v * VL, bounded);
            else
                _mm512_mask_storeu_ps(c + v * VL, part, bounded);
        }
        c += c_stride;
        PA_OPAQUE(c);
    }
}

#include "gemm_f32.inc"
#endif
