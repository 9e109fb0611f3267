/* The words of simd.h: AVX-512F. Bytes take BW and VL too. */
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_avx512
#include <immintrin.h>
#ifdef PA_EMULATED_AVX512 /* tests/avx512 */
#define V_OPAQUE(a)
#else
#define V_OPAQUE(a) __asm__ volatile("" : "+v"(a))
#endif
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#define PA_SIMD_END _Pragma("clang attribute pop")
#else
#pragma GCC push_options
#pragma GCC target("avx512f")
#define PA_SIMD_END _Pragma("GCC pop_options")
#endif

enum { VL = 16 };
typedef __m512 vf;
PA_INLINE __mmask16 v_mask(int n) { return (__mmask16)(0xffffu >> (VL - n)); }
PA_INLINE vf v_set1(float x) { return _mm512_set1_ps(x); }
PA_INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
PA_INLINE void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
PA_INLINE vf v_load_u8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
PA_INLINE vf v_load_halves(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_lddqu_si256((const __m256i *)p)); }
PA_INLINE vf v_load_n(const float *p, int n) { return n == VL ? v_load(p) : _mm512_maskz_loadu_ps(v_mask(n), p); }
PA_INLINE void v_store_n(float *p, vf a, int n) {
    if (n == VL)
        v_store(p, a);
    else
        _mm512_mask_storeu_ps(p, v_mask(n), a);
}
PA_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
PA_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
PA_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
PA_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
PA_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
PA_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
PA_INLINE vf v_max_nan(vf a, vf b) { return _mm512_mask_max_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b); }
PA_INLINE vf v_min_nan(vf a, vf b) { return _mm512_mask_min_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b); }
PA_INLINE vf v_root4_estimate(vf a) {
    const __m512i quarter = _mm512_srai_epi32(_mm512_castps_si512(a), 2);
    return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(ROOT4_BITS), quarter));
}
PA_INLINE vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
PA_INLINE vf v_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
PA_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
PA_INLINE vf v_abs(vf a) { return _mm512_abs_ps(a); }
PA_INLINE vf v_neg(vf a) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
}
typedef __mmask16 vm;
PA_INLINE vm v_less(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
PA_INLINE vm v_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
PA_INLINE vm v_is_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
PA_INLINE vm v_or(vm a, vm b) { return (vm)(a | b); }
PA_INLINE int v_any(vm m) { return m != 0; }
PA_INLINE vf v_if(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
PA_INLINE vm v_first(int n) { return (__mmask16)((1u << n) - 1); }
PA_INLINE vf v_swap(vf a, const int w) {
    if (w <= 2) return w == 1 ? _mm512_permute_ps(a, 0xb1) : _mm512_permute_ps(a, 0x4e);
    return w == 4 ? _mm512_shuffle_f32x4(a, a, 0xb1) : _mm512_shuffle_f32x4(a, a, 0x4e);
}
PA_INLINE vf v_mix(vf a, vf b, const int w) {
    return _mm512_mask_blend_ps((vm)(w == 1 ? 0xaaaa : w == 2 ? 0xcccc : w == 4 ? 0xf0f0 : 0xff00), a, b);
}
PA_INLINE void v_trade(vf *a, vf *b, const int w) {
    vf first = w == 8 ? _mm512_shuffle_f32x4(*a, *b, 0x44) : _mm512_shuffle_ps(*a, *b, 0x44);
    vf second = w == 8 ? _mm512_shuffle_f32x4(*a, *b, 0xee) : _mm512_shuffle_ps(*a, *b, 0xee);
    if (w == 1 || w == 4) first = v_mix(*a, v_swap(*b, w), w), second = v_mix(v_swap(*a, w), *b, w);
    *a = first, *b = second;
}
PA_INLINE void v_zip(vf *a, vf *b) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const vf first = _mm512_permutex2var_ps(*a, low, *b);
    *b = _mm512_permutex2var_ps(*a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), *b);
    *a = first;
}
PA_INLINE vf v_evens(vf a, vf b) {
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, evens, b);
}
PA_INLINE vf v_split(vf a, vf *e) {
    const __m512i least = _mm512_set1_epi32(HALF_ROOT2_BITS), bits = _mm512_sub_epi32(_mm512_castps_si512(a), least);
    *e = _mm512_cvtepi32_ps(_mm512_srai_epi32(bits, 23));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_si512(bits, _mm512_set1_epi32(MANTISSA_BITS)), least));
}
PA_INLINE vf v_pow2(vf m) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(m), 23)); }
PA_INLINE float v_fold_add(vf a) { return _mm512_reduce_add_ps(a); }
PA_INLINE float v_fold_max(vf a) { return _mm512_reduce_max_ps(a); }

/* ---- lanes by their places ---- */

enum { LANE_BITS = 1 };
PA_INLINE vf v_load_blocks(const float *p, int64_t step, int n, const int w) {
    if (w == VL) return v_load_n(p, n);
    if (n == w && w == 4) { /* without lines of the cache beyond the blocks */
        vf all = _mm512_castps128_ps512(_mm_loadu_ps(p));
        all = _mm512_insertf32x4(all, _mm_loadu_ps(p + step), 1);
        all = _mm512_insertf32x4(all, _mm_loadu_ps(p + 2 * step), 2);
        return _mm512_insertf32x4(all, _mm_loadu_ps(p + 3 * step), 3);
    }
    const unsigned first = (1u << n) - 1;
    vf a = _mm512_maskz_loadu_ps((vm)first, p);
    PA_UNROLL
    for (int b = 1; b < VL / w; b++) a = _mm512_mask_loadu_ps(a, (vm)(first << b * w), p + b * (step - w));
    return a;
}
PA_INLINE vm v_blocks(int n, const int w) {
    const unsigned first = (1u << n) - 1;
    return (vm)(w == VL ? first : w == VL / 2 ? first * 0x101 : first * 0x1111);
}
PA_INLINE void v_pairs(vf *a, vf *b, const int w) {
    if (w == 1 || w == 4) {
        v_trade(a, b, w);
        return;
    }
    const vf second = w == 8 ? _mm512_shuffle_f32x4(*a, *b, 0x4e) : _mm512_shuffle_ps(*a, *b, 0x4e);
    *a = v_mix(*a, *b, w), *b = second;
}
PA_INLINE uint64_t v_bits(const vm *m) {
    return m[0] | (uint32_t)m[1] << 16 | (uint64_t)(m[2] | (uint32_t)m[3] << 16) << 32;
}
typedef __m512i vi;
PA_INLINE vi v_lanes(vf numbers, int32_t first) {
    return _mm512_sub_epi32(_mm512_castps_si512(numbers), _mm512_set1_epi32(first));
}
PA_INLINE vi v_wrap(vi lanes) { return lanes; } /* the instruction reads the last bits alone */
PA_INLINE vf v_pick(vf a, vi at) { return _mm512_permutexvar_ps(at, a); }
PA_INLINE vf v_pick2(vf a, vf b, vi at) { return _mm512_permutex2var_ps(a, at, b); }

#ifdef PA_BYTES /* ---- bytes beside the floats ---- */

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
        const __m512i words = n >= HALF ? _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p))
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
PA_INLINE b_to b_to_of(const pa_requantize *to) {
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
