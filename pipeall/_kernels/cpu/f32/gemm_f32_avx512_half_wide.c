/* GEMM micro-kernel, AVX-512, 12 x 32 floats, for cores whose units are half as wide as a register: panels of 24 columns or
 * fewer, the last ones of a layer, by AVX2.
 *
 * A Zen 4 takes two cycles for a vector of 16 floats, also where half of it is zeros, and broadcasts one float a cycle to a
 * whole register, so that the twelve of a tile take longer than its multiply-adds with one vector of columns; to half a
 * register two a cycle. In instructions of AVX-512 the same loops are longer, and took 1.2 times as long. One core, whole
 * layers of 1x1, GFLOP/s of 118, in brackets by vectors of 16: 32 channels to 16 103 [74], 96 to 24 112 [83], 120 to 40 108
 * [84], 480 to 80 114 [107], 64 to 4 34 [20].
 */
#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,fma")))
#define GEMM pa_gemm_f32_avx2_12x24
enum { MR = 12, NR = 32, MOST = 3, AHEAD = 16 };
#include "gemm_f32_avx2.inc"

void pa_gemm_f32_avx512_12x32(const pa_gemm_args *g);
void pa_gemm_f32_avx512_12x32_half_wide(const pa_gemm_args *g);

void pa_gemm_f32_avx512_12x32_half_wide(const pa_gemm_args *g) {
    if (g->n > MOST * PART)
        pa_gemm_f32_avx512_12x32(g);
    else
        GEMM(g);
}
#endif
