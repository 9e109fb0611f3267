/* The AVX-512 intrinsics that the kernels use, in plain C, for machines without AVX-512. Found before the compiler's
 * header of the same name, which still provides everything else. Semantics: Intel Intrinsics Guide. Masked accesses
 * touch the chosen lanes only; an unaligned _mm512_load_ps ends the program, as the instruction would. */
#ifndef PIPEALL_TEST_AVX512_H
#define PIPEALL_TEST_AVX512_H
#define PA_EMULATED_AVX512 /* no inline assembly either */

#include_next <immintrin.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../pipeall/_kernels/cpu/simd/half.h"

typedef struct emulated_ps {
    float lane[16];
} emulated_ps;
typedef union emulated_epi32 {
    int32_t lane[16];
    int64_t quad[8];
    int16_t word[32];
    int8_t byte[64];
} emulated_epi32;
typedef struct emulated_half {
    int8_t byte[32];
} emulated_half;

#define EMULATE(type, name, parameters, expression)            \
    static inline type emulated_##name parameters {            \
        type out;                                              \
        for (int i = 0; i < 16; i++) out.lane[i] = expression; \
        return out;                                            \
    }

EMULATE(emulated_ps, set1_ps, (float a), a)
EMULATE(emulated_ps, setzero_ps, (void), 0)
EMULATE(emulated_epi32, set1_epi32, (int32_t a), a)
EMULATE(emulated_epi32, cvtepu8_epi32, (__m128i a), ((const uint8_t *)&a)[i])
EMULATE(emulated_ps, loadu_ps, (const float *p), p[i])
EMULATE(emulated_ps, maskz_loadu_ps, (__mmask16 mask, const float *p), mask >> i & 1 ? p[i] : 0)
EMULATE(emulated_ps, mask_loadu_ps, (emulated_ps a, __mmask16 mask, const float *p), mask >> i & 1 ? p[i] : a.lane[i])
EMULATE(emulated_ps, add_ps, (emulated_ps a, emulated_ps b), a.lane[i] + b.lane[i])
EMULATE(emulated_ps, sub_ps, (emulated_ps a, emulated_ps b), a.lane[i] - b.lane[i])
EMULATE(emulated_ps, mul_ps, (emulated_ps a, emulated_ps b), a.lane[i] * b.lane[i])
EMULATE(emulated_ps, div_ps, (emulated_ps a, emulated_ps b), a.lane[i] / b.lane[i])
EMULATE(emulated_ps, max_ps, (emulated_ps a, emulated_ps b), a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i])
EMULATE(emulated_ps, min_ps, (emulated_ps a, emulated_ps b), a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i])
EMULATE(emulated_ps, mask_max_ps, (emulated_ps from, __mmask16 mask, emulated_ps a, emulated_ps b),
        (mask >> i & 1 ? emulated_max_ps(a, b) : from).lane[i])
EMULATE(emulated_ps, mask_min_ps, (emulated_ps from, __mmask16 mask, emulated_ps a, emulated_ps b),
        (mask >> i & 1 ? emulated_min_ps(a, b) : from).lane[i])
EMULATE(emulated_ps, fmadd_ps, (emulated_ps a, emulated_ps b, emulated_ps c), fmaf(a.lane[i], b.lane[i], c.lane[i]))
EMULATE(emulated_ps, fnmadd_ps, (emulated_ps a, emulated_ps b, emulated_ps c), fmaf(-a.lane[i], b.lane[i], c.lane[i]))
EMULATE(emulated_epi32, cvtps_epi32, (emulated_ps a),
        fabsf(a.lane[i]) < 0x1p31f ? (int32_t)lrintf(a.lane[i]) : INT32_MIN)
EMULATE(emulated_epi32, add_epi32, (emulated_epi32 a, emulated_epi32 b), a.lane[i] + b.lane[i])
EMULATE(emulated_epi32, sub_epi32, (emulated_epi32 a, emulated_epi32 b), a.lane[i] - b.lane[i])
EMULATE(emulated_epi32, slli_epi32, (emulated_epi32 a, unsigned n), (int32_t)((uint32_t)a.lane[i] << n))
EMULATE(emulated_epi32, srai_epi32, (emulated_epi32 a, unsigned n), a.lane[i] >> n)

