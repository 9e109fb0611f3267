/* Vectors of the kernels of 8-bit integers on x86: thin names for the intrinsics they use.
 *
 * Include it after every other header, in a file that defines exactly one of PA_ISA_AVX2, PA_ISA_AVXVNNI, PA_ISA_AVX512,
 * PA_ISA_VNNI. It switches the instruction set on for the rest of the file; PA_SIMD_END closes that and comes last.
 *
 *   vi, VL            a vector of integers, and its lanes of 32 bits; of 16 bits it has twice as many
 *   v_factor_of(a, p) four bytes of A as v_dot wants them, by VNNI unsigned ones. With KEEPS_ABS p points to their absolute
 *                     values
 *   v_abs(a)          |a| of each byte
 *   v_dot(s, a, b)    s + sums of four neighbouring products with a: lanes of 32 bits of lanes of 8. Without VNNI the
 *                     products of a pair must fit into 16 bits: -127 <= b
 *   v_pairs(s, a, b)  s + sums of two neighbouring products: lanes of 32 bits of lanes of 16
 *   v_widen(p, n)     2 * VL lanes of 16 bits of n bytes; no others are read, and lanes past n are 0. A constant
 *                     n = 2 * VL compiles to the plain access
 *   v_zip_lo, v_zip_hi  lanes of 16 bits of two vectors in turns: the first and the second half of every 128 bits
 *   v_blocks(&a, &b)  the even blocks of 128 bits of both into a, the odd ones into b: the order of v_zip_lo and v_zip_hi
 *   v_bytes(p, n)     the first n bytes, 1 <= n <= 4 * VL
 *   v_zip_bytes_lo, v_zip_bytes_hi  bytes of two vectors in turns, in such halves
 *   v_spread(x, to)   each byte of x as 32 bits, in four vectors: in the order of bytes in turns with three others
 *   v_quarters(p, to, half)  4 * VL lanes of 32 bits from memory in that order, or the first half of them twice
 *   v_packed(a, b)    lanes of 16 bits in 8, saturated: from that order, with v_zipped_words, as they lay
 *   v_half_twice(p)   2 * VL bytes from memory in both halves
 *   v_two(p, q, n)    the first n bytes, 1 <= n <= 2 * VL, of p in the first half and of q in the second
 *   v_store_first, v_store_two  the first n bytes of a, or of both its halves
 *   v_rounded         rint(min(sum * scale, hi)); what is below 32 bits becomes the least of them
 *   v_words(a, b)     the lanes of 32 bits of a, then of b, in 16 bits, saturated; v_zipped_words: of vectors in that order
 *   v_bounded         max(words, lo) + zero: with v_rounded and v_words it requantizes (kernels_s8.h)
 *   v_store_bytes     the first n lanes of 16 bits, 1 <= n <= 2 * VL, in 8 bits
 *   v_store_reals     the first n lanes of clamp(sum * scale, lo, hi), 1 <= n <= VL: floats
 */
#ifndef PIPEALL_SIMD_X86_H
#define PIPEALL_SIMD_X86_H

#include <immintrin.h>
#include <string.h>

#include "../kernels.h"

#if defined(PA_ISA_VNNI)
#define S8_TARGET target("avx512f,avx512bw,avx512vl,avx512vnni")
#define PA_NAME(op) pa_##op##_s8_vnni
#elif defined(PA_ISA_AVX512)
#define S8_TARGET target("avx512f,avx512bw,avx512vl")
#define PA_NAME(op) pa_##op##_s8_avx512
#elif defined(PA_ISA_AVXVNNI)
#define S8_TARGET target("avx2,avxvnni")
#define PA_NAME(op) pa_##op##_s8_avxvnni
#else
#define S8_TARGET target("avx2")
#define PA_NAME(op) pa_##op##_s8_avx2
#endif

#define S8_PRAGMA(text) _Pragma(#text)
#define S8_PRAGMA_OF(...) S8_PRAGMA(__VA_ARGS__)
#if defined(__clang__)
S8_PRAGMA_OF(clang attribute push(__attribute__((S8_TARGET)), apply_to = function))
#define PA_SIMD_END _Pragma("clang attribute pop")
#else
#pragma GCC push_options
S8_PRAGMA_OF(GCC S8_TARGET)
#define PA_SIMD_END _Pragma("GCC pop_options")
#endif

PA_INLINE int32_t four_at(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return four;
}

