/* Vectors of signed bytes beside the floats of f32/simd.h, which is included before; PA_SIMD_END comes last as ever.
 *
 *   vb, VB              a vector of bytes: as many as PARTS vectors of floats have lanes, in the same order
 *   SLOW_DIVISION       whether a division takes longer than five other operations: 34 cycles on a Cortex-A73, 7 on an A76
 *   b_load_n, b_store_n touch n bytes of memory only, 1 <= n <= VB; those past n load as any. A constant n = VB compiles to
 *                       the plain access
 *   b_from              a zero point as b_get wants it; b_from_of(zero)
 *   b_get(p, v, from)   VB bytes less the zero point, in PARTS vectors of floats
 *   b_to                a pa_requantise as b_round wants it; b_to_of(requantise)
 *   b_round(v, to)      clamp(rint(v), lo, hi) + zero of PARTS vectors of floats; of a NaN any within the bounds
 *   vw                  sums of VB lanes in 16 bits; b_words() has 0 in each
 *   b_add(&sum, p, n)   sum + n bytes
 *   vs                  sums of VB lanes in 32 bits; b_sums(x) has x in each
 *   b_add_words(&sum, words), b_sum_floats(sum, v)
 */
#ifndef PIPEALL_SIMD_BYTES_H
#define PIPEALL_SIMD_BYTES_H

#undef PA_NAME

#if defined(PA_ISA_REF)
#define PA_NAME(op) pa_##op##_s8_ref

enum { PARTS = 1, VB = 1, SLOW_DIVISION = 0 };
typedef int8_t vb;
PA_INLINE vb b_set1(int8_t x) { return x; }
PA_INLINE vb b_load_n(const int8_t *p, int n) { return (void)n, *p; }
PA_INLINE void b_store_n(int8_t *p, vb a, int n) { (void)n, *p = a; }
PA_INLINE vb b_max(vb a, vb b) { return a > b ? a : b; }
typedef int32_t b_from;
PA_INLINE b_from b_from_of(int32_t zero) { return zero; }
PA_INLINE void b_get(const int8_t *p, vf *v, b_from zero) { *v = (float)(*p - zero); }
typedef pa_requantise b_to;
PA_INLINE b_to b_to_of(const pa_requantise *to) { return *to; }
PA_INLINE vb b_round(const vf *v, const b_to *to) {
    return (vb)((int32_t)rintf(v_min(v_max(*v, to->lo), to->hi)) + to->zero);
}
typedef int16_t vw;
PA_INLINE vw b_words(void) { return 0; }
PA_INLINE void b_add(vw *sum, const int8_t *p, int n) { (void)n, *sum = (vw)(*sum + *p); }
typedef int32_t vs;
PA_INLINE vs b_sums(int32_t x) { return x; }
PA_INLINE void b_add_words(vs *sum, vw words) { *sum += words; }
PA_INLINE void b_sum_floats(vs sum, vf *v) { *v = (float)sum; }

#elif defined(PA_ISA_NEON)
#define PA_NAME(op) pa_##op##_s8_neon

