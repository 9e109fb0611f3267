/* The AVX-512F, BW and VL intrinsics that the kernels use, in plain C, for machines without AVX-512. Found before the compiler's
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

typedef struct emulated_ps {
    float lane[16];
} emulated_ps;
typedef struct emulated_epi32 {
    int32_t lane[16];
} emulated_epi32;

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

/* Of blocks of four lanes: two of a, then two of b. */
static inline emulated_ps emulated_shuffle_f32x4(emulated_ps a, emulated_ps b, int how) {
    emulated_ps out;
    for (int i = 0; i < 16; i++) out.lane[i] = (i < 8 ? a : b).lane[(how >> 2 * (i / 4) & 3) * 4 + i % 4];
    return out;
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

/* Of whole vectors x and y of a type, lane by lane. */
#define EMULATE_LANES(type, name, expression)                                                      \
    static inline emulated_epi32 emulated_##name(emulated_epi32 a, emulated_epi32 b) {             \
        type x[64 / sizeof(type)], y[64 / sizeof(type)], out[64 / sizeof(type)];                   \
        memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y);                                          \
        for (int i = 0; i < (int)(64 / sizeof(type)); i++) out[i] = (type)(expression);            \
        memcpy(&a, out, sizeof a);                                                                 \
        return a;                                                                                  \
    }
static inline int emulated_saturated(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }

EMULATE_LANES(int8_t, max_epi8, x[i] > y[i] ? x[i] : y[i])
EMULATE_LANES(int8_t, min_epi8, x[i] < y[i] ? x[i] : y[i])
EMULATE_LANES(int8_t, subs_epi8, emulated_saturated(x[i] - y[i], INT8_MIN, INT8_MAX))
EMULATE_LANES(int8_t, shuffle_epi8, y[i] < 0 ? 0 : x[i / 16 * 16 + y[i] % 16])
EMULATE_LANES(int16_t, add_epi16, x[i] + y[i])
EMULATE_LANES(int16_t, adds_epi16, emulated_saturated(x[i] + y[i], INT16_MIN, INT16_MAX))
EMULATE_LANES(int32_t, permutexvar_epi32, y[x[i] & 15])

/* Of every 16 bytes of a, then of b, numbers of half their width. */
#define EMULATE_PACKS(name, wide, narrow, least, most)                                                              \
    static inline emulated_epi32 emulated_##name(emulated_epi32 a, emulated_epi32 b) {                              \
        enum { LANES = 16 / sizeof(wide) };                                                                         \
        wide x[2][4][LANES];                                                                                        \
        narrow out[4][2][LANES];                                                                                    \
        memcpy(x[0], &a, sizeof a), memcpy(x[1], &b, sizeof b);                                                     \
        for (int i = 0; i < 8 * LANES; i++) {                                                                       \
            const int block = i / LANES / 2, of = i / LANES % 2, lane = i % LANES;                                  \
            out[block][of][lane] = (narrow)emulated_saturated(x[of][block][lane], least, most);                     \
        }                                                                                                           \
        memcpy(&a, out, sizeof a);                                                                                  \
        return a;                                                                                                   \
    }
EMULATE_PACKS(packs_epi32, int32_t, int16_t, INT16_MIN, INT16_MAX)
EMULATE_PACKS(packs_epi16, int16_t, int8_t, INT8_MIN, INT8_MAX)

static inline emulated_epi32 emulated_repeat(const void *p, size_t bytes) {
    emulated_epi32 out;
    for (size_t i = 0; i < sizeof out; i += bytes) memcpy((char *)&out + i, p, bytes);
    return out;
}
static inline emulated_epi32 emulated_set1_epi8(int8_t a) { return emulated_repeat(&a, sizeof a); }
static inline emulated_epi32 emulated_set1_epi16(int16_t a) { return emulated_repeat(&a, sizeof a); }
static inline emulated_epi32 emulated_broadcast_i32x4(__m128i a) { return emulated_repeat(&a, sizeof a); }
static inline void emulated_storeu_si512(void *p, emulated_epi32 a) { memcpy(p, &a, sizeof a); }
static inline void emulated_mask_storeu_epi8(void *p, __mmask64 mask, emulated_epi32 a) {
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1) ((char *)p)[i] = ((const char *)&a)[i];
}
static inline emulated_epi32 emulated_maskz_loadu_epi8(__mmask64 mask, const void *p) {
    char out[64] = {0};
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1) out[i] = ((const char *)p)[i];
    return emulated_repeat(out, sizeof out);
}
EMULATE(emulated_epi32, cvtepi8_epi32, (__m128i a), ((const int8_t *)&a)[i])

typedef struct emulated_half {
    int8_t byte[32];
} emulated_half;
static inline emulated_half emulated_extracti64x4_epi64(emulated_epi32 a, int half) {
    emulated_half out;
    memcpy(&out, &a.lane[8 * half], sizeof out);
    return out;
}
static inline emulated_half emulated_half_maskz_loadu_epi8(__mmask32 mask, const void *p) {
    return emulated_extracti64x4_epi64(emulated_maskz_loadu_epi8(mask, p), 0);
}
static inline emulated_epi32 emulated_cvtepi8_epi16(emulated_half a) {
    int16_t out[32];
    for (int i = 0; i < 32; i++) out[i] = a.byte[i];
    return emulated_repeat(out, sizeof out);
}
static inline emulated_epi32 emulated_cvtepi16_epi32(emulated_half a) {
    int16_t words[16];
    emulated_epi32 out;
    memcpy(words, &a, sizeof words);
    for (int i = 0; i < 16; i++) out.lane[i] = words[i];
    return out;
}

#undef _mm512_roundscale_ps /* macros without optimisation */
#undef _mm512_slli_epi32
#undef _mm512_srai_epi32
#undef _mm512_permute_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_cmp_ps_mask
#undef _mm512_setr_epi32
#undef _mm512_extracti64x4_epi64
#define __m512 emulated_ps
#define __m512i emulated_epi32
#define _mm512_set1_ps emulated_set1_ps
#define _mm512_set1_epi32 emulated_set1_epi32
#define _mm512_setr_epi32(...) ((emulated_epi32){{__VA_ARGS__}})
#define _mm512_setzero_ps emulated_setzero_ps
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
#define _mm256_loadu_epi8(p) emulated_half_maskz_loadu_epi8(~0u, p)
#define _mm256_maskz_loadu_epi8 emulated_half_maskz_loadu_epi8

#endif