EMULATE(emulated_ps, cvtph_ps, (emulated_half a), half_to_float((uint16_t)((uint8_t)a.byte[2 * i] | a.byte[2 * i + 1] * 256)))
EMULATE(emulated_ps, sqrt_ps, (emulated_ps a), sqrtf(a.lane[i]))
EMULATE(emulated_ps, abs_ps, (emulated_ps a), fabsf(a.lane[i]))
EMULATE(emulated_ps, cvtepi32_ps, (emulated_epi32 a), (float)a.lane[i])
EMULATE(emulated_epi32, and_si512, (emulated_epi32 a, emulated_epi32 b), a.lane[i] & b.lane[i])
EMULATE(emulated_epi32, xor_si512, (emulated_epi32 a, emulated_epi32 b), a.lane[i] ^ b.lane[i])
EMULATE(emulated_ps, mask_blend_ps, (__mmask16 mask, emulated_ps a, emulated_ps b), mask >> i & 1 ? b.lane[i] : a.lane[i])
EMULATE(emulated_ps, permute_ps, (emulated_ps a, int how), a.lane[i / 4 * 4 + (how >> 2 * (i % 4) & 3)])

EMULATE(emulated_ps, permutex2var_ps, (emulated_ps a, emulated_epi32 from, emulated_ps b),
        (from.lane[i] & 16 ? b : a).lane[from.lane[i] & 15])
EMULATE(emulated_ps, permutexvar_ps, (emulated_epi32 from, emulated_ps a), a.lane[from.lane[i] & 15])
EMULATE(emulated_epi32, loadu_si512, (const void *p), ((const int32_t *)p)[i])

#define EMULATE_PARTS(part, count, name, parameters, expression)  \
    static inline emulated_epi32 emulated_##name parameters {     \
        emulated_epi32 out;                                       \
        for (int i = 0; i < count; i++) out.part[i] = expression; \
        return out;                                               \
    }

static inline int8_t emulated_byte(int32_t a) { return (int8_t)(a < -128 ? -128 : a > 127 ? 127 : a); }
static inline int16_t emulated_saturated(int32_t a) { return (int16_t)(a < -32768 ? -32768 : a > 32767 ? 32767 : a); }

static inline int32_t emulated_products(emulated_epi32 u, emulated_epi32 s, int first, int count) {
    int32_t sum = 0;
    for (int i = first; i < first + count; i++) sum += (uint8_t)u.byte[i] * s.byte[i];
    return sum;
}

EMULATE_PARTS(lane, 16, setzero_si512, (void), 0)
EMULATE_PARTS(word, 32, set1_epi16, (int16_t a), a)
EMULATE_PARTS(word, 32, cvtepi8_epi16, (emulated_half a), a.byte[i])
EMULATE_PARTS(word, 32, unpacklo_epi16, (emulated_epi32 a, emulated_epi32 b), (i % 2 ? b : a).word[i / 8 * 8 + i % 8 / 2])
EMULATE_PARTS(word, 32, unpackhi_epi16, (emulated_epi32 a, emulated_epi32 b),
              (i % 2 ? b : a).word[i / 8 * 8 + i % 8 / 2 + 4])
EMULATE_PARTS(word, 32, max_epi16, (emulated_epi32 a, emulated_epi32 b), (a.word[i] > b.word[i] ? a : b).word[i])
EMULATE_PARTS(word, 32, adds_epi16, (emulated_epi32 a, emulated_epi32 b), emulated_saturated(a.word[i] + b.word[i]))
EMULATE_PARTS(word, 32, packs_epi32, (emulated_epi32 a, emulated_epi32 b),
              emulated_saturated((i % 8 < 4 ? a : b).lane[i / 8 * 4 + i % 4]))
EMULATE_PARTS(word, 32, maddubs_epi16, (emulated_epi32 u, emulated_epi32 s),
              emulated_saturated(emulated_products(u, s, 2 * i, 2)))
EMULATE_PARTS(lane, 16, madd_epi16, (emulated_epi32 a, emulated_epi32 b),
              a.word[2 * i] * b.word[2 * i] + a.word[2 * i + 1] * b.word[2 * i + 1])
EMULATE_PARTS(lane, 16, dpwssd_epi32, (emulated_epi32 sum, emulated_epi32 a, emulated_epi32 b),
              (int32_t)((uint32_t)sum.lane[i] + (uint32_t)emulated_madd_epi16(a, b).lane[i]))
EMULATE_PARTS(lane, 16, dpbusd_epi32, (emulated_epi32 sum, emulated_epi32 u, emulated_epi32 s),
              (int32_t)((uint32_t)sum.lane[i] + (uint32_t)emulated_products(u, s, 4 * i, 4)))
EMULATE_PARTS(lane, 16, shuffle_i32x4, (emulated_epi32 a, emulated_epi32 b, int how),
              (i < 8 ? a : b).lane[(how >> 2 * (i / 4) & 3) * 4 + i % 4])