enum { PARTS = 4, VB = PARTS * VL, SLOW_DIVISION = 1 };
typedef int8x16_t vb;
PA_INLINE vb b_set1(int8_t x) { return vdupq_n_s8(x); }
PA_INLINE vb b_load_n(const int8_t *p, int n) {
    if (n == VB) return vld1q_s8(p);
    int8_t room[VB] = {0};
    memcpy(room, p, (size_t)n);
    return vld1q_s8(room);
}
PA_INLINE void b_store_n(int8_t *p, vb a, int n) {
    if (n == VB) {
        vst1q_s8(p, a);
    } else {
        int8_t room[VB];
        vst1q_s8(room, a);
        memcpy(p, room, (size_t)n);
    }
}
PA_INLINE vb b_max(vb a, vb b) { return vmaxq_s8(a, b); }
typedef struct vw {
    int16x8_t half[2];
} vw;
typedef struct vs {
    int32x4_t part[PARTS];
} vs;
PA_INLINE vw b_words(void) { return (vw){{vdupq_n_s16(0), vdupq_n_s16(0)}}; }
PA_INLINE void b_add(vw *sum, const int8_t *p, int n) {
    const vb bytes = b_load_n(p, n);
    sum->half[0] = vaddw_s8(sum->half[0], vget_low_s8(bytes));
    sum->half[1] = vaddw_high_s8(sum->half[1], bytes);
}
PA_INLINE vs b_sums(int32_t x) {
    const int32x4_t part = vdupq_n_s32(x);
    return (vs){{part, part, part, part}};
}
PA_INLINE void b_add_words(vs *sum, vw words) {
    PA_UNROLL
    for (int h = 0; h < 2; h++) {
        sum->part[2 * h] = vaddw_s16(sum->part[2 * h], vget_low_s16(words.half[h]));
        sum->part[2 * h + 1] = vaddw_high_s16(sum->part[2 * h + 1], words.half[h]);
    }
}
PA_INLINE void b_sum_floats(vs sum, vf *v) {
    PA_UNROLL
    for (int i = 0; i < PARTS; i++) v[i] = vcvtq_f32_s32(sum.part[i]);
}
typedef int8x8_t b_from;
PA_INLINE b_from b_from_of(int32_t zero) { return vdup_n_s8((int8_t)zero); }
/* Widened and added to the bits of 1.5 * 2^23 an integer makes the float that is more by it: as many instructions as to widen
 * and convert, but additions, which a Cortex-A76 does four times as fast as conversions. */
PA_INLINE void b_get(const int8_t *p, vf *v, b_from zero) {
    const vb bytes = vld1q_s8(p);
    const int16x8_t low = vsubl_s8(vget_low_s8(bytes), zero), high = vsubl_s8(vget_high_s8(bytes), zero);
    const vf base = vdupq_n_f32(0x1.8p23f);
    const int32x4_t bits = vreinterpretq_s32_f32(base);
    const int32x4_t more[PARTS] = {vaddw_s16(bits, vget_low_s16(low)), vaddw_high_s16(bits, low),
                                   vaddw_s16(bits, vget_low_s16(high)), vaddw_high_s16(bits, high)};
    PA_UNROLL
    for (int i = 0; i < PARTS; i++) v[i] = vsubq_f32(vreinterpretq_f32_s32(more[i]), base);
}
typedef struct b_to {
    int16x8_t zero;
    vb lo, hi;
} b_to;
PA_INLINE b_to b_to_of(const pa_requantise *to) {
    const int8_t lo = (int8_t)((int32_t)to->lo + to->zero), hi = (int8_t)((int32_t)to->hi + to->zero);
    return (b_to){vdupq_n_s16((int16_t)to->zero), vdupq_n_s8(lo), vdupq_n_s8(hi)};
}
PA_INLINE int16x8_t b_integers(vf a, vf b) {
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
}
PA_INLINE vb b_round(const vf *v, const b_to *to) {
    const int16x8_t low = vqaddq_s16(b_integers(v[0], v[1]), to->zero);
    const int16x8_t high = vqaddq_s16(b_integers(v[2], v[3]), to->zero);
    return vmaxq_s8(to->lo, vminq_s8(to->hi, vqmovn_high_s16(vqmovn_s16(low), high)));
}

#elif defined(PA_ISA_AVX2)
#define PA_NAME(op) pa_##op##_s8_avx2

