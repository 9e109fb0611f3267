/* One vector type of halves: those words of simd.h that kernels of both element types are in,
 * with the meaning that they have there.
 *
 * Include it after every other header, in a file that defines exactly one of PA_ISA_REF, whose vector is a float that
 * memory holds as a half, and PA_ISA_ASIMDHP. PA_SIMD_END comes last.
 *
 *   vsum                sums of many elements, which are floats: v_sums(x) has x in each, v_sums_add adds a vector,
 *                       v_sums_join other sums, v_sums_mul rounds them, times a factor, to halves, v_sums_store
 *                       stores them as they are
 *   v_all, v_narrow     the element at p in each lane; VL floats, rounded
 */
#ifndef PIPEALL_SIMD_F16_H
#define PIPEALL_SIMD_F16_H

#include <math.h>

#include "../kernels_f16.h"
#include "half.h"

#define PA_NAME(op) PA_TYPED_NAME(op, f16)
typedef uint16_t pa_real;

#if defined(PA_ISA_REF)
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_ref
#define V_OPAQUE(a)
#define PA_SIMD_END

enum { VL = 1 };
typedef float vf;
PA_INLINE vf v_set1(float x) { return x; }
PA_INLINE vf v_load(const uint16_t *p) { return half_to_float(*p); }
PA_INLINE void v_store(uint16_t *p, vf a) { *p = float_to_half(a); }
PA_INLINE vf v_load_n(const uint16_t *p, int n) { return (void)n, v_load(p); }
PA_INLINE void v_store_n(uint16_t *p, vf a, int n) { (void)n, v_store(p, a); }
PA_INLINE vf v_add(vf a, vf b) { return a + b; }
PA_INLINE vf v_sub(vf a, vf b) { return a - b; }
PA_INLINE vf v_mul(vf a, vf b) { return a * b; }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return fmaf(-a, b, c); }
PA_INLINE vf v_max(vf a, vf b) { return a > b ? a : b; }
PA_INLINE vf v_min(vf a, vf b) { return a < b ? a : b; }
PA_INLINE vf v_evens(vf a, vf b) { return (void)b, a; }
typedef int32_t vi;
PA_INLINE vi v_lanes_at(const int32_t *p, int32_t first) { return *p - first; }
PA_INLINE vi v_wrap(vi lanes) { return (void)lanes, 0; }
PA_INLINE vf v_pick(vf a, vi at) { return (void)at, a; }
typedef float vsum;
PA_INLINE vsum v_sums(float x) { return x; }
PA_INLINE vsum v_sums_add(vsum sums, vf a) { return sums + a; }
PA_INLINE vsum v_sums_join(vsum a, vsum b) { return a + b; }
PA_INLINE vf v_sums_mul(vsum sums, float factor) { return sums * factor; }
PA_INLINE void v_sums_store(float *p, vsum sums) { *p = sums; }
PA_INLINE vf v_all(const uint16_t *p) { return half_to_float(*p); }
PA_INLINE vf v_narrow(const float *p) { return *p; } /* a store rounds it */
PA_INLINE vf v_silu(vf x) { return x / (1 + expf(-x)); }

#elif defined(PA_ISA_ASIMDHP)
#define PA_TYPED_NAME(op, type) pa_##op##_##type##_asimdhp
#define V_OPAQUE(a) __asm__ volatile("" : "+w"(a))
#include "extension.h"
#if defined(__clang__)
#pragma clang attribute push(PA_FP16, apply_to = function)
#define PA_SIMD_END _Pragma("clang attribute pop")
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+fp16")
#define PA_SIMD_END _Pragma("GCC pop_options")
#endif