EMULATE_PARTS(quad, 8, permutexvar_epi64, (emulated_epi32 from, emulated_epi32 a), a.quad[from.quad[i] & 7])
EMULATE_PARTS(byte, 64, abs_epi8, (emulated_epi32 a), (int8_t)abs(a.byte[i]))
EMULATE_PARTS(byte, 64, mask_sub_epi8, (emulated_epi32 from, __mmask64 mask, emulated_epi32 a, emulated_epi32 b),
              mask >> i & 1 ? (int8_t)(a.byte[i] - b.byte[i]) : from.byte[i])

EMULATE_PARTS(byte, 64, set1_epi8, (int8_t a), a)
EMULATE_PARTS(byte, 64, permutex2var_epi8, (emulated_epi32 a, emulated_epi32 from, emulated_epi32 b),
              (from.byte[i] & 64 ? b : a).byte[from.byte[i] & 63])
EMULATE_PARTS(byte, 64, mask_blend_epi8, (__mmask64 mask, emulated_epi32 a, emulated_epi32 b),
              (mask >> i & 1 ? b : a).byte[i])
EMULATE_PARTS(byte, 64, broadcast_i32x4, (__m128i a), ((const int8_t *)&a)[i % 16])
EMULATE_PARTS(byte, 64, maskz_loadu_epi8, (__mmask64 mask, const void *p), mask >> i & 1 ? ((const int8_t *)p)[i] : 0)
EMULATE_PARTS(byte, 64, max_epi8, (emulated_epi32 a, emulated_epi32 b), (a.byte[i] > b.byte[i] ? a : b).byte[i])
EMULATE_PARTS(byte, 64, min_epi8, (emulated_epi32 a, emulated_epi32 b), (a.byte[i] < b.byte[i] ? a : b).byte[i])
EMULATE_PARTS(byte, 64, subs_epi8, (emulated_epi32 a, emulated_epi32 b), emulated_byte(a.byte[i] - b.byte[i]))
EMULATE_PARTS(byte, 64, shuffle_epi8, (emulated_epi32 a, emulated_epi32 b),
              b.byte[i] < 0 ? 0 : a.byte[i / 16 * 16 + b.byte[i] % 16])
EMULATE_PARTS(byte, 64, packs_epi16, (emulated_epi32 a, emulated_epi32 b),
              emulated_byte((i % 16 < 8 ? a : b).word[i / 16 * 8 + i % 8]))
EMULATE_PARTS(word, 32, add_epi16, (emulated_epi32 a, emulated_epi32 b), (int16_t)(a.word[i] + b.word[i]))
EMULATE_PARTS(lane, 16, permutexvar_epi32, (emulated_epi32 from, emulated_epi32 a), a.lane[from.lane[i] & 15])
EMULATE_PARTS(lane, 16, cvtepi8_epi32, (__m128i a), ((const int8_t *)&a)[i])
EMULATE_PARTS(lane, 16, cvtepi16_epi32, (emulated_half a), (int16_t)((uint8_t)a.byte[2 * i] | a.byte[2 * i + 1] * 256))

static inline __mmask64 emulated_movepi8_mask(emulated_epi32 a) {
    __mmask64 mask = 0;
    for (int i = 0; i < 64; i++) mask |= (__mmask64)(a.byte[i] < 0) << i;
    return mask;
}

static inline emulated_half emulated_half_maskz_loadu_epi8(__mmask32 mask, const void *p) {
    emulated_half out;
    for (int i = 0; i < 32; i++) out.byte[i] = mask >> i & 1 ? ((const int8_t *)p)[i] : 0;
    return out;
}

static inline emulated_half emulated_extracti64x4_epi64(emulated_epi32 a, int half) {
    emulated_half out;
    memcpy(&out, &a.lane[8 * half], sizeof out);
    return out;
}

static inline void emulated_storeu_si512(void *p, emulated_epi32 a) { memcpy(p, &a, sizeof a); }
static inline void emulated_mask_storeu_epi8(void *p, __mmask64 mask, emulated_epi32 a) {
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1) ((int8_t *)p)[i] = a.byte[i];
}

static inline void emulated_mask_cvtepi16_storeu_epi8(int8_t *p, __mmask32 mask, emulated_epi32 a) {
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) p[i] = (int8_t)a.word[i];
}

/* Of blocks of four lanes: two of a, then two of b. */
static inline emulated_ps emulated_shuffle_f32x4(emulated_ps a, emulated_ps b, int how) {
    emulated_ps out;
    for (int i = 0; i < 16; i++) out.lane[i] = (i < 8 ? a : b).lane[(how >> 2 * (i / 4) & 3) * 4 + i % 4];
    return out;
}