enum { PARTS = 4, VB = PARTS * VL, SLOW_DIVISION = 0 };
typedef __m256i vb;
PA_INLINE vb b_set1(int8_t x) { return _mm256_set1_epi8(x); }
PA_INLINE vb b_load_n(const int8_t *p, int n) {
    if (n == VB) return _mm256_loadu_si256((const __m256i *)p);
    const __m256i whole = _mm256_maskload_epi32((const int *)p, v_mask(n / 4));
    if (n % 4 == 0) return whole;
    int32_t rest = 0;
    memcpy(&rest, p + n / 4 * 4, (size_t)(n % 4));
    return _mm256_or_si256(whole, _mm256_andnot_si256(v_mask(n / 4), _mm256_set1_epi32(rest)));
}
PA_INLINE void b_store_n(int8_t *p, vb a, int n) {
    if (n == VB) {
        _mm256_storeu_si256((__m256i *)p, a);
    } else {
        int8_t room[VB];
        _mm256_storeu_si256((__m256i *)room, a);
        memcpy(p, room, (size_t)n);
    }
}
PA_INLINE vb b_max(vb a, vb b) { return _mm256_max_epi8(a, b); }
typedef struct vw {
    __m256i half[2];
} vw;
typedef struct vs {
    __m256i part[PARTS];
} vs;
PA_INLINE vw b_words(void) { return (vw){{_mm256_setzero_si256(), _mm256_setzero_si256()}}; }
PA_INLINE void b_add(vw *sum, const int8_t *p, int n) {
    __m128i half[2];
    if (n == VB) {
        half[0] = _mm_loadu_si128((const __m128i *)p), half[1] = _mm_loadu_si128((const __m128i *)p + 1);
    } else {
        const vb bytes = b_load_n(p, n);
        half[0] = _mm256_castsi256_si128(bytes), half[1] = _mm256_extracti128_si256(bytes, 1);
    }
    for (int h = 0; h < 2; h++) sum->half[h] = _mm256_add_epi16(sum->half[h], _mm256_cvtepi8_epi16(half[h]));
}
PA_INLINE vs b_sums(int32_t x) {
    const __m256i part = _mm256_set1_epi32(x);
    return (vs){{part, part, part, part}};
}
PA_INLINE void b_add_words(vs *sum, vw words) {
    for (int h = 0; h < 2; h++) {
        const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(words.half[h]));
        const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(words.half[h], 1));
        sum->part[2 * h] = _mm256_add_epi32(sum->part[2 * h], low);
        sum->part[2 * h + 1] = _mm256_add_epi32(sum->part[2 * h + 1], high);
    }
}
PA_INLINE void b_sum_floats(vs sum, vf *v) {
    for (int i = 0; i < PARTS; i++) v[i] = _mm256_cvtepi32_ps(sum.part[i]);
}
/* A byte is added to the bits of 1.5 * 2^23, where floats are integers: cheaper than a conversion. */
enum { INTEGERS = 0x4b400000 };
typedef vf b_from;
PA_INLINE b_from b_from_of(int32_t zero) { return v_set1((float)(3 << 22) + (float)zero); }
PA_INLINE void b_get(const int8_t *p, vf *v, b_from zero) {
    PA_UNROLL
    for (int i = 0; i < PARTS; i++) {
        const __m256i bytes = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + i * VL)));
        v[i] = v_sub(_mm256_castsi256_ps(_mm256_add_epi32(bytes, _mm256_set1_epi32(INTEGERS))), zero);
    }
}
typedef struct b_to {
    __m256i zero, lo, hi; /* of 16 bits, of 8 */
} b_to;
PA_INLINE b_to b_to_of(const pa_requantise *to) {
    const int8_t lo = (int8_t)((int32_t)to->lo + to->zero), hi = (int8_t)((int32_t)to->hi + to->zero);
    return (b_to){_mm256_set1_epi16((int16_t)to->zero), _mm256_set1_epi8(lo), _mm256_set1_epi8(hi)};
}
/* The conversion makes INT32_MIN of what is too large. */
PA_INLINE __m256i b_integers(vf a) { return _mm256_cvtps_epi32(v_min(a, v_set1(INT16_MAX))); }
PA_INLINE vb b_round(const vf *v, const b_to *to) {
    const __m256i low = _mm256_packs_epi32(b_integers(v[0]), b_integers(v[1]));
    const __m256i high = _mm256_packs_epi32(b_integers(v[2]), b_integers(v[3]));
    const __m256i bytes = _mm256_packs_epi16(_mm256_adds_epi16(low, to->zero), _mm256_adds_epi16(high, to->zero));
    const __m256i clamped = _mm256_max_epi8(to->lo, _mm256_min_epi8(to->hi, bytes));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packs work in halves */
    return _mm256_permutevar8x32_epi32(clamped, order);
}

#elif defined(PA_ISA_AVX512)
#define PA_NAME(op) pa_##op##_s8_avx512
PA_SIMD_END
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl")
#endif

