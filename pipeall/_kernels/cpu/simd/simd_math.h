/* Functions of vectors, made of what simd.h names; it includes them. */
#ifndef PIPEALL_SIMD_MATH_H
#define PIPEALL_SIMD_MATH_H

#include "simd_clamp.h"

/* Vectors that loops of long formulas compute side by side: each is a chain of operations that wait for one another, and
 * Arm cores look ahead too little, or not at all, to begin the next vector meanwhile. */
#if defined(__aarch64__)
enum { TOGETHER = 4 };
#else
enum { TOGETHER = 1 };
#endif

/* Sums of many elements, which are floats for halves too. */
typedef vf vsum;
PA_INLINE vsum v_sums(float x) { return v_set1(x); }
PA_INLINE vsum v_sums_add(vsum sums, vf a) { return v_add(sums, a); }
PA_INLINE vsum v_sums_join(vsum a, vsum b) { return v_add(a, b); }
PA_INLINE vf v_sums_mul(vsum sums, float factor) { return v_mul(sums, v_set1(factor)); }

/* a / b for b >= 1, which may be infinite where exact, a constant, is 0. NEON: by products, within 2 ulp, or 1 if exact, as
 * a Cortex-A73 takes 34 cycles for a division. */
PA_INLINE vf v_ratio(vf a, vf b, const int exact) {
#if defined(PA_ISA_NEON)
    vf r = vrecpeq_f32(b);
    for (int i = 0; i < 2; i++) r = vmulq_f32(r, vrecpsq_f32(b, r));
    const vf q = vmulq_f32(a, r);
    return exact ? vfmaq_f32(q, r, vfmsq_f32(a, b, q)) : q;
#else
    (void)exact;
    return v_div(a, b);
#endif
}

/* p and *m = V_POW2_ZERO + n of e^x = p 2^n, n integral, p in [sqrt(1/2), sqrt(2)] about, |x| < 2^21. x = n ln 2 + r
 * with ln 2 in two parts as in Cephes' expf (S. Moshier, single/expf.c), |r| <= ln 2 / 2, e^r = 1 + r + r^2 p(r): a fit
 * of ours, 3.8e-9 off. m is the sum that rounds: its low bits are n, ready for v_pow2. */
PA_INLINE vf v_exp_parts(vf x, vf *m) {
    const vf zero = v_set1(V_POW2_ZERO);
    *m = v_fma(x, v_set1(1.44269504088896341f), zero);
    const vf n = v_sub(*m, zero);
    const vf r = v_fma(n, v_set1(2.12194440e-4f), v_fma(n, v_set1(-0.693359375f), x));
    const vf r2 = v_mul(r, r), low = v_fma(v_set1(1.6666521132e-1f), r, v_set1(4.9999994040e-1f));
    const vf high = v_fma(v_set1(8.3687240258e-3f), r, v_set1(4.1668388993e-2f));
    const vf p = v_fma(v_fma(v_set1(1.3814583654e-3f), r2, high), r2, low); /* in pairs: a shorter chain */
    return v_add(v_fma(p, r2, r), v_set1(1));
}

/* e^x; error at most 1.1 ulp for x in [-87.33, 88.37] (measured over every 37th float); 0 below -87.69, infinity above
 * 88.38. */
PA_INLINE vf v_exp(vf x) {
    vf m;
    const vf p = v_exp_parts(v_clamp(x, v_set1(-88), v_set1(89)), &m);
    return v_mul(p, v_pow2(m));
}

/* The same for x up to 88.37: a clamp less. */
PA_INLINE vf v_exp_below(vf x) {
    vf m;
    const vf p = v_exp_parts(v_max(v_set1(-88), x), &m);
    return v_mul(p, v_pow2(m));
}

/* 1 + e^x, of which the product and the sum round once. */
PA_INLINE vf v_exp_1(vf x) {
    vf m;
    const vf p = v_exp_parts(v_clamp(x, v_set1(-88), v_set1(89)), &m);
    return v_fma(p, v_pow2(m), v_set1(1));
}

/* e^x for every x: 0 and infinity beyond the floats, which are scaled in two steps. */
PA_INLINE vf v_exp_full(vf x) {
    vf m;
    const vf p = v_exp_parts(v_clamp(x, v_set1(-104), v_set1(89)), &m), zero = v_set1(V_POW2_ZERO), n = v_sub(m, zero);
    const vf half = v_floor(v_mul(n, v_set1(0.5f)));
    return v_mul(v_mul(p, v_pow2(v_add(zero, half))), v_pow2(v_add(zero, v_sub(n, half))));
}

/* ln x for every x >= 0, NaN below: Cephes' logf (S. Moshier, single/logf.c), x = m 2^e with m next to 1. */
PA_INLINE vf v_log(vf x) {
    const vm tiny = v_less(x, v_set1(1.17549435e-38f));
    vf e, m = v_split(v_if(tiny, v_mul(x, v_set1(8388608)), x), &e);
    e = v_if(tiny, v_sub(e, v_set1(23)), e);
    m = v_sub(m, v_set1(1));
    const vf z = v_mul(m, m);
    vf p = v_set1(7.0376836292e-2f);
    p = v_fma(p, m, v_set1(-1.1514610310e-1f));
    p = v_fma(p, m, v_set1(1.1676998740e-1f));
    p = v_fma(p, m, v_set1(-1.2420140846e-1f));
    p = v_fma(p, m, v_set1(1.4249322787e-1f));
    p = v_fma(p, m, v_set1(-1.6668057665e-1f));
    p = v_fma(p, m, v_set1(2.0000714765e-1f));
    p = v_fma(p, m, v_set1(-2.4999993993e-1f));
    p = v_fma(p, m, v_set1(3.3333331174e-1f));
    p = v_fma(e, v_set1(-2.12194440e-4f), v_mul(v_mul(p, m), z));
    p = v_fma(e, v_set1(0.693359375f), v_add(m, v_fma(z, v_set1(-0.5f), p)));
    const vf outside = v_if(v_less(x, v_set1(0)), v_set1(__builtin_nanf("")), v_set1(-__builtin_inff()));
    return v_if(v_less(x, v_set1(__builtin_inff())), v_if(v_less(v_set1(0), x), p, outside), x);
}

#endif
