/* Integers by a table of 256 entries (kernels_s8.h: pa_lut_s8_fn), by AVX-512 VBMI, which picks out of 128 entries at a time:
 * those of the numbers below 0, and the others.
 *
 * Bound: memory.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "../kernels_s8.h"

enum { VB = 64 };

#define VBMI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

VBMI void pa_lut_s8_vbmi(int64_t rows, int64_t n, int64_t stride, const int8_t *x, int8_t *out, const int8_t *table) {
    __m512i part[4];
    for (int i = 0; i < 4; i++) part[i] = _mm512_loadu_si512(table + i * VB);
    for (; rows > 0; rows--, x += stride, out += stride) {
        for (int64_t i = 0; i < n; i += VB) {
            const __mmask64 some = n - i < VB ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
            const __m512i at = _mm512_maskz_loadu_epi8(some, x + i);
            const __m512i low = _mm512_permutex2var_epi8(part[0], at, part[1]);
            const __m512i high = _mm512_permutex2var_epi8(part[2], at, part[3]);
            _mm512_mask_storeu_epi8(out + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), high, low));
        }
    }
}
#endif
