/* GEMM micro-kernel, AVX2 + FMA, 6 x 16 floats (kernels.h: pa_gemm_f32_fn).
 *
 * Per k: two loads of B, six broadcasts of A, twelve multiply-adds. Registers: 12 accumulators, 2 of B,
 * 1 of A, 1 spare. Bound: multiply-add (12 per 6 cycles on two units; 8 loads fit into the same 6 cycles).
 * Eight k at a time, with one prefetch of a cache line and no copies of sums: 20.75 instructions per k. A loop of
 * 24 takes 1 % longer alone on its core, 12 to 15 % beside a busy second thread of the core (MobileNet, Zen 3).
 * Tile shape after the BLIS Haswell kernel (Van Zee and van de Geijn, 2015).
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "../kernels.h"
#include "../../intmath.h"

enum { MR = 6, NR = 16, VL = 8, STEP = 8, AHEAD = 8, FETCHES = 1 };
#define TARGET __attribute__((target("avx2,fma")))
#define GEMM pa_gemm_f32_avx2_6x16
#define HALF VL

/* sum += a * b, in the register that it has: compilers let sums wander, and copy them back every few steps. */
TARGET static inline __attribute__((always_inline)) void accumulate(__m256 *sum, __m256 a, __m256 b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
}

/* sum += the k-th of each row of A x row k of B, w vectors of it */
TARGET static inline __attribute__((always_inline)) void multiply(const float *const *a, int64_t k, const float *b,
                                                                  __m256 (*sum)[2], const int m, const int w) {
    const __m256 b0 = _mm256_load_ps(b), b1 = w > 1 ? _mm256_load_ps(b + VL) : b0;
    PA_UNROLL
    for (int i = 0; i < m; i++) {
        const __m256 ai = _mm256_broadcast_ss(a[i] + k);
        accumulate(&sum[i][0], ai, b0);
        if (w > 1) accumulate(&sum[i][1], ai, b1);
    }
}

/* Half of the rows of the next tile, at the cache line of each that has its k-th float: two calls take all. */
static inline __attribute__((always_inline)) void fetch(const float *const *rows, int64_t last, int64_t offset, int64_t k) {
    for (int64_t i = 0, row = k % 16 / STEP * (MR / 2); i < MR / 2; i++, row++)
        __builtin_prefetch(rows[min64(row, last)] + offset + k);
}

/* m rows of w vectors. */
TARGET static inline __attribute__((always_inline)) void columns(const pa_gemm_args *g, const float *const *rows,
                                                                  float *c, const float *r, const float *next,
                                                                  const float *const *later, int64_t last,
                                                                  const int m, const int w) {
    const int64_t count = g->k, start = g->a_offset + count, c_stride = g->c_stride;
    const float *b = g->b;
    __m256 sum[MR][2];

    PA_UNROLL
    for (int i = 0; i < m; i++) sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    for (int t = g->taps; t > 0; t--, rows += MR) {
        const float *a[MR];
        PA_UNROLL
        for (int i = 0; i < m; i++) a[i] = rows[i] + start;
        int64_t k = -count;
        for (; k <= -STEP; k += STEP, b += STEP * NR, next += STEP * NR / AHEAD) {
            __asm__("" : "+r"(k)); /* one count for all rows: compilers would make a pointer of each, for every tile */
            __builtin_prefetch(next);
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
        const __m256 b0 = _mm256_loadu_ps(g->bias), b1 = w > 1 ? _mm256_loadu_ps(g->bias + VL) : b0;
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            sum[i][0] = _mm256_add_ps(sum[i][0], b0);
            if (w > 1) sum[i][1] = _mm256_add_ps(sum[i][1], b1);
        }
    } else {
        PA_UNROLL
        for (int i = 0; i < m; i++) {
            sum[i][0] = _mm256_add_ps(sum[i][0], _mm256_loadu_ps(c + i * c_stride));
            if (w > 1) sum[i][1] = _mm256_add_ps(sum[i][1], _mm256_loadu_ps(c + i * c_stride + VL));
        }
    }
    if (r) {
        const int64_t r_stride = g->r_stride;
        PA_UNROLL
        for (int i = 0; i < m; i++, r += r_stride) {
            sum[i][0] = _mm256_add_ps(sum[i][0], _mm256_loadu_ps(r));
            if (w > 1) sum[i][1] = _mm256_add_ps(sum[i][1], _mm256_loadu_ps(r + VL));
        }
    }
    const __m256 lo = _mm256_broadcast_ss(&g->lo), hi = _mm256_broadcast_ss(&g->hi);
    PA_UNROLL
    for (int i = 0; i < m; i++, c += c_stride) {
        _mm256_storeu_ps(c, _mm256_min_ps(hi, _mm256_max_ps(lo, sum[i][0])));
        if (w > 1) _mm256_storeu_ps(c + VL, _mm256_min_ps(hi, _mm256_max_ps(lo, sum[i][1])));
    }
}

#define tile(g, rows, c, r, next, later, last, m) columns(g, rows, c, r, next, later, last, m, 2)
#define half_tile(g, rows, c, r, next, later, last, m) columns(g, rows, c, r, next, later, last, m, 1)

#include "gemm_f32.inc"
#endif