#if defined(PA_ISA_VNNI) || defined(PA_ISA_AVX512)
enum { VL = 16 };
typedef __m512i vi;
typedef __m512 vf;
PA_INLINE vi v_set1(int32_t x) { return _mm512_set1_epi32(x); }
PA_INLINE vi v_load(const void *p) { return _mm512_loadu_si512(p); }
PA_INLINE void v_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
PA_INLINE vi v_abs(vi a) { return _mm512_abs_epi8(a); }
PA_INLINE vi v_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
PA_INLINE vi v_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
PA_INLINE vi v_pairs(vi s, vi a, vi b) { return _mm512_add_epi32(s, _mm512_madd_epi16(a, b)); }
PA_INLINE vi v_widen(const int8_t *p, int n) {
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((__mmask32)(0xffffffffu >> (2 * VL - n)), p));
}
PA_INLINE vi v_bytes(const int8_t *p, int n) { return _mm512_maskz_loadu_epi8(~(__mmask64)0 >> (4 * VL - n), p); }
PA_INLINE vi v_zip_bytes_lo(vi a, vi b) { return _mm512_unpacklo_epi8(a, b); }
PA_INLINE vi v_zip_bytes_hi(vi a, vi b) { return _mm512_unpackhi_epi8(a, b); }
PA_INLINE void v_spread(vi x, vi *to) {
    for (int v = 0; v < 4; v++) {
        const __m128i four = _mm_setr_epi32(4 * v - 256, 4 * v - 255, 4 * v - 254, 4 * v - 253); /* the high bytes give 0 */
        to[v] = _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(four));
    }
}
PA_INLINE vi v_half_twice(const void *p) { return _mm512_broadcast_i64x4(_mm256_loadu_si256(p)); }
PA_INLINE vi v_two(const int8_t *p, const int8_t *q, int n) {
    if (n == 2 * VL) return _mm512_mask_broadcast_i64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p)), 0xf0,
                                                        _mm256_loadu_si256((const __m256i *)q));
    const __mmask32 first = 0xffffffffu >> (2 * VL - n);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi8(first, p)), _mm256_maskz_loadu_epi8(first, q), 1);
}
PA_INLINE void v_quarters(const void *p, vi *to, const int half) {
    if (half) {
        const vi a = v_load(p), b = v_load((const char *)p + 64);
        const vi even = _mm512_shuffle_i32x4(a, b, 0x88), odd = _mm512_shuffle_i32x4(a, b, 0xdd);
        to[0] = _mm512_shuffle_i32x4(even, even, 0x88), to[2] = _mm512_shuffle_i32x4(even, even, 0xdd);
        to[1] = _mm512_shuffle_i32x4(odd, odd, 0x88), to[3] = _mm512_shuffle_i32x4(odd, odd, 0xdd);
        return;
    }
    vi even[2], odd[2];
    for (int i = 0; i < 2; i++) {
        const vi a = v_load((const char *)p + 128 * i), b = v_load((const char *)p + 128 * i + 64);
        even[i] = _mm512_shuffle_i32x4(a, b, 0x88), odd[i] = _mm512_shuffle_i32x4(a, b, 0xdd);
    }
    to[0] = _mm512_shuffle_i32x4(even[0], even[1], 0x88), to[2] = _mm512_shuffle_i32x4(even[0], even[1], 0xdd);
    to[1] = _mm512_shuffle_i32x4(odd[0], odd[1], 0x88), to[3] = _mm512_shuffle_i32x4(odd[0], odd[1], 0xdd);
}
PA_INLINE vi v_packed(vi first, vi second) { return _mm512_packs_epi16(first, second); }
PA_INLINE void v_store_first(int8_t *p, vi a, int n) { _mm512_mask_storeu_epi8(p, ~(__mmask64)0 >> (4 * VL - n), a); }
PA_INLINE void v_store_two(int8_t *p, int8_t *q, vi a, int n) {
    const __mmask32 first = 0xffffffffu >> (2 * VL - n);
    _mm256_mask_storeu_epi8(p, first, _mm512_castsi512_si256(a));
    _mm256_mask_storeu_epi8(q, first, _mm512_extracti64x4_epi64(a, 1));
}
PA_INLINE vi v_zip_lo(vi a, vi b) { return _mm512_unpacklo_epi16(a, b); }
PA_INLINE vi v_zip_hi(vi a, vi b) { return _mm512_unpackhi_epi16(a, b); }
PA_INLINE void v_blocks(vi *a, vi *b) {
    const vi even = _mm512_shuffle_i32x4(*a, *b, 0x88);
    *b = _mm512_shuffle_i32x4(*a, *b, 0xdd), *a = even;
}
PA_INLINE vi v_rounded(vi sum, vi scale, float hi) {
    const vf x = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_castsi512_ps(scale));
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(hi), x));
}
PA_INLINE vi v_bounded(vi words, const pa_requantize *to) {
    const vi least = _mm512_set1_epi16((int16_t)(to->lo + (float)to->zero)), zero = _mm512_set1_epi16((int16_t)to->zero);
    return _mm512_max_epi16(least, _mm512_adds_epi16(words, zero));
}
PA_INLINE vi v_zipped_words(vi a, vi b) { return _mm512_packs_epi32(a, b); }
PA_INLINE vi v_words(vi a, vi b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), _mm512_packs_epi32(a, b));
}
PA_INLINE void v_store_bytes(int8_t *p, vi words, int n) {
    _mm512_mask_cvtepi16_storeu_epi8(p, (__mmask32)(0xffffffffu >> (2 * VL - n)), words);
}
PA_INLINE void v_store_reals(float *p, vi sum, vi scale, const pa_requantize *to, int n) {
    const vf x = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_castsi512_ps(scale));
    const vf bounded = _mm512_max_ps(_mm512_set1_ps(to->lo), _mm512_min_ps(_mm512_set1_ps(to->hi), x));
    _mm512_mask_storeu_ps(p, (__mmask16)(0xffffu >> (VL - n)), bounded);
}
#else
enum { VL = 8 };
typedef __m256i vi;
typedef __m256 vf;
PA_INLINE vi v_set1(int32_t x) { return _mm256_set1_epi32(x); }
PA_INLINE vi v_load(const void *p) { return _mm256_loadu_si256(p); }
PA_INLINE void v_store(void *p, vi a) { _mm256_storeu_si256(p, a); }
PA_INLINE vi v_abs(vi a) { return _mm256_abs_epi8(a); }
PA_INLINE vi v_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
PA_INLINE vi v_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
PA_INLINE vi v_pairs(vi s, vi a, vi b) { return _mm256_add_epi32(s, _mm256_madd_epi16(a, b)); }
/* The first n bytes of 8, 0 <= n < 8, the others 0. */
PA_INLINE uint64_t first_bytes(const int8_t *p, int n) {
    uint64_t bytes = 0;
    if (n & 1) bytes = (uint8_t)p[n - 1];
    if (n & 2) {
        uint16_t two;
        memcpy(&two, p + (n & 4), sizeof two);
        bytes = bytes << 16 | two;
    }
    if (n & 4) {
        uint32_t four;
        memcpy(&four, p, sizeof four);
        bytes = bytes << 32 | four;
    }
    return bytes;
}
PA_INLINE vi v_widen(const int8_t *p, int n) {
    if (n == 2 * VL) return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
    if (n < 8) return _mm256_cvtepi8_epi16(_mm_cvtsi64_si128((int64_t)first_bytes(p, n)));
    const __m128i more = _mm_cvtsi64_si128((int64_t)first_bytes(p + 8, n - 8));
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), more));
}
/* The first n bytes of 16, 0 <= n <= 16, the others 0. */
PA_INLINE __m128i first_sixteen(const int8_t *p, int n) {
    if (n == 16) return _mm_loadu_si128((const __m128i *)p);
    if (n < 8) return _mm_cvtsi64_si128((int64_t)first_bytes(p, n));
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)p), _mm_cvtsi64_si128((int64_t)first_bytes(p + 8, n - 8)));
}
PA_INLINE vi v_bytes(const int8_t *p, int n) {
    if (n == 4 * VL) return v_load(p);
    if (n <= 16) return _mm256_zextsi128_si256(first_sixteen(p, n));
    return _mm256_setr_m128i(_mm_loadu_si128((const __m128i *)p), first_sixteen(p + 16, n - 16));
}
PA_INLINE vi v_zip_bytes_lo(vi a, vi b) { return _mm256_unpacklo_epi8(a, b); }
PA_INLINE vi v_zip_bytes_hi(vi a, vi b) { return _mm256_unpackhi_epi8(a, b); }
PA_INLINE void v_spread(vi x, vi *to) {
    for (int v = 0; v < 4; v++) {
        const __m128i four = _mm_setr_epi32(4 * v - 256, 4 * v - 255, 4 * v - 254, 4 * v - 253); /* the high bytes give 0 */
        to[v] = _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(four));
    }
}
PA_INLINE vi v_half_twice(const void *p) { return _mm256_broadcastsi128_si256(_mm_loadu_si128(p)); }
PA_INLINE vi v_two(const int8_t *p, const int8_t *q, int n) {
    return _mm256_setr_m128i(first_sixteen(p, n), first_sixteen(q, n));
}
PA_INLINE void v_quarters(const void *p, vi *to, const int half) {
    for (int v = 0; v < 4; v++) {
        const __m128i *at = (const __m128i *)p + v;
        to[v] = _mm256_setr_m128i(_mm_loadu_si128(at), _mm_loadu_si128(at + (half ? 0 : 4)));
    }
}
PA_INLINE vi v_zip_lo(vi a, vi b) { return _mm256_unpacklo_epi16(a, b); }
PA_INLINE vi v_zip_hi(vi a, vi b) { return _mm256_unpackhi_epi16(a, b); }
PA_INLINE void v_blocks(vi *a, vi *b) {
    const vi even = _mm256_permute2x128_si256(*a, *b, 0x20);
    *b = _mm256_permute2x128_si256(*a, *b, 0x31), *a = even;
}
PA_INLINE vi v_rounded(vi sum, vi scale, float hi) {
    const vf x = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_castsi256_ps(scale));
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(hi), x));
}
PA_INLINE vi v_bounded(vi words, const pa_requantize *to) {
    const vi least = _mm256_set1_epi16((int16_t)(to->lo + (float)to->zero)), zero = _mm256_set1_epi16((int16_t)to->zero);
    return _mm256_max_epi16(least, _mm256_adds_epi16(words, zero));
}
PA_INLINE vi v_zipped_words(vi a, vi b) { return _mm256_packs_epi32(a, b); }
PA_INLINE vi v_words(vi a, vi b) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8); }
/* The first n bytes of 16, 1 <= n <= 16 */
PA_INLINE void store_first(int8_t *p, __m128i bytes, int n) {
    if (n == 16) {
        _mm_storeu_si128((__m128i *)p, bytes);
        return;
    }
    if (n & 8) {
        _mm_storel_epi64((__m128i *)p, bytes);
        bytes = _mm_srli_si128(bytes, 8), p += 8;
    }
    uint64_t rest = (uint64_t)_mm_cvtsi128_si64(bytes);
    if (n & 4) memcpy(p, &rest, 4), rest >>= 32, p += 4;
    if (n & 2) memcpy(p, &rest, 2), rest >>= 16, p += 2;
    if (n & 1) *p = (int8_t)rest;
}
PA_INLINE void v_store_bytes(int8_t *p, vi words, int n) {
    store_first(p, _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)), n);
}
PA_INLINE vi v_packed(vi first, vi second) { return _mm256_packs_epi16(first, second); }
PA_INLINE void v_store_first(int8_t *p, vi a, int n) {
    store_first(p, _mm256_castsi256_si128(a), n < 16 ? n : 16);
    if (n > 16) store_first(p + 16, _mm256_extracti128_si256(a, 1), n - 16);
}
PA_INLINE void v_store_two(int8_t *p, int8_t *q, vi a, int n) {
    store_first(p, _mm256_castsi256_si128(a), n);
    store_first(q, _mm256_extracti128_si256(a, 1), n);
}
PA_INLINE void v_store_reals(float *p, vi sum, vi scale, const pa_requantize *to, int n) {
    const vf x = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_castsi256_ps(scale));
    const vf bounded = _mm256_max_ps(_mm256_set1_ps(to->lo), _mm256_min_ps(_mm256_set1_ps(to->hi), x));
    const vi lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(v_set1(n), lanes), bounded);
}
#endif

