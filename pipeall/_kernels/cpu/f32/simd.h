/* One vector type of float32 for all instruction sets: thin names for the intrinsics the kernels use.
 *
 * Include it after every other header, in a file that defines exactly one of PA_ISA_REF, PA_ISA_NEON,
 * PA_ISA_AVX2 (with FMA and F16C), PA_ISA_AVX512 (AVX512F alone). It switches the instruction set on for the rest of
 * the file, so no compiler flag is needed; PA_SIMD_END closes that and comes last.
 *
 *   pa_real             an element in memory: kernels of halves too are in these words (f16/simd_f16.h)
 *   vf, VL              a vector and its number of lanes
 *   v_load_u8           VL bytes as floats
 *   v_load_halves       VL floats of half precision, at any address
 *   v_load_n, v_store_n touch n lanes of memory only, 1 <= n <= VL; lanes past n load as 0. A constant n = VL
 *                       compiles to the plain access
 *   v_max, v_min        return b where a or b is NaN (NEON: NaN), so v_min(hi, v_max(lo, x)) keeps a NaN of x
 *   v_max_nan, v_min_nan  NaN where a or b is
 *   v_fma(a, b, c)      a * b + c, rounded once. Kernels write every product that feeds a sum this way, so that
 *                       no compiler may choose (-ffp-contract) and all instruction sets give the same bits
 *   v_fnma(a, b, c)     c - a * b, rounded once
 *   v_root4_estimate    a^-1/4 for normal a > 0, at most 3.3 % off: its bits are about a logarithm
 *   v_round             to the nearest integer, ties to even
 *   vm                  a truth value per lane; v_less and v_equal are false where a or b is NaN
 *   v_or, v_any         of two truth values; whether one lane holds
 *   v_if(m, a, b)       a where m holds, else b
 *   v_first(n)          true in the first n lanes, 0 <= n <= VL
 *   v_swap(a, w)        neighbouring blocks of w lanes exchanged, w a constant power of 2 below VL
 *   v_mix(a, b, w)      every other block of w lanes: the first of a, the second of b
 *   v_trade(&a, &b, w)  the second block of w lanes of every two of a exchanged with the first of b
 *   v_zip(&a, &b)       lanes of a and b in turns, the first half into a, the second into b
 *   v_split(a, &e)      m of a = m * 2^e, m in [sqrt(1/2), sqrt(2)), for normal a > 0
 *   v_pow2(m)           2^n of m = V_POW2_ZERO + n, n integral in [-127, 128]: 0 and infinity at the ends
 *   V_OPAQUE(a)         after it compilers do not know what a holds, and these stay in order: else they load it again for
 *                       every use, or all vectors of a long loop at once, more than there are registers
 *   v_fold_add, v_fold_max   of all lanes, in an order of the instruction set's
 */
#ifndef PIPEALL_SIMD_H
#define PIPEALL_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../half.h"
#include "../kernels.h"

enum { ROOT4_BITS = 0x4f580800 }; /* least error of v_root4_estimate */
#define V_POW2_ZERO 12583039.0f /* 1.5 * 2^23, to which a float adds as an integer, and 127, the bias of an exponent */
enum { HALF_ROOT2_BITS = 0x3f3504f3, MANTISSA_BITS = 0x7fffff }; /* of sqrt(1/2) */

#define PA_NAME(op) PA_TYPED_NAME(op, f32)
typedef float pa_real;

#if defined(PA_ISA_REF)
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_ref
#define V_OPAQUE(a)
#define PA_SIMD_END

