/* The words of simd.h: AVX2, with FMA and F16C. */
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_avx2
#define V_OPAQUE(a) __asm__ volatile("" : "+x"(a))
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#define PA_SIMD_END _Pragma("clang attribute pop")
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define PA_SIMD_END _Pragma("GCC pop_options")
#endif

enum { VL = 8 };
typedef __m256 vf;
PA_INLINE __m256i v_mask(int n) {
    static const int32_t bits[2 * VL] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(bits + VL - n));
}
PA_INLINE vf v_set1(float x) { return _mm256_set1_ps(x); }
PA_INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
PA_INLINE void v_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
PA_INLINE vf v_load_u8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
PA_INLINE vf v_load_halves(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
PA_INLINE vf v_load_n(const float *p, int n) { return n == VL ? v_load(p) : _mm256_maskload_ps(p, v_mask(n)); }
PA_INLINE void v_store_n(float *p, vf a, int n) {
    if (n == VL)
        v_store(p, a);
    else
        _mm256_maskstore_ps(p, v_mask(n), a);
}
PA_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
PA_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
PA_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
PA_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
PA_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
PA_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
PA_INLINE vf v_max_nan(vf a, vf b) { return _mm256_or_ps(_mm256_max_ps(a, b), _mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }
PA_INLINE vf v_min_nan(vf a, vf b) { return _mm256_or_ps(_mm256_min_ps(a, b), _mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }
PA_INLINE vf v_root4_estimate(vf a) {
    const __m256i quarter = _mm256_srai_epi32(_mm256_castps_si256(a), 2);
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(ROOT4_BITS), quarter));
}
PA_INLINE vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
PA_INLINE vf v_floor(vf a) { return _mm256_floor_ps(a); }
PA_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
PA_INLINE vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
PA_INLINE vf v_neg(vf a) { return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a); }
typedef __m256 vm;
PA_INLINE vm v_less(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
PA_INLINE vm v_equal(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
PA_INLINE vm v_is_nan(vf a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
PA_INLINE vm v_or(vm a, vm b) { return _mm256_or_ps(a, b); }
PA_INLINE int v_any(vm m) { return _mm256_movemask_ps(m) != 0; }
PA_INLINE vf v_if(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
PA_INLINE vm v_first(int n) { return _mm256_castsi256_ps(v_mask(n)); }
PA_INLINE vf v_swap(vf a, const int w) {
    return w == 1 ? _mm256_permute_ps(a, 0xb1) : w == 2 ? _mm256_permute_ps(a, 0x4e) : _mm256_permute2f128_ps(a, a, 1);
}
PA_INLINE vf v_mix(vf a, vf b, const int w) {
    return w == 1 ? _mm256_blend_ps(a, b, 0xaa) : w == 2 ? _mm256_blend_ps(a, b, 0xcc) : _mm256_blend_ps(a, b, 0xf0);
}
PA_INLINE void v_trade(vf *a, vf *b, const int w) {
    vf first = w == 4 ? _mm256_permute2f128_ps(*a, *b, 0x20) : _mm256_shuffle_ps(*a, *b, 0x44);
    vf second = w == 4 ? _mm256_permute2f128_ps(*a, *b, 0x31) : _mm256_shuffle_ps(*a, *b, 0xee);
    if (w == 1) first = v_mix(*a, v_swap(*b, 1), 1), second = v_mix(v_swap(*a, 1), *b, 1);
    *a = first, *b = second;
}
PA_INLINE void v_zip(vf *a, vf *b) {
    const vf low = _mm256_unpacklo_ps(*a, *b), high = _mm256_unpackhi_ps(*a, *b);
    *a = _mm256_permute2f128_ps(low, high, 0x20), *b = _mm256_permute2f128_ps(low, high, 0x31);
}
PA_INLINE vf v_evens(vf a, vf b) {
    const __m256d halves = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)); /* of a, of b, in each half */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(halves, 0xd8));
}
PA_INLINE vf v_split(vf a, vf *e) {
    const __m256i least = _mm256_set1_epi32(HALF_ROOT2_BITS), bits = _mm256_sub_epi32(_mm256_castps_si256(a), least);
    *e = _mm256_cvtepi32_ps(_mm256_srai_epi32(bits, 23));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(MANTISSA_BITS)), least));
}
PA_INLINE vf v_pow2(vf m) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(m), 23)); }
PA_INLINE float v_fold_add(vf a) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
PA_INLINE float v_fold_max(vf a) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* ---- lanes by their places ---- */

enum { LANE_BITS = 1 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    if (w == VL) return v_load_n(p, n);
    const __m128i mask = _mm256_castsi256_si128(v_mask(n));
    const __m128 low = n == w ? _mm_loadu_ps(p) : _mm_maskload_ps(p, mask);
    const __m128 high = n == w ? _mm_loadu_ps(p + step) : _mm_maskload_ps(p + step, mask);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}
PA_INLINE vm v_blocks(int n, const int w) {
    const vm first = v_first(n);
    return w == VL ? first : _mm256_permute2f128_ps(first, first, 0);
}
PA_INLINE void v_pairs(vf *a, vf *b, const int w) {
    vf second = w == 4 ? _mm256_permute2f128_ps(*a, *b, 0x21) : _mm256_shuffle_ps(*a, *b, 0x4e);
    if (w == 1) second = v_swap(v_mix(*b, *a, 1), 1);
    *a = v_mix(*a, *b, w), *b = second;
}
PA_INLINE uint64_t v_bits(const vm *m) {
    const int low = _mm256_movemask_ps(m[0]) | _mm256_movemask_ps(m[1]) << 8;
    const int high = _mm256_movemask_ps(m[2]) | _mm256_movemask_ps(m[3]) << 8;
    return (uint64_t)low | (uint64_t)high << 16;
}
typedef __m256i vi;
PA_INLINE vi v_lanes(vf numbers, int32_t first) {
    return _mm256_sub_epi32(_mm256_castps_si256(numbers), _mm256_set1_epi32(first));
}
PA_INLINE vi v_wrap(vi lanes) { return lanes; } /* the instruction reads the last bits alone */
PA_INLINE vf v_pick(vf a, vi at) { return _mm256_permutevar8x32_ps(a, at); }
PA_INLINE vf v_pick2(vf a, vf b, vi at) {
    const vm second = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)); /* bit 3, of 8, becomes the sign */
    return _mm256_blendv_ps(v_pick(a, at), v_pick(b, at), second);
}

#ifdef PA_BYTES /* ---- bytes beside the floats ---- */

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
PA_INLINE b_to b_to_of(const pa_requantize *to) {
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

#endif