#if defined(PA_ISA_VNNI) || defined(PA_ISA_AVXVNNI)
enum { KEEPS_ABS = 0 };
typedef vi v_factor;
PA_INLINE v_factor v_factor_of(int32_t four, const int8_t *a_abs) {
    (void)a_abs;
    return v_set1(four);
}
/* In the register that the sum has: compilers let sums wander, and copy them back every few steps. */
PA_INLINE vi v_dot(vi s, v_factor a, vi b) {
#if defined(PA_ISA_AVXVNNI)
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(a), "x"(b));
#elif defined(PA_EMULATED_AVX512) /* tests/avx512 */
    s = _mm512_dpbusd_epi32(s, a, b);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(a), "v"(b));
#endif
    return s;
}
#elif defined(PA_ISA_AVX512)
enum { KEEPS_ABS = 0 };
typedef struct v_factor {
    vi abs;
    __mmask64 minus;
} v_factor;
PA_INLINE v_factor v_factor_of(int32_t four, const int8_t *a_abs) {
    (void)a_abs;
    const vi a = v_set1(four);
    return (v_factor){_mm512_abs_epi8(a), _mm512_movepi8_mask(a)};
}
PA_INLINE vi v_dot(vi s, v_factor a, vi b) {
    const vi signed_b = _mm512_mask_sub_epi8(b, a.minus, _mm512_setzero_si512(), b);
    return v_pairs(s, _mm512_maddubs_epi16(a.abs, signed_b), _mm512_set1_epi16(1));
}
#else
enum { KEEPS_ABS = 1 };
typedef struct v_factor {
    vi abs, sign;
} v_factor;
PA_INLINE v_factor v_factor_of(int32_t four, const int8_t *a_abs) {
    return (v_factor){v_set1(four_at(a_abs)), v_set1(four)};
}
PA_INLINE vi v_dot(vi s, v_factor a, vi b) {
    return v_pairs(s, _mm256_maddubs_epi16(a.abs, _mm256_sign_epi8(b, a.sign)), _mm256_set1_epi16(1));
}
#endif

#endif