enum { VL = 1 };
typedef float vf;
PA_INLINE vf v_set1(float x) { return x; }
PA_INLINE vf v_load(const float *p) { return *p; }
PA_INLINE void v_store(float *p, vf a) { *p = a; }
PA_INLINE vf v_load_u8(const uint8_t *p) { return *p; }
PA_INLINE vf v_load_halves(const uint16_t *p) { return half_to_float(*p); }
PA_INLINE vf v_load_n(const float *p, int n) { return (void)n, *p; }
PA_INLINE void v_store_n(float *p, vf a, int n) { (void)n, *p = a; }
PA_INLINE vf v_add(vf a, vf b) { return a + b; }
PA_INLINE vf v_sub(vf a, vf b) { return a - b; }
PA_INLINE vf v_mul(vf a, vf b) { return a * b; }
PA_INLINE vf v_div(vf a, vf b) { return a / b; }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return fmaf(-a, b, c); }
PA_INLINE vf v_max(vf a, vf b) { return a > b ? a : b; }
PA_INLINE vf v_min(vf a, vf b) { return a < b ? a : b; }
PA_INLINE vf v_max_nan(vf a, vf b) { return a != a || a > b ? a : b; }
PA_INLINE vf v_min_nan(vf a, vf b) { return a != a || a < b ? a : b; }
PA_INLINE vf v_root4_estimate(vf a) {
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits = ROOT4_BITS - (bits >> 2);
    memcpy(&a, &bits, sizeof bits);
    return a;
}
PA_INLINE vf v_round(vf a) { return rintf(a); }
PA_INLINE vf v_floor(vf a) { return floorf(a); }
PA_INLINE vf v_sqrt(vf a) { return sqrtf(a); }
PA_INLINE vf v_abs(vf a) { return fabsf(a); }
PA_INLINE vf v_neg(vf a) { return -a; }
typedef int vm;
PA_INLINE vm v_less(vf a, vf b) { return a < b; }
PA_INLINE vm v_equal(vf a, vf b) { return a == b; }
PA_INLINE vm v_is_nan(vf a) { return a != a; }
PA_INLINE vm v_or(vm a, vm b) { return a | b; }
PA_INLINE int v_any(vm m) { return m; }
PA_INLINE vf v_if(vm m, vf a, vf b) { return m ? a : b; }
PA_INLINE vm v_first(int n) { return n > 0; }
PA_INLINE vf v_swap(vf a, const int w) { return (void)w, a; }
PA_INLINE vf v_mix(vf a, vf b, const int w) { return (void)b, (void)w, a; }
PA_INLINE void v_trade(vf *a, vf *b, const int w) { (void)a, (void)b, (void)w; }
PA_INLINE void v_zip(vf *a, vf *b) { (void)a, (void)b; }
PA_INLINE vf v_split(vf a, vf *e) {
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits -= HALF_ROOT2_BITS;
    *e = (float)(bits >> 23);
    bits = (bits & MANTISSA_BITS) + HALF_ROOT2_BITS;
    memcpy(&a, &bits, sizeof bits);
    return a;
}
PA_INLINE vf v_pow2(vf m) {
    uint32_t bits;
    memcpy(&bits, &m, sizeof bits);
    bits <<= 23;
    memcpy(&m, &bits, sizeof bits);
    return m;
}
PA_INLINE float v_fold_add(vf a) { return a; }
PA_INLINE float v_fold_max(vf a) { return a; }

#elif defined(PA_ISA_NEON)
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_neon
#define V_OPAQUE(a) __asm__ volatile("" : "+w"(a))
#define PA_SIMD_END
#include <arm_neon.h>