enum { PARTS = 4, VB = PARTS * VL, SLOW_DIVISION = 0 };
typedef __m512i vb;
PA_INLINE __mmask64 b_mask(int n) { return n <= 0 ? 0 : n >= VB ? ~0ull : ~0ull >> (VB - n); }
PA_INLINE vb b_set1(int8_t x) { return _mm512_set1_epi8(x); }
PA_INLINE vb b_load_n(const int8_t *p, int n) {
    return n == VB ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(b_mask(n), p);
}
PA_INLINE void b_store_n(int8_t *p, vb a, int n) {
    if (n == VB)
        _mm512_storeu_si512(p, a);
    else
        _mm512_mask_storeu_epi8(p, b_mask(n), a);
}
PA_INLINE vb b_max(vb a, vb b) { return _mm512_max_epi8(a, b); }
typedef struct vw {
    __m512i half[2];
} vw;
typedef struct vs {
    __m512i part[PARTS];
} vs;
PA_INLINE vw b_words(void) { return (vw){{_mm512_set1_epi16(0), _mm512_set1_epi16(0)}}; }
PA_INLINE void b_add(vw *sum, const int8_t *p, int n) {
    enum { HALF = VB / 2 };
    for (int h = 0; h < 2; h++, p += HALF, n -= HALF) {
        const __m512i words = n >= HALF ? _mm512_cvtepi8_epi16(_mm256_loadu_epi8(p))
                                        : _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((__mmask32)b_mask(n), p));
        sum->half[h] = _mm512_add_epi16(sum->half[h], words);
    }
}
PA_INLINE vs b_sums(int32_t x) {
    const __m512i part = _mm512_set1_epi32(x);
    return (vs){{part, part, part, part}};
}
PA_INLINE void b_add_words(vs *sum, vw words) {
    for (int h = 0; h < 2; h++) {
        const __m512i low = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(words.half[h]));
        const __m512i high = _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(words.half[h], 1));
        sum->part[2 * h] = _mm512_add_epi32(sum->part[2 * h], low);
        sum->part[2 * h + 1] = _mm512_add_epi32(sum->part[2 * h + 1], high);
    }
}
PA_INLINE void b_sum_floats(vs sum, vf *v) {
    for (int i = 0; i < PARTS; i++) v[i] = _mm512_cvtepi32_ps(sum.part[i]);
}
/* A byte is added to the bits of 1.5 * 2^23, where floats are integers: cheaper than a conversion. */
enum { INTEGERS = 0x4b400000 };
typedef vf b_from;
PA_INLINE b_from b_from_of(int32_t zero) { return v_set1((float)(3 << 22) + (float)zero); }
PA_INLINE void b_get(const int8_t *p, vf *v, b_from zero) {
    PA_UNROLL
    for (int i = 0; i < PARTS; i++) {
        const __m512i bytes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p + i * VL)));
        v[i] = v_sub(_mm512_castsi512_ps(_mm512_add_epi32(bytes, _mm512_set1_epi32(INTEGERS))), zero);
    }
}
typedef struct b_to {
    __m512i zero, lo, hi; /* of 16 bits, of 8 */
} b_to;
PA_INLINE b_to b_to_of(const pa_requantise *to) {
    const int8_t lo = (int8_t)((int32_t)to->lo + to->zero), hi = (int8_t)((int32_t)to->hi + to->zero);
    return (b_to){_mm512_set1_epi16((int16_t)to->zero), _mm512_set1_epi8(lo), _mm512_set1_epi8(hi)};
}
/* The conversion makes INT32_MIN of what is too large. */
PA_INLINE __m512i b_integers(vf a) { return _mm512_cvtps_epi32(v_min(a, v_set1(INT16_MAX))); }
PA_INLINE vb b_round(const vf *v, const b_to *to) {
    const __m512i low = _mm512_packs_epi32(b_integers(v[0]), b_integers(v[1]));
    const __m512i high = _mm512_packs_epi32(b_integers(v[2]), b_integers(v[3]));
    const __m512i bytes = _mm512_packs_epi16(_mm512_adds_epi16(low, to->zero), _mm512_adds_epi16(high, to->zero));
    const __m512i clamped = _mm512_max_epi8(to->lo, _mm512_min_epi8(to->hi, bytes));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); /* packs: in quarters */
    return _mm512_permutexvar_epi32(order, clamped);
}
#endif

#endif