/* In blocks of four lanes: two of a, then two of b. */
static inline emulated_ps emulated_shuffle_ps(emulated_ps a, emulated_ps b, int how) {
    emulated_ps out;
    for (int i = 0; i < 16; i++) out.lane[i] = (i % 4 < 2 ? a : b).lane[i / 4 * 4 + (how >> 2 * (i % 4) & 3)];
    return out;
}

static inline emulated_ps emulated_insertf32x4(emulated_ps a, __m128 block, int at) {
    memcpy(a.lane + 4 * at, &block, sizeof block);
    return a;
}

static inline emulated_ps emulated_castps128_ps512(__m128 block) {
    emulated_ps out = {{0}};
    return emulated_insertf32x4(out, block, 0);
}

static inline __mmask16 emulated_cmp_ps_mask(emulated_ps a, emulated_ps b, int how) {
    int mask = 0;
    for (int i = 0; i < 16; i++) {
        const float x = a.lane[i], y = b.lane[i];
        const int nan = x != x || y != y;
        switch (how) {
        case _CMP_LT_OQ: mask |= (x < y) << i; break;
        case _CMP_EQ_OQ: mask |= (x == y) << i; break;
        case _CMP_UNORD_Q: mask |= nan << i; break;
        case _CMP_ORD_Q: mask |= !nan << i; break;
        default: abort();
        }
    }
    return (__mmask16)mask;
}

static inline emulated_ps emulated_load_ps(const float *p) {
    if ((uintptr_t)p % 64) abort();
    return emulated_loadu_ps(p);
}

static inline emulated_ps emulated_roundscale_ps(emulated_ps a, int how) {
    const int nearest = how == (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    if (!nearest && how != (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)) abort();
    for (int i = 0; i < 16; i++) a.lane[i] = nearest ? rintf(a.lane[i]) : floorf(a.lane[i]);
    return a;
}

static inline emulated_ps emulated_castsi512_ps(emulated_epi32 a) {
    emulated_ps out;
    memcpy(&out, &a, sizeof out);
    return out;
}

static inline emulated_epi32 emulated_castps_si512(emulated_ps a) {
    emulated_epi32 out;
    memcpy(&out, &a, sizeof out);
    return out;
}

static inline float emulated_reduce_add_ps(emulated_ps a) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) a.lane[i] += a.lane[i + half];
    return a.lane[0];
}

static inline float emulated_reduce_max_ps(emulated_ps a) {
    for (int i = 1; i < 16; i++) a.lane[0] = a.lane[i] > a.lane[0] ? a.lane[i] : a.lane[0];
    return a.lane[0];
}

static inline void emulated_mask_storeu_ps(float *p, __mmask16 mask, emulated_ps a) {
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) p[i] = a.lane[i];
}

static inline void emulated_storeu_ps(float *p, emulated_ps a) { emulated_mask_storeu_ps(p, 0xffff, a); }