enum { VL = 4 };
typedef float32x4_t vf;
PA_INLINE vf v_set1(float x) { return vdupq_n_f32(x); }
PA_INLINE vf v_load(const float *p) { return vld1q_f32(p); }
PA_INLINE void v_store(float *p, vf a) { vst1q_f32(p, a); }
PA_INLINE vf v_load_halves(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
PA_INLINE vf v_load_u8(const uint8_t *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes)))));
}
PA_INLINE vf v_load_n(const float *p, int n) {
    if (n == VL) return v_load(p);
    vf a = vdupq_n_f32(0);
    if (n == 1) return vld1q_lane_f32(p, a, 0);
    a = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    return n == 2 ? a : vld1q_lane_f32(p + 2, a, 2);
}
PA_INLINE void v_store_n(float *p, vf a, int n) {
    if (n == VL) {
        v_store(p, a);
    } else if (n == 1) {
        vst1q_lane_f32(p, a, 0);
    } else {
        vst1_f32(p, vget_low_f32(a));
        if (n == 3) vst1q_lane_f32(p + 2, a, 2);
    }
}
PA_INLINE vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
PA_INLINE vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
PA_INLINE vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
PA_INLINE vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
PA_INLINE vf v_max(vf a, vf b) { return vmaxq_f32(a, b); }
PA_INLINE vf v_min(vf a, vf b) { return vminq_f32(a, b); }
PA_INLINE vf v_max_nan(vf a, vf b) { return vmaxq_f32(a, b); }
PA_INLINE vf v_min_nan(vf a, vf b) { return vminq_f32(a, b); }
PA_INLINE vf v_root4_estimate(vf a) {
    return vreinterpretq_f32_s32(vsubq_s32(vdupq_n_s32(ROOT4_BITS), vshrq_n_s32(vreinterpretq_s32_f32(a), 2)));
}
PA_INLINE vf v_round(vf a) { return vrndnq_f32(a); }
PA_INLINE vf v_floor(vf a) { return vrndmq_f32(a); }
PA_INLINE vf v_sqrt(vf a) { return vsqrtq_f32(a); }
PA_INLINE vf v_abs(vf a) { return vabsq_f32(a); }
PA_INLINE vf v_neg(vf a) { return vnegq_f32(a); }
typedef uint32x4_t vm;
PA_INLINE vm v_less(vf a, vf b) { return vcltq_f32(a, b); }
PA_INLINE vm v_equal(vf a, vf b) { return vceqq_f32(a, b); }
PA_INLINE vm v_is_nan(vf a) { return vmvnq_u32(vceqq_f32(a, a)); }
PA_INLINE vm v_or(vm a, vm b) { return vorrq_u32(a, b); }
PA_INLINE int v_any(vm m) { return vmaxvq_u32(m) != 0; }
PA_INLINE vf v_if(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
PA_INLINE vm v_first(int n) {
    static const int32_t lanes[VL] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(lanes), vdupq_n_s32(n));
}
PA_INLINE vf v_swap(vf a, const int w) { return w == 1 ? vrev64q_f32(a) : vextq_f32(a, a, 2); }
PA_INLINE vf v_mix(vf a, vf b, const int w) {
    static const uint32_t second[2][VL] = {{0, -1u, 0, -1u}, {0, 0, -1u, -1u}};
    return vbslq_f32(vld1q_u32(second[w - 1]), b, a);
}
PA_INLINE void v_trade(vf *a, vf *b, const int w) {
    const float32x4x2_t both = vtrnq_f32(*a, *b);
    const vf low = vcombine_f32(vget_low_f32(*a), vget_low_f32(*b));
    *b = w == 1 ? both.val[1] : vcombine_f32(vget_high_f32(*a), vget_high_f32(*b));
    *a = w == 1 ? both.val[0] : low;
}
PA_INLINE void v_zip(vf *a, vf *b) {
    const float32x4x2_t both = vzipq_f32(*a, *b);
    *a = both.val[0], *b = both.val[1];
}
PA_INLINE vf v_split(vf a, vf *e) {
    const int32x4_t bits = vsubq_s32(vreinterpretq_s32_f32(a), vdupq_n_s32(HALF_ROOT2_BITS));
    *e = vcvtq_f32_s32(vshrq_n_s32(bits, 23));
    const int32x4_t mantissa = vandq_s32(bits, vdupq_n_s32(MANTISSA_BITS));
    return vreinterpretq_f32_s32(vaddq_s32(mantissa, vdupq_n_s32(HALF_ROOT2_BITS)));
}
PA_INLINE vf v_pow2(vf m) { return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(m), 23)); }
PA_INLINE float v_fold_add(vf a) { return vaddvq_f32(a); }
PA_INLINE float v_fold_max(vf a) { return vmaxvq_f32(a); }

#elif defined(PA_ISA_AVX2)
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

#elif defined(PA_ISA_AVX512)
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
PA_INLINE vf v_split(vf a, vf *e) {
    const __m512i least = _mm512_set1_epi32(HALF_ROOT2_BITS), bits = _mm512_sub_epi32(_mm512_castps_si512(a), least);
    *e = _mm512_cvtepi32_ps(_mm512_srai_epi32(bits, 23));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_si512(bits, _mm512_set1_epi32(MANTISSA_BITS)), least));
}
PA_INLINE vf v_pow2(vf m) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(m), 23)); }
PA_INLINE float v_fold_add(vf a) { return _mm512_reduce_add_ps(a); }
PA_INLINE float v_fold_max(vf a) { return _mm512_reduce_max_ps(a); }

#else
#error "define one of PA_ISA_REF, PA_ISA_NEON, PA_ISA_AVX2, PA_ISA_AVX512"
#endif

#include "simd_math.h"

#endif
