/* One vector type of float32 for all instruction sets: thin names for the intrinsics the kernels use.
 *
 * Include it after every other header, in a file that defines exactly one of PA_ISA_REF, PA_ISA_NEON,
 * PA_ISA_AVX2 (with FMA), PA_ISA_AVX512 (AVX512F alone). It switches the instruction set on for the rest of
 * the file, so no compiler flag is needed; PA_SIMD_END closes that and comes last.
 *
 *   vf, VL              a vector and its number of lanes
 *   v_load_n, v_store_n touch n lanes of memory only, 1 <= n <= VL; lanes past n load as 0. A constant n = VL
 *                       compiles to the plain access
 *   v_max, v_min        return b where a or b is NaN (NEON: NaN), so v_min(hi, v_max(lo, x)) keeps a NaN of x
 *   v_fma(a, b, c)      a * b + c, rounded once. Kernels write every product that feeds a sum this way, so that
 *                       no compiler may choose (-ffp-contract) and all instruction sets give the same bits
 *   v_fnma(a, b, c)     c - a * b, rounded once
 *   v_root4_estimate    a^-1/4 for normal a > 0, at most 3.3 % off: its bits are about a logarithm
 *   v_round             to the nearest integer, ties to even
 *   v_pow2(n)           2^n for integral n in [-126, 127]
 *   v_fold_add, v_fold_max   of all lanes, in an order of the instruction set's
 */
#ifndef PIPEALL_SIMD_H
#define PIPEALL_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define PA_INLINE static inline __attribute__((always_inline, unused))

enum { ROOT4_BITS = 0x4f580800 }; /* least error of v_root4_estimate */

#if defined(PA_ISA_REF)
#define PA_NAME(op) pa_##op##_f32_ref
#define PA_SIMD_END

enum { VL = 1 };
typedef float vf;
PA_INLINE vf v_set1(float x) { return x; }
PA_INLINE vf v_load(const float *p) { return *p; }
PA_INLINE void v_store(float *p, vf a) { *p = a; }
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
PA_INLINE vf v_root4_estimate(vf a) {
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits = ROOT4_BITS - (bits >> 2);
    memcpy(&a, &bits, sizeof bits);
    return a;
}
PA_INLINE vf v_round(vf a) { return rintf(a); }
PA_INLINE vf v_pow2(vf n) { return exp2f(n); }
PA_INLINE float v_fold_add(vf a) { return a; }
PA_INLINE float v_fold_max(vf a) { return a; }

#elif defined(PA_ISA_NEON)
#define PA_NAME(op) pa_##op##_f32_neon
#define PA_SIMD_END
#include <arm_neon.h>

enum { VL = 4 };
typedef float32x4_t vf;
PA_INLINE vf v_set1(float x) { return vdupq_n_f32(x); }
PA_INLINE vf v_load(const float *p) { return vld1q_f32(p); }
PA_INLINE void v_store(float *p, vf a) { vst1q_f32(p, a); }
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
PA_INLINE vf v_root4_estimate(vf a) {
    return vreinterpretq_f32_s32(vsubq_s32(vdupq_n_s32(ROOT4_BITS), vshrq_n_s32(vreinterpretq_s32_f32(a), 2)));
}
PA_INLINE vf v_round(vf a) { return vrndnq_f32(a); }
PA_INLINE vf v_pow2(vf n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
PA_INLINE float v_fold_add(vf a) { return vaddvq_f32(a); }
PA_INLINE float v_fold_max(vf a) { return vmaxvq_f32(a); }

#elif defined(PA_ISA_AVX2)
#define PA_NAME(op) pa_##op##_f32_avx2
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#define PA_SIMD_END _Pragma("clang attribute pop")
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
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
PA_INLINE vf v_root4_estimate(vf a) {
    const __m256i quarter = _mm256_srai_epi32(_mm256_castps_si256(a), 2);
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(ROOT4_BITS), quarter));
}
PA_INLINE vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
PA_INLINE vf v_pow2(vf n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
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
#define PA_NAME(op) pa_##op##_f32_avx512
#include <immintrin.h>
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
PA_INLINE vf v_root4_estimate(vf a) {
    const __m512i quarter = _mm512_srai_epi32(_mm512_castps_si512(a), 2);
    return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(ROOT4_BITS), quarter));
}
PA_INLINE vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
PA_INLINE vf v_pow2(vf n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
PA_INLINE float v_fold_add(vf a) { return _mm512_reduce_add_ps(a); }
PA_INLINE float v_fold_max(vf a) { return _mm512_reduce_max_ps(a); }

#else
#error "define one of PA_ISA_REF, PA_ISA_NEON, PA_ISA_AVX2, PA_ISA_AVX512"
#endif

PA_INLINE vf v_clamp(vf x, vf lo, vf hi) { return v_min(hi, v_max(lo, x)); }

/* n vectors; without an upper bound, as after most layers, nothing is spent on it. */
PA_INLINE void v_clamp_each(vf *v, const int n, float lo, float hi) {
    const vf least = v_set1(lo), most = v_set1(hi);
    PA_UNROLL
    for (int i = 0; i < n; i++) v[i] = v_max(least, v[i]);
    if (hi < __builtin_inff()) {
        PA_UNROLL
        for (int i = 0; i < n; i++) v[i] = v_min(most, v[i]);
    }
}

/* e^x for x clamped to [-87.33, 88.02]; error there at most 1.1 ulp (measured over every 37th float). The polynomial
 * is that of Cephes' expf (S. Moshier, single/expf.c): x = n ln 2 + r with ln 2 in two parts, |r| <= ln 2 / 2,
 * e^r = 1 + r + r^2 p(r). */
PA_INLINE vf v_exp(vf x) {
    x = v_clamp(x, v_set1(-87.33f), v_set1(88.02f));
    const vf n = v_round(v_mul(x, v_set1(1.44269504088896341f)));
    const vf r = v_fma(n, v_set1(2.12194440e-4f), v_fma(n, v_set1(-0.693359375f), x));
    vf p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_add(v_fma(p, v_mul(r, r), r), v_set1(1));
    return v_mul(p, v_pow2(n));
}

#endif