#undef _mm512_roundscale_ps /* macros without optimization */
#undef _mm512_slli_epi32
#undef _mm512_srai_epi32
#undef _mm512_permute_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_ps
#undef _mm512_insertf32x4
#undef _mm512_castps128_ps512
#undef _mm512_cmp_ps_mask
#undef _mm512_setr_epi32
#undef _mm512_extracti64x4_epi64
#undef _mm512_setr_epi64
#undef _mm512_shuffle_i32x4
#define __m512 emulated_ps
#define __m512i emulated_epi32
#define _mm512_set1_ps emulated_set1_ps
#define _mm512_set1_epi32 emulated_set1_epi32
#define _mm512_setr_epi32(...) ((emulated_epi32){{__VA_ARGS__}})
#define _mm512_setzero_ps emulated_setzero_ps
#define _mm512_cvtph_ps emulated_cvtph_ps
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_permutex2var_ps emulated_permutex2var_ps
#define _mm512_permutexvar_ps emulated_permutexvar_ps
#define _mm512_loadu_si512 emulated_loadu_si512
#define _mm512_load_ps emulated_load_ps
#define _mm512_loadu_ps emulated_loadu_ps
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm512_mask_loadu_ps emulated_mask_loadu_ps
#define _mm512_storeu_ps emulated_storeu_ps
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm512_add_ps emulated_add_ps
#define _mm512_sub_ps emulated_sub_ps
#define _mm512_mul_ps emulated_mul_ps
#define _mm512_div_ps emulated_div_ps
#define _mm512_max_ps emulated_max_ps
#define _mm512_min_ps emulated_min_ps
#define _mm512_mask_max_ps emulated_mask_max_ps
#define _mm512_mask_min_ps emulated_mask_min_ps
#define _mm512_reduce_add_ps emulated_reduce_add_ps
#define _mm512_reduce_max_ps emulated_reduce_max_ps
#define _mm512_fmadd_ps emulated_fmadd_ps
#define _mm512_fnmadd_ps emulated_fnmadd_ps
#define _mm512_roundscale_ps emulated_roundscale_ps
#define _mm512_cvtps_epi32 emulated_cvtps_epi32
#define _mm512_add_epi32 emulated_add_epi32
#define _mm512_sub_epi32 emulated_sub_epi32
#define _mm512_slli_epi32 emulated_slli_epi32
#define _mm512_srai_epi32 emulated_srai_epi32
#define _mm512_castsi512_ps emulated_castsi512_ps
#define _mm512_castps_si512 emulated_castps_si512
#define _mm512_abs_ps emulated_abs_ps
#define _mm512_and_si512 emulated_and_si512
#define _mm512_cmp_ps_mask emulated_cmp_ps_mask
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_mask_blend_ps emulated_mask_blend_ps
#define _mm512_permute_ps emulated_permute_ps
#define _mm512_shuffle_f32x4 emulated_shuffle_f32x4
#define _mm512_shuffle_ps emulated_shuffle_ps
#define _mm512_insertf32x4 emulated_insertf32x4
#define _mm512_castps128_ps512 emulated_castps128_ps512
#define _mm512_sqrt_ps emulated_sqrt_ps
#define _mm512_xor_si512 emulated_xor_si512
#define _mm512_set1_epi8 emulated_set1_epi8
#define _mm512_set1_epi16 emulated_set1_epi16
#define _mm512_broadcast_i32x4 emulated_broadcast_i32x4
#define _mm512_cvtepi8_epi16 emulated_cvtepi8_epi16
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#define _mm512_cvtepi16_epi32 emulated_cvtepi16_epi32
#define _mm512_extracti64x4_epi64 emulated_extracti64x4_epi64
#define _mm512_storeu_si512 emulated_storeu_si512
#define _mm512_mask_storeu_epi8 emulated_mask_storeu_epi8
#define _mm512_maskz_loadu_epi8 emulated_maskz_loadu_epi8
#define _mm512_max_epi8 emulated_max_epi8
#define _mm512_min_epi8 emulated_min_epi8
#define _mm512_subs_epi8 emulated_subs_epi8
#define _mm512_shuffle_epi8 emulated_shuffle_epi8
#define _mm512_add_epi16 emulated_add_epi16
#define _mm512_adds_epi16 emulated_adds_epi16
#define _mm512_packs_epi16 emulated_packs_epi16
#define _mm512_packs_epi32 emulated_packs_epi32
#define _mm512_permutexvar_epi32 emulated_permutexvar_epi32
#define _mm512_castsi512_si256(a) emulated_extracti64x4_epi64(a, 0)
#define _mm256_lddqu_si256(p) emulated_half_maskz_loadu_epi8(~0u, p)
#define _mm256_loadu_epi8(p) emulated_half_maskz_loadu_epi8(~0u, p)
#define _mm256_maskz_loadu_epi8 emulated_half_maskz_loadu_epi8
#define _mm512_abs_epi8 emulated_abs_epi8
#define _mm512_dpbusd_epi32 emulated_dpbusd_epi32
#define _mm512_dpwssd_epi32 emulated_dpwssd_epi32
#define _mm512_madd_epi16 emulated_madd_epi16
#define _mm512_maddubs_epi16 emulated_maddubs_epi16
#define _mm512_mask_cvtepi16_storeu_epi8 emulated_mask_cvtepi16_storeu_epi8
#define _mm512_mask_sub_epi8 emulated_mask_sub_epi8
#define _mm512_max_epi16 emulated_max_epi16
#define _mm512_movepi8_mask emulated_movepi8_mask
#define _mm512_mask_blend_epi8 emulated_mask_blend_epi8
#define _mm512_permutex2var_epi8 emulated_permutex2var_epi8
#define _mm512_permutexvar_epi64 emulated_permutexvar_epi64
#define _mm512_setr_epi64(...) ((emulated_epi32){.quad = {__VA_ARGS__}})
#define _mm512_setzero_si512 emulated_setzero_si512
#define _mm512_shuffle_i32x4 emulated_shuffle_i32x4
#define _mm512_unpackhi_epi16 emulated_unpackhi_epi16
#define _mm512_unpacklo_epi16 emulated_unpacklo_epi16

#endif