enum { VL = 8 };
typedef float16x8_t vf;
PA_INLINE vf v_set1(float x) { return vdupq_n_f16((float16_t)x); }
PA_INLINE vf v_load(const uint16_t *p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }
PA_INLINE void v_store(uint16_t *p, vf a) { vst1q_u16(p, vreinterpretq_u16_f16(a)); }
/* By blocks of 1, 2 and 4, the last first: what is there moves up. */
PA_INLINE vf v_load_n(const uint16_t *p, int n) {
    if (n == VL) return v_load(p);
    const uint16x8_t none = vdupq_n_u16(0);
    uint16x8_t a = none;
    uint32_t two;
    if (n & 1) a = vsetq_lane_u16(p[n - 1], a, 0);
    if (n & 2) {
        memcpy(&two, p + (n & 4), sizeof two);
        a = vreinterpretq_u16_u32(vsetq_lane_u32(two, vreinterpretq_u32_u16(vextq_u16(none, a, 6)), 0));
    }
    return vreinterpretq_f16_u16(n & 4 ? vcombine_u16(vld1_u16(p), vget_low_u16(a)) : a);
}
PA_INLINE void v_store_n(uint16_t *p, vf halves, int n) {
    uint16x8_t a = vreinterpretq_u16_f16(halves);
    if (n == VL) {
        vst1q_u16(p, a);
        return;
    }
    if (n & 4) vst1_u16(p, vget_low_u16(a)), p += 4, a = vextq_u16(a, a, 4);
    if (n & 2) {
        const uint32_t two = vgetq_lane_u32(vreinterpretq_u32_u16(a), 0);
        memcpy(p, &two, sizeof two);
        p += 2, a = vextq_u16(a, a, 2);
    }
    if (n & 1) vst1q_lane_u16(p, a, 0);
}
PA_INLINE vf v_add(vf a, vf b) { return vaddq_f16(a, b); }
PA_INLINE vf v_sub(vf a, vf b) { return vsubq_f16(a, b); }
PA_INLINE vf v_mul(vf a, vf b) { return vmulq_f16(a, b); }
PA_INLINE vf v_fma(vf a, vf b, vf c) { return vfmaq_f16(c, a, b); }
PA_INLINE vf v_fnma(vf a, vf b, vf c) { return vfmsq_f16(c, a, b); }
PA_INLINE vf v_max(vf a, vf b) { return vmaxq_f16(a, b); }
PA_INLINE vf v_min(vf a, vf b) { return vminq_f16(a, b); }
PA_INLINE vf v_evens(vf a, vf b) { return vuzp1q_f16(a, b); }
typedef uint8x16_t vi; /* of bytes */
PA_INLINE vi v_lanes_at(const int32_t *p, int32_t first) {
    const int16x8_t numbers = vcombine_s16(vmovn_s32(vld1q_s32(p)), vmovn_s32(vld1q_s32(p + 4)));
    const int16x8_t lanes = vsubq_s16(numbers, vdupq_n_s16((int16_t)first));
    const int16x8_t last_bits = vandq_s16(lanes, vdupq_n_s16(63)); /* a byte has room for twice as much */
    return vreinterpretq_u8_s16(vmlaq_n_s16(vdupq_n_s16(0x0100), last_bits, 0x0202));
}
PA_INLINE vi v_wrap(vi lanes) { return vandq_u8(lanes, vdupq_n_u8(15)); }
PA_INLINE vf v_pick(vf a, vi at) { return vreinterpretq_f16_u8(vqtbl1q_u8(vreinterpretq_u8_f16(a), at)); }
typedef struct vsum {
    float32x4_t low, high;
} vsum;
PA_INLINE vsum v_sums(float x) { return (vsum){vdupq_n_f32(x), vdupq_n_f32(x)}; }
PA_INLINE vsum v_sums_add(vsum sums, vf a) {
    return (vsum){vaddq_f32(sums.low, vcvt_f32_f16(vget_low_f16(a))), vaddq_f32(sums.high, vcvt_high_f32_f16(a))};
}
PA_INLINE vsum v_sums_join(vsum a, vsum b) { return (vsum){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
PA_INLINE vf v_sums_mul(vsum sums, float factor) {
    const float16x4_t low = vcvt_f16_f32(vmulq_n_f32(sums.low, factor));
    return vcvt_high_f16_f32(low, vmulq_n_f32(sums.high, factor));
}
PA_INLINE void v_sums_store(float *p, vsum sums) { vst1q_f32(p, sums.low), vst1q_f32(p + 4, sums.high); }
PA_INLINE vf v_all(const uint16_t *p) { return vreinterpretq_f16_u16(vld1q_dup_u16(p)); }
PA_INLINE vf v_narrow(const float *p) { return vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(p)), vld1q_f32(p + 4)); }

/* x / (1 + e^-x) with e^-x = 2^k 2^f, |f| <= 1/2: 2^f by a fit of ours, 7.5e-5 off, and k added to its exponent. k is what
 * the sum with 1536, whose halves are whole numbers, rounds to. Below -9.6 e^-x is what it is there: -6.5e-4 for the 0 that
 * it nearly is. Above 10 the divisor d is 1. r is 1 / d within 5.1 %, as an integer less d's bits: with h = 1 - d r the
 * quotient is x r (1 + h + h^2), but for h^3. (`frecpe` would fill one of two pipes of a Cortex-A76 for four cycles.) */
#define EIGHT(x) {x, x, x, x, x, x, x, x}
static const float16_t silu_terms[4][8] = {EIGHT(1536), EIGHT(0.242611f), EIGHT(0.693261f), EIGHT(1)};
#undef EIGHT

/* What a multiply-add overwrites, loaded anew for each x: a copy would fill one of two pipes of a Cortex-A76, which bind,
 * for a cycle. */
PA_INLINE vf v_silu_term(int i, vf x) {
    vf term;
    __asm__("ldr %q0, %1" : "=w"(term) : "m"(silu_terms[i]), "w"(x));
    return term;
}

PA_INLINE vf v_silu(vf x) {
    const vf whole = v_set1(1536), per_two = v_set1(1.44269504f), one = v_set1(1), t = v_max(x, v_set1(-9.6f));
    const vf u = v_min(t, v_set1(10)), k = v_fnma(u, per_two, v_silu_term(0, u)), f = v_fnma(u, per_two, v_sub(whole, k));
    const vf p = v_fma(v_fma(v_fma(v_set1(0.0551717f), f, v_silu_term(1, f)), f, v_silu_term(2, f)), f, v_silu_term(3, f));
    const int16x8_t exponent = vshlq_n_s16(vreinterpretq_s16_f16(k), 10);
    const vf d = v_add(vreinterpretq_f16_s16(vaddq_s16(vreinterpretq_s16_f16(p), exponent)), one);
    const vf r = vreinterpretq_f16_s16(vsubq_s16(vdupq_n_s16(0x7798), vreinterpretq_s16_f16(d)));
    const vf h = v_fnma(d, r, v_silu_term(3, d)), q = v_mul(t, r);
    return v_fma(q, v_fma(h, h, h), q);
}

#else
#error "define one of PA_ISA_REF, PA_ISA_ASIMDHP"
#endif

#include "simd_clamp.h"

#endif
